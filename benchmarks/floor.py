"""Times the matrix products of RNNsearch alone: a floor for the times of step.py.

python benchmarks/floor.py --mode train --backend tensorflow

The options are those of step.py; --pad, --mask and --lr change nothing here. There is
no activation, softmax, embedding or optimizer: one large product for what the
recurrence leaves outside of the loops, and in the loops the recurrent products only.
Each product waits for the one before it. The scores of the attention are no matrix
product (a tanh lies in between) and are left out, as is the one product of s_0. With
--loss fused and --chunks the product with the vocabulary is in so many parts. Prints
one line of JSON.
"""

import math

import harness
import step as own_step

# What one product adds to the next: too little to matter, too much to leave out.
TINY = 1e-6


class Chain:
    """Multiplies matrices, each only after the one before."""

    def __init__(self, state):
        self.last = state[0, 0]

    def __call__(self, left, right, turn_left=False, turn_right=False):
        """`left right`, the last two axes of either exchanged first if asked for."""
        from keras import ops

        if math.prod(left.shape) < math.prod(right.shape):
            left = left + TINY * self.last
        else:
            right = right + TINY * self.last
        left = ops.swapaxes(left, -1, -2) if turn_left else left
        right = ops.swapaxes(right, -1, -2) if turn_right else right
        result = ops.matmul(left, right)
        self.last = result[(0,) * len(result.shape)]
        return result

    def loop(self, count, body, states):
        """Runs `body(index, states)`; its states are `(B, ...)`."""
        from keras import ops

        states = tuple(state + TINY * self.last for state in states)
        states = ops.fori_loop(0, count, body, states)
        self.last = sum(state[0, 0] for state in states)


def make_tensors(options):
    """Random tensors of the shapes of a model's weights and of what it computes."""
    import keras
    import numpy as np

    batch, source, target = options.batch, options.src_len, options.tgt_len
    units, size, width = options.units, options.emb, 2 * options.readout
    shapes = {
        "state": (batch, units),
        "source": (batch * source, size),
        "memory": (batch * source, 2 * units),
        "forward_kernel": (size, 3 * units),
        "backward_kernel": (size, 3 * units),
        "forward_recurrent_kernel": (units, 3 * units),
        "backward_recurrent_kernel": (units, 3 * units),
        "key_kernel": (2 * units, options.attn_units),
        "query_kernel": (units, options.attn_units),
        "recurrent_kernel": (units, 3 * units),
        "context_kernel": (2 * units, 3 * units),
        "word_kernel": (size, 3 * units),
        "state_readout_kernel": (units, width),
        "word_readout_kernel": (size, width),
        "context_readout_kernel": (2 * units, width),
        "output_kernel": (options.readout, options.vocab),
    }
    if options.mode == "train":
        shapes |= {
            "source_states": (batch * source, units),
            "source_gates": (batch * source, 3 * units),
            "target": (batch * target, size),
            "states": (batch * target, units),
            "gates": (batch * target, 3 * units),
            "queries": (batch * target, options.attn_units),
            "weights": (batch, target, source),
            "hidden": (batch * target, options.readout),
        }
    else:
        beams = options.beam if options.mode == "beam" else 1
        shapes |= {
            "state": (batch * beams, units),
            "word": (batch * beams, size),
            "source_state": (batch, units),
            "weights": (batch, beams, source),
        }
    dtype = keras.dtype_policies.get(options.dtype).compute_dtype
    generator = np.random.default_rng(options.seed)

    def draw(name, shape):
        values = generator.standard_normal(shape, dtype="float32")
        if name.endswith("kernel"):
            values /= shape[0] ** 0.5
        return keras.ops.convert_to_tensor(values, dtype=dtype)

    return {name: draw(name, shape) for name, shape in shapes.items()}


def encoder_loop(chain, given, state, options, backward=False):
    """The recurrent products of the encoder, both directions side by side."""
    from keras import ops

    units = options.units
    kernels = []
    for name in ("forward_recurrent_kernel", "backward_recurrent_kernel"):
        gate, candidate = ops.split(given[name], [2 * units], axis=1)
        if backward:
            gate, candidate = ops.transpose(gate), ops.transpose(candidate)
        kernels.append((gate, candidate))

    def forward_step(state, gate, candidate):
        gates = ops.matmul(state, gate)
        found = ops.matmul(state + TINY * gates[:, units:], candidate)
        return state + TINY * (found + gates[:, :units])

    def backward_step(state, gate, candidate):
        gates = [ops.matmul(state, candidate), state]
        return state + TINY * ops.matmul(ops.concatenate(gates, axis=-1), gate)

    step = backward_step if backward else forward_step

    def body(_, states):
        return tuple(step(state, *pair) for state, pair in zip(states, kernels))

    chain.loop(options.src_len, body, (state, state))


