"""Cross-entropy over the real tokens of a batch."""

import keras
from keras import ops

from keras_bahdanau.scores import largest_of

# What a mean of losses may be over, and the reductions that are one.
AVERAGES = ("tokens", "sequences")
MEANS = ("sum_over_batch_size", "mean")


class _MaskOf(keras.layers.Layer):
    """Returns the Keras mask of a tensor, or `None`.

    A layer is handed the mask wherever Keras keeps it. `tensor._keras_mask` is not
    the place with JAX, whose traced tensors take no attributes.
    """

    def __init__(self):
        super().__init__(autocast=False, name="mask_of")
        self.supports_masking = True

    def call(self, inputs, mask=None):
        return mask

    def compute_mask(self, inputs, mask=None):
        return None


_mask_of = _MaskOf()


def token_mask(labels, logits, pad_id=0):
    """Says which tokens count.

    Args:
        labels: Integer tensor `(B, T)`.
        logits: Tensor `(B, T, V)`; a Keras mask on it counts as well.
        pad_id: Integer, the label of padding, or `None` for no such label.

    Returns:
        Boolean tensor `(B, T)`, `True` where the label is not `pad_id` and the mask
        of the logits, if there is one, is `True`.
    """
    real = ops.ones_like(labels, dtype="bool")
    if pad_id is not None:
        real = ops.not_equal(labels, pad_id)
    mask = _mask_of(logits)
    if mask is not None:
        real = ops.logical_and(real, ops.cast(mask, "bool"))
    return real


def token_losses(labels, logits, label_smoothing=0.0):
    """The cross-entropy of every token, with smoothed labels.

    With the label's share `1 - e + e / V` and every other word's `e / V`:

        -sum_v q_v log p_v = logsumexp(logits) - (1 - e) logits_y - e mean(logits)

    so no `(B, T, V)` array of targets is made.

    Args:
        labels: Integer tensor `(B, T)`.
        logits: Tensor `(B, T, V)`.
        label_smoothing: Float e in [0, 1).

    Returns:
        Tensor `(B, T)`: float64 if the logits are, else float32. NaN, without a
        gradient, where the label is no word of the vocabulary.
    """
    is_double = keras.backend.standardize_dtype(logits.dtype) == "float64"
    logits = ops.cast(logits, "float64" if is_double else "float32")
    # What a backend reads beyond the vocabulary, if it does, is its own affair.
    known = ops.logical_and(labels >= 0, labels < ops.shape(logits)[-1])
    losses = _crossentropy(ops.where(known, labels, 0), logits, label_smoothing)
    return ops.where(known, losses, float("nan"))


