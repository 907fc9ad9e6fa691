"""The masks of dropout: how often, how large, how independent, and the same twice."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_bahdanau.random import Dropout, dropout, uniform

SHAPE = (53, 41, 31)


def drawn(rate=0.3, seed=3, shape=SHAPE, noise_shape=None):
    generator = keras.random.SeedGenerator(seed)
    inputs = ops.ones(shape)
    return ops.convert_to_numpy(dropout(inputs, rate, noise_shape, seed=generator))


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5, 0.9])
def test_the_rate_is_dropped_and_the_rest_scaled(rate):
    mask = drawn(rate)
    assert np.unique(mask).tolist() == pytest.approx([0, 1 / (1 - rate)], rel=1e-6)
    deviation = np.sqrt(rate * (1 - rate) / mask.size)
    assert abs((mask == 0).mean() - rate) < 4 * deviation


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("distance", [1, 2, 4])
def test_neighbours_are_dropped_independently(axis, distance):
    dropped = np.moveaxis(drawn(0.3) == 0, axis, 0)
    both = (dropped[distance:] & dropped[:-distance]).mean()
    assert both == pytest.approx(0.09, abs=4 * np.sqrt(0.09 / dropped.size))


def test_each_call_draws_anew_and_a_seed_draws_the_same():
    generator = keras.random.SeedGenerator(5)
    first, second = (
        ops.convert_to_numpy(dropout(ops.ones(SHAPE), 0.5, seed=generator))
        for _ in range(2)
    )
    assert 0.4 < (first != second).mean() < 0.6
    np.testing.assert_array_equal(first, drawn(0.5, seed=5))


def test_one_mask_can_serve_all_steps():
    mask = drawn(0.5, noise_shape=(53, 1, 31))
    np.testing.assert_array_equal(mask, np.repeat(mask[:, :1], 41, axis=1))
    assert 0 < (mask == 0).mean() < 1


def test_no_rate_keeps_everything():
    np.testing.assert_array_equal(drawn(0.0), np.ones(SHAPE, "float32"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_dtype_of_the_inputs_stays(dtype):
    found = dropout(ops.ones((7, 5), dtype), 0.5, seed=keras.random.SeedGenerator(1))
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    assert set(np.unique(ops.convert_to_numpy(ops.cast(found, "float32")))) == {0, 2}


def test_numbers_are_spread_evenly_between_zero_and_one():
    numbers = ops.convert_to_numpy(uniform((100_000,), keras.random.SeedGenerator(2)))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    # Chi squared with 19 degrees of freedom: above 43.8 once in a thousand times.
    assert ((counts - 5000) ** 2 / 5000).sum() < 43.8


def test_the_layer_is_idle_outside_of_training_and_hands_the_mask_on():
    layer = Dropout(0.5, seed=1)
    inputs = ops.ones((3, 5))
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(inputs)), np.ones((3, 5)))
    assert layer.supports_masking
    kept = ops.convert_to_numpy(layer(ops.ones(SHAPE), training=True))
    np.testing.assert_array_equal(kept, drawn(0.5, seed=1))


def test_the_layer_goes_through_its_config_and_a_saved_model(tmp_path):
    inputs = keras.Input((5,))
    model = keras.Model(inputs, Dropout(0.25, seed=7, name="drop")(inputs))
    model.save(tmp_path / "model.keras")
    layer = keras.models.load_model(tmp_path / "model.keras").get_layer("drop")
    assert type(layer) is Dropout
    assert (layer.rate, layer.seed) == (0.25, 7)


@keras.saving.register_keras_serializable(package="keras_bahdanau_tests")
class DroppedWeight(keras.layers.Layer):
    """The inputs times a weight of their shape, some of which is dropped."""

    def __init__(self, value):
        super().__init__()
        self.value = self.add_weight(
            shape=value.shape, initializer=lambda shape, dtype: value
        )
        self.drop = Dropout(0.5, seed=7)

    def call(self, inputs, training=False):
        return inputs * self.drop(self.value, training=training)


def one_step_down(jit_compile):
    """The mask that the gradient of a mean has been through."""
    before = np.random.default_rng(0).normal(size=(53, 31)).astype("float32")
    model = keras.Sequential([DroppedWeight(before)])
    model.compile(
        keras.optimizers.SGD(1.0), lambda _, y: ops.mean(y), jit_compile=jit_compile
    )
    model.train_on_batch(np.ones((53, 31), "float32"), np.zeros((53, 31)))
    moved = before - ops.convert_to_numpy(model.layers[0].value)
    return moved * moved.size


def test_the_gradient_is_that_of_what_was_kept():
    kept = drawn(0.5, seed=7, shape=(53, 31))
    np.testing.assert_allclose(one_step_down(jit_compile=False), kept, atol=1e-3)


def test_compiled_training_drops_as_much():
    # Not the same ones: XLA draws other 64-bit numbers than TensorFlow does. Keras'
    # seed generators do not go through the compiler of torch.
    mask = one_step_down(jit_compile=keras.backend.backend() != "torch")
    np.testing.assert_allclose(mask, 2 * (mask > 1), atol=1e-3)
    assert (mask > 1).mean() == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / mask.size))
