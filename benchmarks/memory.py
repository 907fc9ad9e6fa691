"""Measures the peak memory of a training step against the lengths of the sentences.

python benchmarks/memory.py --backend tensorflow --lengths 25 50 100

Runs step.py, each point in a process of its own, with S = T of each length and of 2,
whose peak is the fixed part: imports, weights, optimizer. Prints a table; --json FILE
appends a line for each point. The other options are those of step.py.
"""

import json
import os
import pathlib
import subprocess
import sys

import harness

SHORTEST = 2
# Options of step.py that it is started with as they are.
HANDED_ON = (
    "batch src_len tgt_len vocab emb units attn_units readout steps warmup lr seed "
    "threads mask backend jit loss chunks dtype"
).split()


def make_parser(description):
    """The options of step.py for training, and those of a program that starts it."""
    parser = harness.make_parser(description, modes=("train",))
    parser.add_argument("--jit", choices=("auto", "on", "off"), default="auto")
    parser.add_argument(
        "--chunks", type=int, help="of the fused loss; as many as it takes by default"
    )
    parser.add_argument("--dtype", default="float32", help="a Keras dtype policy")
    parser.add_argument(
        "--python", default=sys.executable, help="what to run step.py with"
    )
    parser.add_argument("--json", help="a file to append records to")
    return parser


def parse(parser, argv=None):
    """As `harness.parse`, but leaves this process, and what it starts, all cores."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    options = harness.parse(parser, argv)
    if cores is not None:
        os.sched_setaffinity(0, cores)
    return options


def run_step(options, **changes):
    """The record of one run of step.py; `None`, and a word of why, if it failed.

    What this process holds counts as the other's until it has started, so that it must
    hold little.
    """
    values = {**vars(options), **changes}
    program = pathlib.Path(__file__).resolve().with_name("step.py")
    command = [options.python, str(program), "--mode", "train"]
    for key in HANDED_ON:
        command += [f"--{key.replace('_', '-')}", str(values[key])]
    command += ["--pad"] if options.pad else []
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    last = (done.stderr.strip().splitlines() or ["nothing on stderr"])[-1]
    print(f"{changes}: exit {done.returncode}: {last}", file=sys.stderr, flush=True)
    return None


def append(path, record):
    """Adds a line of JSON to a file, if there is one."""
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def measure(options, loss):
    """Peak by length, in MB, with one loss; `None` where the run failed."""
    peaks = {}
    for length in [SHORTEST, *options.lengths]:
        record = run_step(options, src_len=length, tgt_len=length, loss=loss)
        peaks[length] = None if record is None else record["peak_rss_mb"]
        if record is not None:
            fixed = peaks[SHORTEST]
            above = None if fixed is None else round(peaks[length] - fixed, 1)
            point = {"benchmark": "memory", "length": length, "above_fixed_mb": above}
            append(options.json, {**point, **record})
    return peaks


def show(loss, peaks):
    """Prints the rows of one loss."""
    fixed = peaks.pop(SHORTEST)
    above = {}
    for length, peak in peaks.items():
        if peak is not None and fixed is not None:
            above[length] = peak - fixed
    print(f"| {loss} | {SHORTEST} | {_shown(fixed)} | | |")
    for length, peak in peaks.items():
        half = above.get(length / 2)
        ratio = above[length] / half if half and length in above else None
        cells = [_shown(peak), _shown(above.get(length)), _shown(ratio, 2, "")]
        print(f"| {loss} | {length} | {' | '.join(cells)} |", flush=True)


def _shown(value, digits=1, missing="failed"):
    return missing if value is None else f"{value:.{digits}f}"


def main():
    parser = make_parser(__doc__)
    parser.set_defaults(steps=2, warmup=1)
    parser.add_argument("--lengths", type=int, nargs="+", default=[25, 50, 100])
    parser.add_argument(
        "--loss", choices=("plain", "fused"), nargs="+", default=["plain"]
    )
    options = parse(parser)
    print("| loss | S = T | peak MB | less the fixed part | to half the length |")
    print("|---|---|---|---|---|", flush=True)
    for loss in options.loss:
        show(loss, measure(options, loss))


if __name__ == "__main__":
    main()
