"""The bridge from the encoder's memory and state to the decoder's first state."""

import gradients
import keras
import numpy as np
import oracle
import pytest
from keras import ops

from keras_bahdanau.bridge import StateBridge
from keras_bahdanau.encoder import BidirectionalGRUEncoder

B, S, D, E, U = 3, 7, 5, 2, 11
REAL = np.arange(S) < np.array([[S], [3], [0]])
rng = np.random.default_rng(31)
MEMORY = rng.normal(size=(B, S, D)).astype("float32")
STATE = rng.normal(size=(B, 2 * E)).astype("float32")


def scrambled(bridge):
    bridge.build([(None, None, D), (None, 2 * E)])
    for weight in bridge.weights:
        weight.assign(np.random.default_rng(3).normal(size=weight.shape) * 0.5)
    return bridge


def number(tensor):
    return ops.convert_to_numpy(tensor)


def parameters(bridge):
    kernel, bias = bridge.get_weights()
    return kernel.astype("float64"), bias.astype("float64")


def test_the_backward_mode_is_the_papers():
    bridge = scrambled(StateBridge(U, use_bias=False))
    (kernel,) = bridge.get_weights()
    assert kernel.shape == (E, U)
    expected = oracle.bridge(kernel.T, STATE)
    actual = number(bridge([MEMORY, STATE]))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


def test_the_last_mode_reads_the_whole_state():
    bridge = scrambled(StateBridge(U, mode="last"))
    kernel, bias = parameters(bridge)
    actual = number(bridge([MEMORY, STATE]))
    expected = np.tanh(STATE @ kernel + bias)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_the_mean_mode_averages_the_real_positions(masked):
    bridge = scrambled(StateBridge(U, mode="mean"))
    kernel, bias = parameters(bridge)
    memory = np.where(REAL[:, :, None], MEMORY, 1e4) if masked else MEMORY
    mask = REAL if masked else np.ones_like(REAL)
    means = [
        memory[b][mask[b]].mean(0) if mask[b].any() else np.zeros(D) for b in range(B)
    ]
    actual = number(bridge([memory, STATE], mask=[REAL, None] if masked else None))
    expected = np.tanh(np.array(means) @ kernel + bias)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


def test_the_zero_mode_has_no_weights():
    bridge = scrambled(StateBridge(U, mode="zero"))
    assert bridge.weights == []
    actual = number(bridge([MEMORY, STATE]))
    assert actual.shape == (B, U) and (actual == 0).all()


@pytest.mark.parametrize("mode", ["backward", "mean", "last", "zero"])
def test_the_mask_of_an_embedding_comes_through_the_encoder(mode):
    ids = np.where(REAL, rng.integers(1, 13, REAL.shape), 0).astype("int32")
    source = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(13, D, mask_zero=True)(source)
    encoder = BidirectionalGRUEncoder(E)
    state = StateBridge(U, mode=mode)(list(encoder(embedded)))
    assert state.shape == (None, U)
    model = keras.Model(source, state)
    expected = number(model(ids))
    actual = number(model(np.pad(ids, ((0, 0), (0, 2)))))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


def test_the_mean_does_not_overflow_in_half_precision():
    bridge = StateBridge(1, mode="mean", activation=None, dtype="float16")
    bridge.build([(None, None, 1), (None, 2)])
    bridge.kernel.assign([[1.0]])
    actual = number(bridge([np.full((1, 997, 1), 100.0), np.zeros((1, 2))]))
    np.testing.assert_allclose(actual, [[100.0]], rtol=1e-3)


@gradients.needs_float64
@pytest.mark.parametrize("mode", ["backward", "mean", "last"])
def test_gradients_match_finite_differences(mode):
    bridge = scrambled(StateBridge(U, mode=mode, dtype="float64"))
    memory = ops.convert_to_tensor(MEMORY.astype("float64"))
    state = ops.convert_to_tensor(STATE.astype("float64"))

    def loss():
        return ops.sum(ops.exp(bridge([memory, state], mask=[REAL, None])))

    gradients.assert_gradients_match_differences(loss, bridge.trainable_variables)


def test_options_reach_the_weights():
    bridge = StateBridge(
        U,
        activation="relu",
        kernel_initializer="ones",
        bias_initializer="ones",
        kernel_regularizer=keras.regularizers.L2(1.0),
        bias_regularizer=keras.regularizers.L2(1.0),
        kernel_constraint="non_neg",
        bias_constraint="non_neg",
    )
    output = number(bridge([MEMORY, np.full((B, 2 * E), 2.0)]))
    np.testing.assert_allclose(output, np.full((B, U), 2.0 * E + 1))
    np.testing.assert_allclose(sum(map(number, bridge.losses)), E * U + U)
    assert bridge.kernel.constraint is not None
    assert bridge.bias.constraint is not None


def test_wrong_arguments_and_inputs_are_refused():
    with pytest.raises(ValueError, match="`units` must be a positive integer"):
        StateBridge(0)
    with pytest.raises(ValueError, match="`mode` must be one of"):
        StateBridge(U, mode="forward")
    with pytest.raises(ValueError, match="takes a list `\\[memory, state\\]`"):
        StateBridge(U)(MEMORY)
    with pytest.raises(ValueError, match="takes a list `\\[memory, state\\]`"):
        StateBridge(U)([STATE, MEMORY])
    with pytest.raises(ValueError, match="its size must be even"):
        StateBridge(U)([MEMORY, STATE[:, :3]])
