"""What a training step consists of, by XLA's own clock.

python benchmarks/breakdown.py --readout 128

TensorFlow with XLA on a CPU. The operations of some steps are taken from TensorFlow's
profiler and added up by what they are, a product of matrices or anything else, and by
how often they run in a step: once, or once for each word. Several run at a time on
several threads, so that the sum is more than the step. Prints a table and one line of
JSON.
"""

import collections
import pathlib
import tempfile

import harness
import step as own_step

PRODUCTS = ("MatMul", "dot", "convolution")
# What holds other operations, or waits for them.
AROUND = ("Thunk", "while", "conditional", "call", "Await", "Slinky")
STEPS = 5


def events_of(run):
    """The operations of `STEPS` steps: list of name, milliseconds, once per event."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options=options)
        for _ in range(STEPS):
            run()
        tf.profiler.experimental.stop()
        (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
    found = []
    for plane in space.planes:
        operations = {
            number
            for number, stat in plane.stat_metadata.items()
            if stat.name == "hlo_op"
        }
        for line in plane.lines:
            for event in line.events:
                if operations & {stat.metadata_id for stat in event.stats}:
                    name = plane.event_metadata[event.metadata_id].name
                    found.append((name, event.duration_ps / 1e9))
    return found


def breakdown(events, words):
    """Milliseconds of a step by kind of operation and how often it runs."""
    times, counts = collections.Counter(), collections.Counter()
    for name, milliseconds in events:
        if not any(part in name for part in AROUND):
            times[name] += milliseconds / STEPS
            counts[name] += 1 / STEPS
    table = collections.Counter()
    for name, milliseconds in times.items():
        kind = "products" if name.startswith(PRODUCTS) else "all else"
        often = "each word" if counts[name] > words / 2 else "once"
        table[kind, often] += milliseconds
    return table, times


def main():
    parser = harness.step_parser(__doc__)
    parser.add_argument("--top", type=int, default=0, help="list the N longest, too")
    options = harness.parse(parser)
    options.mode, options.jit, options.backend = "train", "on", "tensorflow"
    step = own_step.make_step(own_step.make_model(options, True), options, True)
    batches = harness.make_batches(options)
    _, record = harness.timed(step, batches, options)
    words = min(options.src_len, options.tgt_len)
    table, times = breakdown(events_of(lambda: step(batches[0])), words)
    print("| operations | how often | ms |\n|---|---|---:|")
    for (kind, often), milliseconds in sorted(table.items()):
        print(f"| {kind} | {often} | {milliseconds:.1f} |")
    for name, milliseconds in times.most_common(options.top):
        print(f"{milliseconds:8.2f} {name}")
    record["ms"] = {", ".join(key): round(value, 2) for key, value in table.items()}
    harness.report("breakdown", options, record)


if __name__ == "__main__":
    main()
