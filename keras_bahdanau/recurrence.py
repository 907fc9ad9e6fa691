"""The recurrences with a gradient by hand: fast, and sparing with memory.

Autodiff of a loop keeps what every step computed, the `(B, S, A)` tanh of the
attention among it, and adds up the gradient of each weight step by step. Here a loop
keeps states, weights and gates only, the backward loop has no products but those that
the recurrence needs, and each weight's gradient is one large product after it. The
plain loops, of `AttentiveRNN(fused=False)` and `BidirectionalGRUEncoder(fused=False)`,
compute the same.
"""

from keras import ops

from keras_bahdanau.loop import run_steps
from keras_bahdanau.scores import additive_scores, masked_softmax


def gru_states(projected, states, kernels, masks=None, unroll=False):
    """The states of several GRUs that run side by side, such as the two directions.

        z_t, r_t = sigmoid(x_t + U_zr s_{t-1})                       (B, U)
        h_t      = tanh(x_t + U_h (r_t o s_{t-1}))                   (B, U)
        s_t      = z_t o s_{t-1} + (1 - z_t) o h_t                   (B, U)

    Masking: where a mask is `False` the state stays as it was.

    Args:
        projected: list of `[W_z, W_r, W] x` with the biases, `(B, T, 3U)` each.
        states: list of first states, `(B, U)`.
        kernels: list of recurrent kernels `[U_z, U_r, U_h]`, `(U, 3U)`.
        masks: list of boolean tensors `(B, T)`, or `None`.
        unroll: whether to unroll the loops.

    Returns:
        List of all states, `(B, T, U)` each.

    Reference: Cho et al. 2014 (arXiv 1406.1078), in Keras' convention of `z`.
    """
    count, units = len(states), states[0].shape[-1]
    holds = None if masks is None else [_holds(mask, projected[0]) for mask in masks]
    width = 3 * units + (masks is not None)

    @ops.custom_gradient
    def run(*arguments):
        projected, states = arguments[:count], arguments[count : 2 * count]
        kernels = arguments[2 * count :]
        steps = [_gru_step(kernel) for kernel in kernels]

        def step(inputs, states):
            outputs = []
            for index, (one, state) in enumerate(zip(steps, states, strict=True)):
                part = inputs[:, index * width : (index + 1) * width]
                hold = None if masks is None else part[:, 3 * units :]
                outputs += one(part[:, : 3 * units], state, hold)
            return tuple(outputs), outputs[::3]

        parts = projected
        if holds is not None:
            parts = [part for both in zip(projected, holds) for part in both]
        _, outputs, _ = run_steps(step, _join(parts), list(states), unroll=unroll)
        found = [outputs[3 * index : 3 * index + 3] for index in range(count)]

        def grad(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            return _gru_gradients(upstream, found, states, kernels, unroll)

        return _join([out for out, _, _ in found]), grad

    joined = run(*projected, *states, *kernels)
    return [joined[..., index * units : (index + 1) * units] for index in range(count)]


def attentive_states(
    projected,
    state,
    keys,
    gate_memory,
    kernels,
    score_vector,
    memory_mask=None,
    sequence_mask=None,
    dropout_mask=None,
    factor=None,
    unroll=False,
):
    """States and attention weights of the attentive GRU at all steps.

        e_tj     = v_a . tanh(W_a s_{t-1} + keys_j)                  (B, S)
        a_t      = softmax_j(e_tj)                                   (B, S)
        g_t      = x_t + sum_j a_tj gate_memory_j                    (B, 3U)
        z_t, r_t = sigmoid(g_t + U_zr (d o s_{t-1}))                 (B, U)
        h_t      = tanh(g_t + U_h (r_t o d o s_{t-1}))               (B, U)
        s_t      = z_t o s_{t-1} + (1 - z_t) o h_t                   (B, U)

    The context kernel stays outside of the loop: `C c_t = sum_j a_tj C h_j`, and
    `C h_j` is one product for all steps.

    Masking: masked positions of the memory have weight 0. Where the mask of the
    sequence is `False` the state stays as it was.

    Args:
        projected: `[W_z, W_r, W] y` with the bias, `(B, T, 3U)`.
        state: `s_0`, `(B, U)`.
        keys: `U_a h` with the bias of the attention, `(B, S, A)`.
        gate_memory: `[C_z, C_r, C] h`, `(B, S, 3U)`.
        kernels: `W_a`, `(U, A)`, and `[U_z, U_r, U_h]`, `(U, 3U)`.
        score_vector: `v_a`, `(A,)`, in the dtype of the scores.
        memory_mask: boolean `(B, S)`, or `None`.
        sequence_mask: boolean `(B, T)`, or `None`.
        dropout_mask: factor of the weights, `(B, T, S)`, or `None`.
        factor: factor `d` of the state, `(B, U)`, or `None`. Neither of the two gets
            a gradient.
        unroll: whether to unroll the loops.

    Returns:
        The states `s_1 ... s_T`, `(B, T, U)`, and the weights before dropout,
        `(B, T, S)`.

    Reference: Bahdanau, Cho and Bengio 2014, appendix A.1.2.
    """
    units = state.shape[-1]
    drops = 3 * units + (sequence_mask is not None)
    hold = None if sequence_mask is None else _holds(sequence_mask, projected)

    @ops.custom_gradient
    def run(projected, state, keys, gate_memory, query_kernel, kernel, score_vector):
        look = _look(query_kernel, kernel, keys, score_vector, memory_mask, factor)
        update = _gru_update(kernel[:, 2 * units :])

        def step(inputs, states):
            (state,) = states
            weights, query, recurrent = look(state)
            used = weights
            if dropout_mask is not None:
                used = weights * inputs[:, drops:]
            hold = None if sequence_mask is None else inputs[:, 3 * units : drops]
            gates = inputs[:, : 3 * units] + _weighted_sum(used, gate_memory)
            new_state, gate, candidate = update(gates, recurrent, state, factor, hold)
            return (new_state, weights, gate, candidate, query), [new_state]

        parts = [part for part in (projected, hold, dropout_mask) if part is not None]
        _, found, _ = run_steps(step, _join(parts), [state], unroll=unroll)
        arguments = (state, keys, gate_memory, query_kernel, kernel, score_vector)

        def grad(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            return _attentive_gradients(
                upstream, found, arguments, dropout_mask, factor, unroll
            )

        return _join(found[:2]), grad

    joined = run(projected, state, keys, gate_memory, *kernels, score_vector)
    return joined[..., :units], joined[..., units:]


def _gru_step(kernel):
    """Returns a step from gates `(B, 3U)` and state to state, gates and candidate."""
    units = kernel.shape[0]
    update = _gru_update(kernel[:, 2 * units :])
    gate_kernel = kernel[:, : 2 * units]

    def step(gates, state, hold):
        return update(gates, ops.matmul(state, gate_kernel), state, None, hold)

    return step


def _gru_update(candidate_kernel):
    """Returns the update of a state, given `U_zr s` of it."""
    units = candidate_kernel.shape[0]

    def update(gates, recurrent, state, factor, hold):
        gate = ops.sigmoid(gates[:, : 2 * units] + recurrent)
        if hold is not None:
            # Where there is nothing to read the update gate keeps the whole state.
            keep = ops.maximum(gate[:, :units], hold)
            gate = ops.concatenate([keep, gate[:, units:]], axis=-1)
        reset = gate[:, units:] * _scaled(state, factor)
        candidate = ops.tanh(
            gates[:, 2 * units :] + ops.matmul(reset, candidate_kernel)
        )
        new_state = candidate + gate[:, :units] * (state - candidate)
        return new_state, gate, candidate

    return update


def _look(query_kernel, kernel, keys, score_vector, memory_mask, factor):
    """Returns a function of the state: weights, `W_a s` and `U_zr s`."""
    units, attention_units = query_kernel.shape
    gate_kernel = kernel[:, : 2 * units]
    both = ops.concatenate([query_kernel, gate_kernel], axis=1)

    def look(state):
        if factor is None:
            products = ops.matmul(state, both)
            query = products[:, :attention_units]
            recurrent = products[:, attention_units:]
        else:
            query = ops.matmul(state, query_kernel)
            recurrent = ops.matmul(state * factor, gate_kernel)
        scores = additive_scores(query, keys, score_vector)
        weights = ops.cast(masked_softmax(scores, memory_mask), state.dtype)
        return weights, query, recurrent

    return look


def _slopes(gate, candidate, previous, factor):
    """What the gradient of a new state is multiplied by, for the gates and below.

    Returns `(B, T, 5U)`: the factors for `dz`, `dr` and `dh`, then `z` and `r`.
    """
    units = candidate.shape[-1]
    keep, reset = gate[..., :units], gate[..., units:]
    change = 1 - keep
    return _join(
        [
            (previous - candidate) * keep * change,
            _scaled(previous, factor, True) * reset * (1 - reset),
            change * (1 - ops.square(candidate)),
            keep,
            reset,
        ]
    )


def _gru_backward(kernel, factor):
    """Returns the step back from `ds_t`: what reaches gates and the state before."""
    units = kernel.shape[0]
    candidate_kernel = ops.transpose(kernel[:, 2 * units :])

    def back(d_state, slopes):
        d_keep = d_state * slopes[:, :units]
        d_candidate = d_state * slopes[:, 2 * units : 3 * units]
        d_product = ops.matmul(d_candidate, candidate_kernel)
        d_reset = d_product * slopes[:, units : 2 * units]
        kept = d_state * slopes[:, 3 * units : 4 * units]
        through = _scaled(d_product * slopes[:, 4 * units : 5 * units], factor)
        return _join([d_keep, d_reset, d_candidate]), kept + through

    return back


def _gru_gradients(upstream, found, states, kernels, unroll):
    """The gradients of `projected`, `states` and `kernels` of `gru_states`."""
    units = states[0].shape[-1]
    previous = [_shifted(state, out[0]) for state, out in zip(states, found)]
    parts = []
    for index, (before, (_, gate, candidate)) in enumerate(zip(previous, found)):
        parts.append(upstream[..., index * units : (index + 1) * units])
        parts.append(_slopes(gate, candidate, before, None))
    backs = [_gru_backward(kernel, None) for kernel in kernels]
    gate_kernels = [ops.transpose(kernel[:, : 2 * units]) for kernel in kernels]

    def step(inputs, d_states):
        d_gates, d_before = [], []
        for index, d_state in enumerate(d_states):
            part = inputs[:, index * 6 * units : (index + 1) * 6 * units]
            d_gate, d_state = backs[index](d_state + part[:, :units], part[:, units:])
            d_more = ops.matmul(d_gate[:, : 2 * units], gate_kernels[index])
            d_gates.append(d_gate)
            d_before.append(d_state + d_more)
        return tuple(d_gates), d_before

    zeros = [ops.zeros_like(state) for state in states]
    _, d_gates, d_states = run_steps(
        step, _join(parts), zeros, go_backwards=True, unroll=unroll
    )
    d_gates = [ops.flip(d_gate, axis=1) for d_gate in d_gates]
    d_kernels = [
        _kernel_gradient(before, out[1], d_gate)
        for before, out, d_gate in zip(previous, found, d_gates)
    ]
    return (*d_gates, *d_states, *d_kernels)


def _attentive_gradients(upstream, found, arguments, dropout_mask, factor, unroll):
    """The gradients of the arguments of `run` in `attentive_states`."""
    state, keys, gate_memory, query_kernel, kernel, score_vector = arguments
    states, weights, gate, candidate, query = found
    units, attention_units = query_kernel.shape
    size, wide = ops.shape(keys)[1], score_vector.dtype
    previous = _shifted(state, states)
    parts = [upstream[..., :units], _slopes(gate, candidate, previous, factor)]
    parts += [query, weights, upstream[..., units:]]
    parts += [] if dropout_mask is None else [dropout_mask]
    back = _gru_backward(kernel, factor)
    query_kernel = ops.transpose(query_kernel)
    gate_kernel = ops.transpose(kernel[:, : 2 * units])
    both = ops.concatenate([query_kernel, gate_kernel], axis=0)

    def step(inputs, carried):
        d_state, d_keys, d_vector = carried
        end = 6 * units + attention_units
        slopes, query = inputs[:, units : 6 * units], inputs[:, 6 * units : end]
        weights, d_out = (
            inputs[:, end : end + size],
            inputs[:, end + size : end + 2 * size],
        )
        d_gates, d_before = back(d_state + inputs[:, :units], slopes)
        d_weights = _dot(gate_memory, d_gates)
        if dropout_mask is not None:
            d_weights = d_weights * inputs[:, end + 2 * size :]
        weights = ops.cast(weights, wide)
        d_weights = ops.cast(d_weights + d_out, wide)
        mean = ops.sum(weights * d_weights, axis=-1, keepdims=True)
        d_scores = weights * (d_weights - mean)
        hidden = ops.cast(ops.tanh(ops.expand_dims(query, 1) + keys), wide)
        d_hidden = ops.expand_dims(d_scores, -1) * (1 - ops.square(hidden))
        d_query = ops.cast(score_vector * ops.sum(d_hidden, axis=1), query.dtype)
        d_keys = d_keys + d_hidden
        d_vector = d_vector + _weighted_sum(d_scores, hidden)
        if factor is None:
            d_products = _join([d_query, d_gates[:, : 2 * units]])
            d_before = d_before + ops.matmul(d_products, both)
        else:
            d_before = d_before + ops.matmul(d_query, query_kernel)
            d_more = ops.matmul(d_gates[:, : 2 * units], gate_kernel)
            d_before = d_before + _scaled(d_more, factor)
        return (d_gates, d_query), [d_before, d_keys, d_vector]

    zeros = [ops.zeros_like(state), ops.zeros_like(keys, dtype=wide)]
    zeros.append(ops.zeros_like(query[:, 0], dtype=wide))
    _, outputs, (d_state, d_keys, d_vector) = run_steps(
        step, _join(parts), zeros, go_backwards=True, unroll=unroll
    )
    d_gates, d_query = (ops.flip(part, axis=1) for part in outputs)
    used = weights if dropout_mask is None else weights * dropout_mask
    return (
        d_gates,
        d_state,
        ops.cast(d_keys * score_vector, keys.dtype),
        ops.matmul(ops.transpose(used, (0, 2, 1)), d_gates),
        _outer(previous, d_query),
        _kernel_gradient(_scaled(previous, factor, True), gate, d_gates),
        ops.sum(d_vector, axis=0),
    )


def _kernel_gradient(previous, gate, d_gates):
    """The gradient of `[U_z, U_r, U_h]`, from all steps at once."""
    units = previous.shape[-1]
    reset = gate[..., units:] * previous
    return ops.concatenate(
        [
            _outer(previous, d_gates[..., : 2 * units]),
            _outer(reset, d_gates[..., 2 * units :]),
        ],
        axis=1,
    )


def _outer(left, right):
    """The sum of the outer products of all rows, `(M, N)`."""
    left = ops.reshape(left, (-1, left.shape[-1]))
    right = ops.reshape(right, (-1, right.shape[-1]))
    return ops.matmul(ops.transpose(left), right)


def _weighted_sum(weights, memory):
    """`sum_j weights_j memory_j`, `(B, D)`."""
    return ops.squeeze(ops.matmul(ops.expand_dims(weights, 1), memory), 1)


def _dot(memory, vector):
    """The product of each position with a vector, `(B, S)`."""
    return ops.squeeze(ops.matmul(memory, ops.expand_dims(vector, -1)), -1)


def _scaled(tensor, factor, over_time=False):
    if factor is None:
        return tensor
    return tensor * (ops.expand_dims(factor, 1) if over_time else factor)


def _shifted(state, states):
    """The state before each step."""
    return ops.concatenate([ops.expand_dims(state, 1), states[:, :-1]], axis=1)


def _holds(mask, like):
    """1 where a step is to do nothing, `(B, T, 1)`."""
    mask = ops.logical_not(ops.cast(mask, "bool"))
    return ops.expand_dims(ops.cast(mask, like.dtype), -1)


def _join(parts):
    return ops.concatenate(list(parts), axis=-1)
