"""The bidirectional GRU encoder: source vectors in, annotations out."""

import keras
from keras import ops

from keras_bahdanau.initializers import fresh
from keras_bahdanau.loop import read
from keras_bahdanau.products import project
from keras_bahdanau.recurrence import gru_states
from keras_bahdanau.weights import (
    check_count,
    check_fused,
    check_rate,
    keep_options,
    options_config,
)


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class BidirectionalGRUEncoder(keras.layers.Layer):
    """Reads a sequence in both directions with stacked bidirectional GRUs.

    For each layer, with `o` the element-wise product and `x_j` the input:

        z_j  = sigmoid(W_z x_j + U_z h_{j-1} + b_z)              (B, U)
        r_j  = sigmoid(W_r x_j + U_r h_{j-1} + b_r)              (B, U)
        h~_j = tanh(W x_j + U (r_j o h_{j-1}) + b)               (B, U)
        h_j  = z_j o h_{j-1} + (1 - z_j) o h~_j                  (B, U)
        annotation_j = [forward h_j ; backward h_j]              (B, 2U)

    The paper swaps the roles of `z` and `1 - z`. `sigmoid(-a) = 1 - sigmoid(a)`,
    so its unit is this one with the update gate's weights negated: the same
    family of functions. `reset_after=False` (the default, and the paper) applies
    the reset gate before the recurrent product; `reset_after=True` applies it
    after, which is what cuDNN computes.

    The layer returns `(memory, state)`: the annotations of the top layer and
    `[forward state at the last real position ; backward state at the first]` of
    the top layer, which is what `StateBridge` takes. Without `residual` the second
    half of `state` is `memory[:, 0, units:]` when padding is on the right.

    An initial state never costs the sequence its mask, though it does in
    `keras.layers.GRU` and `keras.layers.Bidirectional`: the mask of an embedding
    is picked up with and without `initial_state`, eagerly and in a Functional
    model.

    Masking: the mask `(B, S)` is `True` at real positions. Padded positions are
    skipped: they change no state, and their annotations are 0. Padding on the
    right or on the left, of any amount, changes nothing else; only cuDNN
    (`reset_after=True` on a GPU) is limited to padding on the right, and Keras
    says so when it meets anything else: pass `use_cudnn=False` there. A row that
    is all padding has annotations 0 and its initial state (by default 0) as
    state. `memory` carries the mask on, `state` carries none.

    Args:
        units: Integer, the size U of each direction's state.
        num_layers: Integer, how many bidirectional layers are stacked.
        residual: Boolean, whether each layer from the second on adds its input
            to its output. States are unaffected.
        dropout: Float in [0, 1), the share of each layer's inputs to drop. One
            pattern per sequence, the same at every position.
        recurrent_dropout: Float in [0, 1), the share of the recurrent state to
            drop, likewise.
        reset_after: Boolean, whether the reset gate comes after the recurrent
            product.
        activation: Activation of the candidate state.
        recurrent_activation: Activation of the gates.
        use_bias: Boolean, whether the gates and the candidate have biases.
        kernel_initializer: Initializer of the input matrices W.
        recurrent_initializer: Initializer of the recurrent matrices U.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the input matrices.
        recurrent_regularizer: Regularizer of the recurrent matrices.
        bias_regularizer: Regularizer of the biases.
        kernel_constraint: Constraint on the input matrices.
        recurrent_constraint: Constraint on the recurrent matrices.
        bias_constraint: Constraint on the biases.
        use_cudnn: `"auto"`, `True` or `False`, as in `keras.layers.GRU`. `False`
            keeps a model exportable and compilable by XLA with
            `reset_after=True`.
        unroll: Boolean, whether to unroll the loop over a static S.
        fused: `"auto"`, `True` or `False`: whether to run both directions in one
            loop with a gradient by hand, which is faster and keeps less memory, in
            place of two `keras.layers.GRU`. `"auto"`: where it covers the options
            (`reset_after=False`, the usual activations, no `recurrent_dropout`).
            The weights and the numbers are the same. The gradient by hand has itself
            no gradient: for second derivatives pass `False`.
        seed: Integer or `None`, the seed of the dropouts. Each layer and direction
            draws its own patterns, and its own weights from an initializer with a
            seed.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        sequences: Tensor `(B, S, D)`.
        initial_state: `None` for zeros; for one layer a tensor `(B, 2U)`, the
            forward half first; or a list of `num_layers` such tensors, from the
            bottom layer up.
        mask: Boolean `(B, S)`. By default the mask that `sequences` carries.
        sequences_mask: The same under the name that Keras fills when `sequences`
            is not the only tensor. Pass `mask`, which wins over it.
        training: Boolean, whether dropout is active.

    Returns:
        `memory` `(B, S, 2U)` and `state` `(B, 2U)`.

    Raises:
        ValueError: If an argument is out of its range, if `sequences` has not
            three axes, or if `initial_state` does not fit the layers.

    Example:

    >>> import keras
    >>> from keras_bahdanau import BidirectionalGRUEncoder
    >>> ids = keras.ops.convert_to_tensor([[5, 3, 7], [2, 6, 0]])
    >>> embedded = keras.layers.Embedding(11, 4, mask_zero=True)(ids)
    >>> encoder = BidirectionalGRUEncoder(units=5)
    >>> memory, state = encoder(embedded)
    >>> tuple(memory.shape), tuple(state.shape)
    ((2, 3, 10), (2, 10))
    >>> keras.ops.convert_to_numpy(memory)[1, 2].tolist() == [0.0] * 10
    True

    Reference:
        Bahdanau, Cho, Bengio, "Neural Machine Translation by Jointly Learning to
        Align and Translate", appendix A.2.1. `[W_z W_r W]` -> each cell's `kernel`,
        `[U_z U_r U]` -> its `recurrent_kernel` (z negated), annotations `h_j` ->
        `memory`.
    """

    def __init__(
        self,
        units,
        num_layers=1,
        residual=False,
        dropout=0.0,
        recurrent_dropout=0.0,
        reset_after=False,
        activation="tanh",
        recurrent_activation="sigmoid",
        use_bias=True,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        kernel_regularizer=None,
        recurrent_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        recurrent_constraint=None,
        bias_constraint=None,
        use_cudnn="auto",
        unroll=False,
        fused="auto",
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_count("units", units)
        check_count("num_layers", num_layers)
        check_rate("dropout", dropout)
        check_rate("recurrent_dropout", recurrent_dropout)
        self.units = units
        self.num_layers = num_layers
        self.residual = residual
        self.dropout = dropout
        self.recurrent_dropout = recurrent_dropout
        self.reset_after = reset_after
        self.activation = keras.activations.get(activation)
        self.recurrent_activation = keras.activations.get(recurrent_activation)
        self.use_bias = use_bias
        keep_options(
            self,
            kernel=(kernel_initializer, kernel_regularizer, kernel_constraint),
            recurrent=(
                recurrent_initializer,
                recurrent_regularizer,
                recurrent_constraint,
            ),
            bias=(bias_initializer, bias_regularizer, bias_constraint),
        )
        self.use_cudnn = use_cudnn
        self.unroll = unroll
        check_fused(fused, self._can_fuse())
        self.fused = fused
        self.seed = seed
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.layers = [self._make_layer(index) for index in range(num_layers)]

    def _can_fuse(self):
        return (
            self.activation is keras.activations.tanh
            and self.recurrent_activation is keras.activations.sigmoid
            and not self.reset_after
            and not self.recurrent_dropout
        )

    def _make_layer(self, index):
        """Builds one `Bidirectional(GRU)`; each direction has its own seeds."""
        forward = self._make_gru("gru", 2 * index, go_backwards=False)
        layer = keras.layers.Bidirectional(
            forward,
            backward_layer=self._make_gru(
                "backward_gru", 2 * index + 1, go_backwards=True
            ),
            dtype=self.dtype_policy,
            name=f"bidirectional_{index}",
        )
        # Bidirectional rebuilds the forward layer from a config that lacks
        # `use_cudnn`, so without this the copy would go on refusing XLA.
        layer.forward_layer.supports_jit = forward.supports_jit
        if self.unroll:
            # Unrolled, Keras 3.15 zeroes the wrong positions (TensorFlow, going
            # backwards) or none (JAX). `_run_layer` does it instead.
            layer.forward_layer.zero_output_for_mask = False
            layer.backward_layer.zero_output_for_mask = False
        return layer

    def _make_gru(self, name, index, go_backwards):
        return keras.layers.GRU(
            self.units,
            activation=self.activation,
            recurrent_activation=self.recurrent_activation,
            use_bias=self.use_bias,
            kernel_initializer=fresh(self.kernel_initializer, index),
            recurrent_initializer=fresh(self.recurrent_initializer, index),
            bias_initializer=fresh(self.bias_initializer, index),
            kernel_regularizer=self.kernel_regularizer,
            recurrent_regularizer=self.recurrent_regularizer,
            bias_regularizer=self.bias_regularizer,
            kernel_constraint=self.kernel_constraint,
            recurrent_constraint=self.recurrent_constraint,
            bias_constraint=self.bias_constraint,
            dropout=self.dropout,
            recurrent_dropout=self.recurrent_dropout,
            reset_after=self.reset_after,
            return_sequences=True,
            return_state=True,
            go_backwards=go_backwards,
            # Torch runs its loop unrolled anyway, and Keras 3.15 fails there when a
            # backward GRU that is told to unroll meets a mask.
            unroll=self.unroll and keras.backend.backend() != "torch",
            use_cudnn=self.use_cudnn,
            seed=None if self.seed is None else self.seed + index,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, sequences_shape, initial_state_shape=None):
        self._check_state_shape(initial_state_shape)
        batch_size, length = sequences_shape[0], sequences_shape[1]
        shape = tuple(sequences_shape)
        for layer in self.layers:
            layer.build(shape)
            shape = (batch_size, length, 2 * self.units)

    def call(
        self,
        sequences,
        initial_state=None,
        mask=None,
        sequences_mask=None,
        training=None,
    ):
        mask = sequences_mask if mask is None else mask
        if mask is not None:
            mask = ops.cast(mask, "bool")
        states = self._split_states(initial_state)
        memory, state = sequences, None
        for index, (layer, initial) in enumerate(zip(self.layers, states)):
            output, state = self._run_layer(layer, memory, initial, mask, training)
            memory = output + memory if self.residual and index > 0 else output
        return memory, state

    def _run_layer(self, layer, sequences, initial_state, mask, training):
        """Runs one layer and returns its outputs and its joined last states."""
        if self.fused is True or (self.fused == "auto" and self._can_fuse()):
            return self._run_fused(layer, sequences, initial_state, mask, training)
        by_hand = mask is not None and (
            self.unroll or (self.reset_after and self.use_cudnn)
        )
        # Keras would drop an implicit mask where there is an initial state.
        output, forward_state, backward_state = layer(
            sequences,
            initial_state=initial_state,
            mask=_open_empty_rows(mask) if by_hand else mask,
            training=training,
        )
        state = ops.concatenate([forward_state, backward_state], axis=-1)
        if by_hand:
            output = ops.where(mask[:, :, None], output, ops.zeros_like(output))
            state = _restore_empty_rows(state, initial_state, mask)
        return output, state

    def _run_fused(self, layer, sequences, initial_state, mask, training):
        """What `_run_layer` does, both directions in one loop."""
        directions = [layer.forward_layer, layer.backward_layer]
        outputs = gru_outputs(
            directions, sequences, initial_state, mask, training, self.unroll
        )
        state = ops.concatenate([output[:, -1] for output in outputs], axis=-1)
        outputs[1] = ops.flip(outputs[1], axis=1)
        output = ops.concatenate(outputs, axis=-1)
        if mask is not None:
            output = ops.where(mask[:, :, None], output, ops.zeros_like(output))
        return output, state

    def _split_states(self, initial_state):
        """Turns the argument into one `[forward, backward]` pair per layer."""
        if initial_state is None:
            return [None] * self.num_layers
        if not isinstance(initial_state, (list, tuple)):
            initial_state = [initial_state]
        self._check_state_shape([tuple(state.shape) for state in initial_state])
        return [ops.split(state, 2, axis=-1) for state in initial_state]

    def _check_state_shape(self, shape):
        """Raises unless `shape` is `(B, 2U)` or a list of `num_layers` such."""
        if shape is None:
            return
        shapes = list(shape) if _is_list_of_shapes(shape) else [shape]
        if len(shapes) == self.num_layers and all(
            len(one) == 2 and one[-1] in (None, 2 * self.units) for one in shapes
        ):
            return
        raise ValueError(
            f"`initial_state` must be {self.num_layers} tensor(s) of shape "
            f"(batch, {2 * self.units}): for each layer the forward state and the "
            f"backward state, concatenated. Received shapes: {shapes}. Pass a list "
            "with one such tensor per layer, or a single tensor for one layer."
        )

    def compute_mask(self, sequences, mask=None):
        return [mask, None]

    def compute_output_shape(self, sequences_shape, initial_state_shape=None):
        self._check_state_shape(initial_state_shape)
        batch_size, length = sequences_shape[0], sequences_shape[1]
        return (batch_size, length, 2 * self.units), (batch_size, 2 * self.units)

    def get_config(self):
        config = super().get_config()
        for name in (
            "units",
            "num_layers",
            "residual",
            "dropout",
            "recurrent_dropout",
            "reset_after",
            "use_bias",
            "use_cudnn",
            "unroll",
            "fused",
            "seed",
        ):
            config[name] = getattr(self, name)
        for name in ("activation", "recurrent_activation"):
            config[name] = keras.activations.serialize(getattr(self, name))
        return {**config, **options_config(self, "kernel", "recurrent", "bias")}


def gru_outputs(
    layers, sequences, initial_state=None, mask=None, training=False, unroll=False
):
    """The states of GRU layers that read the same, in one loop with a gradient by hand.

    Masking: where the mask is `False` a state stays as it was.

    Args:
        layers: list of built `keras.layers.GRU`, with `reset_after=False`, the usual
            activations and no `recurrent_dropout`.
        sequences: `(B, S, D)`.
        initial_state: list of states `(B, U)`, or `None` for zeros.
        mask: boolean `(B, S)`, or `None`.
        training: whether to apply the dropout of the layers.
        unroll: whether to unroll the loop.

    Returns:
        List of states `(B, S, U)`, in the order in which each layer reads.
    """
    dtype = layers[0].compute_dtype
    sequences = ops.cast(sequences, dtype)
    if initial_state is None:
        shape = (ops.shape(sequences)[0], layers[0].units)
        initial_state = [ops.zeros(shape, dtype)] * len(layers)

    def in_order(layer, tensor):
        return ops.flip(tensor, axis=1) if layer.go_backwards else tensor

    return gru_states(
        [
            in_order(layer, _project(layer.cell, sequences, training))
            for layer in layers
        ],
        [ops.cast(state, dtype) for state in initial_state],
        [read(layer.cell.recurrent_kernel, dtype) for layer in layers],
        None if mask is None else [in_order(layer, mask) for layer in layers],
        unroll,
    )


def _project(cell, sequences, training):
    """`[W_z, W_r, W] x` and the bias of one direction, `(B, S, 3U)`."""
    if training and cell.dropout:
        # The cell's own mask, so that it is the one that Keras would draw.
        dropped = cell.get_dropout_mask(sequences[:, 0])
        cell.reset_dropout_mask()
        sequences = sequences * ops.expand_dims(dropped, 1)
    projected = project(sequences, read(cell.kernel, sequences.dtype))
    if cell.use_bias:
        projected = projected + read(cell.bias, sequences.dtype)
    return projected


def _open_empty_rows(mask):
    """Marks the first position of all-padding rows real: cuDNN wants one."""
    empty = ops.logical_not(ops.any(mask, axis=1, keepdims=True))
    return ops.concatenate([ops.logical_or(mask[:, :1], empty), mask[:, 1:]], axis=1)


def _restore_empty_rows(state, initial_state, mask):
    """Gives all-padding rows their initial state back."""
    if initial_state is None:
        untouched = ops.zeros_like(state)
    else:
        untouched = ops.cast(ops.concatenate(initial_state, axis=-1), state.dtype)
    return ops.where(ops.any(mask, axis=1, keepdims=True), state, untouched)


def _is_list_of_shapes(shape):
    return len(shape) > 0 and isinstance(shape[0], (list, tuple))
