"""The attentive decoder: a GRU that looks at a memory before each update."""

import keras
from keras import ops

from keras_bahdanau.attention import FixedContext
from keras_bahdanau.loop import read
from keras_bahdanau.products import project
from keras_bahdanau.random import dropout
from keras_bahdanau.recurrence import attentive_states, gru_states
from keras_bahdanau.weights import (
    add_weight,
    check_rate,
    keep_options,
    options_config,
)

LOOK_UPDATE_GENERATE = "look_update_generate"
LOOK_GENERATE_UPDATE = "look_generate_update"
STEP_ORDERS = (LOOK_UPDATE_GENERATE, LOOK_GENERATE_UPDATE)


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class AttentiveGRUDecoderCell(keras.layers.GRUCell):
    """One step of the paper's decoder: look at the memory, then update.

        c_i  = attention(s_{i-1}, memory)                            (B, D)
        z_i  = sigmoid(W_z y_{i-1} + U_z s_{i-1} + C_z c_i)          (B, U)
        r_i  = sigmoid(W_r y_{i-1} + U_r s_{i-1} + C_r c_i)          (B, U)
        s~_i = tanh(W y_{i-1} + U (r_i * s_{i-1}) + C c_i)           (B, U)
        s_i  = z_i * s_{i-1} + (1 - z_i) * s~_i                      (B, U)

    The update gate is written as Keras writes it. The paper has `1 - z` in
    place of `z`, which is the same unit with the weights of the gate negated.

    It is a `keras.layers.GRUCell` whose candidate and gates also see a
    context, and takes all the arguments of one; with a context kernel of
    zeros it equals one. Use it in `AttentiveRNN`, which hands it the memory,
    or in plain `keras.layers.RNN` with the states that `MemoryStates` makes.

    Masking: the mask of the memory keeps the attention off padding. Masks of
    the sequence are the business of the layer around the cell.

    Args:
        units: size `U` of the state.
        attention: `BahdanauAttention`, or any layer with its methods
            `project_keys`, `reader` and `dropout_mask` and, once built, its
            attribute `value_dim`.
        step_order: what the output of step `i` is. With
            `"look_update_generate"` it is the new state `s_i`; with
            `"look_generate_update"` it is the state `s_{i-1}` that looked at
            the memory, as in the readout of the paper's appendix.
        output_context: whether the output is `[state; context]`,
            `(B, U + D)`, in place of the state. (`AttentiveRNN` returns
            contexts by an option of its own.)
        context_dim: size `D` of the memory's vectors. Needed only where the
            cell is built before its attention, which is neither the case in
            `AttentiveRNN` nor after `MemoryStates`.
        context_initializer: initializer of `context_kernel` (`C`).
        context_regularizer: regularizer of `context_kernel`.
        context_constraint: constraint of `context_kernel`.
        reset_after: whether the reset gate comes after the recurrent product.
            `False` is the paper, and the default here.
        recurrent_dropout: rate at which parts of the state are dropped where
            it enters the gates and the candidate; one mask for all of them
            and for all steps of a sequence. The attention sees the whole state.
        **kwargs: further arguments of `keras.layers.GRUCell`, such as
            `dropout` (one mask for all steps), `kernel_initializer`, `seed`.

    Call arguments:
        inputs: `y_{i-1}`, `(B, m)`.
        states: list `[s_{i-1}, memory, keys, memory_mask]` of shapes
            `(B, U)`, `(B, S, D)`, `(B, S, A)`, `(B, S)`.
        training: whether to apply dropout.

    Returns:
        The output, `(B, U)`, and the list of states with `s_i` in front.

    Raises:
        ValueError: if `step_order` is unknown, if `attention` lacks one of its
            methods, or if the states are not the four named above.

    Example:

    >>> import keras, numpy as np
    >>> from keras_bahdanau import (
    ...     AttentiveGRUDecoderCell, BahdanauAttention, MemoryStates
    ... )
    >>> attention = BahdanauAttention(5)
    >>> cell = AttentiveGRUDecoderCell(3, attention)
    >>> states = MemoryStates(attention)([np.ones((2, 3)), np.ones((2, 7, 4))])
    >>> decoder = keras.layers.RNN(cell, return_sequences=True)
    >>> tuple(decoder(np.ones((2, 6, 8)), initial_state=states).shape)
    (2, 6, 3)

    Reference: Bahdanau, Cho and Bengio 2014, appendix A.1.2 and A.2.2.
    `[W_z, W_r, W]` is `kernel`, `[U_z, U_r, U]` is `recurrent_kernel`,
    `[C_z, C_r, C]` is `context_kernel` (each transposed).
    """

    def __init__(
        self,
        units,
        attention,
        step_order=LOOK_UPDATE_GENERATE,
        output_context=False,
        context_dim=None,
        context_initializer="glorot_uniform",
        context_regularizer=None,
        context_constraint=None,
        reset_after=False,
        recurrent_dropout=0.0,
        **kwargs,
    ):
        check_rate("dropout", kwargs.get("dropout", 0.0))
        check_rate("recurrent_dropout", recurrent_dropout)
        super().__init__(units, reset_after=reset_after, **kwargs)
        # Set afterwards: GRUCell would draw one mask for each gate.
        self.recurrent_dropout = recurrent_dropout
        if step_order not in STEP_ORDERS:
            raise ValueError(
                f"`step_order` must be one of {STEP_ORDERS}. "
                f"Received: step_order={step_order!r}"
            )
        needed = ("project_keys", "reader", "dropout_mask")
        if not all(hasattr(attention, name) for name in needed):
            raise ValueError(
                "`attention` must be a layer with the methods `project_keys`, "
                "`reader` and `dropout_mask`, such as BahdanauAttention. "
                f"Received: attention={attention!r}"
            )
        self.attention = attention
        self.step_order = step_order
        self.output_context = output_context
        self.context_dim = context_dim
        keep_options(
            self,
            context=(context_initializer, context_regularizer, context_constraint),
        )
        # In plain RNN: s, memory, keys, mask. Keras wants plain integers; those
        # of the last three are never used as sizes.
        self.own_state_size = [units]
        self.state_size = [units, units, units, 1]

    def build(self, input_shape, memory_shape=None):
        """Creates the weights.

        Args:
            input_shape: shape of `y_{i-1}`, `(B, m)`.
            memory_shape: shape of the memory, `(B, S, D)`; may be left out
                where `attention` is built or `context_dim` is given.
        """
        if memory_shape is None:
            memory_shape = (None, None, self._known_context_dim())
        if not self.attention.built:
            self.attention.build([(None, self.units), tuple(memory_shape)])
        super().build(input_shape)
        context_dim = memory_shape[-1]
        shape = (context_dim, 3 * self.units)
        self.context_kernel = add_weight(self, "context", "context_kernel", shape)
        if self.output_context:
            self.output_size = self.units + context_dim
        self.built = True

    def _known_context_dim(self):
        if self.context_dim is not None:
            return self.context_dim
        if self.attention.built:
            return self.attention.value_dim
        raise ValueError(
            "The cell cannot tell the size of the memory's vectors. Call "
            "MemoryStates(attention) with the same attention before the RNN "
            "layer, or give the cell `context_dim`, or use AttentiveRNN."
        )

    def get_initial_state(self, batch_size=None):
        """Raises: without a memory there is no state to start from."""
        raise ValueError(
            "AttentiveGRUDecoderCell needs a memory to look at. Pass "
            "`initial_state=MemoryStates(attention)([state, memory])` to "
            "keras.layers.RNN, or use AttentiveRNN."
        )

    def project_inputs(self, inputs, training=False):
        """The part of the gates that the inputs alone decide.

        Args:
            inputs: `(B, m)`, or `(B, T, m)` for all steps of a sequence.
            training: whether to apply input dropout. Its mask is one for all
                steps.

        Returns:
            `[W_z, W_r, W] y` and the input bias, `(..., 3U)`.
        """
        inputs = ops.cast(inputs, self.compute_dtype)
        if training and self.dropout:
            shape = ops.shape(inputs)
            inputs = dropout(
                inputs,
                self.dropout,
                noise_shape=(shape[0], *[1] * (len(shape) - 2), shape[-1]),
                seed=self.seed_generator,
            )
        return self._project(inputs)

    def recurrent_dropout_mask(self, state, training=False):
        """Draws the factor of the state for all steps, or `None`."""
        if not training or not self.recurrent_dropout:
            return None
        return dropout(
            ops.ones_like(state),
            self.recurrent_dropout,
            seed=self.seed_generator,
        )

    def stepper(self, memory, keys, memory_mask=None, recurrent_dropout_mask=None):
        """Binds a memory and the cell's weights, for a loop over steps.

        The weights are read here, once: a loop that read variables would keep
        a copy of them for each step's gradient.

        Args:
            memory: `(B, S, D)`.
            keys: `attention.project_keys(memory)`, `(B, S, A)`.
            memory_mask: boolean `(B, S)`, or `None`.
            recurrent_dropout_mask: factor of the state, `(B, U)`, or `None`.

        Returns:
            Function `step(projected, states, attention_dropout_mask=None)`.
            It takes what `project_inputs` returned for one step, `(B, 3U)`,
            and the list `[s_{i-1}]`, `(B, U)` (for `K` beams on one memory
            `(B, K, 3U)` and `(B, K, U)`), and returns the output, the list
            `[s_i]`, the context and the weights.
        """
        look = self.attention.reader(memory, keys, memory_mask)
        update = self._updater(recurrent_dropout_mask)
        context_kernel = self._weight(self.context_kernel)
        before = self.step_order == LOOK_GENERATE_UPDATE

        def step(projected, states, attention_dropout_mask=None):
            state = states[0]
            context, weights = look(state, attention_dropout_mask)
            gates = projected + ops.matmul(context, context_kernel)
            new_state = update(state, gates)
            output = state if before else new_state
            if self.output_context:
                output = ops.concatenate([output, context], axis=-1)
            return output, [new_state], context, weights

        return step

    @property
    def can_fuse(self):
        """Whether `all_steps` computes what the steps of `stepper` do.

        It does for this class with `BahdanauAttention` or, without recurrent dropout,
        `FixedContext`, not for a subclass of any, with the paper's activations and
        the reset gate before the product.
        """
        fixed = isinstance(self.attention, FixedContext)
        return (
            type(self) is AttentiveGRUDecoderCell
            and getattr(self.attention, "can_fuse", False)
            and not (fixed and self.recurrent_dropout)
            and self.activation is keras.activations.tanh
            and self.recurrent_activation is keras.activations.sigmoid
            and not self.reset_after
        )

    def all_steps(
        self,
        projected,
        states,
        memory,
        keys,
        memory_mask=None,
        mask=None,
        attention_dropout_mask=None,
        recurrent_dropout_mask=None,
        unroll=False,
    ):
        """Makes all steps of a sequence, with a gradient by hand.

        Args:
            projected: what `project_inputs` returned, `(B, T, 3U)`.
            states: list `[s_0]`, `(B, U)`.
            memory, keys, memory_mask, recurrent_dropout_mask: as `stepper`.
            mask: boolean `(B, T)`, or `None`; where it is `False` the state stays.
            attention_dropout_mask: factor of the weights, `(B, T, S)`, or `None`.
            unroll: whether to unroll the loop.

        Returns:
            Outputs `(B, T, U)`, the list `[s_T]`, contexts `(B, T, D)` and weights
            `(B, T, S)`. Those of masked steps mean nothing.
        """
        gate_memory = project(memory, self._weight(self.context_kernel))
        kernel = self._weight(self.recurrent_kernel)
        if isinstance(self.attention, FixedContext):
            # The context is the same at all steps, a part of their inputs.
            projected = projected + gate_memory[:, :1]
            (all_states,) = gru_states(
                [projected], states, [kernel], None if mask is None else [mask], unroll
            )
            weights = ops.ones_like(all_states[..., :1])
        else:
            all_states, weights = attentive_states(
                projected,
                states[0],
                self.attention.biased_keys(keys),
                gate_memory,
                (self._weight(self.attention.query_kernel), kernel),
                self.attention.score_vector(),
                memory_mask,
                mask,
                attention_dropout_mask,
                recurrent_dropout_mask,
                unroll,
            )
        used = weights
        if attention_dropout_mask is not None:
            used = weights * attention_dropout_mask
        contexts = ops.matmul(used, memory)
        outputs = all_states
        if self.step_order == LOOK_GENERATE_UPDATE:
            first = ops.expand_dims(states[0], 1)
            outputs = ops.concatenate([first, all_states[:, :-1]], axis=1)
        if self.output_context:
            outputs = ops.concatenate([outputs, contexts], axis=-1)
        return outputs, [all_states[:, -1]], contexts, weights

    def call(self, inputs, states, training=False):
        if len(states) != 4:
            raise ValueError(
                "AttentiveGRUDecoderCell needs the states [state, memory, "
                "keys, memory_mask], as MemoryStates makes them. Received "
                f"{len(states)} of them."
            )
        if training and getattr(self.attention, "dropout", 0):
            raise ValueError(
                "keras.layers.RNN cannot draw the attention's dropout outside "
                "of its loop. Use AttentiveRNN, or an attention with dropout=0."
            )
        state, memory, keys, memory_mask = states
        recurrent_dropout_mask = None
        if training and self.dropout:
            inputs = inputs * self.get_dropout_mask(inputs)
        if training and self.recurrent_dropout:
            recurrent_dropout_mask = self.get_recurrent_dropout_mask(state)
        memory_mask = ops.greater(memory_mask, 0.5)
        step = self.stepper(memory, keys, memory_mask, recurrent_dropout_mask)
        output, new_states, _, _ = step(self._project(inputs), [state])
        return output, [*new_states, *states[1:]]

    def _project(self, inputs):
        return self.add_bias(project(inputs, self._weight(self.kernel)))

    def add_bias(self, projected):
        """Adds the bias of the inputs to gates `(..., 3U)`."""
        if not self.use_bias:
            return projected
        bias = self._weight(self.bias)
        return projected + (bias[0] if self.reset_after else bias)

    def update(self, state, gates):
        """The new state, from `s_{i-1}` and gates `[W_z, W_r, W] y + [C_z, ..] c`.

        Args:
            state: `(B, U)`, or `(B, K, U)` for `K` hypotheses.
            gates: `(B, 3U)` or `(B, K, 3U)`, with the bias.

        Returns:
            `s_i`, of the shape of `state`.
        """
        return self._updater(None)(state, gates)

    def _updater(self, dropout_mask):
        """Returns the gated update: `s_{i-1}` and gates `(.., 3U)` to `s_i`."""
        units = self.units
        kernel = self._weight(self.recurrent_kernel)
        gate_kernel, candidate_kernel = (
            kernel[:, : 2 * units],
            kernel[:, 2 * units :],
        )
        gate_bias = candidate_bias = 0.0
        if self.reset_after and self.use_bias:
            bias = self._weight(self.bias)[1]
            gate_bias, candidate_bias = bias[: 2 * units], bias[2 * units :]

        def update(state, gates):
            dropped = state if dropout_mask is None else state * dropout_mask
            recurrent = ops.matmul(dropped, gate_kernel) + gate_bias
            gate = self.recurrent_activation(gates[..., : 2 * units] + recurrent)
            keep, reset = gate[..., :units], gate[..., units:]
            if self.reset_after:
                recurrent = ops.matmul(dropped, candidate_kernel)
                recurrent = reset * (recurrent + candidate_bias)
            else:
                recurrent = ops.matmul(reset * dropped, candidate_kernel)
            candidate = self.activation(gates[..., 2 * units :] + recurrent)
            return keep * state + (1 - keep) * candidate

        return update

    def _weight(self, variable):
        return read(variable, self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "attention": keras.saving.serialize_keras_object(self.attention),
            "step_order": self.step_order,
            "output_context": self.output_context,
            "context_dim": self.context_dim,
            **options_config(self, "context"),
        }

    @classmethod
    def from_config(cls, config):
        attention = keras.saving.deserialize_keras_object(config["attention"])
        return cls(**{**config, "attention": attention})


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class MemoryStates(keras.layers.Layer):
    """The states from which `keras.layers.RNN` runs an attentive cell.

        states = [state, memory, keys, memory_mask],   keys_j = U_a memory_j

    `keras.layers.RNN` hands states from step to step and nothing else, so
    that the memory, its keys and its mask travel as states that no step
    changes. The keys are projected here, once a sentence. `AttentiveRNN` needs
    none of this.

    Masking: the mask of the memory arrives by itself and becomes the fourth
    state. The memory keeps it; the other outputs have none.

    Saving and loading a model keeps the attention shared. `clone_model` and
    `from_config` do not: Keras copies layer by layer there, so that this layer
    and the cell get an attention each. Copy such a model through a file, or use
    `AttentiveRNN`.

    Args:
        attention: the attention of the cell: the same object, not a copy.
        **kwargs: `name`, `dtype` and the like of `keras.layers.Layer`.

    Call arguments:
        inputs: list `[state, memory]`, `(B, U)` and `(B, S, D)`.
        mask: list `[None, memory_mask]`, boolean `(B, S)`.

    Returns:
        List of state `(B, U)`, memory `(B, S, D)`, keys `(B, S, A)` and mask
        `(B, S)` (1 for a real position, 0 for padding, as a float: Keras
        casts states), to be the `initial_state` of `keras.layers.RNN(cell)`.

    Raises:
        ValueError: if `inputs` is not a list of two, of those ranks.

    Example:

    >>> import numpy as np
    >>> from keras_bahdanau import BahdanauAttention, MemoryStates
    >>> states = MemoryStates(BahdanauAttention(5))
    >>> outputs = states([np.ones((2, 3)), np.ones((2, 7, 4))])
    >>> [tuple(output.shape) for output in outputs]
    [(2, 3), (2, 7, 4), (2, 7, 5), (2, 7)]

    Reference: Bahdanau, Cho and Bengio 2014, appendix A.1.2 (`U_a h_j` does
    not depend on the target position).
    """

    def __init__(self, attention, **kwargs):
        super().__init__(**kwargs)
        self.attention = attention
        self.supports_masking = True

    def build(self, input_shape):
        """Builds the attention for shapes `[state, memory]`."""
        self._validate(input_shape)
        if not self.attention.built:
            self.attention.build([tuple(shape) for shape in input_shape])
        self.built = True

    def call(self, inputs, mask=None):
        self._validate(inputs)
        state, memory = inputs
        memory_mask = None if mask is None else mask[1]
        if memory_mask is None:
            memory_mask = ops.ones(ops.shape(memory)[:2])
        keys = self.attention.project_keys(memory)
        return [state, memory, keys, ops.cast(memory_mask, self.compute_dtype)]

    def _validate(self, inputs):
        if not isinstance(inputs, (list, tuple)) or len(inputs) != 2:
            raise ValueError(
                "MemoryStates must be called on a list [state, memory]. "
                f"Received: {inputs}"
            )
        shapes = [tuple(getattr(entry, "shape", entry)) for entry in inputs]
        if [len(shape) for shape in shapes] != [2, 3]:
            raise ValueError(
                "MemoryStates needs a state (B, U) and a memory (B, S, D). "
                f"Received shapes: {shapes}"
            )

    def compute_mask(self, inputs, mask=None):
        """The memory keeps its mask; the other outputs have none."""
        return [None, None if mask is None else mask[1], None, None]

    def get_config(self):
        # Serialised twice on purpose. While a model is saved, Keras marks an
        # object that it meets again as shared; the mark on the first record is
        # lost when Keras copies this config, the mark on a second is not. The
        # reloaded model then has one attention here and in the cell.
        keras.saving.serialize_keras_object(self.attention)
        attention = keras.saving.serialize_keras_object(self.attention)
        return {**super().get_config(), "attention": attention}

    @classmethod
    def from_config(cls, config):
        attention = keras.saving.deserialize_keras_object(config["attention"])
        return cls(**{**config, "attention": attention})
