"""What the benchmarks share: a command line, batches, a clock, one JSON line.

The options and the keys of the JSON line are those of the benchmarks of the peers, so
that one runner can run all of them in turn. Nothing here imports Keras: options that a
backend reads when it is imported are set before it is.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import time

import numpy as np

PAD, START, END, FIRST_WORD = 0, 1, 2, 4
SIZES = {
    "batch": 64,
    "src-len": 20,
    "tgt-len": 20,
    "vocab": 8000,
    "emb": 256,
    "units": 256,
    "attn-units": 256,
}
TINY = {
    "batch": 4,
    "src-len": 6,
    "tgt-len": 5,
    "vocab": 50,
    "emb": 8,
    "units": 12,
    "attn-units": 12,
}
PAPER = {
    "batch": 80,
    "src-len": 50,
    "tgt-len": 50,
    "vocab": 30_000,
    "emb": 620,
    "units": 1000,
    "attn-units": 1000,
}


def make_parser(description, modes=("train", "greedy", "beam")):
    """The options that all benchmarks have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--paper", action="store_true", help="the paper's sizes")
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, help=f"default: {size}")
    parser.add_argument(
        "--readout", type=int, default=-1, help="maxout units; -1: as many as --units"
    )
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pad", action="store_true", help="lengths from half to all")
    parser.add_argument("--mask", choices=("auto", "on", "off"), default="auto")
    parser.add_argument(
        "--backend", choices=("tensorflow", "jax", "torch"), default="tensorflow"
    )
    return parser


def step_parser(description):
    """The options of what runs a whole step."""
    parser = make_parser(description)
    parser.add_argument("--jit", choices=("auto", "on", "off"), default="auto")
    parser.add_argument("--loss", choices=("plain", "fused"), default="plain")
    parser.add_argument(
        "--chunks", type=int, help="of the fused loss; as many as it takes by default"
    )
    parser.add_argument("--dtype", default="float32", help="a Keras dtype policy")
    parser.add_argument("--dropout", type=float, default=0.0, help="while training")
    return parser


def parse(parser, argv=None):
    """Reads the options and sets what must be set before a backend is imported."""
    options = parser.parse_args(argv)
    for name, size in (PAPER if options.paper else SIZES).items():
        key = name.replace("-", "_")
        if getattr(options, key) is None:
            setattr(options, key, size)
    if options.readout == -1:
        options.readout = options.units
    threads = str(options.threads)
    os.environ["KERAS_BACKEND"] = options.backend
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = threads
    os.environ["TF_NUM_INTRAOP_THREADS"] = threads
    os.environ["TF_NUM_INTEROP_THREADS"] = threads
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if hasattr(os, "sched_setaffinity"):
        # XLA has a thread for each core that it may use, and no option for less.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[: options.threads])
    return options


def make_batches(options, count=4):
    """Batches of random ids as in teacher-forced training."""
    generator = np.random.default_rng(options.seed)

    def side(length):
        lengths = np.full(options.batch, length)
        if options.pad:
            lengths = generator.integers(
                (length + 1) // 2, length + 1, size=options.batch
            )
            lengths[0] = length
        ids = generator.integers(
            FIRST_WORD, options.vocab, size=(options.batch, length)
        )
        positions = np.arange(length)
        ids[positions == lengths[:, None] - 1] = END
        ids[positions >= lengths[:, None]] = PAD
        return ids.astype("int32")

    batches = []
    for _ in range(count):
        source, labels = side(options.src_len), side(options.tgt_len)
        starts = np.full((options.batch, 1), START, "int32")
        target = np.concatenate([starts, labels[:, :-1]], axis=1)
        target[labels == PAD] = PAD
        inputs = {"source_ids": source, "target_ids": target}
        batches.append((inputs, labels))
    return batches


def forward_gflop(options):
    """Multiply-adds of the products of one forward pass, each two FLOPs, in 1e9."""
    units, words = options.units, options.batch * options.tgt_len
    if options.mode == "beam":
        words *= options.beam
    read = options.batch * options.src_len
    total = read * 2 * 3 * units * (options.emb + units)
    total += read * 2 * units * options.attn_units
    step = 3 * units * (options.emb + 3 * units)
    step += units * options.attn_units + options.src_len * options.attn_units
    step += options.src_len * 2 * units
    step += (3 * units + options.emb) * 2 * options.readout
    step += options.readout * options.vocab
    return round(2e-9 * (total + words * step), 6)


def words_per_second(batches, milliseconds):
    """Real words of the target of a mean batch, in the time of a step."""
    words = sum(int((labels != PAD).sum()) for _, labels in batches) / len(batches)
    return round(1e3 * words / milliseconds, 1)


def busy_seconds():
    """Seconds that all cores together were not idle, or `None`."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(part) for part in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def peak_memory_mb():
    """The largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(step, batches, options):
    """Runs `step(batch)`, which returns when its work is done; gives a record."""
    times, cpu_times, results = [], [], []
    for index in range(options.warmup + options.steps):
        if index == options.warmup:
            busy, own, began = busy_seconds(), time.process_time(), time.perf_counter()
        batch = batches[index % len(batches)]
        cpu, start = time.process_time(), time.perf_counter()
        results.append(step(batch))
        times.append(time.perf_counter() - start)
        cpu_times.append(time.process_time() - cpu)
    others = None
    if busy is not None:
        others = busy_seconds() - busy - (time.process_time() - own)
        others = max(0.0, others / (time.perf_counter() - began) / os.cpu_count())
    first, times = times[0], times[options.warmup :]
    return results, {
        "median_ms_per_step": round(1e3 * statistics.median(times), 3),
        "min_ms": round(1e3 * min(times), 3),
        "max_ms": round(1e3 * max(times), 3),
        "cpu_ms_per_step": round(
            1e3 * statistics.median(cpu_times[options.warmup :]), 3
        ),
        "first_step_s": round(first, 3),
        "other_cpu_share": None if others is None else round(others, 3),
        "peak_rss_mb": round(peak_memory_mb(), 1),
    }


def report(name, options, record):
    """Prints the record as the one JSON line that a runner looks for."""
    import keras

    versions = {"python": platform.python_version(), "keras": keras.__version__}
    backend = __import__(keras.backend.backend())
    versions[keras.backend.backend()] = backend.__version__
    record = {
        "peer": name,
        "mode": options.mode,
        **record,
        "config": {key: value for key, value in vars(options).items() if key != "mode"},
        "versions": versions,
    }
    print(json.dumps(record), flush=True)
