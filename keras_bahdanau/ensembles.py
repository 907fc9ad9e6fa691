"""Several models as one: by the mean of their probabilities, or of their weights."""

import os

import keras
from keras import ops

from keras_bahdanau.generation import Generation
from keras_bahdanau.search import ensemble, mean_log_probs


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class RNNEnsemble(Generation):
    """Several models that translate as one.

        p(y_i) = mean_m p_m(y_i),    weights = mean_m weights_m

    It has what its models have: `generate`, `beam_search`, `sample`, `score`,
    `align`, `.keras` files; a `keras_bahdanau.tf.Translator` takes it as it takes
    one model.

    Masking: as `RNNSearch`.

    Args:
        models: list of models, such as `RNNSearch`, trained on the same
            vocabularies; all with attention or all without.
        **kwargs: `name` and the like of `keras.Model`.

    Call arguments:
        inputs, training: as `RNNSearch`.

    Returns:
        `(B, T, V)`: the logarithms of the mean probabilities.

    Raises:
        ValueError: if there is no model, or the models do not fit each other.

    Example:

    >>> import numpy as np
    >>> from keras_bahdanau import RNNSearch
    >>> models = [RNNSearch(11, 13, embedding_dim=5, units=u) for u in (7, 8)]
    >>> ids = np.array([[4, 5, 3]])
    >>> result = RNNEnsemble(models).generate(ids, max_length=6)
    >>> tuple(result.attention_weights.shape)
    (1, 6, 3)

    Reference: Sutskever, Vinyals and Le 2014 (arXiv 1409.3215), section 3.6.
    """

    def __init__(self, models, **kwargs):
        super().__init__(**kwargs)
        self.autocast = False
        self.models = list(models)
        _check(self.models)
        first = self.models[0]
        self.source_vocabulary_size = first.source_vocabulary_size
        self.target_vocabulary_size = first.target_vocabulary_size
        self.has_attention = first.has_attention

    def build(self, input_shape=None):
        """Creates the weights of all models."""
        for model in self.models:
            if not model.built:
                model.build()
        self.built = True

    def step_function(self, source_ids):
        """As `step_function` of a model; the states are a list of those of each."""
        functions, states = zip(
            *(model.step_function(source_ids) for model in self.models)
        )
        return ensemble(functions), list(states)

    def call(self, inputs, training=False):
        return ops.cast(super().call(inputs, training), self.compute_dtype)

    def _decode(self, source_ids, target_ids, training):
        logits, weights = zip(
            *(model._decode(source_ids, target_ids, training) for model in self.models)
        )
        log_probs = mean_log_probs(
            ops.log_softmax(ops.cast(part, "float32"), axis=-1) for part in logits
        )
        weights = [ops.cast(part, "float32") for part in weights]
        return log_probs, ops.mean(ops.stack(weights), axis=0)

    def get_config(self):
        models = [keras.saving.serialize_keras_object(model) for model in self.models]
        return {**super().get_config(), "models": models}

    @classmethod
    def from_config(cls, config):
        models = [
            keras.saving.deserialize_keras_object(model) for model in config["models"]
        ]
        return cls(**{**config, "models": models})


def average_models(models):
    """A model whose weights are the mean of those of several models.

        w = mean_m w_m

    For the last checkpoints of one training, whose mean is often better than any
    of them. Models of different trainings have nothing in common that a mean would
    keep: make an `RNNEnsemble` of those.

    Args:
        models: list of models of one architecture, or of the names of their
            `.keras` files; files are read one after another.

    Returns:
        A new model like the first, compiled like it, with the mean of the weights.
        What is no floating-point number, such as a count, is the first one's.

    Raises:
        ValueError: if there is no model, or their weights differ in number or shape.

    Example:

    >>> import keras
    >>> from keras_bahdanau import RNNSearch
    >>> models = [RNNSearch(11, 13, embedding_dim=5, units=7) for _ in range(2)]
    >>> for value, model in enumerate(models):
    ...     model.build()
    ...     _ = model.readout.output_kernel.assign(value * keras.ops.ones((7, 13)))
    >>> mean = average_models(models)
    >>> float(keras.ops.convert_to_numpy(mean.readout.output_kernel)[0, 0])
    0.5

    Reference: Junczys-Dowmunt, Dwojak and Sennrich 2016 (W16-2316), section 3.1.
    """
    models = list(models)
    if not models:
        raise ValueError("`models` must hold a model. Received none.")
    mean, sums = None, None
    for model in models:
        if isinstance(model, (str, os.PathLike)):
            model = keras.saving.load_model(model)
        values = [ops.convert_to_numpy(variable) for variable in model.weights]
        if mean is None:
            mean = _copy(model)
            sums = [value.astype("float64") for value in values]
            first = values
        else:
            _check_alike(first, values)
            sums = [one + other for one, other in zip(sums, values)]
    for variable, value, total in zip(mean.weights, first, sums):
        is_float = keras.backend.is_float_dtype(variable.dtype)
        variable.assign(total / len(models) if is_float else value)
    return mean


def _copy(model):
    """A model of the same configuration, with weights of its own."""
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(model)
    )
    if not copy.built:
        copy.build()
    return copy


def _check(models):
    if not models:
        raise ValueError("`models` must hold a model. Received none.")
    names = "source_vocabulary_size", "target_vocabulary_size", "has_attention"
    for name in names:
        found = [getattr(model, name, None) for model in models]
        if None in found or len(set(found)) > 1:
            raise ValueError(
                f"The models of an ensemble must have one `{name}`. Received: {found}. "
                "Train them with the same codecs, and put models with attention "
                "together with such models only."
            )


def _check_alike(first, values):
    one, other = ([value.shape for value in found] for found in (first, values))
    if one != other:
        raise ValueError(
            "The models must have the same weights. Received weights of shapes "
            f"{one} and {other}. Average checkpoints of one training."
        )
