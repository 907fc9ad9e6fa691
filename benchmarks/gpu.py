"""Exactness and speed on one GPU, with JAX or PyTorch; TensorFlow is not needed.

python benchmarks/gpu.py --backend jax --parts step,decode --json gpu.jsonl

exact:  one forward pass against golden values (--golden FILE)
step:   a training step of the paper's model, by precision and loss
decode: greedy and beam search of the paper's model
train:  a minute of training on the grammar's sentences

gpu.sh runs all of it. JAX' peak memory is that of the process: run each precision and
loss by itself, as gpu.sh does. --summary FILE prints what earlier runs wrote.
"""

import argparse
import functools
import json
import os
import pathlib
import statistics
import time
import types

import gpu_golden
import gpu_summary
import grammar_corpus
import harness
import numpy as np

PARTS = ("exact", "step", "decode", "train")
PRECISIONS = ("float32", "tf32", "mixed_bfloat16")
LOSSES = ("plain", "fused")
# TFLOP/s of products, dense. Source: NVIDIA H200 datasheet.
H200_PEAKS = {"float32": 67, "tf32": 494, "mixed_bfloat16": 989}
EXACT = 1e-5
SIZES = {
    "paper": {
        "net": {**harness.PAPER, "readout": 500},
        "steps": 20,
        "decode_steps": 5,
        "decode_batches": (80, 512),
        "train_units": 256,
        "train_pairs": 24_000,
        "held_out": 500,
        "train_batch": 128,
        "train_steps": 100,
        "seconds": 60,
    },
    "tiny": {
        "net": {**harness.TINY, "readout": 6},
        "steps": 4,
        "decode_steps": 2,
        "decode_batches": (3, 5),
        "train_units": 16,
        "train_pairs": 300,
        "held_out": 20,
        "train_batch": 10,
        "train_steps": 5,
        "seconds": 2,
    },
}


def net_options(size, mode="train", **others):
    """The sizes as `harness` reads them."""
    net = {key.replace("-", "_"): value for key, value in SIZES[size]["net"].items()}
    more = {"mode": mode, "beam": 5, "seed": 0, "pad": False}
    return types.SimpleNamespace(**{**net, **more, **others})


def set_precision(backend, precision):
    """How products are made; "float32" is exact, "tf32" has 10 bits of fraction."""
    import keras

    half = precision == "mixed_bfloat16"
    keras.config.set_dtype_policy("mixed_bfloat16" if half else "float32")
    exact = precision == "float32"
    if backend == "jax":
        import jax

        jax.config.update(
            "jax_default_matmul_precision", "highest" if exact else "tensorfloat32"
        )
    else:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = not exact
        torch.backends.cudnn.allow_tf32 = not exact


def device_name(backend):
    if backend == "jax":
        import jax

        return jax.devices()[0].device_kind
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def reset_peak_memory(backend):
    """On PyTorch; JAX cannot."""
    if backend == "torch":
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def peak_memory_mb(backend):
    """The largest memory of the GPU that was in use, or `None` without one."""
    if backend == "jax":
        import jax

        stats = jax.devices()[0].memory_stats() or {}
        peak = stats.get("peak_bytes_in_use")
    else:
        import torch

        on_gpu = torch.cuda.is_available()
        peak = torch.cuda.max_memory_allocated() if on_gpu else None
    return None if peak is None else round(peak / 2**20)


def paper_model(options):
    """`RNNSearch.paper` of the sizes of the options, compiled by it."""
    import keras_bahdanau as kb

    model = kb.RNNSearch.paper(
        options.vocab,
        options.vocab,
        embedding_dim=options.emb,
        units=options.units,
        attention_units=options.attn_units,
        readout_units=options.readout,
    )
    model.build()
    return model


# exact


def run_exact(args, emit):
    """Compares one forward pass with the golden values."""
    if args.golden is None:
        print("exact: skipped, there is no --golden FILE", flush=True)
        return
    content = json.loads(args.golden.read_text(encoding="utf-8"))
    for precision in PRECISIONS[:2]:
        set_precision(args.backend, precision)
        differences = gpu_golden.golden_differences(content)
        largest = max(differences.values())
        emit(
            part="exact",
            precision=precision,
            largest_difference=largest,
            # TF32 is not asked to be exact.
            within=largest <= EXACT if precision == "float32" else None,
            differences=differences,
        )


# step


