"""How to compile the models: optimizer, loss and metrics that go together."""

import keras

from keras_bahdanau.crf import CRFNegativeLogLikelihood
from keras_bahdanau.losses import TokenCrossentropy
from keras_bahdanau.metrics import Perplexity, TagAccuracy, TokenAccuracy


def modern_recipe(learning_rate=1e-3, label_smoothing=0.1, clipnorm=1.0):
    """Arguments of `compile` that train well today.

    Adam, the norm of the whole gradient clipped, smoothed labels.

    Args:
        learning_rate: a float, or a `keras.optimizers.schedules` schedule.
        label_smoothing: probability spread over the whole vocabulary.
        clipnorm: largest norm of the whole gradient.

    Returns:
        Dictionary of `optimizer`, `loss` and `metrics`, for
        `model.compile(**modern_recipe())`.

    Example:

    >>> sorted(modern_recipe())
    ['loss', 'metrics', 'optimizer']
    """
    optimizer = keras.optimizers.Adam(learning_rate, global_clipnorm=clipnorm)
    return _recipe(optimizer, label_smoothing)


def paper_recipe():
    """Arguments of `compile` as in the paper.

    Adadelta with learning rate 1, rho 0.95 and epsilon 1e-6 (Keras' defaults
    are others), the norm of the whole gradient clipped at 1. The loss is that of
    whole sentences: the sum over the words of each, averaged over the sentences.
    With clipping, and an epsilon that gradients are small against, that is not what
    a mean over words would be.

    Returns:
        Dictionary of `optimizer`, `loss` and `metrics`, for
        `model.compile(**paper_recipe())`.

    Example:

    >>> float(paper_recipe()["optimizer"].learning_rate)
    1.0

    Reference: Bahdanau, Cho and Bengio 2014, appendix B.2.
    """
    optimizer = keras.optimizers.Adadelta(
        learning_rate=1.0, rho=0.95, epsilon=1e-6, global_clipnorm=1.0
    )
    return _recipe(optimizer, label_smoothing=0.0, average_over="sequences")


def tagging_recipe(
    output="softmax",
    learning_rate=2e-3,
    label_smoothing=0.0,
    frequency_weight=None,
    ema=None,
    clipnorm=5.0,
):
    """Arguments of `compile` that train a `SequenceTagger` well.

    Adam, the norm of the whole gradient clipped, and by option a running average of
    the weights, which takes the place of the weights when `fit` ends. (On JAX, Keras
    3.15 cannot save such a model after `evaluate`.) Keras calls the metric
    `tags_accuracy`; for a CRF it costs a search for the best tags in each step: drop
    `"metrics"` to go without.

    Args:
        output: that of the model, `"softmax"` or `"crf"`.
        learning_rate: a float, or a `keras.optimizers.schedules` schedule.
        label_smoothing: probability spread over all tags; for `"softmax"` only.
        frequency_weight: weight of the auxiliary loss, for a model with
            `num_frequencies`; `None` where there is none.
        ema: momentum of the running average, such as 0.998; `None` for none.
        clipnorm: largest norm of the whole gradient.

    Returns:
        Dictionary for `model.compile(**tagging_recipe())`.

    Raises:
        ValueError: If `output` is none of the two, or labels should be smoothed for a
            CRF.

    Example:

    >>> sorted(tagging_recipe())
    ['loss', 'loss_weights', 'metrics', 'optimizer']
    """
    if output not in ("softmax", "crf"):
        raise ValueError(
            f"`output` must be 'softmax' or 'crf'. Received: output={output!r}."
        )
    if output == "crf" and label_smoothing:
        raise ValueError(
            "A CRF has no labels to smooth. Received: label_smoothing="
            f"{label_smoothing}. Leave it out, or take output='softmax'."
        )
    if output == "crf":
        loss = {"scores": CRFNegativeLogLikelihood()}
    else:
        loss = {"scores": TokenCrossentropy(label_smoothing, pad_id=-1)}
    weights = {"scores": 1.0}
    if frequency_weight is not None:
        loss["frequencies"] = TokenCrossentropy(pad_id=-1)
        weights["frequencies"] = frequency_weight
    average = {} if ema is None else {"use_ema": True, "ema_momentum": ema}
    return {
        "optimizer": keras.optimizers.Adam(
            learning_rate, global_clipnorm=clipnorm, **average
        ),
        "loss": loss,
        "loss_weights": weights,
        "metrics": {"tags": TagAccuracy(name="accuracy")},
    }


def _recipe(optimizer, label_smoothing, average_over="tokens"):
    return {
        "optimizer": optimizer,
        "loss": TokenCrossentropy(label_smoothing, average_over=average_over),
        "metrics": [Perplexity(), TokenAccuracy()],
    }
