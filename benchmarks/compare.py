"""Compares step.py with other implementations of RNNsearch, in turn on one machine.

python benchmarks/compare.py --config small --mode train --rounds 3

Runs A B C, A B C, ...: each run is a process of its own, and ratios are taken within a
round, so that what else the machine does falls on all. With --peers-scripts FOLDER the
scripts of the peers take part, each with the interpreter of its environment under
--peers-dir. Prints a table of times and memory, and one of the ratios that are asked
for. --from FILE makes both from what an earlier --json FILE kept.
"""

import argparse
import collections
import dataclasses
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import harness

HERE = pathlib.Path(__file__).resolve().parent
MODES = ("train", "greedy", "beam")
CONFIGS = {
    "tiny": {**harness.TINY, "steps": 5, "warmup": 2},
    "small": {**harness.SIZES, "steps": 10, "warmup": 3},
    "paper": {**harness.PAPER, "steps": 2, "warmup": 1},
}
# Parts of the fused loss, where it is not to choose by itself.
CHUNKS = {"paper": 16}
# Width of the readout: as many maxout units as --units, or half of them.
WIDE, NARROW = "wide", "narrow"
MS, PER_GFLOP, MEMORY = "ms", "ms per GFLOP", "peak RSS"
# What is asked: configuration, mode, width of ours, peer, measure, largest ratio. By
# GFLOP, ours has the width of the peer's readout; by ms it has all of its sizes.
REQUIRED = (
    ("small", "train", NARROW, "torch_ref", PER_GFLOP, 0.60),
    ("small", "train", NARROW, "torch_ref_compile_full", PER_GFLOP, 0.80),
    ("small", "train", WIDE, "joeynmt", PER_GFLOP, 0.65),
    ("small", "train", WIDE, "tfa_output_after", PER_GFLOP, 0.80),
    ("small", "train", WIDE, "keras_stock", PER_GFLOP, 0.85),
    ("small", "train", WIDE, "floor", MS, 1.20),
    ("small", "train", NARROW, "floor-narrow", MS, 1.20),
    ("paper", "train", NARROW, "torch_ref", MS, 0.65),
    ("paper", "train", WIDE, "keras_stock", PER_GFLOP, 1.00),
    ("paper", "train", NARROW, "torch_ref", MEMORY, 0.60),
    ("small", "greedy", WIDE, "tfa", PER_GFLOP, 0.75),
    ("small", "beam", WIDE, "tfa", PER_GFLOP, 0.70),
    ("small", "beam", NARROW, "torch_ref", MS, 0.50),
)
OURS_COLOUR, PEER_COLOUR = "#1f77b4", "#9a9a9a"


@dataclasses.dataclass(frozen=True)
class Variant:
    """A way to run a script.

    Args:
        script: file name, in this folder or in that of the peers.
        options: what it gets beside the sizes.
        environment: folder of a peer's interpreter; `None` for ours.
        width: that of the readout of ours, `WIDE` or `NARROW`.
        modes, configs: where it can run.
    """

    script: str
    options: tuple = ()
    environment: str | None = None
    width: str | None = None
    modes: tuple = MODES
    configs: tuple = tuple(CONFIGS)


def our_variants():
    """Backends, losses and widths of step.py, and the floor."""
    backends = {
        "ours-tf": ("--backend", "tensorflow", "--jit", "off"),
        "ours-tf-xla": ("--backend", "tensorflow", "--jit", "on"),
        "ours-jax": ("--backend", "jax"),
        "ours-torch": ("--backend", "torch"),
    }
    variants = {}
    for width, suffix in ((WIDE, ""), (NARROW, "-narrow")):
        for name, options in backends.items():
            variants[name + suffix] = Variant("step.py", options, width=width)
            options += ("--loss", "fused")
            variants[f"{name}-fused{suffix}"] = Variant(
                "step.py", options, width=width, modes=("train",)
            )
        variants["floor" + suffix] = Variant("floor.py", width=width)
    return variants


def peer_variants():
    """The scripts of the peers with their options."""

    def peer(environment, script, *options, **where):
        return Variant(script, options, environment, **where)

    train = {"modes": ("train",)}
    return {
        "torch_ref": peer("torch_ref", "torch_ref.py"),
        "torch_ref_wide": peer("torch_ref", "torch_ref.py", "--readout", "-1"),
        "torch_ref_compile_full": peer(
            "torch_ref",
            "torch_ref.py",
            *("--compile", "full"),
            # It unrolls the loop; at the paper's lengths that compiles for too long.
            configs=("tiny", "small"),
            **train,
        ),
        "joeynmt": peer("joeynmt", "joeynmt_peer.py"),
        "tfa": peer("tfa", "tfa_peer.py"),
        "tfa_output_after": peer(
            "tfa", "tfa_peer.py", "--output-layer", "after", **train
        ),
        "keras_stock": peer("keras_stock", "keras_stock.py", **train),
    }


