"""How to compile the models: optimizer, loss and metrics that go together."""

import keras

from keras_bahdanau.losses import TokenCrossentropy
from keras_bahdanau.metrics import Perplexity, TokenAccuracy


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
    are others), the norm of the whole gradient clipped at 1. The loss is the
    mean over the real tokens; the code of 2014 summed it over the words of a
    sentence, so that its gradients were larger and its clipping more often
    active.

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
    return _recipe(optimizer, label_smoothing=0.0)


def _recipe(optimizer, label_smoothing):
    return {
        "optimizer": optimizer,
        "loss": TokenCrossentropy(label_smoothing=label_smoothing),
        "metrics": [Perplexity(), TokenAccuracy()],
    }
