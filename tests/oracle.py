"""RNNsearch as plain loops in float64: what the layers are tested against.

It is written from the paper (appendix A), for one sentence and one word at a time,
with column vectors: a matrix is `(outputs, inputs)`. A GRU is a dictionary with the
paper's names, `W, U, W_z, U_z, W_r, U_r`, where it has them `C, C_z, C_r` (of the
context) and `b, b_z, b_r`, and the paper's update gate. `from_keras` and `to_keras`
translate: a Keras kernel is the transpose, and its update gate the other way round.
"""

import numpy as np


def sigmoid(a):
    return 1.0 / (1.0 + np.exp(-a))


def softmax(scores):
    powers = [np.exp(score - max(scores)) for score in scores]
    return np.array([power / sum(powers) for power in powers])


def gru_step(gru, x, h, c=None):
    """The next state `(n,)` from an input, a state and, in a decoder, a context."""

    def gate(name, state):
        suffix = f"_{name}" if name else ""
        total = gru["W" + suffix] @ x + gru["U" + suffix] @ state
        if c is not None:
            total = total + gru["C" + suffix] @ c
        return total + gru.get("b" + suffix, 0.0)

    z = sigmoid(gate("z", h))
    r = sigmoid(gate("r", h))
    candidate = np.tanh(gate("", r * h))
    return (1.0 - z) * h + z * candidate


def encode(forward, backward, sequences, mask, initial=None):
    """Annotations `(B, S, 2n)` and last states `(B, 2n)`; 0 at padding."""
    units = forward["U"].shape[0]
    annotations = np.zeros(mask.shape + (2 * units,))
    states = np.zeros((len(mask), 2 * units))
    for b in range(len(mask)):
        real = [j for j in range(mask.shape[1]) if mask[b, j]]
        start = np.zeros(2 * units) if initial is None else initial[b]
        h = start[:units]
        for j in real:
            h = gru_step(forward, sequences[b, j], h)
            annotations[b, j, :units] = h
        states[b, :units] = h
        h = start[units:]
        for j in reversed(real):
            h = gru_step(backward, sequences[b, j], h)
            annotations[b, j, units:] = h
        states[b, units:] = h
    return annotations, states


def bridge(W_s, states):
    """`s_0 = tanh(W_s backward h_1)`, `(B, n)`, from `encode`'s last states."""
    half = states.shape[1] // 2
    return np.array([np.tanh(W_s @ state[half:]) for state in states])


def attend(W_a, U_a, v_a, s, memory, real):
    """Scores, weights `(S,)` and context for one sentence and one state.

    Padding has score and weight 0; without a real position the context is 0.
    """
    scores, weights = np.zeros(len(memory)), np.zeros(len(memory))
    positions = [j for j in range(len(memory)) if real[j]]
    for j in positions:
        scores[j] = v_a @ np.tanh(W_a @ s + U_a @ memory[j])
    if positions:
        weights[positions] = softmax([scores[j] for j in positions])
    context = np.zeros(memory.shape[1])
    for j in positions:
        context = context + weights[j] * memory[j]
    return scores, weights, context


def decode(gru, attention, s_0, targets, memory, mask):
    """Runs the decoder over embedded targets `(B, T, m)`.

    `attention` is the triple `W_a, U_a, v_a`. Returns a dictionary of `scores` and
    `weights` `(B, T, S)`, `contexts` `(B, T, D)` and `states` `(B, T, n)`.
    """
    rows = {"scores": [], "weights": [], "contexts": [], "states": []}
    for b in range(len(targets)):
        s, steps = s_0[b], []
        for y in targets[b]:
            scores, weights, c = attend(*attention, s, memory[b], mask[b])
            s = gru_step(gru, y, s, c)
            steps.append((scores, weights, c, s))
        for name, values in zip(rows, zip(*steps)):
            rows[name].append(np.array(values))
    return {name: np.array(values) for name, values in rows.items()}


def readout(U_o, V_o, C_o, W_o, s, y, c, b=0.0, b_o=0.0):
    """Logits `(V,)` of one step, with one layer of maxout pairs."""
    wide = U_o @ s + V_o @ y + C_o @ c + b
    pairs = [max(wide[2 * k], wide[2 * k + 1]) for k in range(len(wide) // 2)]
    return W_o @ np.array(pairs) + b_o


def crossentropy(logits, labels, label_smoothing=0.0, pad_id=0, weights=None):
    """The loss of `TokenCrossentropy`, token by token with explicit targets."""
    total, count = 0.0, 0
    for b in range(labels.shape[0]):
        for t in range(labels.shape[1]):
            if labels[b, t] == pad_id:
                continue
            size = logits.shape[-1]
            target = np.full(size, label_smoothing / size)
            target[labels[b, t]] += 1.0 - label_smoothing
            loss = -sum(target * np.log(softmax(logits[b, t])))
            total += loss if weights is None else weights[b, t] * loss
            count += 1
    return total / max(count, 1)


GATES = ("_z", "_r", "")


def to_keras(gru, letter):
    """The matrices `letter` (W, U, C or b) of a GRU as one Keras kernel or bias."""
    return np.concatenate(
        [(-1.0 if gate == "_z" else 1.0) * gru[letter + gate].T for gate in GATES],
        axis=-1,
    )


def from_keras(kernel, recurrent_kernel, bias=None, context_kernel=None):
    """The paper's dictionary of a Keras GRU with `reset_after=False`."""
    gru = {}
    for letter, joined in zip("WUbC", (kernel, recurrent_kernel, bias, context_kernel)):
        if joined is not None:
            for gate, part in zip(GATES, np.split(np.array(joined, float), 3, -1)):
                gru[letter + gate] = (-1.0 if gate == "_z" else 1.0) * part.T
    return gru


def golden_gru(weights, prefix):
    """The GRU `fwd`, `bwd` or `dec` out of a golden file's dictionary of weights."""
    start = f"{prefix}_"
    return {
        name.removeprefix(start): np.array(value)
        for name, value in weights.items()
        if name.startswith(start)
    }