def make_trainer(options, loss, num_chunks):
    """The paper's model, or that in a `FusedLossModel` with the same optimizer."""
    import keras_bahdanau as kb

    model = paper_model(options)
    if loss == "plain":
        return model
    trainer = kb.FusedLossModel(model, num_chunks=num_chunks, average_over="sequences")
    trainer.compile(optimizer=kb.paper_recipe()["optimizer"])
    return trainer


def time_batches(trainer, batches, steps):
    """Milliseconds of each `train_on_batch`, seconds of the first, first and last loss.

    The loss comes back to Python, so that a step is over when its time is taken.
    """
    times, losses = [], []
    for index in range(3 + steps):
        inputs, labels = batches[index % len(batches)]
        started = time.perf_counter()
        trainer.reset_metrics()
        loss = trainer.train_on_batch(inputs, labels)
        losses.append(float(loss[0] if isinstance(loss, (list, tuple)) else loss))
        times.append(time.perf_counter() - started)
    assert np.isfinite(losses).all(), losses
    return [1e3 * seconds for seconds in times[3:]], times[0], losses[0], losses[-1]


def time_fit(trainer, batches, steps):
    """Milliseconds of a step of `fit`, where steps need not wait for Python."""

    def fit(count):
        repeated = (batches[index % len(batches)] for index in range(count))
        started = time.perf_counter()
        trainer.fit(repeated, steps_per_epoch=count, shuffle=False, verbose=0)
        return time.perf_counter() - started

    fit(3)
    return 1e3 * fit(steps) / steps


def run_step(args, emit):
    """Times the training step for each precision and loss.

    Rates are those of the faster of `train_on_batch` and `fit`.
    """
    import keras

    steps = SIZES[args.size]["steps"]
    options = net_options(args.size)
    batches = harness.make_batches(options)
    for precision in args.precision:
        for loss in args.loss:
            keras.utils.clear_session()
            set_precision(args.backend, precision)
            reset_peak_memory(args.backend)
            trainer = make_trainer(options, loss, args.chunks)
            times, first, *losses = time_batches(trainer, batches, steps)
            ms, fit_ms = statistics.median(times), time_fit(trainer, batches, steps)
            best = min(ms, fit_ms)
            gflops = 3 * harness.forward_gflop(options) / best * 1e3
            on_h200 = "H200" in device_name(args.backend)
            peak = 1e3 * H200_PEAKS[precision] if on_h200 else None
            emit(
                part="step",
                precision=precision,
                loss=loss,
                ms=round(ms, 3),
                min_ms=round(min(times), 3),
                max_ms=round(max(times), 3),
                fit_ms=round(fit_ms, 3),
                target_tokens_per_s=round(options.batch * options.tgt_len / best * 1e3),
                gflop_per_s=round(gflops, 1),
                share_of_peak=round(gflops / peak, 4) if peak else None,
                peak_memory_mb=peak_memory_mb(args.backend),
                first_step_s=round(first, 2),
                loss_first=losses[0],
                loss_last=losses[1],
            )
            del trainer


# decode


def make_search(model, backend, mode, options):
    """A function from source ids to token ids, as fast as the backend has it."""
    import keras

    search = model.generate
    if mode == "beam":
        search = functools.partial(model.beam_search, num_beams=options.beam)
    search = functools.partial(
        search, max_length=options.tgt_len, start_id=harness.START, end_id=harness.END
    )
    if backend == "torch":
        import torch

        def without_gradient(source_ids):
            with torch.inference_mode():
                return search(keras.ops.convert_to_tensor(source_ids)).token_ids

        return without_gradient
    import jax

    variables = model.variables

    @jax.jit
    def with_values(values, source_ids):
        # Weights as arguments: as constants they would be part of the program.
        with keras.StatelessScope(state_mapping=list(zip(variables, values))):
            return search(source_ids).token_ids

    return lambda ids: with_values([variable.value for variable in variables], ids)


def run_decode(args, emit):
    """Times greedy and beam search; the end token is ruled out."""
    import keras

    size = SIZES[args.size]
    set_precision(args.backend, args.precision[0])
    model = paper_model(net_options(args.size))
    bias = keras.ops.convert_to_numpy(model.readout.output_bias).copy()
    bias[harness.END] = -1e9
    model.readout.output_bias.assign(bias)
    for batch in size["decode_batches"]:
        for mode in args.search:
            options = net_options(args.size, mode, batch=batch)
            search = make_search(model, args.backend, mode, options)
            times = []
            for inputs, _ in harness.make_batches(options, 2 + size["decode_steps"]):
                started = time.perf_counter()
                ids = keras.ops.convert_to_numpy(search(inputs["source_ids"]))
                times.append(time.perf_counter() - started)
                assert ids.shape[-1] == options.tgt_len, ids.shape
            seconds = statistics.median(times[2:])
            emit(
                part="decode",
                mode=mode,
                precision=args.precision[0],
                batch=batch,
                ms=round(1e3 * seconds, 3),
                sentences_per_s=round(batch / seconds, 1),
                target_tokens_per_s=round(batch * options.tgt_len / seconds),
                gflop_per_s=round(harness.forward_gflop(options) / seconds, 1),
                first_batch_s=round(times[0], 2),
            )


