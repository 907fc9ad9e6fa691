"""The bridge: from what the encoder read to the decoder's first state."""

import keras
from keras import ops

from keras_bahdanau.scores import wide_dtype
from keras_bahdanau.weights import (
    add_weight,
    check_count,
    keep_options,
    options_config,
)

_MODES = ("backward", "mean", "last", "zero")


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class StateBridge(keras.layers.Layer):
    """Makes the decoder's initial state from the encoder's memory and state.

    With `state = [forward state ; backward state]` as the encoder returns it:

        mode="backward": s_0 = tanh(W_s backward + b)                  (B, U)
        mode="mean":     s_0 = tanh(W_s mean_j memory_j + b)           (B, U)
        mode="last":     s_0 = tanh(W_s state + b)                     (B, U)
        mode="zero":     s_0 = 0                                       (B, U)

    `"backward"` is the paper: the backward state at the first word has read the
    whole sentence and stands where the translation starts. `"mean"` averages the
    real positions only; `"zero"` has no weights.

    Masking: `mask[0]` `(B, S)`, `True` at real positions of the memory, counts in
    `"mean"` only; a row that is all padding has mean 0. The result carries no mask.

    Args:
        units: Integer, the size of the decoder's state.
        mode: `"backward"`, `"mean"`, `"last"` or `"zero"`.
        activation: Activation of the state.
        use_bias: Boolean, whether there is a bias.
        kernel_initializer: Initializer of the kernel (W_s).
        bias_initializer: Initializer of the bias.
        kernel_regularizer: Regularizer of the kernel.
        bias_regularizer: Regularizer of the bias.
        kernel_constraint: Constraint on the kernel.
        bias_constraint: Constraint on the bias.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        inputs: List `[memory, state]` of tensors `(B, S, D)` and `(B, 2E)`, with E
            the size of one direction of the encoder.
        mask: List `[memory_mask, None]`. By default the masks the inputs carry.

    Returns:
        The state `(B, units)`.

    Raises:
        ValueError: If `mode` is unknown, if the inputs are not such a list, or if
            `mode="backward"` meets a state of odd size.

    Example:

    >>> import keras
    >>> from keras_bahdanau import StateBridge
    >>> memory, state = keras.ops.ones((2, 3, 10)), keras.ops.ones((2, 10))
    >>> tuple(StateBridge(units=7)([memory, state]).shape)
    (2, 7)

    Reference:
        Bahdanau, Cho, Bengio, "Neural Machine Translation by Jointly Learning to
        Align and Translate", appendix A.2.2. `W_s` -> `kernel`.
    """

    def __init__(
        self,
        units,
        mode="backward",
        activation="tanh",
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_count("units", units)
        if mode not in _MODES:
            raise ValueError(
                f"`mode` must be one of {', '.join(map(repr, _MODES))}. "
                f"Received: mode={mode!r}. The paper's is 'backward'."
            )
        self.units = units
        self.mode = mode
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        keep_options(
            self,
            kernel=(kernel_initializer, kernel_regularizer, kernel_constraint),
            bias=(bias_initializer, bias_regularizer, bias_constraint),
        )
        self.supports_masking = True
        self.kernel = None
        self.bias = None

    def build(self, input_shape):
        memory_shape, state_shape = _check_inputs(input_shape)
        if self.mode == "zero":
            return
        size = memory_shape[-1] if self.mode == "mean" else state_shape[-1]
        if self.mode == "backward":
            if size % 2:
                raise ValueError(
                    "`mode='backward'` takes the second half of the encoder's state, "
                    "so its size must be even. Received a state of shape "
                    f"{tuple(state_shape)}. Pass [forward ; backward] states, or use "
                    "`mode='last'` for an encoder of one direction."
                )
            size //= 2
        self.kernel = add_weight(self, "kernel", "kernel", (size, self.units))
        if self.use_bias:
            self.bias = add_weight(self, "bias", "bias", (self.units,))

    def call(self, inputs, mask=None):
        memory, state = inputs
        if self.mode == "zero":
            batch_size = ops.shape(state)[0]
            return ops.zeros((batch_size, self.units), dtype=self.compute_dtype)
        if self.mode == "mean":
            summary = _masked_mean(memory, None if mask is None else mask[0])
        elif self.mode == "backward":
            summary = state[:, state.shape[-1] // 2 :]
        else:
            summary = state
        output = ops.matmul(summary, self.kernel)
        if self.use_bias:
            output = output + self.bias
        return self.activation(output)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        memory_shape, state_shape = _check_inputs(input_shape)
        return (state_shape[0], self.units)

    def get_config(self):
        config = super().get_config()
        config.update(
            units=self.units,
            mode=self.mode,
            activation=keras.activations.serialize(self.activation),
            use_bias=self.use_bias,
        )
        return {**config, **options_config(self, "kernel", "bias")}


def _masked_mean(memory, mask):
    """The mean over real positions, summed in float32; 0 where there are none."""
    dtype = memory.dtype
    values = ops.cast(memory, wide_dtype(dtype))
    if mask is None:
        return ops.cast(ops.mean(values, axis=1), dtype)
    mask = ops.cast(mask, "bool")[:, :, None]
    total = ops.sum(ops.where(mask, values, ops.zeros_like(values)), axis=1)
    count = ops.sum(ops.cast(mask, values.dtype), axis=1)
    return ops.cast(total / ops.maximum(count, 1), dtype)


def _check_inputs(input_shape):
    if len(input_shape) == 2 and all(
        isinstance(shape, (list, tuple)) for shape in input_shape
    ):
        memory_shape, state_shape = input_shape
        if len(memory_shape) == 3 and len(state_shape) == 2:
            return memory_shape, state_shape
    raise ValueError(
        "The bridge takes a list `[memory, state]` of tensors of shapes "
        f"(batch, length, size) and (batch, size). Received shape(s): {input_shape}. "
        "Pass both outputs of `BidirectionalGRUEncoder`."
    )