def _crossentropy(labels, logits, label_smoothing):
    """`token_losses` of known labels, with a gradient by hand.

        gradient_v = p_v - (1 - e) [v = y] - e / V

    What autodiff of logsumexp and of picking a logit would each make of the logits'
    shape is made once.
    """
    size = logits.shape[-1]
    logits = ops.reshape(logits, ops.shape(logits))  # reads what may be a variable
    label = ops.expand_dims(labels, -1)

    @ops.custom_gradient
    def losses_of(logits):
        largest = largest_of(logits)
        powers = ops.exp(logits - largest)
        total = ops.sum(powers, axis=-1, keepdims=True)
        picked = ops.take_along_axis(logits, label, axis=-1)
        losses = ops.log(total) + largest - picked
        if label_smoothing:
            mean = ops.mean(logits, axis=-1, keepdims=True)
            losses = losses + label_smoothing * (picked - mean)

        def grad(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            upstream = ops.expand_dims(upstream, -1)
            gradient = ops.exp(logits - (ops.log(total) + largest)) * upstream
            if label_smoothing:
                gradient = gradient - upstream * (label_smoothing / size)
            is_label = ops.equal(ops.arange(size, dtype="int32"), label)
            return gradient - ops.where(is_label, upstream * (1 - label_smoothing), 0.0)

        return ops.squeeze(losses, axis=-1), grad

    return losses_of(logits)


def standardize_tokens(labels, logits, sample_weight=None):
    """Checks ranks, and returns labels as int32 and weights as `(B, 1)` or `(B, T)`."""
    labels = ops.convert_to_tensor(labels)
    if not ops.is_tensor(logits):
        logits = ops.convert_to_tensor(logits)
    if len(labels.shape) != len(logits.shape) - 1:
        raise ValueError(
            "Labels must be integers with one axis less than the logits: (B, T) for "
            f"logits (B, T, V). Received: labels of shape {tuple(labels.shape)} and "
            f"logits of shape {tuple(logits.shape)}. Pass token ids, not one-hot "
            "rows, and no axis of size 1 at the end."
        )
    labels = ops.cast(labels, "int32")
    if sample_weight is not None:
        sample_weight = ops.convert_to_tensor(sample_weight)
        if getattr(sample_weight.shape, "rank", 0) is None:
            # TensorFlow forgets it where a traced function gets another rank.
            rows = ops.shape(labels)[0]
            sample_weight = ops.reshape(sample_weight, (rows, -1))
        while len(sample_weight.shape) < len(labels.shape):
            sample_weight = ops.expand_dims(sample_weight, -1)
        if len(sample_weight.shape) > len(labels.shape):
            raise ValueError(
                "`sample_weight` must have one weight per sequence (B,) or per token "
                f"(B, T). Received shape {tuple(sample_weight.shape)} for labels of "
                f"shape {tuple(labels.shape)}. Drop the extra axes."
            )
    return labels, logits, sample_weight


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class TokenCrossentropy(keras.losses.Loss):
    """Cross-entropy on integer labels, averaged over the real tokens.

        loss = sum_bt m_bt w_bt l_bt / sum_bt m_bt
        l_bt = logsumexp(logits_bt) - (1 - e) logits_bt[y_bt] - e mean(logits_bt)

    with `m` 1 for real tokens, `w` the sample weights (1 by default) and `e` the
    label smoothing. Averaged over sequences instead, the first line is

        loss = sum_bt m_bt w_bt l_bt / sum_b max_t m_bt

    which is what the paper minimises: it maximises the mean log-probability of whole
    sentences. It is the same number wherever it is called: in `compile` and `fit`,
    with or without a Keras mask on the logits, and by hand. It is computed in float32
    whatever the policy, or in float64 for float64 logits. Under `tf.distribute` each
    replica averages over its own, as with Keras' losses.

    Masking: a token counts if its label is not `pad_id` and the mask of the
    logits, if they carry one, is `True`. A batch of padding only has loss 0. The
    label of a token that does not count may be any integer; that of one that does
    must be a word, in `[0, V)`: otherwise its loss, and so the mean, is NaN.

    Args:
        label_smoothing: Float in [0, 1), the share of each label's probability
            spread evenly over the vocabulary.
        pad_id: Integer, the label that stands for padding, or `None` for none.
        reduction: As in `keras.losses.Loss`. `"sum_over_batch_size"` and `"mean"`
            divide by the number of real tokens, `"mean_with_sample_weight"` by the
            sum of their weights; `None` returns the loss of each token `(B, T)`.
        name: The name of the loss.
        average_over: `"tokens"`, or `"sequences"` for the sum over the tokens of a
            sequence, averaged over those sequences that have any; `reduction` is then
            one of the first two.

    Call arguments:
        y_true: Integer labels `(B, T)`.
        y_pred: Logits `(B, T, V)`.
        sample_weight: Weights `(B,)` or `(B, T)`.

    Returns:
        A scalar, or `(B, T)` without a reduction.

    Raises:
        ValueError: If `label_smoothing` is out of its range, `average_over` is
            neither of the two or does not go with `reduction`, or the ranks of labels
            and logits do not fit.

    Example:

    >>> import keras
    >>> from keras_bahdanau import TokenCrossentropy
    >>> labels = keras.ops.convert_to_tensor([[2, 1, 0], [3, 0, 0]])
    >>> loss = TokenCrossentropy()(labels, keras.ops.zeros((2, 3, 4)))
    >>> print(f"{float(loss):.4f}")  # log 4
    1.3863

    Reference:
        Szegedy et al., "Rethinking the Inception Architecture for Computer Vision"
        (arXiv 1512.00567), section 7, for label smoothing; Cho et al. 2014 (arXiv
        1406.1078), equation (4), for the average over sequences.
    """

    def __init__(
        self,
        label_smoothing=0.0,
        pad_id=0,
        reduction="sum_over_batch_size",
        name="token_crossentropy",
        average_over="tokens",
    ):
        super().__init__(name=name, reduction=reduction)
        check_average(average_over)
        if average_over == "sequences" and reduction not in MEANS:
            raise ValueError(
                "An average over sequences is a mean. Received: average_over="
                f"{average_over!r}, reduction={reduction!r}. Drop one of the two."
            )
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(
                "`label_smoothing` must lie in [0, 1). Received: "
                f"label_smoothing={label_smoothing!r}. Pass 0.0 for none."
            )
        self.label_smoothing = label_smoothing
        self.pad_id = pad_id
        self.average_over = average_over

    def __call__(self, y_true, y_pred, sample_weight=None):
        labels, logits, sample_weight = standardize_tokens(
            y_true, y_pred, sample_weight
        )
        mask = token_mask(labels, logits, self.pad_id)
        losses = token_losses(labels, logits, self.label_smoothing)
        losses = ops.where(mask, losses, ops.zeros_like(losses))
        weights = ops.cast(mask, losses.dtype)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, losses.dtype)
            if self.reduction == "mean_with_sample_weight":
                weights = weights * sample_weight
            else:
                losses = losses * sample_weight
        if self.average_over == "sequences":
            return mean_loss(ops.sum(losses), count_of(mask, "sequences"))
        return _reduce(losses, weights, self.reduction)

    def call(self, y_true, y_pred):
        """Returns the loss of each token `(B, T)`, padding included."""
        labels, logits, _ = standardize_tokens(y_true, y_pred)
        return token_losses(labels, logits, self.label_smoothing)

    def get_config(self):
        config = super().get_config()
        config.update(
            label_smoothing=self.label_smoothing,
            pad_id=self.pad_id,
            average_over=self.average_over,
        )
        return config


