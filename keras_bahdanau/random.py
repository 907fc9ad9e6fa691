"""Dropout that XLA does not slow down on a CPU.

On TensorFlow, XLA draws a 32-bit random number on a CPU many times over: it
computes the whole generator again for each part of each element. A 64-bit number
has fewer parts, and costs what it costs without XLA (`benchmarks/step.py --dropout`).
"""

import keras
from keras import ops


def uniform(shape, seed):
    """Draws numbers in [0, 1), to be compared with a rate.

    Args:
        shape: what to draw, integers or integer tensors.
        seed: a `keras.random.SeedGenerator`.

    Returns:
        Floats of that shape: float64 on TensorFlow, else float32.
    """
    wide = keras.backend.backend() == "tensorflow"
    return keras.random.uniform(
        shape, dtype="float64" if wide else "float32", seed=seed
    )


def dropout(inputs, rate, noise_shape=None, seed=None):
    """`keras.random.dropout`, as cheap under XLA as without it.

    Args:
        inputs: floats of any shape.
        rate: the share to drop, a Python float in [0, 1).
        noise_shape: the shape of what is drawn, which broadcasts to that of
            `inputs`; `None` for the same shape.
        seed: a `keras.random.SeedGenerator`.

    Returns:
        The inputs that stay over `1 - rate`, and zeros, in the inputs' dtype.

    Example:

    >>> import keras
    >>> from keras import ops
    >>> dropped = dropout(ops.ones((7,)), 0.5, seed=keras.random.SeedGenerator(1))
    >>> sorted(set(ops.convert_to_numpy(dropped).tolist()) - {0.0, 2.0})
    []
    """
    if keras.backend.backend() != "tensorflow":
        return keras.random.dropout(inputs, rate, noise_shape=noise_shape, seed=seed)
    drawn = uniform(ops.shape(inputs) if noise_shape is None else noise_shape, seed)
    return ops.where(drawn >= rate, inputs / (1 - rate), ops.zeros_like(inputs))


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout` with the masks of `dropout`, one for each element.

    Masking: handed on.

    Args:
        rate: float in [0, 1).
        seed: integer or `None`.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        inputs: floats of any shape.
        training: boolean, whether to drop.

    Returns:
        Floats of the same shape.

    Raises:
        ValueError: if `rate` is out of its range.

    Reference: Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural
    Networks from Overfitting".
    """

    def call(self, inputs, training=False):
        if not training or not self.rate:
            return inputs
        return dropout(inputs, self.rate, seed=self.seed_generator)
