"""The loss of a large vocabulary, without ever holding the logits of a batch."""

import math

import keras
from keras import ops

from keras_bahdanau.loop import run_steps
from keras_bahdanau.losses import (
    check_average,
    count_of,
    mean_loss,
    standardize_tokens,
)
from keras_bahdanau.scores import largest_of
from keras_bahdanau.weights import check_count

# The logits that a part may have where no number of parts is given: 64 MB of float32.
LOGITS_OF_A_PART = 2**24


def output_losses(
    hidden,
    labels,
    weights,
    kernel,
    bias=None,
    label_smoothing=0.0,
    num_chunks=None,
    with_gradient=True,
):
    """The cross-entropy of tokens whose logits are `hidden kernel + bias`.

        total = sum_n w_n l_n,  l_n as in `TokenCrossentropy`

    The tokens are taken in `num_chunks` parts, one after another: logits, losses and
    all gradients of a part are made while it is at hand, so that no more than
    `1 / num_chunks` of the logits exists at a time, and no product is made twice. The
    gradient is that of the total. (It has itself no gradient.)

    Masking: give what does not count the weight 0.

    Args:
        hidden: `(N, l)`.
        labels: integers `(N,)`, in `[0, V)`.
        weights: `(N,)`.
        kernel: `(l, V)`.
        bias: `(V,)`, or `None`.
        label_smoothing: as `TokenCrossentropy`.
        num_chunks: number of parts; `None` for as few as keep the logits of a part
            below 64 MB: small products are slow, and so is what does not fit a cache.
        with_gradient: whether to make the gradient; without it there is none.

    Returns:
        The total, a scalar, and, without gradients, the losses without smoothing and
        the largest logits less those of the labels, `(N,)` each; all in `float32`.

    Example:

    >>> from keras import ops
    >>> total, losses, _ = output_losses(
    ...     ops.zeros((3, 2)), ops.array([1, 0, 2]), ops.ones((3,)), ops.ones((2, 4))
    ... )
    >>> f"{float(total):.4f}"  # 3 log 4
    '4.1589'
    """
    # A reshape reads what may be a variable.
    kernel = ops.reshape(kernel, kernel.shape)
    bias = ops.zeros_like(kernel[0]) if bias is None else ops.reshape(bias, (-1,))
    columns = [hidden, ops.expand_dims(labels, -1), ops.expand_dims(weights, -1)]
    packed = ops.concatenate([ops.cast(part, "float32") for part in columns], axis=-1)
    packed, count = _in_chunks(packed, num_chunks, kernel.shape[-1])

    def run(packed, kernel, bias):
        step = _chunk_step(kernel, bias, label_smoothing, with_gradient)
        parts = (kernel, bias) if with_gradient else (bias,)
        zeros = [ops.zeros(ops.shape(part), "float32") for part in parts]
        _, (found, *d_rows), sums = run_steps(step, packed, zeros)
        total = ops.sum(found[:, :, 0] * packed[:, :, -1])

        def grad(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            scale = upstream[0]
            nothing = ops.zeros_like(packed[:, :, -2:])
            d_packed = ops.concatenate([d_rows[0] * scale, nothing], axis=-1)
            d_kernel, d_bias = (
                ops.cast(part * scale, like.dtype)
                for part, like in zip(sums, (kernel, bias), strict=True)
            )
            return d_packed, d_kernel, d_bias

        found = ops.reshape(found[:, :, 1:], (-1,))
        return ops.concatenate([ops.expand_dims(total, 0), found], axis=0), grad

    if with_gradient:
        found = ops.custom_gradient(run)(packed, kernel, bias)
    else:
        found = ops.stop_gradient(run(packed, kernel, bias)[0])
    rows = ops.reshape(ops.stop_gradient(found[1:]), (-1, 2))[:count]
    return found[0], rows[:, 0], rows[:, 1]


def _chunk_step(kernel, bias, label_smoothing, with_gradient):
    """The step of `output_losses`: from rows to losses, and sums of gradients."""
    size, dtype = kernel.shape[-1], kernel.dtype
    words = ops.arange(size, dtype="int32")

    def step(inputs, states):
        rows = ops.cast(inputs[:, :-2], dtype)
        label = ops.cast(inputs[:, -2:-1], "int32")
        logits = ops.cast(ops.matmul(rows, kernel) + bias, "float32")
        largest = largest_of(logits)
        powers = ops.exp(logits - largest)
        total = ops.sum(powers, axis=-1, keepdims=True)
        picked = ops.take_along_axis(logits, label, axis=-1)
        plain = losses = ops.log(total) + largest - picked
        if label_smoothing:
            mean = ops.mean(logits, axis=-1, keepdims=True)
            losses = plain + label_smoothing * (picked - mean)
        outputs = ops.concatenate([losses, plain, largest - picked], axis=-1)
        if not with_gradient:
            return (outputs,), states
        weight = inputs[:, -1:]
        gradient = powers * (weight / total)
        if label_smoothing:
            gradient = gradient - weight * (label_smoothing / size)
        here = ops.where(words == label, weight * (1 - label_smoothing), 0.0)
        gradient = gradient - here
        d_bias = states[1] + ops.sum(gradient, axis=0)
        gradient = ops.cast(gradient, dtype)
        d_kernel = ops.matmul(ops.transpose(rows), gradient)
        d_kernel = states[0] + ops.cast(d_kernel, "float32")
        # Not a product with the transposed kernel, which would be one more copy of it.
        d_rows = ops.cast(ops.einsum("nv,lv->nl", gradient, kernel), "float32")
        return (outputs, d_rows), [d_kernel, d_bias]

    return step


def sampled_losses(hidden, labels, kernel, bias, num_sampled, seed=None):
    """The cross-entropy against a sample of the vocabulary, for training.

        l_n = log(exp(z_ny) + sum_v exp(z_nv) / c_v) - z_ny,   v sampled, not y_n

    with `c_v` how often `v` is expected among the sampled, so that the sum has the
    same mean as the sum over all words but the label. Words are drawn in
    proportion to `log(1 + 1 / (v + 1))`, which is right where ids go by falling
    frequency, as those of `keras_bahdanau.tf` do. One sample serves all tokens.

    Args:
        hidden, labels, kernel, bias: as `output_losses`.
        num_sampled: number of words to draw.
        seed: as in `keras.random`.

    Returns:
        Losses `(N,)`, in `float32`.

    Reference: Jean, Cho, Memisevic and Bengio 2015 (arXiv 1412.2007), section 3,
    who weigh the label as the others.
    """
    size = kernel.shape[-1]
    drawn = keras.random.uniform((num_sampled,), seed=seed, dtype="float32")
    drawn = ops.exp(drawn * math.log(size + 1.0)) - 1.0
    drawn = ops.minimum(ops.cast(drawn, "int32"), size - 1)

    share = ops.log1p(1.0 / (ops.cast(drawn, "float32") + 1.0)) / math.log(size + 1.0)
    others = ops.matmul(hidden, ops.take(kernel, drawn, axis=1))
    own = ops.sum(hidden * ops.transpose(ops.take(kernel, labels, axis=1)), axis=-1)
    if bias is not None:
        others = others + ops.take(bias, drawn)
        own = own + ops.take(bias, labels)
    own = ops.cast(own, "float32")
    others = ops.cast(others, "float32") - ops.log(share * num_sampled)
    # A label that was drawn is not one of the others.
    same = ops.equal(ops.expand_dims(labels, -1), drawn)
    others = ops.where(same, -1e30, others)
    joined = ops.concatenate([ops.expand_dims(own, -1), others], axis=-1)
    return ops.logsumexp(joined, axis=-1) - own


def _in_chunks(rows, num_chunks, vocabulary_size):
    """Rows `(N, D)` as `(C, num_chunks, D)`, zeros behind; and `N`."""
    count = ops.shape(rows)[0]
    if num_chunks is None:
        num_chunks = count // max(1, LOGITS_OF_A_PART // vocabulary_size) + 1
    length = (count + num_chunks - 1) // num_chunks
    more = ops.zeros((num_chunks - 1, rows.shape[-1]), rows.dtype)
    rows = ops.concatenate([rows, more], axis=0)[: length * num_chunks]
    return ops.reshape(rows, (length, num_chunks, rows.shape[-1])), count


class _ExpMean(keras.metrics.Mean):
    """The exponential of a mean."""

    def result(self):
        return ops.exp(super().result())


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class FusedLossModel(keras.Model):
    """Trains a model with its output layer and the loss as one.

        loss = sum_bt m_bt w_bt l_bt / sum_bt m_bt,  as `TokenCrossentropy`,

    or over the number of sequences, with `average_over="sequences"`.

    The logits of a batch, `(B, T, V)`, are the largest tensor of RNNsearch by far,
    and a loss makes some more of that shape. Here they never exist: the vocabulary is
    visited for some of the tokens at a time (`output_losses`). The numbers are those
    of `model.fit` with `TokenCrossentropy`. With `num_sampled` training compares each
    word with a sample of the vocabulary only; evaluation is exact.

    It is a thin cover: the weights are the model's, which goes on to be used by
    itself for everything but `fit` and `evaluate`. Perplexity and accuracy come
    without asking (not in training with `num_sampled`).

    Masking: labels of id 0 do not count. A label that is no word of the vocabulary
    makes the loss NaN.

    Args:
        model: `RNNSearch` or `RNNEncoderDecoder`.
        label_smoothing: as `TokenCrossentropy`; not with `num_sampled`.
        average_over: as `TokenCrossentropy`, `"tokens"` or `"sequences"`.
        num_chunks: into how many parts the tokens of a batch are divided; `None` as
            in `output_losses`. More parts take less memory.
        num_sampled: number of words that are sampled in training; `None` for all.
        seed: seed of the sample.
        **kwargs: `name` and the like of `keras.Model`.

    Call arguments:
        inputs, training: as the model's.

    Returns:
        What the output matrix multiplies, `(B, T, l)`.

    Raises:
        ValueError: if the model has no such output layer, a number is not positive,
            `average_over` is neither of the two, or labels should be smoothed with
            `num_sampled`.

    Example:

    >>> import keras, numpy as np
    >>> from keras_bahdanau import FusedLossModel, RNNSearch
    >>> model = RNNSearch(11, 13, embedding_dim=5, units=7)
    >>> trainer = FusedLossModel(model, label_smoothing=0.1)
    >>> trainer.compile(keras.optimizers.Adam(1e-3))
    >>> ids = np.ones((2, 4), "int32")
    >>> history = trainer.fit({"source_ids": ids, "target_ids": ids}, ids, verbose=0)
    >>> sorted(history.history)
    ['accuracy', 'loss', 'perplexity']

    Reference: Jean, Cho, Memisevic and Bengio 2015 (arXiv 1412.2007) for the sample.
    """

    def __init__(
        self,
        model,
        label_smoothing=0.0,
        num_chunks=None,
        num_sampled=None,
        seed=None,
        average_over="tokens",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_average(average_over)
        if not hasattr(model, "hidden_states"):
            raise ValueError(
                "FusedLossModel needs an RNNSearch or RNNEncoderDecoder. "
                f"Received: model={model!r}"
            )
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(
                "`label_smoothing` must lie in [0, 1). Received: "
                f"label_smoothing={label_smoothing!r}"
            )
        if num_chunks is not None:
            check_count("num_chunks", num_chunks)
        if num_sampled is not None:
            check_count("num_sampled", num_sampled)
            if label_smoothing:
                raise ValueError(
                    "A sampled vocabulary has no labels to smooth. Pass "
                    f"label_smoothing=0. Received: label_smoothing={label_smoothing}"
                )
        self.model = model
        self.label_smoothing = label_smoothing
        self.num_chunks = num_chunks
        self.num_sampled = num_sampled
        self.seed = seed
        self.average_over = average_over
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.perplexity = _ExpMean(name="perplexity")
        self.accuracy = keras.metrics.Mean(name="accuracy")

    def build(self, input_shape=None):
        """Creates the weights of the model."""
        if not self.model.built:
            self.model.build()
        self.built = True

    def call(self, inputs, training=False):
        return self.model.hidden_states(inputs, training=training)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """The loss of the real tokens; `y_pred` is what `call` returned."""
        labels, hidden, sample_weight = standardize_tokens(y, y_pred, sample_weight)
        mask = ops.not_equal(labels, 0)
        weights = real = ops.cast(mask, "float32")
        if sample_weight is not None:
            weights = real * ops.cast(sample_weight, "float32")
        kernel, bias = self.model.readout.output_weights()
        known = ops.logical_and(labels >= 0, labels < kernel.shape[-1])
        # As in TokenCrossentropy: such a label makes the loss NaN, without a gradient.
        strange = ops.any(ops.logical_and(real > 0, ops.logical_not(known)))
        weights = ops.where(known, weights, 0.0)
        labels = ops.reshape(ops.where(known, labels, 0), (-1,))
        rows = ops.reshape(hidden, (-1, hidden.shape[-1]))
        weights, real = ops.reshape(weights, (-1,)), ops.reshape(real, (-1,))
        if training and self.num_sampled is not None:
            losses = sampled_losses(
                rows, labels, kernel, bias, self.num_sampled, self.seed_generator
            )
            total = ops.sum(losses * weights)
        else:
            total, losses, behind = output_losses(
                rows,
                labels,
                weights,
                kernel,
                bias,
                self.label_smoothing,
                self.num_chunks,
                with_gradient=training,
            )
            self.perplexity.update_state(losses, sample_weight=real)
            right = ops.cast(behind <= 0, "float32")
            self.accuracy.update_state(right, sample_weight=real)
        loss = mean_loss(total, count_of(mask, self.average_over))
        loss = ops.where(strange, float("nan"), loss)
        for extra in self.losses:
            loss = loss + ops.cast(extra, loss.dtype)
        return loss

    def get_config(self):
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
            "label_smoothing": self.label_smoothing,
            "num_chunks": self.num_chunks,
            "num_sampled": self.num_sampled,
            "seed": self.seed,
            "average_over": self.average_over,
        }

    @classmethod
    def from_config(cls, config):
        model = keras.saving.deserialize_keras_object(config["model"])
        return cls(**{**config, "model": model})
