"""The loop over time steps."""

import keras
from keras import ops, tree


def read(variable, dtype):
    """Reads a variable, once, before a loop.

    A loop that reads variables keeps a copy of them for each step's gradient
    with TensorFlow, where `keras.ops.convert_to_tensor` hands a variable on
    unread. A reshape reads it.

    Args:
        variable: a `keras.Variable`.
        dtype: dtype of the result.

    Returns:
        Tensor of the variable's shape.
    """
    return ops.reshape(ops.convert_to_tensor(variable, dtype=dtype), variable.shape)


class _Loop:
    """The attributes that the loop of `keras.layers.RNN` reads."""

    go_backwards = False
    stateful = False
    unroll = False
    return_sequences = True
    zero_output_for_mask = False

    def __init__(self, step):
        self.cell = step


def run_steps(
    step,
    sequences,
    states,
    mask=None,
    go_backwards=False,
    unroll=False,
    zero_output_for_mask=False,
):
    """Runs a step function over time with the loop of `keras.layers.RNN`.

        outputs_t, states_t = step(sequences_t, states_{t-1})

    Unlike a cell in a `keras.layers.RNN`, the step may close over any tensor
    (a memory, which then is no state that the loop copies) and may return any
    nest of outputs, of any sizes. `keras.ops.scan` would not do: with
    TensorFlow its outputs must have the shapes of its states, and its gradient
    does not compile with XLA.

    Masking: where the mask is `False` the states stay as they were and the
    outputs are those of the step before (or zeros); before the first real step
    of a row they are zeros.

    Args:
        step: function of `(inputs, states)`, with inputs `(B, D)` and a list
            of states, that returns a nest of outputs `(B, ...)` and the list
            of new states. It must read variables before the loop, not within.
        sequences: tensor `(B, T, D)`.
        states: list of tensors.
        mask: boolean tensor `(B, T)`, or `None`.
        go_backwards: whether to start from the last time step; the outputs are
            in the order of the steps made.
        unroll: whether to unroll the loop in the graph (`T` must be known).
        zero_output_for_mask: whether outputs are zero where the mask is
            `False`.

    Returns:
        Nest of the last outputs `(B, ...)`, nest of all outputs
        `(B, T, ...)`, list of the last states.
    """
    if go_backwards:
        sequences = ops.flip(sequences, axis=1)
        mask = None if mask is None else ops.flip(mask, axis=1)
    run = _run_unrolled if unroll else _run
    if mask is None:
        return run(step, sequences, states)
    # Keras' own masking does not take a nest of outputs. The mask rides along
    # as the last column of the inputs, the outputs as states before the rest.
    outputs, _ = step(sequences[:, 0], states)
    zeros = tree.map_structure(ops.zeros_like, outputs)
    step = _masked_step(step, zeros, zero_output_for_mask)
    column = ops.expand_dims(ops.cast(mask, sequences.dtype), -1)
    sequences = ops.concatenate([sequences, column], axis=-1)
    held = tree.flatten(zeros)
    last, outputs, states = run(step, sequences, [*held, *states])
    return last, outputs, states[len(held) :]


def scan_steps(step, sequences, states, go_backwards=False, unroll=False):
    """Runs a step function over several sequences at once, without masks.

    The loop counts, and each step takes its part of each sequence: nothing is joined
    or copied before.

    Args:
        step: function of a list of inputs, `(B, D)` each, and a list of states, that
            returns a list of outputs `(B, ...)` and the list of new states.
        sequences: list of tensors `(B, T, D)`.
        states: list of tensors.
        go_backwards: whether to start from the last time step.
        unroll: whether to unroll the loop in the graph (`T` must be known).

    Returns:
        List of outputs, `(B, T, ...)`, in the order of the sequences also where the
        loop goes backwards; and the list of the last states.
    """
    if unroll or keras.backend.backend() == "torch":
        return _scan_unrolled(step, sequences, states, go_backwards)
    count = ops.shape(sequences[0])[1]
    times = ops.arange(count, dtype="int32")
    times = count - 1 - times if go_backwards else times

    def step_at(time, states):
        time = time[0, 0]
        inputs = [ops.take(sequence, time, axis=1) for sequence in sequences]
        outputs, states = step(inputs, states)
        return tuple(outputs), states

    times = ops.reshape(times, (1, count, 1))
    _, outputs, states = _run(step_at, times, states)
    if go_backwards:
        outputs = [ops.flip(output, axis=1) for output in outputs]
    return list(outputs), states


