"""The conditional random field, which scores whole tag sequences, and its loss."""

import keras
import numpy as np
from keras import ops

from keras_bahdanau.chains import (
    FORBIDDEN,
    best_tags,
    chain_potentials,
    log_likelihood,
)
from keras_bahdanau.weights import (
    add_weight,
    check_count,
    keep_options,
    options_config,
)


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class CRF(keras.layers.Layer):
    """A linear-chain conditional random field over tags, as the last layer of a tagger.

    With `x_t` the features of position t and `L` the last real position:

        e_t = W x_t + b                                                (B, T, N)
        score(y) = start[y_0] + sum_t e_t[y_t]
                 + sum_t transitions[y_{t-1}, y_t] + end[y_L]
        p(y | x) = exp(score(y)) / sum_y' exp(score(y'))

    The layer returns two tensors: the most likely tags (Viterbi), and the potentials,
    which are all that the score is made of: `CRFNegativeLogLikelihood` learns from
    them, and `keras_bahdanau.chains` has their marginals, their K best sequences, and
    the likelihood of given tags. A model that names both is trained by one and
    predicts the other:

        tags, potentials = CRF(17)(features)
        model = keras.Model(words, {"tags": tags, "potentials": potentials})
        model.compile("adam", loss={"potentials": CRFNegativeLogLikelihood()})
        model.fit(words, {"tags": labels, "potentials": labels})
        model.predict(words)["tags"]

    Nothing is spent on the tags in a compiled training step that does not use them.

    All is computed in float32 (float64 for a float64 policy) from `e_t` on, under a
    mixed precision policy too.

    Masking: padding may stand anywhere, also within a sentence; the chain goes from
    one real position to the next. Neither its amount nor what it holds changes
    anything. Tags are -1 there. A row without a real position has tags -1 and loss 0.
    The tags carry the mask on; the potentials have it in them and carry none, so that
    a Keras loss does not apply it twice.

    Args:
        num_tags: Integer N, at least 2.
        allowed: What may be, or `None` for all: the three boolean arrays `start (N,)`,
            `transitions (N, N)` (from the tag of the row to that of the column) and
            `end (N,)`, as `keras_bahdanau.entities.allowed_transitions` gives them for
            BIO and BIOES tags. Each may be `None`. What is forbidden scores -1e5; a
            sentence for which nothing is allowed gets tags none the less.
        use_projection: Boolean, whether to make `e_t` of the input by `W` and `b`.
            Without, the input is `e_t` and has N features.
        use_boundaries: Boolean, whether there are scores of beginning and of ending
            with a tag.
        use_bias: Boolean, whether the projection has a bias.
        kernel_initializer: Initializer of `W`.
        bias_initializer: Initializer of `b`.
        transition_initializer: Initializer of transitions and boundaries.
        kernel_regularizer: Regularizer of `W`.
        bias_regularizer: Regularizer of `b`.
        transition_regularizer: Regularizer of transitions and boundaries.
        kernel_constraint: Constraint on `W`.
        bias_constraint: Constraint on `b`.
        transition_constraint: Constraint on transitions and boundaries.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(B, T, D)`, or `(B, T, N)` without the projection.
        mask: Boolean `(B, T)`. By default the mask that `inputs` carries.

    Returns:
        Tags, integers `(B, T)`, and potentials `(B, T, N, N)`.

    Raises:
        ValueError: If an argument is out of its range, `allowed` has other shapes or
            forbids all that there is, or the input has not three axes, another size
            or no position.

    Example:

    >>> import keras
    >>> crf = CRF(num_tags=5)
    >>> tags, potentials = crf(keras.ops.ones((2, 3, 4)))
    >>> tuple(tags.shape), tuple(potentials.shape)
    ((2, 3), (2, 3, 5, 5))

    Reference:
        Lafferty, McCallum and Pereira 2001, "Conditional Random Fields: Probabilistic
        Models for Segmenting and Labeling Sequence Data"; over recurrent features,
        Huang, Xu and Yu 2015 (arXiv 1508.01991).
    """

    def __init__(
        self,
        num_tags,
        allowed=None,
        use_projection=True,
        use_boundaries=True,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        transition_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        transition_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        transition_constraint=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_count("num_tags", num_tags)
        if num_tags < 2:
            raise ValueError(
                f"`num_tags` must be 2 or more. Received: {num_tags}. With one tag "
                "there is nothing to decide."
            )
        self.num_tags = num_tags
        self.allowed = _standardize_allowed(allowed, num_tags)
        self.use_projection = use_projection
        self.use_boundaries = use_boundaries
        self.use_bias = use_bias
        keep_options(
            self,
            kernel=(kernel_initializer, kernel_regularizer, kernel_constraint),
            bias=(bias_initializer, bias_regularizer, bias_constraint),
            transition=(
                transition_initializer,
                transition_regularizer,
                transition_constraint,
            ),
        )
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def build(self, inputs_shape):
        size, num_tags = inputs_shape[-1], self.num_tags
        if self.use_projection:
            self.kernel = add_weight(self, "kernel", "kernel", (size, num_tags))
            if self.use_bias:
                self.bias = add_weight(self, "bias", "bias", (num_tags,))
        elif size != num_tags:
            raise ValueError(
                "With use_projection=False the input must have a score for each of "
                f"the {num_tags} tags. Received shape {tuple(inputs_shape)}. Put a "
                "Dense layer in front, or leave the projection on."
            )
        shapes = {"transitions": (num_tags, num_tags)}
        if self.use_boundaries:
            shapes |= {"start": (num_tags,), "end": (num_tags,)}
        for name, shape in shapes.items():
            weight = add_weight(self, "transition", name, shape, autocast=False)
            setattr(self, f"{name}_scores", weight)

    def call(self, inputs, mask=None):
        if inputs.shape[1] == 0:
            raise ValueError(
                "The sentences must have one position at least. Received inputs of "
                f"shape {tuple(inputs.shape)}. Pad them."
            )
        if self.use_projection:
            inputs = ops.matmul(inputs, self.kernel)
            if self.use_bias:
                inputs = ops.add(inputs, self.bias)
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        emissions = ops.cast(inputs, dtype)
        start, transitions, end = self._scores(dtype)
        potentials = chain_potentials(emissions, transitions, start, end, mask)
        tags, _ = best_tags(ops.stop_gradient(potentials))
        return tags, potentials

    def _scores(self, dtype):
        """Scores of start, transitions and end, what is forbidden at -1e5."""
        scores = []
        for name, allowed in self.allowed.items():
            weight = getattr(self, f"{name}_scores", None)
            score = None if weight is None else ops.cast(weight, dtype)
            if allowed is not None:
                if score is None:
                    score = ops.zeros((self.num_tags,), dtype)
                allowed = ops.convert_to_tensor(np.asarray(allowed))
                score = ops.where(allowed, score, ops.full_like(score, FORBIDDEN))
            scores.append(score)
        return scores

    def compute_mask(self, inputs, previous_mask=None):
        return [previous_mask, None]

    def compute_output_shape(self, inputs_shape):
        shape = tuple(inputs_shape[:-1])
        return shape, (*shape, self.num_tags, self.num_tags)

    def compute_output_spec(self, inputs, mask=None):
        tags, potentials = self.compute_output_shape(inputs.shape)
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        return (
            keras.KerasTensor(tags, dtype="int32"),
            keras.KerasTensor(potentials, dtype=dtype),
        )

    def get_config(self):
        return {
            **super().get_config(),
            "num_tags": self.num_tags,
            "allowed": list(self.allowed.values()),
            "use_projection": self.use_projection,
            "use_boundaries": self.use_boundaries,
            "use_bias": self.use_bias,
            **options_config(self, "kernel", "bias", "transition"),
        }


def _standardize_allowed(allowed, num_tags):
    """Checks the argument; gives nested lists by name, in the order of the chain."""
    shapes = {
        "start": (num_tags,),
        "transitions": (num_tags, num_tags),
        "end": (num_tags,),
    }
    allowed = [None] * 3 if allowed is None else list(allowed)
    if len(allowed) != 3:
        raise ValueError(
            "`allowed` must be three arrays: start, transitions and end. Received "
            f"{len(allowed)}."
        )
    arrays = {}
    for (name, shape), array in zip(shapes.items(), allowed, strict=True):
        if array is None:
            arrays[name] = None
            continue
        array = np.asarray(array)
        if array.shape != shape or array.dtype != bool:
            raise ValueError(
                f"The {name} of `allowed` must be booleans of shape {shape} or None. "
                f"Received shape {array.shape} of {array.dtype}."
            )
        if not array.any():
            raise ValueError(
                f"The {name} of `allowed` must leave something. Received an array that "
                "forbids all."
            )
        arrays[name] = array.tolist()
    return arrays


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class CRFNegativeLogLikelihood(keras.losses.Loss):
    """The negative log-likelihood of tag sequences, from the potentials of a `CRF`.

        loss = -log p(y | x),   per sentence

    It is never negative. A sentence may be labelled in part: a label of -1 (or any
    other that is no tag) leaves the position open, and the loss is that of all
    sequences that agree with the rest. Where a whole batch is divided (the default
    reduction) it is by the number of sentences.

    Masking: the potentials know their padding; its labels do not count, whatever they
    are. A sentence of padding, or without labels, has loss 0.

    Args:
        reduction: As in `keras.losses.Loss`; `None` returns the loss of each sentence.
        name: The name of the loss.
        dtype: The dtype of the sums, `"float32"` by default.

    Call arguments:
        y_true: Integer labels `(B, T)`.
        y_pred: Potentials `(B, T, N, N)`.
        sample_weight: Weights `(B,)`. The `class_weight` of `fit` is not for
            sequences: Keras takes the labels of a sentence for one class.

    Returns:
        A scalar, or `(B,)` without a reduction.

    Raises:
        ValueError: If labels, potentials and weights do not fit.

    Example:

    >>> import keras
    >>> _, potentials = CRF(num_tags=3)(keras.ops.zeros((1, 4, 2)))
    >>> labels = keras.ops.convert_to_tensor([[0, 2, 1, -1]])
    >>> loss = CRFNegativeLogLikelihood()(labels, potentials)
    >>> print(f"{float(keras.ops.convert_to_numpy(loss)):.4f}")  # 3 log 3
    3.2958
    """

    def __init__(
        self,
        reduction="sum_over_batch_size",
        name="crf_negative_log_likelihood",
        dtype="float32",
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def __call__(self, y_true, y_pred, sample_weight=None):
        rank = len(getattr(sample_weight, "shape", None) or ())
        if rank > 1 and sample_weight.shape[-1] != 1:
            raise ValueError(
                "`sample_weight` must have one weight per sentence (B,), whose "
                "likelihood is one number. Received shape "
                f"{tuple(sample_weight.shape)}. To leave words out, label them -1."
            )
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true, y_pred):
        potentials = y_pred
        shape, labels_shape = tuple(potentials.shape), tuple(y_true.shape)
        fit = len(shape) == 4 and len(labels_shape) == 2 and shape[2] == shape[3]
        for size, other in zip(labels_shape, shape):
            fit = fit and (size is None or other is None or size == other)
        if not fit:
            raise ValueError(
                "Labels must be integers (B, T) for potentials (B, T, N, N). Received: "
                f"labels of shape {labels_shape} and potentials of shape "
                f"{shape}. Give this loss the second output of `CRF`."
            )
        return -log_likelihood(y_true, potentials)

    def get_config(self):
        return {**super().get_config(), "dtype": self.dtype}
