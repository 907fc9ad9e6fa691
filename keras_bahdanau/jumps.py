"""Alignments as chains: the next word is likely to stand near the last one.

Attention links each target word by itself. Here the links of a sentence make a Markov
chain over the source words, whose steps are jumps: +1 to the next source word, 0 for
the same one again, -1 back. Everything here is NumPy; nothing needs a backend.
"""

import numpy as np

from keras_bahdanau.alignment import weight_matrix

# What a row of weights leaves to each source word, however sure it is.
_LEAST = 1e-6


def learn_jumps(weights, farthest=5, rounds=5):
    """Learns from weights how alignments move on (expectation maximisation).

        jumps[d] = how often jump d is made / how often it could be made

    both as expected under `chain_weights` with the jumps before. Gold links are not
    needed.

    Args:
        weights: List of arrays `(T, S)`, the weights of some hundred sentence pairs
            or more, one row per target word.
        farthest: Largest jump to learn, forwards and backwards; those beyond count as
            this one.
        rounds: Number of times that the jumps are learned anew, at first from jumps
            that are all the same.

    Returns:
        Array of length `2 farthest + 1`, for the jumps from `-farthest` to `farthest`.
        The likeliest has 1.

    Raises:
        ValueError: If there are no weights, a number is not positive, or weights are
            not finite matrices without negative entries.

    Example:

    >>> straight, crossed = np.eye(4), np.eye(4)[::-1]
    >>> jumps = learn_jumps([straight, straight, crossed], farthest=1)
    >>> int(np.argmax(jumps)) - 1
    1

    Reference:
        Vogel, Ney and Tillmann 1996, "HMM-Based Word Alignment in Statistical
        Translation".
    """
    weights = list(weights)
    if not weights or farthest < 1 or rounds < 1:
        raise ValueError(
            "`learn_jumps` needs weights, and `farthest` and `rounds` of 1 or more. "
            f"Received: {len(weights)} arrays, farthest={farthest}, rounds={rounds}."
        )
    weights = [weight_matrix(matrix) for matrix in weights]
    jumps = np.ones(2 * farthest + 1)
    for _ in range(rounds):
        # Beforehand each was made once in turn, so that none is impossible.
        made, possible = np.ones(len(jumps)), np.full(len(jumps), float(len(jumps)))
        for matrix in weights:
            _count(matrix, jumps, made, possible)
        jumps = made / possible
        jumps = jumps / jumps.max()
    return jumps


def chain_weights(weights, jumps):
    """Corrects the weights of each target word by those of its neighbours.

        p(i_1 .. i_T) ~ product over t of weights[t, i_t] jumps[i_t - i_{t-1}]
        chain[t, i] = p(i_t = i)

    The jumps from one source word share out 1. The first target word jumps from the
    place before the first source word.

    Args:
        weights: Array of shape `(T, S)`, one row per target word. A row of zeros says
            nothing.
        jumps: What `learn_jumps` returned: an array of odd length, jump 0 in its
            middle. Jumps beyond its ends are as likely as those at its ends.

    Returns:
        Array of shape `(T, S)`, each row with the sum 1.

    Raises:
        ValueError: If the weights are not a finite matrix without negative entries,
            or the jumps are not an odd number of positive ones.

    Example:

    >>> unsure = [[0.9, 0.05, 0.05], [0.4, 0.2, 0.4], [0.1, 0.1, 0.8]]
    >>> chain = chain_weights(unsure, jumps=[0.1, 0.1, 0.3, 1.0, 0.1])
    >>> chain.argmax(axis=1).tolist()
    [0, 1, 2]
    """
    weights = weight_matrix(weights)
    jumps = np.asarray(jumps, "float64")
    if jumps.ndim != 1 or len(jumps) % 2 == 0 or not (jumps > 0).all():
        raise ValueError(
            "`jumps` must be an odd number of positive numbers, that of jump 0 in the "
            f"middle. Received: {jumps.tolist()}. Take what `learn_jumps` returns."
        )
    if weights.size == 0:
        return weights
    forward, backward, _, _ = _messages(weights, jumps)
    both = forward * backward
    return both / both.sum(axis=1, keepdims=True)


def _messages(weights, jumps):
    """Forward and backward probabilities `(T, S)`, emissions, transitions `(S, S)`."""
    size = weights.shape[1]
    emissions = weights.astype("float64") + _LEAST
    # A row for the place before the first source word, and one for each of them.
    steps = jumps[_jump_index(np.arange(-1, size), size, len(jumps))]
    steps = steps / steps.sum(axis=1, keepdims=True)
    first, steps = steps[0], steps[1:]
    forward, backward = np.ones((2, *weights.shape))
    for t, emission in enumerate(emissions):
        row = emission * (forward[t - 1] @ steps if t else first)
        forward[t] = row / row.sum()
    for t in range(len(emissions) - 2, -1, -1):
        row = steps @ (emissions[t + 1] * backward[t + 1])
        backward[t] = row / row.sum()
    return forward, backward, emissions, steps


def _jump_index(places, size, count):
    """Where in `jumps` those from each of the places to each source word stand."""
    farthest = count // 2
    return np.clip(np.arange(size) - places[:, None], -farthest, farthest) + farthest


def _count(weights, jumps, made, possible):
    """Adds the jumps of one sentence pair to those made and those possible."""
    size = weights.shape[1]
    if size == 0:
        return
    forward, backward, emissions, steps = _messages(weights, jumps)
    index = _jump_index(np.arange(size), size, len(jumps))
    for t in range(len(weights) - 1):
        joint = forward[t][:, None] * steps * (emissions[t + 1] * backward[t + 1])
        joint = joint / joint.sum()
        np.add.at(made, index, joint)
        np.add.at(possible, index, joint.sum(axis=1)[:, None] * np.ones_like(joint))
