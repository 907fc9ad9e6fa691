"""Additive attention: which part of the memory to read now."""

import keras
from keras import ops

from keras_bahdanau.loop import read
from keras_bahdanau.products import project
from keras_bahdanau.random import dropout
from keras_bahdanau.scores import (
    additive_scores,
    causal_mask,
    flatten_positions,
    masked_softmax,
    wide_dtype,
)
from keras_bahdanau.weights import (
    add_weight,
    check_count,
    check_rate,
    keep_options,
    options_config,
)


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class BahdanauAttention(keras.layers.Layer):
    """Additive attention with its own projections of query and key.

        scores_tj  = v_a . tanh(W_a query_t + U_a key_j + b)        (B, T, S)
        weights_tj = softmax_j(scores_tj)                           (B, T, S)
        context_t  = sum_j weights_tj value_j                       (B, T, D)

    It is called as `keras.layers.AdditiveAttention` is, and can take its
    place in a model; the sizes of query, key and value are independent. With
    identity kernels and a score kernel of ones it is
    `AdditiveAttention(use_scale=False)`.

    A decoding loop projects the keys once, with `project_keys`, and reads the
    memory at each step with `attend`, or with what `reader` returns; nothing
    is kept on the layer. Any layer with the methods `project_keys`, `reader`
    and `dropout_mask` and, once built, the attribute `value_dim` serves as the
    `attention` of `AttentiveGRUDecoderCell`.

    Masking: positions where the value mask is `False` have weight exactly 0;
    where no position is real, the weights and the context are 0 and the
    gradient is finite, in every dtype. Contexts of masked queries are 0. The
    query's mask passes on. Scores and softmax are in `float32` under mixed
    precision.

    Args:
        units: size `A` of the hidden layer of the score.
        use_bias: whether to add the bias `b` inside the tanh. The paper's
            formulas have none.
        weight_norm: whether to use `g * v_a / |v_a|` in place of `v_a`
            (weight normalisation, Salimans and Kingma 2016). With
            `use_bias=True` this is the normed Bahdanau attention of
            TensorFlow Addons.
        dropout: rate at which weights are dropped in training.
        query_initializer: initializer of `query_kernel` (`W_a`).
        key_initializer: initializer of `key_kernel` (`U_a`).
        score_initializer: initializer of `score_kernel` (`v_a`).
        bias_initializer: initializer of `bias` (`b`).
        query_regularizer, key_regularizer, score_regularizer,
        bias_regularizer: regularizers of the same weights.
        query_constraint, key_constraint, score_constraint, bias_constraint:
            constraints of the same weights.
        seed: seed of the dropout.
        **kwargs: `name`, `dtype` and the like of `keras.layers.Layer`.

    Call arguments:
        inputs: list `[query, value]` or `[query, value, key]`. Query `(B, D)`
            or `(B, T, D)`; value `(B, S, D)` or with more leading positions,
            such as `(B, H, W, D)`; key like value (default: the value).
        mask: list `[query_mask, value_mask]`, boolean, of the shapes of query
            and value less the last axis; either may be `None`. Masks of
            embeddings arrive by themselves.
        return_attention_scores: whether to return the weights too (the name
            is Keras'; they are the weights after the softmax).
        training: whether to apply dropout.
        use_causal_mask: whether query `t` sees the positions `j <= t` only.

    Returns:
        The contexts, `(B, D)` or `(B, T, D)`; with
        `return_attention_scores=True` the pair of contexts and weights,
        `(B, S)` or `(B, T, S)` (with `H, W` for `S` where value has them).

    Raises:
        ValueError: if `units` is not a positive integer, `dropout` is not in
            [0, 1), or `inputs` or `mask` is not a list of that form.

    Example:

    >>> import numpy as np
    >>> attention = BahdanauAttention(8)
    >>> query, value = np.ones((2, 3, 5)), np.ones((2, 7, 11))
    >>> context, weights = attention(
    ...     [query, value], return_attention_scores=True
    ... )
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 3, 11), (2, 3, 7))

    Reference: Bahdanau, Cho and Bengio 2014, section 3.1 and appendix A.1.2.
    `W_a` is `query_kernel`, `U_a` is `key_kernel` (each transposed), `v_a` is
    `score_kernel`; `e` are the scores, `alpha` the weights, `c` the context.
    """

    def __init__(
        self,
        units,
        use_bias=False,
        weight_norm=False,
        dropout=0.0,
        query_initializer="glorot_uniform",
        key_initializer="glorot_uniform",
        score_initializer="glorot_uniform",
        bias_initializer="zeros",
        query_regularizer=None,
        key_regularizer=None,
        score_regularizer=None,
        bias_regularizer=None,
        query_constraint=None,
        key_constraint=None,
        score_constraint=None,
        bias_constraint=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_count("units", units)
        check_rate("dropout", dropout)
        self.units = units
        self.use_bias = use_bias
        self.weight_norm = weight_norm
        self.dropout = dropout
        keep_options(
            self,
            query=(query_initializer, query_regularizer, query_constraint),
            key=(key_initializer, key_regularizer, key_constraint),
            score=(score_initializer, score_regularizer, score_constraint),
            bias=(bias_initializer, bias_regularizer, bias_constraint),
        )
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def build(self, input_shape):
        """Creates the weights for shapes `[query, value]` or `[.., key]`."""
        self._validate(input_shape)
        query_dim, value_dim, key_dim = (
            input_shape[0][-1],
            input_shape[1][-1],
            input_shape[-1][-1],
        )
        self.value_dim = value_dim
        units = self.units
        self.query_kernel = add_weight(
            self, "query", "query_kernel", (query_dim, units)
        )
        self.key_kernel = add_weight(self, "key", "key_kernel", (key_dim, units))
        self.score_kernel = add_weight(self, "score", "score_kernel", (units,))
        self.bias = self.score_gain = None
        if self.use_bias:
            self.bias = add_weight(self, "bias", "bias", (units,))
        if self.weight_norm:
            self.score_gain = self.add_weight(
                name="score_gain",
                shape=(),
                initializer=keras.initializers.Constant(units**-0.5),
            )
        self.built = True

    def project_keys(self, key):
        """Projects the keys, `(B, S, D)` to `U_a key`, `(B, S, A)`.

        The layer must have been built. The result serves any number of calls
        of `attend` on the same memory.
        """
        key = ops.cast(key, self.compute_dtype)
        return project(key, self._weight(self.key_kernel))

    def reader(self, value, keys, value_mask=None):
        """Binds a memory and the layer's weights, for a decoding loop.

        The weights are read here, once: a loop that read variables would keep
        a copy of them for each step's gradient.

        Args:
            value: the memory, `(B, S, D)`.
            keys: what `project_keys` returned, `(B, S, A)`.
            value_mask: boolean `(B, S)` or `(B, T, S)`, or `None`.

        Returns:
            Function `look(query, dropout_mask=None)` that returns what
            `attend` returns.
        """
        query_kernel = self._weight(self.query_kernel)
        score_kernel = ops.expand_dims(self.score_vector(), -1)
        bias = None if self.bias is None else self._weight(self.bias)
        value = ops.cast(value, self.compute_dtype)

        def look(query, dropout_mask=None):
            query = ops.matmul(ops.cast(query, self.compute_dtype), query_kernel)
            scores = additive_scores(query, keys, score_kernel, bias)
            mask = value_mask
            if mask is not None and len(scores.shape) > len(mask.shape):
                mask = ops.expand_dims(mask, 1)
            weights = ops.cast(masked_softmax(scores, mask), self.compute_dtype)
            used = weights if dropout_mask is None else weights * dropout_mask
            if len(used.shape) == 3:
                return ops.matmul(used, value), weights
            context = ops.matmul(ops.expand_dims(used, 1), value)
            return ops.squeeze(context, 1), weights

        return look

    @property
    def can_fuse(self):
        """Whether the fused recurrence scores as this layer; not for a subclass."""
        return type(self) is BahdanauAttention

    def biased_keys(self, keys):
        """The projected keys with the bias of the scores, where there is one."""
        return keys if self.bias is None else keys + self._weight(self.bias)

    def attend(self, query, value, keys, value_mask=None, dropout_mask=None):
        """Reads the memory with keys that are already projected.

        Args:
            query: `(B, D)` or `(B, T, D)`; `T` queries (the beams of a
                search, say) read one copy of the memory.
            value: the memory, `(B, S, D)`.
            keys: what `project_keys` returned, `(B, S, A)`.
            value_mask: boolean `(B, S)` or `(B, T, S)`, or `None`.
            dropout_mask: what `dropout_mask` returned, or `None`.

        Returns:
            The pair of contexts, `(B, D)` or `(B, T, D)`, and weights,
            `(B, S)` or `(B, T, S)`, both in the compute dtype.
        """
        return self.reader(value, keys, value_mask)(query, dropout_mask)

    def dropout_mask(self, shape, training=False):
        """Draws what `attend` multiplies the weights by, or `None`.

        It is drawn outside of a decoding loop, for all steps at once: a loop
        cannot draw random numbers on every backend.
        """
        if not training or not self.dropout:
            return None
        return dropout(
            ops.ones(shape, self.compute_dtype),
            self.dropout,
            seed=self.seed_generator,
        )

    def call(
        self,
        inputs,
        mask=None,
        return_attention_scores=False,
        training=False,
        use_causal_mask=False,
    ):
        self._validate(inputs, mask)
        query, value, key = inputs[0], inputs[1], inputs[-1]
        query_mask, value_mask = (mask[0], mask[1]) if mask else (None, None)
        positions = ops.shape(value)[1:-1]
        value, value_mask = flatten_positions(value, value_mask)
        keys = self.project_keys(flatten_positions(key)[0])
        if use_causal_mask:
            value_mask = causal_mask(query, value, value_mask)
        weights_shape = (*ops.shape(query)[:-1], ops.shape(value)[1])
        context, weights = self.attend(
            query,
            value,
            keys,
            value_mask,
            self.dropout_mask(weights_shape, training),
        )
        if query_mask is not None:
            query_mask = ops.expand_dims(ops.cast(query_mask, "bool"), -1)
            context = ops.where(query_mask, context, 0)
        if not return_attention_scores:
            return context
        if len(positions) > 1:
            leading = ops.shape(weights)[:-1]
            weights = ops.reshape(weights, (*leading, *positions))
        return context, weights

    def _weight(self, variable):
        return read(variable, self.compute_dtype)

    def score_vector(self):
        """`v_a`, or `g * v_a / |v_a|`: `(A,)`, `float32` or `float64`."""
        dtype = wide_dtype(self.variable_dtype)
        kernel = read(self.score_kernel, dtype)
        if not self.weight_norm:
            return kernel
        norm = ops.rsqrt(ops.sum(ops.square(kernel)) + 1e-12)
        gain = read(self.score_gain, dtype)
        return gain * kernel * norm

    def _validate(self, inputs, mask=None):
        is_list = isinstance(inputs, (list, tuple)) and len(inputs) in (2, 3)
        if not is_list or any(isinstance(entry, int) for entry in inputs):
            raise ValueError(
                "BahdanauAttention must be called on a list [query, value] or "
                f"[query, value, key]. Received: {inputs}"
            )
        if mask is not None and (
            not isinstance(mask, (list, tuple)) or len(mask) not in (2, 3)
        ):
            raise ValueError(
                "The mask of BahdanauAttention must be a list [query_mask, "
                f"value_mask], either of them may be None. Received: {mask}"
            )
        shapes = [getattr(entry, "shape", entry) for entry in inputs]
        if len(shapes[0]) not in (2, 3) or min(map(len, shapes[1:])) < 3:
            raise ValueError(
                "BahdanauAttention needs a query (B, D) or (B, T, D) and value "
                "and key (B, S, D). Received shapes: "
                f"{[tuple(shape) for shape in shapes]}"
            )
        value_positions, key_positions = shapes[1][1:-1], shapes[-1][1:-1]
        if len(value_positions) != len(key_positions) or any(
            None not in pair and pair[0] != pair[1]
            for pair in zip(value_positions, key_positions)
        ):
            raise ValueError(
                "BahdanauAttention needs a key for each value. Received shapes: "
                f"{[tuple(shape) for shape in shapes]}"
            )

    def compute_mask(self, inputs, mask=None):
        """The query's mask, `(B, T)`, or `None`."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, input_shape):
        """Shape of the contexts."""
        return (*input_shape[0][:-1], input_shape[1][-1])

    def compute_output_spec(
        self,
        inputs,
        mask=None,
        return_attention_scores=False,
        training=False,
        use_causal_mask=False,
    ):
        """Shapes and dtype of what `call` returns."""
        self._validate(inputs, mask)
        query, value = inputs[0], inputs[1]
        context = keras.KerasTensor(
            self.compute_output_shape([query.shape, value.shape]),
            dtype=self.compute_dtype,
        )
        if not return_attention_scores:
            return context
        weights = keras.KerasTensor(
            (*query.shape[:-1], *value.shape[1:-1]), dtype=self.compute_dtype
        )
        return context, weights

    def get_config(self):
        config = {
            "units": self.units,
            "use_bias": self.use_bias,
            "weight_norm": self.weight_norm,
            "dropout": self.dropout,
            "seed": self.seed,
        }
        options = options_config(self, "query", "key", "score", "bias")
        return {**super().get_config(), **config, **options}


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class FixedContext(keras.layers.Layer):
    """The context of a decoder without attention: always the same vector.

        context = value_1                                            (B, D)

    It stands in for `BahdanauAttention` in `AttentiveGRUDecoderCell`, with a
    memory of one position: the sentence's one vector `c`. It has no weights.

    Masking: a mask is accepted and ignored; there is only one position.

    Args:
        **kwargs: `name`, `dtype` and the like of `keras.layers.Layer`.

    Call arguments:
        inputs: list `[query, value]`, `(B, D)` or `(B, T, D)` and `(B, 1, D)`.

    Returns:
        The contexts, `(B, D)` or `(B, T, D)`.

    Raises:
        ValueError: if the memory has more than one position.

    Example:

    >>> import numpy as np
    >>> context = FixedContext()([np.ones((2, 3, 5)), np.ones((2, 1, 7))])
    >>> tuple(context.shape)
    (2, 3, 7)

    Reference: Cho et al. 2014 (arXiv 1406.1078), equation 10: `c` is the
    context; Bahdanau, Cho and Bengio 2014, section 2.1 (RNNencdec).
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        """Checks shapes `[query, value]`."""
        value_shape = input_shape[1]
        if len(value_shape) != 3 or value_shape[1] not in (None, 1):
            raise ValueError(
                "FixedContext needs a memory of one position, (B, 1, D). "
                f"Received shape: {tuple(value_shape)}"
            )
        self.value_dim = value_shape[-1]
        self.built = True

    def project_keys(self, key):
        """Returns the memory itself: nothing is compared with it."""
        return key

    @property
    def can_fuse(self):
        """Whether the fused recurrence does what this layer does."""
        return type(self) is FixedContext

    def dropout_mask(self, shape, training=False):
        """Returns `None`: there are no weights to drop."""
        return None

    def reader(self, value, keys, value_mask=None):
        """Returns a function that gives the vector and a weight of 1."""
        value = ops.cast(value, self.compute_dtype)

        def look(query, dropout_mask=None):
            ones = ops.ones_like(query[..., :1], dtype=self.compute_dtype)
            vector = value[:, :1] if len(query.shape) == 3 else value[:, 0]
            return ones * vector, ones

        return look

    def call(self, inputs, mask=None):
        query, value = inputs
        return self.reader(value, value)(query)[0]

    def compute_mask(self, inputs, mask=None):
        """The query's mask, `(B, T)`, or `None`."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, input_shape):
        """Shape of the contexts."""
        return (*input_shape[0][:-1], input_shape[1][-1])
