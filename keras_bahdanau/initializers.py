"""Initializers of the paper that Keras has not."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class BlockOrthogonal(keras.initializers.Initializer):
    """Random orthogonal square matrices, side by side.

        kernel = [Q_1, ..., Q_k],   Q_i' Q_i = I                     (U, k U)

    `keras.initializers.Orthogonal` makes the rows of the whole `(U, k U)`
    kernel orthonormal, so that no single gate's matrix is orthogonal. The
    paper initialises each recurrent matrix as an orthogonal one.

    Masking: none; it makes weights.

    Args:
        gain: factor of the matrices.
        seed: seed of the first block; the others follow from it.

    Call arguments:
        shape: `(U, k U)`.
        dtype: dtype of the result.

    Returns:
        Tensor of that shape.

    Raises:
        ValueError: if the shape is not one of square blocks.

    Example:

    >>> import keras
    >>> kernel = BlockOrthogonal(seed=1)((3, 6))
    >>> block = kernel[:, 3:]
    >>> product = keras.ops.matmul(keras.ops.transpose(block), block)
    >>> bool(keras.ops.max(keras.ops.abs(product - keras.ops.eye(3))) < 1e-5)
    True

    Reference: Bahdanau, Cho and Bengio 2014, appendix B.1.
    """

    def __init__(self, gain=1.0, seed=None):
        self.gain = gain
        self.seed = seed
        self._first_seed = keras.initializers.Orthogonal(gain, seed).seed

    def __call__(self, shape, dtype=None):
        if len(shape) != 2 or shape[1] % shape[0]:
            raise ValueError(
                "BlockOrthogonal makes kernels (U, k U) of square blocks. "
                f"Received: shape={tuple(shape)}"
            )
        units, count = shape[0], shape[1] // shape[0]
        blocks = [
            keras.initializers.Orthogonal(self.gain, self._first_seed + index)(
                (units, units), dtype=dtype
            )
            for index in range(count)
        ]
        return ops.concatenate(blocks, axis=1)

    def get_config(self):
        return {"gain": self.gain, "seed": self.seed}


def fresh(initializer, index=0):
    """A copy that draws other numbers.

    Args:
        initializer: an initializer, or a function of shape and dtype, which is
            returned as it is.
        index: number of the copy, added to the initializer's seed if it has one.

    Returns:
        The copy. One object would give the same numbers to all its weights.
    """
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    config = initializer.get_config()
    if isinstance(config.get("seed"), int):
        config["seed"] += index
    return type(initializer).from_config(config)


def different_seeds(seed, count):
    """Different seeds, so that no two dropouts draw the same pattern.

    Args:
        seed: integer, or `None`.
        count: how many.

    Returns:
        List of integers, or of `None` without a seed.
    """
    if seed is None:
        return [None] * count
    return [seed + 101 * index for index in range(count)]
