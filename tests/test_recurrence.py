"""The recurrences with a gradient by hand, against the plain loops and plain NumPy."""

import keras
import numpy as np
import pytest
from arrays import assert_close, numbers, scrambled, values
from gradients import gradients, needs_float64
from keras import ops

import keras_bahdanau as kb
from keras_bahdanau.recurrence import attentive_states, gru_states

B, T, S, M, U, D, A = 3, 5, 7, 2, 11, 13, 17
REAL = np.array([[True] * 7, [True] * 3 + [False] * 4, [False] * 7])
READ = np.array([[True] * 5, [False, True, True, False, True], [True] + [False] * 4])
ORDERS = ("look_update_generate", "look_generate_update")


def decoder(fused, dtype, options=(), **loop_options):
    """A loop with everything: bias, weight norm, and all outputs."""
    options = dict(options)
    dropout = options.pop("attention_dropout", 0.0)
    attention = kb.BahdanauAttention(
        A, use_bias=True, weight_norm=True, dropout=dropout, seed=5, dtype=dtype
    )
    cell = kb.AttentiveGRUDecoderCell(U, attention, seed=6, dtype=dtype, **options)
    layer = kb.AttentiveRNN(
        cell,
        return_sequences=True,
        return_state=True,
        return_contexts=True,
        return_attention_scores=True,
        fused=fused,
        dtype=dtype,
        **loop_options,
    )
    layer.build((B, T, M), (B, S, D))
    return scrambled(layer, 0.3)


def outputs_and_gradients(layer, arrays, dtype, **arguments):
    """What the layer gives, and the gradients of a sum that all of it enters."""
    inputs = [keras.Variable(array, dtype=dtype) for array in arrays]

    def outputs():
        first, *rest = (ops.convert_to_tensor(one) for one in inputs)
        if len(rest) == 2:
            arguments["initial_state"] = rest.pop()
        return layer(first, *rest, **arguments)

    def loss():
        parts = [ops.sum(ops.sin(part + n)) for n, part in enumerate(outputs())]
        return sum(parts)

    found = [numbers(part) for part in outputs()]
    for one in layer._flatten_layers():
        if hasattr(one, "seed_generator"):
            one.seed_generator.state.assign([3, 4])
    return found, gradients(loss, inputs + layer.trainable_variables)


CALLS = {
    "plain": {},
    "masks": {"memory_mask": REAL, "mask": READ},
    "training": {"memory_mask": REAL, "mask": READ, "training": True},
}
RATES = {"dropout": 0.2, "recurrent_dropout": 0.3, "attention_dropout": 0.4}
ARRAYS = values(B, T, M), values(B, S, D, seed=2), values(B, U, seed=3)
LOOPS = {
    "forwards": {},
    "backwards": {"go_backwards": True},
    "unrolled": {"unroll": True},
    "zeros": {"zero_output_for_mask": True},
}


