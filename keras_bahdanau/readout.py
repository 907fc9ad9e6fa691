"""The deep output: one maxout layer between the decoder and the softmax."""

import functools

import keras
from keras import ops

from keras_bahdanau.loop import read
from keras_bahdanau.products import project
from keras_bahdanau.random import Dropout
from keras_bahdanau.weights import (
    add_weight,
    check_count,
    check_rate,
    keep_options,
    options_config,
)


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class Maxout(keras.layers.Layer):
    """Keeps the largest of every `pool_size` neighbouring features.

        y_k = max(x_{(k-1)p+1}, ..., x_{kp})        (..., l p) -> (..., l)

    With `pool_size=2` the pairs are the paper's `(2k-1, 2k)`.

    Masking: passes the mask of its input on.

    Args:
        pool_size: Integer p, how many features compete for each output.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(..., l * pool_size)`, any number of leading axes.

    Returns:
        Tensor `(..., l)`.

    Raises:
        ValueError: If `pool_size` is not a positive integer or does not divide
            the number of features.

    Example:

    >>> import keras
    >>> from keras_bahdanau import Maxout
    >>> pairs = keras.ops.convert_to_tensor([[1.0, 3.0, 7.0, 2.0]])
    >>> keras.ops.convert_to_numpy(Maxout()(pairs)).tolist()
    [[3.0, 7.0]]

    Reference:
        Goodfellow et al., "Maxout Networks" (arXiv 1302.4389).
    """

    def __init__(self, pool_size=2, **kwargs):
        super().__init__(**kwargs)
        check_count("pool_size", pool_size)
        self.pool_size = pool_size
        self.supports_masking = True

    def build(self, input_shape):
        self._pooled_size(input_shape)

    def call(self, inputs):
        size = self._pooled_size(inputs.shape)
        leading = tuple(ops.shape(inputs)[:-1])
        groups = ops.reshape(inputs, leading + (size, self.pool_size))
        # Not `ops.max`: its gradient is slow on JAX, and it refuses an empty batch.
        return functools.reduce(ops.maximum, ops.unstack(groups, axis=-1))

    def _pooled_size(self, shape):
        if shape[-1] is None or shape[-1] % self.pool_size:
            raise ValueError(
                "The number of features must be known and a multiple of "
                f"`pool_size`. Received: pool_size={self.pool_size} and inputs of "
                f"shape {tuple(shape)}. Give the layer before {self.pool_size} "
                "times the features wanted here."
            )
        return shape[-1] // self.pool_size

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[:-1]) + (self._pooled_size(input_shape),)

    def get_config(self):
        return {**super().get_config(), "pool_size": self.pool_size}


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class MaxoutReadout(keras.layers.Layer):
    """Turns state, previous word and context into logits over the vocabulary.

        t~ = U_o s + V_o E y + C_o c + b            (..., l p)
        t_k = max of the k-th p neighbours of t~    (..., l)
        logits = W_o t + b_o                        (..., V)

    `s` is the paper's `s_{i-1}` or `s_i`: the caller's choice, not the layer's.
    The leading axes are free: `(B, .)` for one step, `(B, K, .)` for beams,
    `(B, T, .)` for a whole teacher-forced target; an axis of size 1 broadcasts.

    With `embedding` the embedding matrix takes the place of W_o (weight tying), so
    `units` must be its `output_dim`. Saving a Functional model keeps the tie.

    Masking: the inputs' masks are not used; the first that exists is passed on.

    Args:
        vocabulary_size: Integer V.
        units: Integer l, the size of the maxout output.
        pool_size: Integer p, how many features compete for each maxout output.
        use_bias: Boolean, whether there are biases before the maxout and on the
            logits.
        dropout: Float in [0, 1), the share of the maxout output to drop.
        embedding: `None`, or the `keras.layers.ReversibleEmbedding` of the target
            words, to be used in reverse.
        kernel_initializer: Initializer of U_o, V_o and C_o.
        output_initializer: Initializer of W_o.
        bias_initializer: Initializer of both biases.
        kernel_regularizer: Regularizer of U_o, V_o and C_o.
        output_regularizer: Regularizer of W_o.
        bias_regularizer: Regularizer of both biases.
        kernel_constraint: Constraint on U_o, V_o and C_o.
        output_constraint: Constraint on W_o.
        bias_constraint: Constraint on both biases.
        seed: Integer or `None`, the seed of the dropout.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        inputs: List `[state, embedded, context]` of tensors `(..., U)`, `(..., m)`
            and `(..., D)` with the same number of axes.
        training: Boolean, whether dropout is active.

    Returns:
        Logits `(..., vocabulary_size)`.

    Raises:
        ValueError: If an argument is out of its range, if the inputs are not three
            tensors of one rank, or if `embedding` does not fit.

    Example:

    >>> import keras
    >>> from keras_bahdanau import MaxoutReadout
    >>> readout = MaxoutReadout(vocabulary_size=11, units=3)
    >>> state = keras.ops.ones((2, 5, 7))
    >>> embedded, context = keras.ops.ones((2, 5, 4)), keras.ops.ones((2, 5, 6))
    >>> tuple(readout([state, embedded, context]).shape)
    (2, 5, 11)

    Reference:
        Bahdanau, Cho, Bengio, "Neural Machine Translation by Jointly Learning to
        Align and Translate", appendix A.2.2. `U_o` -> `state_kernel`, `V_o` ->
        `embedding_kernel`, `C_o` -> `context_kernel`, `W_o` -> `output_kernel`.
    """

    def __init__(
        self,
        vocabulary_size,
        units,
        pool_size=2,
        use_bias=True,
        dropout=0.0,
        embedding=None,
        kernel_initializer="glorot_uniform",
        output_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        output_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        output_constraint=None,
        bias_constraint=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_count("vocabulary_size", vocabulary_size)
        check_count("units", units)
        check_rate("dropout", dropout)
        if embedding is not None:
            _check_embedding(embedding, vocabulary_size, units)
        self.vocabulary_size = vocabulary_size
        self.units = units
        self.pool_size = pool_size
        self.use_bias = use_bias
        self.dropout = dropout
        self.embedding = embedding
        keep_options(
            self,
            kernel=(kernel_initializer, kernel_regularizer, kernel_constraint),
            output=(output_initializer, output_regularizer, output_constraint),
            bias=(bias_initializer, bias_regularizer, bias_constraint),
        )
        self.seed = seed
        self.supports_masking = True
        self.maxout = Maxout(pool_size, dtype=self.dtype_policy, name="maxout")
        self.dropout_layer = Dropout(
            dropout, seed=seed, dtype=self.dtype_policy, name="dropout"
        )

    def build(self, input_shape):
        _check_inputs(input_shape)
        width = self.units * self.pool_size
        self.state_kernel, self.embedding_kernel, self.context_kernel = (
            add_weight(self, "kernel", name, (shape[-1], width))
            for name, shape in zip(
                ("state_kernel", "embedding_kernel", "context_kernel"), input_shape
            )
        )
        self.bias = (
            add_weight(self, "bias", "bias", (width,)) if self.use_bias else None
        )
        if self.embedding is None:
            self.output_kernel = add_weight(
                self, "output", "output_kernel", (self.units, self.vocabulary_size)
            )
        elif not self.embedding.built:
            self.embedding.build()
        self.output_scale = None
        self.output_bias = (
            add_weight(self, "bias", "output_bias", (self.vocabulary_size,))
            if self.use_bias
            else None
        )
        leading = self._leading_shape(input_shape)
        self.maxout.build(leading + (width,))
        self.dropout_layer.build(leading + (self.units,))

    def call(self, inputs, mask=None, training=None):
        state, embedded, context = inputs
        return self.logits(self.project(embedded, context), state, training)

    def project(self, embedded, context):
        """`V_o E y + C_o c`, `(..., l p)`."""
        projected = project(embedded, read(self.embedding_kernel, self.compute_dtype))
        kernel = read(self.context_kernel, self.compute_dtype)
        return projected + project(context, kernel)

    def hidden(self, projected, state, training=None):
        """What the output matrix multiplies: the maxout, after its dropout.

        Args:
            projected: what `project` returned.
            state: `s`, `(..., U)`.
            training: whether dropout is active.

        Returns:
            Tensor `(..., l)`.
        """
        kernel = read(self.state_kernel, self.compute_dtype)
        hidden = projected + project(state, kernel)
        if self.use_bias:
            hidden = hidden + self.bias
        return self.dropout_layer(self.maxout(hidden), training=training)

    def output_weights(self):
        """The output matrix `(l, V)` and its bias `(V,)` or `None`, both read."""
        dtype = self.compute_dtype
        if self.embedding is None:
            kernel, scale = read(self.output_kernel, dtype), self.output_scale
        else:
            kernel = ops.transpose(read(self.embedding.embeddings, dtype))
            scale = getattr(self.embedding, "embeddings_scale", None)
        if scale is not None:
            kernel = kernel / read(scale, dtype)
        bias = self.output_bias
        return kernel, None if bias is None else read(bias, dtype)

    def quantize(self, mode=None, type_check=True, config=None):
        """Turns the output matrix into 8-bit integers, for decoding with less memory.

        Each column has a scale of its own. The product itself stays one of floats:
        of integers it is slower wherever there is no XLA. A tied embedding is
        quantised by itself, before or after.

        Args:
            mode: `"int8"`.
            type_check: whether to refuse a subclass.
            config: a `keras.quantizers.Int8QuantizationConfig`, for its quantizer of
                weights.

        Raises:
            NotImplementedError: at another mode, or for a subclass.
        """
        if mode != "int8" or (type_check and type(self) is not MaxoutReadout):
            raise NotImplementedError(
                "Only the mode 'int8' of MaxoutReadout itself is there. Received: "
                f"mode={mode!r} of a {type(self).__name__}"
            )
        if self.embedding is not None:
            return
        quantizer = getattr(config, "weight_quantizer", None)
        quantizer = quantizer or keras.quantizers.AbsMaxQuantizer(axis=0)
        kernel, scale = quantizer(self.output_kernel, to_numpy=True)
        del self.output_kernel
        held = {"trainable": False, "initializer": "zeros"}
        self.output_kernel = self.add_weight(
            name="output_kernel", shape=kernel.shape, dtype="int8", **held
        )
        self.output_scale = self.add_weight(
            name="output_scale", shape=(self.vocabulary_size,), **held
        )
        self.output_kernel.assign(kernel)
        self.output_scale.assign(ops.reshape(scale, (-1,)))

    def logits(self, projected, state, training=None):
        """The logits `(..., V)`; the arguments are those of `hidden`."""
        kernel, bias = self.output_weights()
        logits = project(self.hidden(projected, state, training), kernel)
        return logits if bias is None else logits + bias

    def compute_mask(self, inputs, mask=None):
        masks = mask if isinstance(mask, (list, tuple)) else [mask]
        return next((one for one in masks if one is not None), None)

    def compute_output_shape(self, input_shape):
        _check_inputs(input_shape)
        return self._leading_shape(input_shape) + (self.vocabulary_size,)

    @staticmethod
    def _leading_shape(input_shape):
        """The leading axes; one that is 1 or unknown yields to one that is not."""
        leading = []
        for sizes in zip(*(shape[:-1] for shape in input_shape)):
            larger = [size for size in sizes if size not in (None, 1)]
            unknown = None if None in sizes else 1
            leading.append(larger[0] if larger else unknown)
        return tuple(leading)

    def get_config(self):
        config = super().get_config()
        config.update(
            vocabulary_size=self.vocabulary_size,
            units=self.units,
            pool_size=self.pool_size,
            use_bias=self.use_bias,
            dropout=self.dropout,
            embedding=keras.saving.serialize_keras_object(self.embedding),
            seed=self.seed,
        )
        return {**config, **options_config(self, "kernel", "output", "bias")}

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        if isinstance(config.get("embedding"), dict):
            config["embedding"] = keras.saving.deserialize_keras_object(
                config["embedding"]
            )
        return cls(**config)


def _check_embedding(embedding, vocabulary_size, units):
    if not isinstance(embedding, keras.layers.ReversibleEmbedding):
        raise ValueError(
            "`embedding` must be a `keras.layers.ReversibleEmbedding`. "
            f"Received: embedding={embedding!r}. Embed the target words with one, or "
            "leave `embedding` out."
        )
    if (embedding.input_dim, embedding.output_dim) != (vocabulary_size, units):
        raise ValueError(
            "`embedding` takes the place of the output matrix, so it must have "
            f"input_dim={vocabulary_size} (`vocabulary_size`) and "
            f"output_dim={units} (`units`). Received: "
            f"input_dim={embedding.input_dim}, output_dim={embedding.output_dim}. "
            "Make `units` the size of the embedding."
        )


def _check_inputs(input_shape):
    if (
        len(input_shape) == 3
        and all(isinstance(shape, (list, tuple)) for shape in input_shape)
        and len({len(shape) for shape in input_shape}) == 1
    ):
        return
    raise ValueError(
        "The readout takes a list `[state, embedded, context]` of three tensors with "
        f"the same number of axes. Received shape(s): {input_shape}. Insert the "
        "missing axis, of size 1, with `keras.ops.expand_dims`."
    )
