"""Small helpers of the tests: numbers to put in, numbers that came out."""

import keras
import numpy as np
from keras import ops

# How to compile a model that is not about compiling: JAX compiles a loop at each step
# else; TensorFlow takes its time for XLA at each new shape.
JIT = keras.backend.backend() == "jax"


def values(*shape, seed=3):
    """Normal random numbers in float32; the same for the same shape and seed."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def numbers(tensor):
    """A tensor of any backend as an array, in float32 or wider."""
    if "float16" in str(getattr(tensor, "dtype", "")):
        tensor = ops.cast(tensor, "float32")
    return ops.convert_to_numpy(tensor)


def assert_close(actual, expected, atol=1e-6, rtol=1e-7):
    np.testing.assert_allclose(numbers(actual), numbers(expected), rtol=rtol, atol=atol)


def real_until(lengths, size):
    """The mask `(B, size)` of rows of given lengths."""
    return np.arange(size) < np.array(lengths)[:, None]


def scrambled(layer, scale=1.0):
    """Gives each weight of a built layer random numbers: no zero hides a term."""
    rng = np.random.default_rng(7)
    for variable in layer.weights:
        if "seed" not in variable.path:
            variable.assign(scale * rng.normal(size=variable.shape))
    return layer