@needs_float64
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("call", CALLS)
def test_the_fused_decoder_equals_the_plain_one_to_1e_9(order, loop, call):
    options = {"step_order": order, "output_context": loop == "zeros"}
    options |= RATES if call == "training" else {}
    plain, fused = (
        outputs_and_gradients(
            decoder(fused, "float64", options, **LOOPS[loop]),
            ARRAYS,
            "float64",
            **CALLS[call],
        )
        for fused in (False, True)
    )
    assert len(plain[0]) == 4
    if call != "training":  # there each of the two calls draws its own masks
        for one, other in zip(*(found for found, _ in (plain, fused))):
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-12)
    for one, other in zip(plain[1], fused[1], strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("call", CALLS)
def test_on_every_backend_the_gradients_of_the_decoder_agree(order, call):
    options = {"step_order": order, **(RATES if call == "training" else {})}
    plain, fused = (
        outputs_and_gradients(
            decoder(fused, "float32", options), ARRAYS, "float32", **CALLS[call]
        )
        for fused in (False, True)
    )
    for one, other in zip(plain[1], fused[1], strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=2e-5)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mask", [None, READ], ids=["whole", "masked"])
def test_without_attention_the_fused_decoder_equals_the_plain_one(order, mask):
    def layer(fused):
        cell = kb.AttentiveGRUDecoderCell(U, kb.FixedContext(), step_order=order)
        decoder = kb.AttentiveRNN(
            cell,
            return_sequences=True,
            return_state=True,
            return_contexts=True,
            return_attention_scores=True,
            fused=fused,
        )
        decoder.build((B, T, M), (B, 1, D))
        return scrambled(decoder, 0.3)

    arrays = values(B, T, M), values(B, 1, D, seed=2), values(B, U, seed=3)
    plain, fused = (
        outputs_and_gradients(layer(fused), arrays, "float32", mask=mask)
        for fused in (False, True)
    )
    assert len(plain[0]) == 4
    for one, other in zip(plain[0], fused[0], strict=True):
        assert_close(other, one)
    for one, other in zip(plain[1], fused[1], strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=2e-5)


def test_the_encoder_of_the_baseline_ends_where_a_gru_of_keras_does():
    model = kb.RNNEncoderDecoder(13, 11, embedding_dim=M, units=U)
    model.build()
    scrambled(model, 0.3)
    ids = np.array([[3, 5, 7, 2], [4, 12, 0, 0], [0, 0, 0, 0]])
    memory, _ = model.encode(ops.convert_to_tensor(ids))
    embedded = model.source_embedding(ops.convert_to_tensor(ids))
    _, state = model.encoder(embedded, mask=ops.convert_to_tensor(ids != 0))
    assert_close(memory["values"][:, 0], state)


@pytest.mark.parametrize("mask", [None, REAL], ids=["whole", "masked"])
@pytest.mark.parametrize("from_state", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("dropout", [0.0, 0.3], ids=["sure", "dropout"])
def test_the_fused_encoder_equals_two_grus_of_keras(mask, from_state, dropout):
    def encoder(fused):
        layer = kb.BidirectionalGRUEncoder(
            U, num_layers=2, residual=True, dropout=dropout, seed=8, fused=fused
        )
        layer.build((B, S, M))
        return scrambled(layer, 0.3)

    arguments = {"mask": mask, "training": bool(dropout)}
    if from_state:
        states = [values(B, 2 * U, seed=seed) for seed in (4, 5)]
        arguments["initial_state"] = [ops.convert_to_tensor(one) for one in states]
    plain, fused = (
        outputs_and_gradients(encoder(fused), [values(B, S, M)], "float32", **arguments)
        for fused in (False, True)
    )
    for one, other in zip(plain[0], fused[0], strict=True):
        assert_close(other, one)
    for one, other in zip(plain[1], fused[1], strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=2e-5)


def test_a_row_without_a_source_has_no_weights_and_finite_gradients():
    layer = decoder(True, "float32")
    arrays = values(B, T, M), values(B, S, D), values(B, U)
    found, gradient = outputs_and_gradients(layer, arrays, "float32", memory_mask=REAL)
    assert (found[2][2] == 0).all() and (found[1][2] == 0).all()
    assert all(np.isfinite(one).all() for one in gradient)
    assert np.abs(gradient[1][2]).max() == 0  # the memory of that row


def test_the_states_of_a_gru_are_those_of_plain_loops():
    x, s, kernel = values(B, T, 3 * U), values(B, U, seed=2), values(U, 3 * U, seed=3)
    found = numbers(gru_states([ops.convert_to_tensor(x)], [s], [kernel])[0])
    for row in range(B):
        state = s[row].astype("float64")
        for step in range(T):
            gates = x[row, step].astype("float64")
            first = gates[: 2 * U] + state @ kernel[:, : 2 * U]
            keep, reset = np.split(1 / (1 + np.exp(-first)), 2)
            inner = (reset * state) @ kernel[:, 2 * U :]
            state = keep * state + (1 - keep) * np.tanh(gates[2 * U :] + inner)
            np.testing.assert_allclose(found[row, step], state, rtol=0, atol=1e-5)


def test_the_attentive_states_are_those_of_plain_loops():
    x, s, keys = values(B, T, 3 * U), values(B, U, seed=2), values(B, S, A, seed=3)
    gate_memory, query = values(B, S, 3 * U, seed=4), values(U, A, seed=5)
    kernel, score = values(U, 3 * U, seed=6), values(A, seed=7)
    tensors = [ops.convert_to_tensor(one) for one in (x, s, keys, gate_memory)]
    both = [ops.convert_to_tensor(one) for one in (query, kernel)]
    found = attentive_states(*tensors, both, ops.convert_to_tensor(score))
    states, weights = (numbers(part) for part in found)
    for row in range(B):
        state = s[row].astype("float64")
        for step in range(T):
            scores = np.tanh(state @ query + keys[row]) @ score
            powers = np.exp(scores - scores.max())
            weight = powers / powers.sum()
            gates = x[row, step] + weight @ gate_memory[row]
            first = gates[: 2 * U] + state @ kernel[:, : 2 * U]
            keep, reset = np.split(1 / (1 + np.exp(-first)), 2)
            inner = (reset * state) @ kernel[:, 2 * U :]
            state = keep * state + (1 - keep) * np.tanh(gates[2 * U :] + inner)
            np.testing.assert_allclose(weights[row, step], weight, rtol=0, atol=1e-5)
            np.testing.assert_allclose(states[row, step], state, rtol=0, atol=2e-5)


class OwnCell(kb.AttentiveGRUDecoderCell):
    """A cell of one's own: what it changes must not be passed over."""


class OwnAttention(kb.BahdanauAttention):
    """Likewise."""


@pytest.mark.parametrize(
    "cell",
    [
        lambda: OwnCell(U, kb.BahdanauAttention(A)),
        lambda: kb.AttentiveGRUDecoderCell(U, OwnAttention(A)),
        lambda: kb.AttentiveGRUDecoderCell(U, kb.FixedContext(), recurrent_dropout=0.2),
        lambda: kb.AttentiveGRUDecoderCell(
            U, kb.BahdanauAttention(A), reset_after=True
        ),
        lambda: kb.AttentiveGRUDecoderCell(
            U, kb.BahdanauAttention(A), activation="relu"
        ),
        lambda: kb.AttentiveGRUDecoderCell(
            U, kb.BahdanauAttention(A), recurrent_activation="hard_sigmoid"
        ),
    ],
)
def test_what_the_fused_loop_does_not_cover_runs_step_by_step(cell):
    assert not kb.AttentiveRNN(cell())._is_fused()
    with pytest.raises(ValueError, match="fused='auto'"):
        kb.AttentiveRNN(cell(), fused=True)


def test_fused_is_auto_or_a_boolean():
    cell = kb.AttentiveGRUDecoderCell(U, kb.BahdanauAttention(A))
    assert kb.AttentiveRNN(cell)._is_fused()
    assert not kb.AttentiveRNN(cell, fused=False)._is_fused()
    with pytest.raises(ValueError, match="'auto', True or False"):
        kb.AttentiveRNN(cell, fused="never")
    with pytest.raises(ValueError, match="'auto', True or False"):
        kb.BidirectionalGRUEncoder(U, fused="never")
    with pytest.raises(ValueError, match="fused='auto'"):
        kb.BidirectionalGRUEncoder(U, recurrent_dropout=0.1, fused=True)