def _scan_unrolled(step, sequences, states, go_backwards):
    times = list(range(_known_steps(sequences[0])))
    all_outputs = []
    for time in reversed(times) if go_backwards else times:
        inputs = [sequence[:, time] for sequence in sequences]
        outputs, states = step(inputs, states)
        all_outputs.append(outputs)
    if go_backwards:
        all_outputs.reverse()
    return [ops.stack(parts, axis=1) for parts in zip(*all_outputs)], list(states)


def hold_masked(outputs, mask, zero_output_for_mask=False):
    """Repeats the output of the last real step where the mask is `False`.

    It does to the outputs of all steps what `run_steps` does step by step.

    Args:
        outputs: tensor `(B, T, D)`.
        mask: boolean tensor `(B, T)`.
        zero_output_for_mask: whether to put zeros there instead.

    Returns:
        Tensor `(B, T, D)`; zeros before the first real step of a row.
    """
    zeros = ops.zeros_like(outputs)
    if zero_output_for_mask:
        return ops.where(ops.expand_dims(mask, -1), outputs, zeros)
    steps = ops.arange(1, ops.shape(mask)[1] + 1, dtype="int32")
    real = ops.where(mask, steps, 0)
    # The last real step up to each: there is no running maximum in `keras.ops`.
    seen = ops.expand_dims(steps, 1) >= steps
    last = ops.max(ops.where(seen, ops.expand_dims(real, 1), 0), axis=-1)
    index = ops.expand_dims(ops.maximum(last - 1, 0), -1)
    held = ops.take_along_axis(outputs, index, axis=1)
    return ops.where(ops.expand_dims(last > 0, -1), held, zeros)


def _run(step, sequences, states):
    _, outputs, states = keras.layers.RNN.inner_loop(
        _Loop(step), sequences, states, None
    )
    # What the loop calls the last output is another thing for a nest on JAX.
    last = tree.map_structure(lambda output: output[:, -1], outputs)
    return last, outputs, list(states)


def _run_unrolled(step, sequences, states):
    all_outputs = []
    for index in range(_known_steps(sequences)):
        outputs, states = step(sequences[:, index], states)
        all_outputs.append(outputs)
    stacked = tree.map_structure(
        lambda *outputs: ops.stack(outputs, axis=1), *all_outputs
    )
    return outputs, stacked, list(states)


def _known_steps(sequences):
    if sequences.shape[1] is None:
        raise ValueError(
            "A loop over an unknown number of time steps cannot be unrolled. "
            f"Received sequences of shape {tuple(sequences.shape)}. Give the "
            "number of steps, or pass `unroll=False`."
        )
    return sequences.shape[1]


def _masked_step(step, zeros, zero_output_for_mask):
    """A step that does nothing where the last column of its inputs is 0."""
    count = len(tree.flatten(zeros))

    def masked_step(inputs, states):
        real = ops.greater(inputs[..., -1:], 0.5)
        held = tree.pack_sequence_as(zeros, states[:count])
        states = list(states[count:])

        def choose(new, old):
            return ops.where(real, new, old)

        outputs, new_states = step(inputs[..., :-1], states)
        instead = zeros if zero_output_for_mask else held
        outputs = tree.map_structure(choose, outputs, instead)
        states = [choose(*pair) for pair in zip(new_states, states, strict=True)]
        return outputs, tree.flatten(outputs) + states

    return masked_step
