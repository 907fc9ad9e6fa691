"""Times the attention and the recurrences alone, plain and fused in turn.

python benchmarks/kernels.py --backend tensorflow

One look of the attention at its memory; forward and backward of the decoder's loop and
of the encoder, with a gradient by hand (fused) and by autodiff of the plain loop. Each
round times all of them, every second round in the other order, so that what else the
machine does falls on all. Prints a table and one line of JSON.
"""

import statistics
import time

import harness


def make_arrays(options):
    """What the layers are given, one array each."""
    import numpy as np

    batch, source, target = options.batch, options.src_len, options.tgt_len
    shapes = {
        "query": (batch, options.units),
        "source": (batch, source, options.emb),
        "target": (batch, target, options.emb),
        "memory": (batch, source, 2 * options.units),
        "keys": (batch, source, options.attn_units),
    }
    generator = np.random.default_rng(options.seed)
    return {
        name: generator.uniform(-1, 1, shape).astype("float32")
        for name, shape in shapes.items()
    }


def make_look(arrays, options):
    """One look: from a state to a context and the weights of the memory."""
    import keras_bahdanau as kb

    attention = kb.BahdanauAttention(options.attn_units)
    attention.build([arrays["query"].shape, arrays["memory"].shape])

    def look(query, memory, keys):
        return attention.reader(memory, keys)(query)

    return compiled(look, options), ("query", "memory", "keys")


def make_decoder(fused, arrays, options):
    """The attentive decoder, forward and backward."""
    import keras_bahdanau as kb

    attention = kb.BahdanauAttention(options.attn_units)
    cell = kb.AttentiveGRUDecoderCell(options.units, attention)
    layer = kb.AttentiveRNN(
        cell, return_sequences=True, return_contexts=True, fused=fused
    )
    names = ("target", "memory", "query")
    layer.build(*(arrays[name].shape for name in names))
    return with_gradients(layer, options), names


def make_encoder(fused, arrays, options):
    """The bidirectional encoder, forward and backward."""
    import keras_bahdanau as kb

    layer = kb.BidirectionalGRUEncoder(options.units, fused=fused)
    layer.build(arrays["source"].shape)
    return with_gradients(layer, options), ("source",)


def total_of(outputs):
    """A number whose gradient reaches all outputs, each element differently."""
    from keras import ops

    return sum(ops.sum(ops.square(output)) for output in outputs)


def compiled(function, options):
    """What the backend makes of a function of tensors."""
    if options.backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=options.jit == "on")
    if options.backend == "jax":
        import jax

        return jax.jit(function)
    import torch

    return torch.no_grad()(function)


def with_gradients(layer, options):
    """From the layer's inputs to the gradients of its inputs and weights."""
    if options.backend == "tensorflow":
        import tensorflow as tf

        def run(*inputs):
            weights = [weight.value for weight in layer.trainable_variables]
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                total = total_of(layer(*inputs, training=True))
            return tape.gradient(total, [*inputs, *weights])

        return compiled(run, options)
    if options.backend == "jax":
        return _with_gradients_on_jax(layer)
    import torch

    def run(*inputs):
        inputs = [tensor.detach().requires_grad_() for tensor in inputs]
        weights = [weight.value for weight in layer.trainable_variables]
        total = total_of(layer(*inputs, training=True))
        return torch.autograd.grad(total, [*inputs, *weights])

    return run


def _with_gradients_on_jax(layer):
    import jax

    held = [variable.value for variable in layer.non_trainable_variables]

    def total(weights, inputs):
        outputs, _ = layer.stateless_call(weights, held, *inputs, training=True)
        return total_of(outputs)

    gradients = jax.jit(jax.grad(total, argnums=(0, 1)))
    return lambda *inputs: gradients(
        [variable.value for variable in layer.trainable_variables], inputs
    )


def wait(results, options):
    """Returns when the results are there."""
    if options.backend == "jax":
        import jax

        jax.block_until_ready(results)
    elif options.backend == "tensorflow":
        results[-1].numpy()
    elif results[-1].is_cuda:
        import torch

        torch.cuda.synchronize()


def make_round(options):
    """The function that times every kernel once, and the names of the kernels."""
    from keras import ops

    arrays = make_arrays(options)
    made = {"look": make_look(arrays, options)}
    for name, make in (("decoder", make_decoder), ("encoder", make_encoder)):
        for kind in ("plain", "fused"):
            made[f"{name} {kind}"] = make(kind == "fused", arrays, options)
    tensors = {name: ops.convert_to_tensor(array) for name, array in arrays.items()}
    order = list(made)

    def one_round(batch):
        found = {}
        for name in order:
            function, inputs = made[name]
            inputs = [tensors[key] for key in inputs]
            start = time.perf_counter()
            wait(function(*inputs), options)
            found[name] = 1e3 * (time.perf_counter() - start)
        order.reverse()
        return found

    return one_round, list(made)


def main():
    parser = harness.make_parser(__doc__, modes=("train",))
    parser.add_argument("--jit", choices=("auto", "on", "off"), default="auto")
    options = harness.parse(parser)
    one_round, names = make_round(options)
    rounds, record = harness.timed(one_round, [None], options)
    rounds = rounds[options.warmup :]
    medians = {name: statistics.median(one[name] for one in rounds) for name in names}
    ratios = {
        name: medians[f"{name} plain"] / medians[f"{name} fused"]
        for name in ("decoder", "encoder")
    }
    print("| kernel | median ms | plain / fused |\n|---|---|---|")
    for name, median in medians.items():
        layer, _, kind = name.partition(" ")
        ratio = f"{ratios[layer]:.2f}" if kind == "fused" else ""
        print(f"| {name} | {median:.3f} | {ratio} |")
    record["median_ms"] = {name: round(value, 3) for name, value in medians.items()}
    record["plain_to_fused"] = {name: round(ratio, 3) for name, ratio in ratios.items()}
    harness.report("kernels", options, record)


if __name__ == "__main__":
    main()
