"""What the records of gpu.py say, in lines a person reads."""

import json

PAPER_UPDATES, PAPER_HOURS, TARGET_MS = 667_000, 252, 15


def line_of(record):
    """One line of text for a record."""
    skipped = ("backend", "device", "versions", "size", "differences", "part")
    cells = []
    for key, value in record.items():
        if key in skipped or value is None:
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{name} {number:.4g}" for name, number in value.items())
            value = f"({value})"
        elif isinstance(value, float):
            value = f"{value:.6g}"
        cells.append(f"{key} {value}")
    return f"{record['backend']:5} {record['part']:6} {', '.join(cells)}"


def print_hours(records):
    """How long the paper's training would take at the best step."""
    steps = [record for record in records if record["part"] == "step"]
    if not steps:
        return
    best = min(steps, key=lambda record: min(record["ms"], record["fit_ms"]))
    ms = min(best["ms"], best["fit_ms"])
    hours = PAPER_UPDATES * ms / 3.6e6
    target = PAPER_UPDATES * TARGET_MS / 3.6e6
    print(
        f"best step: {ms:.2f} ms ({best['backend']}, {best['precision']}, "
        f"{best['loss']} loss, {best['size']} size); {PAPER_UPDATES:,} updates take "
        f"{hours:.2f} hours (paper: {PAPER_HOURS} hours; target: {TARGET_MS} ms, "
        f"{target:.2f} hours)"
    )


def summarize(path):
    """Prints the records of a file as text."""
    lines = path.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines if line.strip()]
    if not records:
        raise SystemExit("No part has finished.")
    for described in sorted({(row["backend"], row["device"]) for row in records}):
        print(f"{described[0]} on {described[1]}")
    for record in records:
        print(line_of(record))
    print_hours(records)