def decoder_loop(chain, given, memory, options):
    """The recurrent products of the decoder: state, context, state."""
    from keras import ops

    units, size = options.units, options.attn_units
    gate, candidate = ops.split(given["recurrent_kernel"], [2 * units], axis=1)
    both = ops.concatenate([given["query_kernel"], gate], axis=1)
    weights = given["weights"][:, :1]

    def body(_, states):
        (state,) = states
        products = ops.matmul(state, both)
        query = ops.sum(products[:, :size], axis=-1, keepdims=True)
        looked = weights + TINY * ops.expand_dims(query, -1)
        gates = ops.squeeze(ops.matmul(looked, memory), 1)
        gate = gates[:, : 2 * units] + products[:, size:]
        found = ops.matmul(state + TINY * gate[:, units:], candidate)
        return (state + TINY * (found + gate[:, :units] + gates[:, 2 * units :]),)

    chain.loop(options.tgt_len, body, (given["state"],))


def decoder_loop_back(chain, given, memory, options):
    """The products of the backward loop of the decoder."""
    from keras import ops

    units = options.units
    gate, candidate = ops.split(given["recurrent_kernel"], [2 * units], axis=1)
    both = ops.transpose(ops.concatenate([given["query_kernel"], gate], axis=1))
    candidate = ops.transpose(candidate)
    queries = given["queries"][: options.batch]

    def body(_, states):
        (state,) = states
        reset = ops.matmul(state, candidate)
        gates = ops.concatenate([state, reset, state], axis=-1)
        d_weights = ops.matmul(memory, ops.expand_dims(gates, -1))
        query = queries + TINY * ops.sum(d_weights, axis=1)
        found = ops.concatenate([query, gates[:, : 2 * units]], axis=-1)
        return (state + TINY * ops.matmul(found, both),)

    chain.loop(options.tgt_len, body, (given["state"],))


def recurrent_gradients(chain, states, gates, units):
    """The gradient of a recurrent kernel, one product each for its two parts."""
    chain(states, gates[:, : 2 * units], turn_left=True)
    chain(states, gates[:, 2 * units :], turn_left=True)


