"""Times the import of the package against the import of Keras alone.

python benchmarks/import_time.py --rounds 10

Each import is a process of its own; the two take turns. Prints medians, their ratio,
and one line of JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time


def seconds(module, backend):
    """How long a new process takes that imports a module and ends."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", f"import {module}"],
        check=True,
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--backend", default="tensorflow")
    options = parser.parse_args()
    times = {"keras": [], "keras_bahdanau": []}
    for module in times:
        seconds(module, options.backend)  # the first one reads files from the disk
    for _ in range(options.rounds):
        for module, found in times.items():
            found.append(seconds(module, options.backend))
    ratio = statistics.median(
        ours / keras for ours, keras in zip(times["keras_bahdanau"], times["keras"])
    )
    for module, found in times.items():
        print(f"import {module}: {statistics.median(found):.2f} s")
    record = {"backend": options.backend, "rounds": options.rounds, "ratio": ratio}
    print(json.dumps(record))


if __name__ == "__main__":
    main()