# train


def run_train(args, emit):
    """Trains for some time and says what became of 500 sentences held out."""
    import keras_bahdanau as kb

    size = SIZES[args.size]
    seconds = args.seconds or size["seconds"]
    set_precision(args.backend, args.precision[0])
    (inputs, labels), held_out, vocabularies = grammar_corpus.make_corpus(size)
    model = kb.RNNSearch(
        *(4 + len(vocabulary) for vocabulary in vocabularies),
        embedding_dim=size["train_units"],
        units=size["train_units"],
    )
    model.compile(**kb.modern_recipe())

    def evaluate():
        batch = min(100, size["held_out"])
        return model.evaluate(*held_out, batch_size=batch, verbose=0, return_dict=True)

    before, batches = (
        evaluate(),
        grammar_corpus.endless(inputs, labels, size["train_batch"]),
    )
    # The step is compiled before the clock starts.
    model.fit(batches, steps_per_epoch=3, shuffle=False, verbose=0)
    started, steps, chunk = time.perf_counter(), 0, size["train_steps"]
    while time.perf_counter() - started < seconds:
        model.fit(batches, steps_per_epoch=chunk, shuffle=False, verbose=0)
        steps += chunk
    elapsed = time.perf_counter() - started
    emit(
        part="train",
        precision=args.precision[0],
        seconds=round(elapsed, 1),
        steps=steps,
        batch=size["train_batch"],
        ms=round(1e3 * elapsed / steps, 3),
        sentences_per_s=round(steps * size["train_batch"] / elapsed, 1),
        epochs=round(steps * size["train_batch"] / len(labels), 2),
        vocabularies=[4 + len(vocabulary) for vocabulary in vocabularies],
        before=before,
        after=evaluate(),
    )


# reports


def make_emit(args, records):
    """The function that keeps a record, and prints it at once."""
    import keras

    versions = {"keras": keras.__version__}
    versions[args.backend] = __import__(args.backend).__version__
    common = {"backend": args.backend, "size": args.size, "versions": versions}
    common["device"] = device_name(args.backend)

    def emit(**record):
        record = {**common, **record}
        records.append(record)
        print(gpu_summary.line_of(record), flush=True)
        if args.json:
            with args.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    return emit


def parse_arguments():
    def some(choices):
        def read(text):
            names = text.split(",")
            for name in names:
                if name not in choices:
                    raise argparse.ArgumentTypeError(f"{name} is none of {choices}")
            return names

        return {"type": read, "default": list(choices), "metavar": ",".join(choices)}

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", choices=("jax", "torch"), default="jax")
    parser.add_argument("--size", choices=SIZES, default="paper")
    parser.add_argument("--parts", **some(PARTS))
    parser.add_argument(
        "--precision", help="of steps; else the first counts", **some(PRECISIONS)
    )
    parser.add_argument("--loss", **some(LOSSES))
    parser.add_argument("--search", **some(("greedy", "beam")))
    parser.add_argument("--chunks", type=int, default=4, help="of the fused loss")
    parser.add_argument("--seconds", type=float, help="of training")
    parser.add_argument("--golden", type=pathlib.Path, help="the golden values")
    parser.add_argument("--json", type=pathlib.Path, help="append the records to it")
    parser.add_argument("--summary", type=pathlib.Path, help="only print this file")
    return parser.parse_args()


def main():
    args = parse_arguments()
    if args.summary:
        gpu_summary.summarize(args.summary)
        return
    os.environ["KERAS_BACKEND"] = args.backend
    records = []
    emit = make_emit(args, records)
    runs = {
        "exact": run_exact,
        "step": run_step,
        "decode": run_decode,
        "train": run_train,
    }
    for part in args.parts:
        runs[part](args, emit)
    gpu_summary.print_hours(records)
    raise SystemExit(any(record.get("within") is False for record in records))


if __name__ == "__main__":
    main()