def check_average(average_over):
    """Raises `ValueError` unless it is one of the two."""
    if average_over not in AVERAGES:
        raise ValueError(
            f"`average_over` must be one of {AVERAGES}. Received: {average_over!r}"
        )


def count_of(mask, average_over):
    """What a total is divided by: tokens that are real, or rows that have any.

    Args:
        mask: boolean `(B, T)`, `True` for real tokens.
        average_over: `"tokens"` or `"sequences"`.

    Returns:
        A float32 scalar.
    """
    if average_over == "sequences":
        mask = ops.any(mask, axis=-1)
    return ops.sum(ops.cast(mask, "float32"))


def mean_loss(total, count):
    """A total divided by a count, 0 if that is 0, as a loss of Keras would be."""
    mean = total / ops.cast(ops.maximum(count, 1.0), total.dtype)
    mean = ops.expand_dims(mean, 0)
    return _reduce(mean, ops.ones_like(mean), "mean")


class _Total(keras.losses.Loss):
    """Reduces given losses.

    It is a loss because the reduction of losses is the one public way to what Keras
    does to a mean under `tf.distribute`: it divides by the number of replicas, and
    reports the loss times that number.
    """

    def call(self, y_true, y_pred):
        return y_pred


def _reduce(losses, weights, reduction):
    """Reduces losses `(B, T)`; a mean divides by the sum of `weights`."""
    if reduction in MEANS:
        reduction = "mean_with_sample_weight"
    total = _Total(
        name="total",
        reduction=reduction,
        dtype=keras.backend.standardize_dtype(losses.dtype),
    )
    return total(losses, losses, sample_weight=weights)