VARIANTS = {**our_variants(), **peer_variants()}


def is_ours(name):
    return VARIANTS[name].script == "step.py"


def command_of(variant, options):
    """The command line of a variant; `None` where it cannot run, and why."""
    if options.mode not in variant.modes or options.config not in variant.configs:
        return None, f"not for {options.config} {options.mode}"
    if variant.environment is None:
        python, folder = sys.executable, HERE
        if "jax" in variant.options and options.python_jax:
            python = options.python_jax
    elif options.peers_scripts is None or options.peers_dir is None:
        return None, "needs --peers-scripts, and --peers-dir or PEERS_DIR"
    else:
        folder = options.peers_scripts
        python = options.peers_dir / variant.environment / "bin" / "python"
    for path in (pathlib.Path(python), folder / variant.script):
        if not path.exists():
            return None, f"there is no {path}"
    command = [str(python), str(folder / variant.script), "--mode", options.mode]
    sizes = CONFIGS[options.config]
    for name, size in sizes.items():
        command += [f"--{name}", str(size)]
    command += ["--threads", str(options.threads), *variant.options]
    if variant.width == NARROW:
        command += ["--readout", str(sizes["units"] // 2)]
    if variant.width == WIDE:
        command += ["--readout", "-1"]
    if "fused" in variant.options and options.config in CHUNKS:
        command += ["--chunks", str(CHUNKS[options.config])]
    return command, None


def run_once(command, ours, timeout):
    """Runs a script; gives its record, or `None` and what went wrong."""
    environment = dict(os.environ)
    paths = environment.pop("PYTHONPATH", None)
    if ours:
        # The sources beside this file, whatever the interpreter has installed.
        paths = [str(HERE.parent), *filter(None, [paths])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environment
        )
    except subprocess.TimeoutExpired:
        return None, f"no answer in {timeout} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode == 0 and lines:
        return json.loads(lines[-1]), None
    last = (done.stderr or done.stdout).strip().splitlines()[-3:]
    return None, f"exit {done.returncode}: {' | '.join(last)[-400:]}"


def run_all(commands, options):
    """All rounds; gives the records and how many runs failed."""
    records, failed, started = [], 0, round(time.time())
    for number in range(1, options.rounds + 1):
        for name, command in commands.items():
            ours = VARIANTS[name].environment is None
            record, problem = run_once(command, ours, options.timeout)
            if record is None:
                failed += 1
                print(f"# round {number} {name}: {problem}", file=sys.stderr)
                continue
            record |= {"run_name": name, "round": number, "started": started}
            record |= {"config_name": options.config}
            records.append(record)
            ms, others = record["median_ms_per_step"], record["other_cpu_share"]
            print(
                f"# round {number} {name}: {ms} ms, others took {percent(others)}",
                file=sys.stderr,
                flush=True,
            )
            if options.json:
                with options.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
    return records, failed


def percent(share):
    return "-" if share is None else f"{share:.0%}"


def value_of(record, measure):
    """The number of a record that a measure compares."""
    if measure == MEMORY:
        return record["peak_rss_mb"]
    ms, gflop = record["median_ms_per_step"], record["gflop_forward"]
    if measure == MS:
        return ms
    # The scripts give three decimals: at the tiny sizes that is 0.
    return ms / gflop if gflop else math.nan


def by_round(records, measure):
    """Dictionary of a measure in each round."""
    return {
        (record["started"], record["round"]): value_of(record, measure)
        for record in records
    }


def ratios(ours, peer, measure):
    """One ratio for each round that both have."""
    ours, peer = by_round(ours, measure), by_round(peer, measure)
    return [ours[key] / peer[key] for key in ours if key in peer]


def grouped(records):
    """Records by configuration and mode, and then by variant."""
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for record in records:
        key = record["config_name"], record["mode"]
        groups[key][record["run_name"]].append(record)
    return groups


def print_rows(rows):
    """Prints rows of strings in columns, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  ".join(cells).rstrip())


def print_variants(key, runs):
    """What each variant took, in one configuration and mode."""
    print(f"\n{key[0]} {key[1]}")
    rows = [("variant", "rounds", "ms", "ms/GFLOP", "RSS MB", "spread", "others")]
    for name, records in runs.items():
        times = [value_of(record, MS) for record in records]
        shares = [record["other_cpu_share"] for record in records]
        shares = [share for share in shares if share is not None]
        per_gflop = [value_of(record, PER_GFLOP) for record in records]
        rows.append(
            (
                name,
                str(len(records)),
                f"{statistics.median(times):.2f}",
                f"{statistics.median(per_gflop):.2f}".replace("nan", "-"),
                f"{max(value_of(record, MEMORY) for record in records):.0f}",
                f"{max(times) / min(times):.2f}",
                percent(max(shares, default=None)),
            )
        )
    print_rows(rows)


def print_required(groups):
    """The ratios that are asked for, where they were measured."""
    rows = [("asked", "measure", "best of ours", "ratio", "range", "limit", "within")]
    for config, mode, width, peer, measure, limit in REQUIRED:
        runs = groups.get((config, mode), {})
        found = {}
        for name, records in runs.items():
            if is_ours(name) and VARIANTS[name].width == width and peer in runs:
                ratio = ratios(records, runs[peer], measure)
                if ratio:
                    found[name] = ratio
        asked = f"{config} {mode} / {peer}"
        if not found:
            rows.append((asked, measure, "-", "-", "-", f"{limit:.2f}", "-"))
            continue
        best = min(found, key=lambda name: statistics.median(found[name]))
        ratio = statistics.median(found[best])
        between = f"{min(found[best]):.2f}-{max(found[best]):.2f}"
        within = "yes" if ratio <= limit else "NO"
        rows.append(
            (asked, measure, best, f"{ratio:.3f}", between, f"{limit:.2f}", within)
        )
    print("\nRatios ours / peer: median over rounds, for the best of ours")
    print_rows(rows)


def plot(groups, path):
    """A bar for each variant: ms per GFLOP."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    heights = [len(runs) for runs in groups.values()]
    figure, axes = plt.subplots(
        len(groups),
        figsize=(8, 0.3 * sum(heights) + 1.1 * len(groups)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axis, (key, runs) in zip(axes[:, 0], groups.items()):
        bars = {
            name: statistics.median(by_round(records, PER_GFLOP).values())
            for name, records in runs.items()
        }
        names = sorted(bars, key=bars.get, reverse=True)
        ours = [VARIANTS[name].environment is None for name in names]
        drawn = axis.barh(
            names,
            [bars[name] for name in names],
            color=[OURS_COLOUR if own else PEER_COLOUR for own in ours],
        )
        # The floor is ours, but not the library.
        for name, bar in zip(names, drawn):
            bar.set_alpha(0.4 if VARIANTS[name].script == "floor.py" else 1.0)
        axis.bar_label(drawn, fmt="%.1f", padding=3)
        axis.set_title(" ".join(key))
        axis.set_xlabel("ms per forward GFLOP")
        axis.margins(x=0.1, y=0.01)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    folder, file = {"type": pathlib.Path, "metavar": "FOLDER"}, pathlib.Path
    environment = os.environ.get("PEERS_DIR")
    parser.add_argument("--config", choices=CONFIGS, default="small")
    parser.add_argument("--mode", choices=MODES, default="train")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help=f"some of: {', '.join(VARIANTS)}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=1800, help="s, of one run")
    parser.add_argument("--peers-scripts", **folder)
    parser.add_argument(
        "--peers-dir",
        default=pathlib.Path(environment) if environment else None,
        help="the peers' environments; default: the environment variable PEERS_DIR",
        **folder,
    )
    parser.add_argument(
        "--python-jax",
        metavar="PATH",
        help="interpreter for ours on JAX: without TensorFlow, the memory is JAX's own",
    )
    parser.add_argument("--json", type=file, help="append all records to this file")
    parser.add_argument("--from", dest="source", type=file, help="run nothing")
    parser.add_argument("--plot", type=file, help="draw a bar chart into this file")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    options.only = options.only.split(",") if options.only else list(VARIANTS)
    unknown = [name for name in options.only if name not in VARIANTS]
    if unknown:
        parser.error(f"no variant {unknown[0]}; there are: {', '.join(VARIANTS)}")
    return options


def make_records(options):
    """Runs what can run; gives the records and how many runs failed."""
    commands = {}
    for name in options.only:
        command, problem = command_of(VARIANTS[name], options)
        if command:
            commands[name] = command
        else:
            print(f"# {name}: {problem}", file=sys.stderr)
    print(f"# {options.rounds} rounds of {', '.join(commands)}", file=sys.stderr)
    return run_all(commands, options)


def main():
    options = parse_arguments()
    if options.source:
        lines = options.source.read_text(encoding="utf-8").splitlines()
        records, failed = [json.loads(line) for line in lines if line.strip()], 0
        records = [row for row in records if row["run_name"] in options.only]
    else:
        records, failed = make_records(options)
    if not records:
        raise SystemExit("There is nothing to show.")
    groups = grouped(records)
    for key, runs in groups.items():
        print_variants(key, runs)
    print_required(groups)
    if options.plot:
        plot(groups, options.plot)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
