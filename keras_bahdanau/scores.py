"""The arithmetic of additive attention: scores, their softmax, positions."""

import keras
from keras import ops

from keras_bahdanau.products import project


def masked_softmax(scores, mask=None):
    """Softmax over the last axis that gives masked positions exactly 0.

        weights_j = exp(scores_j) / sum_k exp(scores_k)      j, k unmasked

    It is computed in `float32` (`float64` if the scores are) whatever the
    dtype of the scores, so that half-precision scores neither overflow nor
    underflow.

    Masking: a masked position has weight 0 and receives no gradient. A row
    with no unmasked position is all zeros, with zero gradient.

    Args:
        scores: tensor `(..., S)`.
        mask: boolean tensor that broadcasts to `scores`, `True` = real; or
            `None`.

    Returns:
        Tensor `(..., S)`, `float32` or `float64`.

    Example:

    >>> from keras import ops
    >>> weights = masked_softmax(
    ...     ops.array([[0.0, 0.0, 5.0]]), ops.array([[True, True, False]])
    ... )
    >>> ops.convert_to_numpy(weights).tolist()
    [[0.5, 0.5, 0.0]]
    """
    scores = ops.cast(scores, wide_dtype(scores.dtype))
    if 0 in scores.shape:
        return scores
    if mask is None:
        return ops.softmax(scores, axis=-1)
    mask = ops.cast(mask, "bool")
    scores = ops.where(mask, scores, -1e30)
    # The largest score becomes 0: a row that is not empty sums to 1 or more.
    largest = ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True))
    powers = ops.where(mask, ops.exp(scores - largest), 0.0)
    total = ops.sum(powers, axis=-1, keepdims=True)
    return powers / (total + ops.cast(ops.equal(total, 0.0), total.dtype))


def additive_scores(query, keys, score_kernel, bias=None):
    """The score of each memory position for each query.

        scores_tj = v_a . tanh(query_t + keys_j + b)                 (.., T, S)

    Args:
        query: projected query `W_a s`, `(B, A)` or `(B, T, A)`.
        keys: projected memory `U_a h`, `(B, S, A)`.
        score_kernel: `v_a`, `(A,)`, or `(A, 1)`: made so before a loop, as nothing
            that a loop makes of it is then kept for each step's gradient.
        bias: `b`, `(A,)`, or `None`.

    Returns:
        Tensor `(B, S)` or `(B, T, S)`, `float32` or `float64`.

    Example:

    >>> from keras import ops
    >>> scores = additive_scores(
    ...     ops.zeros((1, 2)), ops.zeros((1, 3, 2)), ops.ones((2,))
    ... )
    >>> scores.shape == (1, 3)
    True
    """
    if bias is not None:
        query = query + bias
    if len(query.shape) == 3:
        keys = ops.expand_dims(keys, 1)
    hidden = ops.tanh(ops.expand_dims(query, -2) + keys)
    wide = wide_dtype(hidden.dtype)
    kernel = ops.cast(score_kernel, wide)
    kernel = ops.expand_dims(kernel, -1) if len(kernel.shape) == 1 else kernel
    return ops.squeeze(project(ops.cast(hidden, wide), kernel), -1)


def largest_of(values):
    """The largest of the last axis, `(..., 1)`; of an empty batch nothing, unlike
    `ops.max`, which refuses one."""
    if 0 in values.shape[:-1]:
        return values[..., :1]
    return ops.max(values, axis=-1, keepdims=True)


def wide_dtype(dtype):
    """The dtype for scores and softmax: `float64` for it, else `float32`."""
    return (
        "float64" if keras.backend.standardize_dtype(dtype) == "float64" else "float32"
    )


def flatten_positions(value, value_mask=None):
    """Makes one axis of all positions: `(B, H, W, D)` to `(B, H * W, D)`.

    Masking: the mask, `(B, H, W)`, is flattened with the value.

    Args:
        value: tensor `(B, ..., D)` of rank 3 or more.
        value_mask: boolean tensor `(B, ...)`, or `None`.

    Returns:
        The pair of value `(B, S, D)` and mask `(B, S)` (or `None`).
    """
    if len(value.shape) > 3:
        batch_size = ops.shape(value)[0]
        value = ops.reshape(value, (batch_size, -1, value.shape[-1]))
        if value_mask is not None:
            value_mask = ops.reshape(value_mask, (batch_size, -1))
    return value, value_mask


def causal_mask(query, value, value_mask=None):
    """Lets query `t` see the positions `j <= t` only.

    Masking: the result is `True` where the value mask is, too.

    Args:
        query: `(B, T, D)`.
        value: `(B, S, D)`.
        value_mask: boolean `(B, S)`, or `None`.

    Returns:
        Boolean `(B, T, S)`, or `(1, T, S)` without a value mask.

    Raises:
        ValueError: if the query has no axis `T`.
    """
    if len(query.shape) != 3:
        raise ValueError(
            "A causal mask needs a query (B, T, D), one for each position. "
            f"Received shape: {tuple(query.shape)}"
        )
    query_positions = ops.arange(ops.shape(query)[1])
    positions = ops.arange(ops.shape(value)[1])
    causal = ops.expand_dims(query_positions, 1) >= positions
    if value_mask is None:
        return ops.expand_dims(causal, 0)
    return ops.logical_and(ops.expand_dims(value_mask, 1), causal)
