"""The recurrences with a gradient by hand: fast, and sparing with memory.

Autodiff of a loop keeps what every step computed, the `(B, S, A)` tanh of the
attention among it, and adds up the gradient of each weight step by step. Here a loop
keeps states, weights and gates only, the backward loop has no products but those that
the recurrence needs, and each weight's gradient is one large product after it. The
plain loops, of `AttentiveRNN(fused=False)` and `BidirectionalGRUEncoder(fused=False)`,
compute the same.
"""

from keras import ops

from keras_bahdanau.loop import scan_steps
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
    holds = [] if masks is None else [_holds(mask, projected[0]) for mask in masks]

    @ops.custom_gradient
    def run(*arguments):
        projected, states = arguments[:count], arguments[count : 2 * count]
        kernels = arguments[2 * count :]
        steps = [_gru_step(kernel) for kernel in kernels]

        def step(inputs, states):
            outputs = []
            for index, (one, state) in enumerate(zip(steps, states, strict=True)):
                hold = inputs[count + index] if holds else None
                outputs += one(inputs[index], state, hold)
            return outputs, outputs[::3]

        outputs, _ = scan_steps(step, [*projected, *holds], list(states), unroll=unroll)
        found = [outputs[3 * index : 3 * index + 3] for index in range(count)]

        def grad(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            return _gru_gradients(upstream, found, states, kernels, unroll)

        return _join([out for out, _, _ in found]), grad

    states = [ops.reshape(state, (-1, units)) for state in states]
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
    holds = [] if sequence_mask is None else [_holds(sequence_mask, projected)]
    drops = [] if dropout_mask is None else [dropout_mask]

    @ops.custom_gradient
    def run(projected, state, keys, gate_memory, query_kernel, kernel, score_vector):
        look = _look(query_kernel, kernel, keys, score_vector, memory_mask, factor)
        update = _gru_update(kernel[:, 2 * units :])

        def step(inputs, states):
            (state,) = states
            weights, query, recurrent = look(state)
            used = weights * inputs[-1] if drops else weights
            gates = inputs[0] + _weighted_sum(used, gate_memory)
            hold = inputs[1] if holds else None
            new_state, gate, candidate = update(gates, recurrent, state, factor, hold)
            return [new_state, weights, gate, candidate, query], [new_state]

        sequences = [projected, *holds, *drops]
        found, _ = scan_steps(step, sequences, [state], unroll=unroll)
        arguments = (state, keys, gate_memory, query_kernel, kernel, score_vector)

        def grad(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            return _attentive_gradients(
                upstream, found, arguments, dropout_mask, factor, unroll
            )

        return _join(found[:2]), grad

    # A reshape reads what may be a variable, the state of a stateful layer.
    state = ops.reshape(state, (-1, units))
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
        keep = gate[:, :units]
        new_state = keep * state + (1 - keep) * candidate
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


def _gru_backward(kernel, factor):
    """Returns the step back from `ds_t`: what reaches the gates and the state before.

    Of the latter the part that went through `U_zr` is left to the caller.
    """
    units = kernel.shape[0]
    candidate_kernel = ops.transpose(kernel[:, 2 * units :])

    def back(d_state, previous, gate, candidate):
        keep, reset = gate[:, :units], gate[:, units:]
        d_new = d_state * (1 - keep)
        d_candidate = d_new * (1 - ops.square(candidate))
        d_keep = d_new * (previous - candidate) * keep
        d_product = _scaled(ops.matmul(d_candidate, candidate_kernel), factor)
        d_reset = d_product * previous * reset * (1 - reset)
        d_before = d_state * keep + d_product * reset
        return ops.concatenate([d_keep, d_reset, d_candidate], axis=-1), d_before

    return back


def _gru_gradients(upstream, found, states, kernels, unroll):
    """The gradients of `projected`, `states` and `kernels` of `gru_states`."""
    count, units = len(states), states[0].shape[-1]
    previous = [_shifted(state, out[0]) for state, out in zip(states, found)]
    sequences = []
    for index, (before, (_, gate, candidate)) in enumerate(zip(previous, found)):
        sequences.append(upstream[..., index * units : (index + 1) * units])
        sequences += [before, gate, candidate]
    backs = [_gru_backward(kernel, None) for kernel in kernels]
    gate_kernels = [ops.transpose(kernel[:, : 2 * units]) for kernel in kernels]

    def step(inputs, d_states):
        d_gates, d_before = [], []
        for index, d_state in enumerate(d_states):
            d_out, *parts = inputs[4 * index : 4 * index + 4]
            d_gate, d_state = backs[index](d_state + d_out, *parts)
            d_more = ops.matmul(d_gate[:, : 2 * units], gate_kernels[index])
            d_gates.append(d_gate)
            d_before.append(d_state + d_more)
        return d_gates, d_before

    zeros = [ops.zeros_like(state) for state in states]
    d_gates, d_states = scan_steps(
        step, sequences, zeros, go_backwards=True, unroll=unroll
    )
    d_kernels = [
        _kernel_gradient(previous[index], found[index][1], d_gates[index])
        for index in range(count)
    ]
    return (*d_gates, *d_states, *d_kernels)


def _attentive_gradients(upstream, found, arguments, dropout_mask, factor, unroll):
    """The gradients of the arguments of `run` in `attentive_states`."""
    state, keys, gate_memory, query_kernel, kernel, score_vector = arguments
    states, weights, gate, candidate, query = found
    units, wide = state.shape[-1], score_vector.dtype
    previous = _shifted(state, states)
    sequences = [previous, gate, candidate, query, weights]
    sequences += [upstream[..., :units], upstream[..., units:]]
    sequences += [] if dropout_mask is None else [dropout_mask]
    back = _gru_backward(kernel, factor)
    back_to_state = _look_backward(query_kernel, kernel, factor)

    def step(inputs, carried):
        d_state, d_keys, d_vector = carried
        previous, gate, candidate, query, weights, d_out, d_more, *drop = inputs
        d_gates, d_before = back(d_state + d_out, previous, gate, candidate)
        d_weights = _dot(gate_memory, d_gates)
        if drop:
            d_weights = d_weights * drop[0]
        weights = ops.cast(weights, wide)
        d_weights = ops.cast(d_weights + d_more, wide)
        mean = ops.sum(weights * d_weights, axis=-1, keepdims=True)
        d_scores = weights * (d_weights - mean)
        hidden = ops.cast(ops.tanh(ops.expand_dims(query, 1) + keys), wide)
        d_hidden = ops.expand_dims(d_scores, -1) * (1 - ops.square(hidden))
        d_query = ops.cast(score_vector * ops.sum(d_hidden, axis=1), query.dtype)
        d_keys = d_keys + d_hidden
        d_vector = d_vector + _weighted_sum(d_scores, hidden)
        d_before = d_before + back_to_state(d_query, d_gates[:, : 2 * units])
        return [d_gates, d_query], [d_before, d_keys, d_vector]

    zeros = [ops.zeros_like(state), ops.zeros_like(keys, dtype=wide)]
    zeros.append(ops.zeros_like(query[:, 0], dtype=wide))
    (d_gates, d_query), (d_state, d_keys, d_vector) = scan_steps(
        step, sequences, zeros, go_backwards=True, unroll=unroll
    )
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


def _look_backward(query_kernel, kernel, factor):
    """Returns what reaches a state through `W_a` and `U_zr`."""
    query_kernel = ops.transpose(query_kernel)
    gate_kernel = ops.transpose(kernel[:, : 2 * kernel.shape[0]])
    both = ops.concatenate([query_kernel, gate_kernel], axis=0)

    def back(d_query, d_gates):
        if factor is None:
            return ops.matmul(ops.concatenate([d_query, d_gates], axis=-1), both)
        d_state = _scaled(ops.matmul(d_gates, gate_kernel), factor)
        return ops.matmul(d_query, query_kernel) + d_state

    return back


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
