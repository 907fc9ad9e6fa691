"""Token metrics: exact means over all real tokens of an epoch."""

import keras
from keras import ops

from keras_bahdanau.losses import standardize_tokens, token_losses, token_mask


class _Mean(keras.metrics.Metric):
    """The weighted mean of a value per position, over every batch since the reset."""

    def __init__(self, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable((), "zeros", dtype=self.dtype, name="total")
        self.count = self.add_variable((), "zeros", dtype=self.dtype, name="count")

    def add(self, values, mask, sample_weight=None):
        """Adds values `(B, T)` where the mask is `True`."""
        weights = ops.cast(mask, self.dtype)
        if sample_weight is not None:
            weights = weights * ops.cast(sample_weight, self.dtype)
        values = ops.cast(values, self.dtype)
        # Padding may hold anything, even infinities, which 0 would not silence.
        values = ops.where(mask, values, ops.zeros_like(values))
        self.total.assign_add(ops.sum(values * weights))
        self.count.assign_add(ops.sum(weights))

    def result(self):
        return ops.divide_no_nan(self.total, self.count)


class _TokenMean(_Mean):
    """The mean of a value per token, from labels and logits."""

    def __init__(self, pad_id=0, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.pad_id = pad_id

    def token_values(self, labels, logits):
        """What is averaged: a value for each token, `(B, T)`."""
        raise NotImplementedError

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
            y_true: Integer labels `(B, T)`.
            y_pred: Logits `(B, T, V)`.
            sample_weight: Weights `(B,)` or `(B, T)`.
        """
        labels, logits, sample_weight = standardize_tokens(
            y_true, y_pred, sample_weight
        )
        mask = token_mask(labels, logits, self.pad_id)
        self.add(self.token_values(labels, logits), mask, sample_weight)

    def get_config(self):
        return {**super().get_config(), "pad_id": self.pad_id}


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class Perplexity(_TokenMean):
    """The exponential of the mean cross-entropy of the real tokens.

        perplexity = exp(sum_bt w_bt l_bt / sum_bt w_bt),   l = -log p(label)

    The sums run over every batch since the last reset, so batches count by their
    tokens and not one like another. Label smoothing has no part in it.

    Masking: a token counts if its label is not `pad_id` and the mask of the
    logits, if they carry one, is `True`. Without any token the result is 1. The
    label of a token that counts must be in `[0, V)`: otherwise the result is NaN.
    In `fit` on JAX, Keras hands on no masks to metrics: there `pad_id` has to do.

    Args:
        pad_id: Integer, the label that stands for padding, or `None` for none.
        name: The name of the metric.
        dtype: The dtype of the sums and of the result.

    Call arguments:
        y_true: Integer labels `(B, T)`.
        y_pred: Logits `(B, T, V)`.
        sample_weight: Weights `(B,)` or `(B, T)`.

    Returns:
        A scalar.

    Raises:
        ValueError: If the ranks of labels and logits do not fit.

    Example:

    >>> import keras
    >>> from keras_bahdanau import Perplexity
    >>> perplexity = Perplexity()
    >>> labels = keras.ops.convert_to_tensor([[2, 1, 0]])
    >>> print(f"{float(perplexity(labels, keras.ops.zeros((1, 3, 5)))):.4f}")
    5.0000
    """

    def __init__(self, pad_id=0, name="perplexity", dtype=None):
        super().__init__(pad_id=pad_id, name=name, dtype=dtype)

    def token_values(self, labels, logits):
        """The cross-entropy of each token, `(B, T)`."""
        return token_losses(labels, logits)

    def result(self):
        return ops.exp(super().result())


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class TokenAccuracy(_TokenMean):
    """The share of real tokens whose most likely word is the label.

        accuracy = sum_bt w_bt [argmax(logits_bt) = label_bt] / sum_bt w_bt

    The sums run over every batch since the last reset.

    Masking: a token counts if its label is not `pad_id` and the mask of the
    logits, if they carry one, is `True`. Without any token the result is 0. A label
    that is no word of the vocabulary is never hit.
    In `fit` on JAX, Keras hands on no masks to metrics: there `pad_id` has to do.

    Args:
        pad_id: Integer, the label that stands for padding, or `None` for none.
        name: The name of the metric.
        dtype: The dtype of the sums and of the result.

    Call arguments:
        y_true: Integer labels `(B, T)`.
        y_pred: Logits `(B, T, V)`.
        sample_weight: Weights `(B,)` or `(B, T)`.

    Returns:
        A scalar.

    Raises:
        ValueError: If the ranks of labels and logits do not fit.

    Example:

    >>> import keras
    >>> from keras_bahdanau import TokenAccuracy
    >>> accuracy = TokenAccuracy()
    >>> labels = keras.ops.convert_to_tensor([[1, 2, 0]])
    >>> logits = keras.ops.one_hot([[1, 1, 1]], 4)
    >>> float(accuracy(labels, logits))
    0.5
    """

    def __init__(self, pad_id=0, name="token_accuracy", dtype=None):
        super().__init__(pad_id=pad_id, name=name, dtype=dtype)

    def token_values(self, labels, logits):
        """Whether the most likely word is the label, `(B, T)`."""
        return ops.equal(ops.argmax(logits, axis=-1), labels)


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class TagAccuracy(_Mean):
    """The share of labelled positions whose predicted tag is the label.

        accuracy = sum_bt w_bt [tag_bt = label_bt] / sum_bt w_bt

    over the positions with `label_bt >= 0` and `tag_bt >= 0`.

    For the output `"tags"` of a `SequenceTagger`, or the tags of a `CRF`. The sums run
    over every batch since the last reset.

    Masking: positions with a negative label, which is what padding and words without
    a label have, do not count; nor do those with a negative tag, which is what padding
    gets, whatever its label. Without any label the result is 0.

    Args:
        name: The name of the metric.
        dtype: The dtype of the sums and of the result.

    Call arguments:
        y_true: Integer labels `(B, T)`.
        y_pred: Integer tags `(B, T)`.
        sample_weight: Weights `(B,)` or `(B, T)`.

    Returns:
        A scalar.

    Raises:
        ValueError: If labels and tags have different ranks.

    Example:

    >>> import keras
    >>> from keras_bahdanau import TagAccuracy
    >>> labels = keras.ops.convert_to_tensor([[3, 1, -1]])
    >>> float(TagAccuracy()(labels, keras.ops.convert_to_tensor([[3, 2, -1]])))
    0.5
    """

    def __init__(self, name="tag_accuracy", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
            y_true: Integer labels `(B, T)`.
            y_pred: Integer tags `(B, T)`.
            sample_weight: Weights `(B,)` or `(B, T)`.
        """
        labels, tags = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        if len(labels.shape) != 2 or len(tags.shape) != 2:
            raise ValueError(
                "Labels and tags must be integers (B, T). Received: labels of shape "
                f"{tuple(labels.shape)} and tags of shape {tuple(tags.shape)}. For "
                "logits take `TokenAccuracy(pad_id=-1)`."
            )
        labels, tags = ops.cast(labels, "int32"), ops.cast(tags, "int32")
        if sample_weight is not None:
            # One for each sequence, or for each position.
            rows = ops.shape(labels)[0]
            sample_weight = ops.convert_to_tensor(sample_weight)
            sample_weight = ops.reshape(sample_weight, (rows, -1))
        counts = ops.logical_and(labels >= 0, tags >= 0)
        self.add(ops.equal(labels, tags), counts, sample_weight)
