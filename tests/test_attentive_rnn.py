"""What the attentive loop refuses, in tensors and in symbols."""

import keras
import numpy as np
import pytest

from keras_bahdanau import AttentiveGRUDecoderCell, AttentiveRNN, BahdanauAttention

B, T, S, M, D, U = 2, 4, 3, 5, 6, 7
SEQUENCES, MEMORY = (B, T, M), (B, S, D)


def decoder():
    return AttentiveRNN(
        AttentiveGRUDecoderCell(U, BahdanauAttention(8)), return_sequences=True
    )


def tensors(symbolic, *shapes):
    if symbolic:
        return [keras.KerasTensor(shape) for shape in shapes]
    return [np.ones(shape, "float32") for shape in shapes]


@pytest.mark.parametrize("symbolic", [False, True], ids=["eager", "symbolic"])
@pytest.mark.parametrize("built", [False, True], ids=["new", "built"])
@pytest.mark.parametrize(
    "shapes, message",
    [
        ((SEQUENCES, (B, D)), r"memory \(B, S, D\).*\(2, 6\)"),
        (((B, M), MEMORY), r"sequences \(B, T, m\).*\(2, 5\)"),
        ((SEQUENCES, MEMORY, (B, 1)), r"\('B', 7\).*\(2, 1\)"),
        ((SEQUENCES, MEMORY, (U,)), r"\('B', 7\).*\(7,\)"),
        ((SEQUENCES, MEMORY, [(B, U), (B, U)]), r"\('B', 7\)\].*\(2, 7\), \(2, 7\)"),
    ],
    ids=["memory", "sequences", "state", "state without a batch", "two states"],
)
def test_shapes_that_do_not_fit_are_refused(shapes, message, built, symbolic):
    layer = decoder()
    if built:
        layer.build(SEQUENCES, MEMORY)
    *inputs, state = shapes if len(shapes) == 3 else (*shapes, None)
    inputs = tensors(symbolic, *inputs)
    if isinstance(state, list):
        state = tensors(symbolic, *state)
    elif state is not None:
        (state,) = tensors(symbolic, state)
    with pytest.raises(ValueError, match=message):
        layer(*inputs, initial_state=state)


def test_unknown_sizes_are_not_refused():
    sequences, memory = keras.Input((None, M)), keras.Input((None, D))
    outputs = decoder()(sequences, memory, initial_state=keras.Input((U,)))
    assert outputs.shape == (None, None, U)
