"""Times a training step against S (with T), B, V and threads, one at a time.

python benchmarks/scaling.py --backend tensorflow --plot scaling.png

Runs step.py, each point in a process of its own. Each round visits every point, so that
what else the machine does falls on all; a point's time is the median of its rounds.
Where no list is given, a variable takes half its size, its size and twice that, and
threads go up by twos to the cores that there are. The size in the middle is that of the
other options, which are those of step.py. Prints a table; --json FILE appends a line
for each run.
"""

import os
import statistics

import harness
from memory import append, make_parser, parse, run_step

# Each variable: the option with its list, and the options of step.py that it sets.
VARIABLES = {
    "S = T": ("lengths", ("src_len", "tgt_len")),
    "B": ("batches", ("batch",)),
    "V": ("vocabs", ("vocab",)),
    "threads": ("threads_list", ("threads",)),
}


def make_points(options):
    """By variable, the list of its values and what each changes, smallest first."""
    points = {}
    for name, (key, changed) in VARIABLES.items():
        size = getattr(options, changed[0])
        values = getattr(options, key)
        if values is None and name == "threads":
            values = [2**power for power in range(_cores().bit_length())]
        elif values is None:
            values = [max(2, size // 2), size, 2 * size]
        points[name] = [
            (value, {option: value for option in changed})
            for value in sorted(set(values))
        ]
    return points


def _cores():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def settings(options, changes):
    """What tells a point from the others: the middle is in more than one list."""
    keys = [key for _, changed in VARIABLES.values() for key in changed]
    return tuple(changes.get(key, getattr(options, key)) for key in keys)


def run_rounds(points, options):
    """All records of each point, by its settings."""
    changes = {
        settings(options, change): change
        for entries in points.values()
        for _, change in entries
    }
    found = {key: [] for key in changes}
    for index in range(options.rounds):
        for key, change in changes.items():
            record = run_step(options, **change)
            if record is None:
                continue
            found[key].append(record)
            point = {"benchmark": "scaling", "round": index, "changes": change}
            append(options.json, {**point, **record})
    return found


def summarise(points, found, options):
    """Rows `(variable, value, ms, GFLOP)`; `None` for what failed."""
    rows = []
    for name, entries in points.items():
        for value, change in entries:
            records = found[settings(options, change)]
            times = [record["median_ms_per_step"] for record in records]
            time = statistics.median(times) if times else None
            gflop = harness.forward_gflop(_with(options, change))
            rows.append((name, value, time, gflop))
    return rows


def _with(options, change):
    return type(options)(**{**vars(options), **change})


def show(rows):
    """Prints the table; the last column is 1 where the time goes as the GFLOP do."""
    print("| variable | value | ms | forward GFLOP | ms per GFLOP |")
    print("|---|---|---|---|---|")
    for name, value, time, gflop in rows:
        shown = "failed" if time is None else f"{time:.1f}"
        ratio = f"{time / gflop:.1f}" if time is not None and gflop else ""
        print(f"| {name} | {value} | {shown} | {gflop} | {ratio} |")


def plot(rows, options):
    """Draws a panel for each variable, with a line for times that go as the GFLOP."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, len(VARIABLES), figsize=(3 * len(VARIABLES), 3), sharey=True, squeeze=False
    )
    for panel, name in zip(panels[0], VARIABLES):
        part = [row[1:] for row in rows if row[0] == name and row[2] is not None]
        panel.set_xlabel(name)
        if not part:
            continue
        values = [value for value, _, _ in part]
        panel.plot(values, [time for _, time, _ in part], "o-", label="measured")
        first, start, gflop = part[0]
        if name == "threads":
            label = "all in parallel"
            ideal = [start * first / value for value in values]
        else:
            label = "as the GFLOP"
            ideal = [start * more / (gflop or 1) for _, _, more in part]
        panel.plot(values, ideal, "--", color="gray", label=label)
        panel.set_xticks(values, [str(value) for value in values])
        panel.legend(frameon=False)
    # Of all panels at once, when all has been drawn.
    panels[0][0].set_ylim(bottom=0)
    panels[0][0].set_ylabel("ms per training step")
    figure.suptitle(f"{options.backend}, jit {options.jit}, loss {options.loss}")
    figure.tight_layout()
    figure.savefig(options.plot, dpi=150)


def main():
    parser = make_parser(__doc__)
    parser.set_defaults(steps=3, warmup=2)
    parser.add_argument("--loss", choices=("plain", "fused"), default="plain")
    parser.add_argument("--lengths", type=int, nargs="+", help="values of S and T")
    parser.add_argument("--batches", type=int, nargs="+")
    parser.add_argument("--vocabs", type=int, nargs="+")
    parser.add_argument("--threads-list", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--plot", help="a PNG file to draw")
    options = parse(parser)
    points = make_points(options)
    rows = summarise(points, run_rounds(points, options), options)
    show(rows)
    if options.plot:
        plot(rows, options)


if __name__ == "__main__":
    main()
