"""What the attentive loop refuses, in tensors and in symbols."""

import keras
import numpy as np
import pytest

from keras_bahdanau import (
    AttentiveGRUDecoderCell,
    AttentiveRNN,
    BahdanauAttention,
    MemoryStates,
)

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


@pytest.mark.parametrize("symbolic", [False, True], ids=["eager", "symbolic"])
def test_states_for_plain_rnn_need_a_memory_of_one_axis(symbolic):
    for shapes in (((B, U), (B, 3, 2, D)), ((B, U), (B, D)), ((B, 1, U), MEMORY)):
        with pytest.raises(ValueError, match=r"memory \(B, S, D\). Received"):
            MemoryStates(BahdanauAttention(8))(tensors(symbolic, *shapes))


@pytest.mark.tf_only
def test_a_functional_model_exports_and_comes_back_as_a_layer(tmp_path):
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    read, written = (
        keras.layers.Embedding(11, size, mask_zero=True)(ids)
        for ids, size in ((source, D), (target, M))
    )
    layer = AttentiveRNN(
        AttentiveGRUDecoderCell(U, BahdanauAttention(8)),
        return_sequences=True,
        return_attention_scores=True,
    )
    model = keras.Model([source, target], layer(written, read))
    model.export(str(tmp_path / "exported"), verbose=False)
    again = keras.layers.TFSMLayer(str(tmp_path / "exported"), call_endpoint="serve")
    for steps in (T, T + 2):
        ids = [
            np.array([[5, 4, 3, 0], [1, 2, 3, 4]], "int32"),
            np.ones((B, steps), "int32"),
        ]
        for one, other in zip(again(ids), model(ids), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
