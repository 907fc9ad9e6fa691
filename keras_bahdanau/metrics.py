"""Token metrics: exact means over all real tokens of an epoch."""

import keras
from keras import ops

from keras_bahdanau.losses import standardize_tokens, token_losses, token_mask


class _TokenMean(keras.metrics.Metric):
    """The weighted mean of a value per token, over every batch since the reset."""

    def __init__(self, pad_id=0, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.pad_id = pad_id
        self.total = self.add_variable((), "zeros", dtype=self.dtype, name="total")
        self.count = self.add_variable((), "zeros", dtype=self.dtype, name="count")

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
        weights = ops.cast(mask, self.dtype)
        if sample_weight is not None:
            weights = weights * ops.cast(sample_weight, self.dtype)
        values = ops.cast(self.token_values(labels, logits), self.dtype)
        # Padding may hold anything, even infinities, which 0 would not silence.
        values = ops.where(mask, values, ops.zeros_like(values))
        self.total.assign_add(ops.sum(values * weights))
        self.count.assign_add(ops.sum(weights))

    def result(self):
        return ops.divide_no_nan(self.total, self.count)

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
