"""The loop of the attentive decoder, as a layer."""

import math

import keras
from keras import ops, tree

from keras_bahdanau.loop import hold_masked, run_steps
from keras_bahdanau.scores import flatten_positions
from keras_bahdanau.weights import check_fused


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class AttentiveRNN(keras.layers.RNN):
    """Runs an attentive cell over a sequence, with a memory to look at.

        outputs_i, s_i = cell(sequences_i, s_{i-1}; memory)     i = 1 ... T

    The projections of the inputs and of the memory are made outside of the
    loop, and the loop does not carry the memory. `T` and `S` may be unknown
    and differ.

    Masking: the mask of the memory keeps the attention off padding; a masked
    step of the sequence leaves the state as it was and repeats the last output
    (zero with `zero_output_for_mask=True`). Masks of embeddings arrive by
    themselves. The sequence's mask passes on to outputs and contexts.

    Args:
        cell: `AttentiveGRUDecoderCell`, or any cell with its methods
            `project_inputs`, `recurrent_dropout_mask` and `stepper` and its
            attributes `attention` and `own_state_size`.
        return_sequences: whether to return what all steps give, or the last.
        return_state: whether to return the last state.
        return_contexts: whether to return the contexts.
        return_attention_scores: whether to return the attention weights.
        fused: whether to run the recurrence with a gradient by hand, which is
            faster and keeps less memory; with `False` the cell's steps run one
            by one and autodiff finds the gradient. `"auto"`: where the cell is
            one that it covers (`AttentiveGRUDecoderCell` with
            `BahdanauAttention` or `FixedContext`, the usual activations and
            `reset_after=False`).
            The numbers are the same. The gradient by hand has itself no
            gradient: for second derivatives pass `False`.
        **kwargs: further arguments of `keras.layers.RNN`: `go_backwards`,
            `stateful`, `unroll`, `zero_output_for_mask`, `name`, `dtype`.

    Call arguments:
        sequences: `(B, T, m)`.
        memory: `(B, S, D)`, or with more leading positions, `(B, H, W, D)`.
        initial_state: `s_0`, `(B, U)`, or a list of states. Default: zeros.
        keys: `cell.attention.project_keys(memory)`, where it is at hand.
        mask, sequences_mask: boolean `(B, T)`; two names of one argument.
        memory_mask: boolean, the shape of the memory less the last axis.
        training: whether to apply dropout.

    Returns:
        The outputs, `(B, T, U)`, or a tuple of those that are asked for, in
        this order: outputs, contexts `(B, T, D)`, weights `(B, T, S)`, last
        state `(B, U)`. With `return_sequences=False` there is no axis `T`.

    Raises:
        ValueError: if the cell lacks a method, the memory has rank 2, or
            `fused=True` and the cell cannot be fused.

    Example:

    >>> import numpy as np
    >>> from keras_bahdanau import (
    ...     AttentiveGRUDecoderCell, AttentiveRNN, BahdanauAttention
    ... )
    >>> cell = AttentiveGRUDecoderCell(3, BahdanauAttention(5))
    >>> decoder = AttentiveRNN(
    ...     cell, return_sequences=True, return_attention_scores=True
    ... )
    >>> outputs, weights = decoder(np.ones((2, 6, 8)), np.ones((2, 7, 4)))
    >>> tuple(outputs.shape), tuple(weights.shape)
    ((2, 6, 3), (2, 6, 7))

    Reference: Bahdanau, Cho and Bengio 2014, appendix A.2.2.
    """

    def __init__(
        self,
        cell,
        return_sequences=False,
        return_state=False,
        return_contexts=False,
        return_attention_scores=False,
        fused="auto",
        **kwargs,
    ):
        needed = (
            "attention",
            "own_state_size",
            "project_inputs",
            "recurrent_dropout_mask",
            "stepper",
        )
        missing = [name for name in needed if not hasattr(cell, name)]
        if missing:
            raise ValueError(
                "AttentiveRNN needs a cell such as AttentiveGRUDecoderCell. "
                f"Received: cell={cell!r}, which lacks {missing}"
            )
        super().__init__(
            cell,
            return_sequences=return_sequences,
            return_state=return_state,
            **kwargs,
        )
        self.return_contexts = return_contexts
        self.return_attention_scores = return_attention_scores
        check_fused(fused, getattr(cell, "can_fuse", False))
        self.fused = fused
        # In plain RNN the memory and its companions are states too. Not here.
        self.state_size = list(cell.own_state_size)

    def build(self, sequences_shape, memory_shape, initial_state_shape=None):
        """Builds the cell for sequences `(B, T, m)`, memory `(B, .., D)`."""
        self._check_shapes(sequences_shape, memory_shape, initial_state_shape)
        if not self.cell.built:
            step_shape = (sequences_shape[0], sequences_shape[-1])
            self.cell.build(step_shape, tuple(memory_shape))
        super().build(sequences_shape)
        self.built = True

    def _check_shapes(self, sequences_shape, memory_shape, state_shape=None):
        if len(sequences_shape) != 3 or len(memory_shape) < 3:
            raise ValueError(
                "AttentiveRNN needs sequences (B, T, m) and a memory (B, S, D). "
                f"Received shapes: {tuple(sequences_shape)} and {tuple(memory_shape)}"
            )
        if state_shape is None:
            return
        one = not isinstance(state_shape[0], (list, tuple))
        shapes = [tuple(shape) for shape in ([state_shape] if one else state_shape)]
        sizes = [shape[-1] for shape in shapes if len(shape) == 2]
        if sizes != self.state_size or len(sizes) != len(shapes):
            expected = [("B", size) for size in self.state_size]
            raise ValueError(
                f"AttentiveRNN needs initial states of shapes {expected}. "
                f"Received shapes: {shapes}"
            )

    def get_initial_state(self, batch_size):
        """The states to start from where none is given."""
        dtype = self.cell.compute_dtype
        return [ops.zeros((batch_size, size), dtype) for size in self.state_size]

    def call(
        self,
        sequences,
        memory,
        initial_state=None,
        keys=None,
        mask=None,
        sequences_mask=None,
        memory_mask=None,
        training=False,
    ):
        self._check_shapes(sequences.shape, memory.shape, _shapes(initial_state))
        memory, memory_mask = flatten_positions(memory, memory_mask)
        memory = ops.cast(memory, self.cell.compute_dtype)
        attention = self.cell.attention
        keys = (
            attention.project_keys(memory)
            if keys is None
            else flatten_positions(keys)[0]
        )
        states = self._states(sequences, initial_state)
        projected = self.cell.project_inputs(sequences, training=training)
        # Random numbers cannot be drawn within the loop on every backend.
        shape = (*ops.shape(sequences)[:2], ops.shape(memory)[1])
        dropout = attention.dropout_mask(shape, training=training)
        factor = self.cell.recurrent_dropout_mask(states[0], training=training)
        run = self._run_fused if self._is_fused() else self._run_steps
        last, outputs, states = run(
            projected,
            states,
            (memory, keys, memory_mask),
            sequences_mask if mask is None else mask,
            dropout,
            factor,
        )
        if self.stateful:
            for variable, state in zip(self.states, states, strict=True):
                variable.assign(ops.cast(state, variable.dtype))
        outputs = list(outputs if self.return_sequences else last)
        outputs += states if self.return_state else []
        outputs = [ops.cast(output, self.compute_dtype) for output in outputs]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _is_fused(self):
        """Whether to run the cell's fused recurrence."""
        if self.fused == "auto":
            return getattr(self.cell, "can_fuse", False)
        return self.fused

    def _run_fused(self, projected, states, memory, mask, dropout, factor):
        """All steps by `cell.all_steps`; returns what `_run_steps` does."""
        if mask is not None:
            mask = ops.cast(mask, "bool")
        if self.go_backwards:
            projected, mask, dropout = (
                None if part is None else ops.flip(part, axis=1)
                for part in (projected, mask, dropout)
            )
        outputs, states, contexts, weights = self.cell.all_steps(
            projected, states, *memory, mask, dropout, factor, self.unroll
        )
        outputs = self._chosen(outputs, contexts, weights)
        if mask is not None:
            zero = self.zero_output_for_mask
            outputs = [hold_masked(output, mask, zero) for output in outputs]
        return [output[:, -1] for output in outputs], outputs, states

    def _run_steps(self, projected, states, memory, mask, dropout, factor):
        """The cell's steps one by one; returns last and all outputs, and states."""
        size = projected.shape[-1]
        if dropout is not None:
            # It rides along behind the inputs.
            projected = ops.concatenate([projected, dropout], axis=-1)
        cell_step = self.cell.stepper(*memory, factor)

        def step(inputs, states):
            outputs, states, context, weights = cell_step(
                inputs[..., :size],
                states,
                None if dropout is None else inputs[..., size:],
            )
            return self._chosen(outputs, context, weights), states

        return run_steps(
            step,
            projected,
            states,
            mask=mask,
            go_backwards=self.go_backwards,
            unroll=self.unroll,
            zero_output_for_mask=self.zero_output_for_mask,
        )

    def _states(self, sequences, initial_state):
        if initial_state is None:
            initial_state = (
                self.states
                if self.stateful
                else self.get_initial_state(ops.shape(sequences)[0])
            )
        if not isinstance(initial_state, (list, tuple)):
            initial_state = [initial_state]
        dtype = self.cell.compute_dtype
        return [ops.convert_to_tensor(s, dtype=dtype) for s in initial_state]

    def _chosen(self, output, context, weights):
        """Those of the three that are to be returned."""
        chosen = [output]
        chosen += [context] if self.return_contexts else []
        chosen += [weights] if self.return_attention_scores else []
        return chosen

    def compute_mask(self, sequences, mask):
        """The sequence's mask, for the outputs and contexts over time."""
        if isinstance(mask, (list, tuple)):
            mask = mask[0]
        mask = mask if self.return_sequences else None
        masks = self._chosen(mask, mask, mask)
        masks += [None] * len(self.state_size) if self.return_state else []
        return masks[0] if len(masks) == 1 else masks

    def compute_output_spec(
        self, sequences, memory, initial_state=None, *args, **kwargs
    ):
        """Shapes and dtype of what `call` returns."""
        self._check_shapes(sequences.shape, memory.shape, _shapes(initial_state))
        steps = sequences.shape[:2] if self.return_sequences else (sequences.shape[0],)
        positions = memory.shape[1:-1]
        count = None if None in positions else math.prod(positions)
        shapes = self._chosen(
            (*steps, self.cell.output_size),
            (*steps, memory.shape[-1]),
            (*steps, count),
        )
        if self.return_state:
            shapes += [(sequences.shape[0], size) for size in self.state_size]
        specs = [keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes]
        return specs[0] if len(specs) == 1 else tuple(specs)

    def get_config(self):
        return {
            **super().get_config(),
            "return_contexts": self.return_contexts,
            "return_attention_scores": self.return_attention_scores,
            "fused": self.fused,
        }


def _shapes(states):
    """The shape of a state, or the shapes of a list of them; `None` of `None`."""
    if states is None:
        return None
    return tree.map_structure(lambda state: tuple(state.shape), states)