def vocabulary(chain, given, options):
    """The product with the vocabulary and its two gradients, in parts if asked for."""
    rows, kernel = given["hidden"], given["output_kernel"]
    parts = (options.chunks or 1) if options.loss == "fused" else 1
    size = -(-rows.shape[0] // parts)
    for start in range(0, rows.shape[0], size):
        part = rows[start : start + size]
        logits = chain(part, kernel)
        chain(logits, kernel, turn_right=True)
        chain(part, logits, turn_left=True)


def train(given, options):
    """All products of a training step; returns a number that needs them all."""
    from keras import ops

    batch, units = options.batch, options.units
    chain, tape = Chain(given["state"]), []

    def layer(inputs, kernel):
        result = chain(inputs, given[kernel])
        tape.append((inputs, given[kernel], result))
        return result

    def layers_back(count):
        # A product takes the place of its own gradient, which has its shape.
        for _ in range(count):
            inputs, kernel, result = tape.pop()
            chain(result, kernel, turn_right=True)
            chain(inputs, result, turn_left=True)

    def by_sentence(rows):
        return ops.reshape(rows, (batch, -1, rows.shape[-1]))

    layer(given["source"], "forward_kernel")
    layer(given["source"], "backward_kernel")
    encoder_loop(chain, given, given["state"], options)
    layer(given["memory"], "key_kernel")
    gate_memory = by_sentence(layer(given["memory"], "context_kernel"))
    layer(given["target"], "word_kernel")
    decoder_loop(chain, given, gate_memory, options)
    memory, weights = by_sentence(given["memory"]), given["weights"]
    contexts = chain(weights, memory)
    layer(given["states"], "state_readout_kernel")
    layer(given["target"], "word_readout_kernel")
    layer(ops.reshape(contexts, (-1, 2 * units)), "context_readout_kernel")
    vocabulary(chain, given, options)
    layers_back(3)
    chain(contexts, memory, turn_right=True)
    chain(weights, contexts, turn_left=True)
    decoder_loop_back(chain, given, gate_memory, options)
    chain(weights, by_sentence(given["gates"]), turn_left=True)
    chain(given["states"], given["queries"], turn_left=True)
    recurrent_gradients(chain, given["states"], given["gates"], units)
    layers_back(3)
    encoder_loop(chain, given, given["state"], options, backward=True)
    for _ in range(2):
        recurrent_gradients(chain, given["source_states"], given["source_gates"], units)
    layers_back(2)
    return chain.last


def decode(given, options):
    """All products of greedy decoding, or of a search with beams."""
    from keras import ops

    batch, chain = options.batch, Chain(given["state"])
    chain(given["source"], given["forward_kernel"])
    chain(given["source"], given["backward_kernel"])
    encoder_loop(chain, given, given["source_state"], options)
    chain(given["memory"], given["key_kernel"])

    def side_by_side(*names):
        return ops.concatenate([given[name] for name in names], axis=1)

    context_kernel = side_by_side("context_kernel", "context_readout_kernel")
    word_kernel = side_by_side("word_kernel", "word_readout_kernel")
    memory = given["memory"]
    if options.mode == "beam":
        memory, context_kernel = chain(memory, context_kernel), None
    memory = ops.reshape(memory, (batch, -1, memory.shape[-1]))
    step = decoding_step(given, memory, context_kernel, word_kernel, options)
    chain.loop(options.tgt_len, step, (given["state"], given["word"]))
    return chain.last


def decoding_step(given, memory, context_kernel, word_kernel, options):
    """The products of one word, as a function of the states of a loop."""
    from keras import ops

    units, size = options.units, options.attn_units
    gate, candidate = ops.split(given["recurrent_kernel"], [2 * units], axis=1)
    look_kernel = ops.concatenate([given["query_kernel"], gate], axis=1)

    def body(_, states):
        state, word = states
        products = ops.matmul(state, look_kernel)
        query = ops.sum(products[:, :size], axis=-1)
        query = ops.reshape(query, (options.batch, -1, 1))
        seen = ops.matmul(given["weights"] + TINY * query, memory)
        seen = ops.reshape(seen, (-1, memory.shape[-1]))
        if context_kernel is not None:
            seen = ops.matmul(seen, context_kernel)
        both = ops.matmul(word, word_kernel) + seen
        gate = both[:, : 2 * units] + products[:, size:]
        found = ops.matmul(state + TINY * gate[:, units:], candidate)
        found = found + gate[:, :units] + both[:, 2 * units : 3 * units]
        hidden = ops.matmul(state, given["state_readout_kernel"])
        hidden = hidden + both[:, 3 * units :]
        hidden = hidden[:, : options.readout] + hidden[:, options.readout :]
        logits = ops.matmul(hidden, given["output_kernel"])
        return state + TINY * found, word + TINY * logits[:, :1]

    return body


def products_gflop(options):
    """Multiply-adds of the products that are made here, each two FLOPs, in 1e9."""
    units, size, width = options.units, options.emb, 2 * options.readout
    read, words = options.batch * options.src_len, options.batch * options.tgt_len
    last = options.readout * options.vocab
    recurrent = units * (options.attn_units + 3 * units)
    total = read * (6 * units * (size + units) + 2 * units * options.attn_units)
    if options.mode == "train":
        total += read * 2 * units * 3 * units
        step = recurrent + 3 * units * size + options.src_len * 5 * units
        step += (3 * units + size) * width + last
        # Each product has two in its gradient.
        return 2e-9 * 3 * (total + words * step)
    both = 3 * units + width
    step = recurrent + size * both + units * width + last
    if options.mode == "beam":
        total += read * 2 * units * both
        words *= options.beam
        step += options.src_len * both
    else:
        step += options.src_len * 2 * units + 2 * units * both
    return 2e-9 * (total + words * step)


def compiled(function, options):
    """What step.py makes of a function on each backend, for any arguments."""
    if options.backend == "torch":
        import torch

        return torch.inference_mode()(function)
    return own_step.compiled(function, options.jit == "on")


def main():
    options = harness.parse(harness.step_parser(__doc__))
    import keras

    make = train if options.mode == "train" else decode
    products = compiled(lambda given: make(given, options), options)
    given, batches = make_tensors(options), harness.make_batches(options)

    def step(batch):
        return float(keras.ops.convert_to_numpy(products(given)))

    results, record = harness.timed(step, batches, options)
    assert all(map(math.isfinite, results)), results
    milliseconds = record["median_ms_per_step"]
    record["target_tokens_per_s"] = harness.words_per_second(batches, milliseconds)
    gflop = products_gflop(options)
    record["gflop_forward"] = harness.forward_gflop(options)
    record["gflop_products"] = round(gflop, 6)
    seconds = record["median_ms_per_step"] / 1e3
    record["gflop_per_s"] = round(gflop / seconds, 1)
    harness.report("floor", options, record)


if __name__ == "__main__":
    main()
