"""Linear chains: the sums and maxima over all tag sequences of a sentence.

All functions take the potentials of a chain, `(B, T, N, N)`:

    potentials[b, t, i, j]   score of tag j at position t, behind tag i
    score(y) = sum_t potentials[t, y_{t-1}, y_t],   y_{-1} = 0
    p(y) = exp(score(y)) / sum_y' exp(score(y'))

`chain_potentials` makes them. Where a position is padding its matrix is the identity
in logarithms, so that whatever tag came before is carried over it; hence none of the
other functions needs a mask, and padding may stand anywhere. A sentence without words
has one tagging, the empty one, of score 0.

They work on tensors and arrays, not on the symbolic tensors of a Functional model: call
them in the `call` of a layer, or on the potentials that `predict` returns.

References: Lafferty, McCallum and Pereira 2001, "Conditional Random Fields"; Rabiner
1989, "A Tutorial on Hidden Markov Models", for the recursions.
"""

from keras import ops

from keras_bahdanau.loop import run_steps
from keras_bahdanau.weights import check_count

# The score of what may not be. Finite, so that differences and gradients are numbers;
# its exponential is 0 in float32 and float64 alike.
FORBIDDEN = -1e5
# What stands beside the diagonal at padding, and nowhere else.
_PADDING = -3e5
# The score of what contradicts a label: far below any number of forbidden moves.
_CONTRADICTION = -1e15
# The score of a chain that begins with nothing; below all of that.
_NEVER = -1e30


def chain_potentials(emissions, transitions, start=None, end=None, mask=None):
    """Puts the scores of a chain together.

        score(y) = start[y_0] + sum_t emissions[t, y_t]
                 + sum_t transitions[y_{t-1}, y_t] + end[y_{T-1}]

    Masking: positions with `mask` `False` do not exist: the chain goes from one real
    position to the next, wherever padding stands.

    Args:
        emissions: Tensor `(B, T, N)`.
        transitions: Tensor `(N, N)`, from the tag of the row to that of the column.
        start: Tensor `(N,)` or `None`: the score of beginning with a tag.
        end: Tensor `(N,)` or `None`: the score of ending with a tag.
        mask: Boolean `(B, T)` or `None`.

    Returns:
        Tensor `(B, T, N, N)` of the dtype of `emissions`.

    Example:

    >>> from keras import ops
    >>> potentials = chain_potentials(ops.ones((1, 3, 2)), ops.zeros((2, 2)))
    >>> tuple(potentials.shape)
    (1, 3, 2, 2)
    """
    emissions = ops.convert_to_tensor(emissions)
    transitions = ops.convert_to_tensor(transitions)
    dtype = emissions.dtype
    if mask is None:
        mask = ops.ones_like(emissions[:, :, 0], dtype="bool")
    mask = ops.cast(mask, "bool")
    count = ops.cumsum(ops.cast(mask, "int32"), axis=1)
    first = ops.logical_and(mask, ops.equal(count, 1))
    last = ops.logical_and(mask, ops.equal(count, count[:, -1:]))
    if start is not None:
        emissions = emissions + _only(first, start)
    if end is not None:
        emissions = emissions + _only(last, end)
    emissions = ops.expand_dims(emissions, 2)
    # Nothing is in front of the first word: all rows of its matrix are alike.
    moves = ops.where(first[:, :, None, None], ops.zeros_like(transitions), transitions)
    num_tags = emissions.shape[-1]
    stay = ops.cast((1.0 - ops.eye(num_tags)) * _PADDING, dtype)
    return ops.where(mask[:, :, None, None], emissions + moves, stay)


def log_partition(potentials, allowed=None):
    """The logarithm of the sum over all tag sequences.

        log sum_y exp(score(y))

    Args:
        potentials: Tensor `(B, T, N, N)`.
        allowed: Boolean `(B, T, N)` or `None`. With it, the sum is over the sequences
            of allowed tags alone; at padding all must be allowed.

    Returns:
        Tensor `(B,)`.

    Example:

    >>> from keras import ops
    >>> potentials = chain_potentials(ops.zeros((1, 3, 2)), ops.zeros((2, 2)))
    >>> print(f"{float(ops.exp(log_partition(potentials))[0]):.3f}")  # 2 * 2 * 2
    8.000
    """
    potentials = ops.convert_to_tensor(potentials)
    if allowed is not None:
        potentials = potentials + _contradict(allowed, potentials)
    last, _ = _forward(potentials)
    return ops.logsumexp(last, axis=-1)


def log_likelihood(labels, potentials):
    """The logarithm of the probability of given tags.

    A label that is no tag, such as -1, says nothing: the probability is that of all
    sequences that agree with the labels there are. Labels of padding do not count.

    Args:
        labels: Integers `(B, T)`.
        potentials: Tensor `(B, T, N, N)`.

    Returns:
        Tensor `(B,)`, never above 0. It is about -1e5 for each forbidden transition
        that the labels ask for.

    Example:

    >>> from keras import ops
    >>> potentials = chain_potentials(ops.zeros((1, 3, 2)), ops.zeros((2, 2)))
    >>> labels = ops.convert_to_tensor([[0, 1, -1]])
    >>> print(f"{float(ops.exp(log_likelihood(labels, potentials))[0]):.3f}")
    0.250
    """
    potentials = ops.convert_to_tensor(potentials)
    num_tags = potentials.shape[-1]
    labels = ops.expand_dims(ops.cast(labels, "int32"), -1)
    given = ops.logical_and(labels >= 0, labels < num_tags)
    allowed = ops.logical_or(
        ops.equal(labels, ops.arange(num_tags, dtype="int32")),
        ops.logical_not(given),
    )
    padding = ops.expand_dims(is_padding(potentials), -1)
    allowed = ops.logical_or(allowed, padding)
    # Both sums in one loop.
    agreeing = potentials + _contradict(allowed, potentials)
    both = ops.concatenate([potentials, agreeing], axis=0)
    every, agreeing = ops.split(log_partition(both), 2, axis=0)
    return ops.minimum(agreeing - every, 0)


def chain_marginals(potentials):
    """The probability of each tag at each position, all sequences considered.

    Args:
        potentials: Tensor `(B, T, N, N)`.

    Returns:
        Tensor `(B, T, N)` that sums to 1 over the tags; 0 at padding.

    Example:

    >>> from keras import ops
    >>> potentials = chain_potentials(ops.zeros((1, 3, 2)), ops.zeros((2, 2)))
    >>> chain_marginals(potentials)[0, 1].shape[0]
    2
    """
    potentials = ops.convert_to_tensor(potentials)
    last, alphas = _forward(potentials)
    # The same recursion from the other end; what is behind the last word is one.
    turned = ops.flip(ops.swapaxes(potentials, 2, 3), axis=1)
    _, betas = _forward(turned, ops.zeros_like(last))
    betas = ops.flip(betas, axis=1)
    betas = ops.concatenate([betas[:, 1:], ops.zeros_like(betas[:, :1])], axis=1)
    marginals = ops.softmax(alphas + betas, axis=-1)
    real = ops.expand_dims(ops.logical_not(is_padding(potentials)), -1)
    return ops.where(real, marginals, ops.zeros_like(marginals))


def best_tags(potentials):
    """The most likely tag sequence (Viterbi).

    Args:
        potentials: Tensor `(B, T, N, N)`.

    Returns:
        Integers `(B, T)`, -1 at padding, and the score of the sequence `(B,)`. A
        sentence for which every sequence has a forbidden transition gets one with as
        few as can be, and a score below -5e4.

    Example:

    >>> from keras import ops
    >>> emissions = ops.convert_to_tensor([[[0.0, 2.0], [1.0, 0.0]]])
    >>> tags, scores = best_tags(chain_potentials(emissions, ops.zeros((2, 2))))
    >>> ops.convert_to_numpy(tags).tolist(), ops.convert_to_numpy(scores).tolist()
    ([[1, 0]], [3.0])
    """
    potentials = ops.convert_to_tensor(potentials)
    tags, scores = _search(potentials, 1)
    shown = ops.logical_not(is_padding(potentials))
    return ops.where(shown, tags[:, 0], -1), scores[:, 0]


def best_sequences(potentials, num_best):
    """The `K` most likely tag sequences.

    Args:
        potentials: Tensor `(B, T, N, N)`.
        num_best: Integer K.

    Returns:
        Integers `(B, K, T)`, the best first, -1 at padding, and scores `(B, K)`. Where
        a sentence has fewer sequences than `K`, those with a forbidden transition not
        counted, the rest is -1 with a score of -infinity.

    Raises:
        ValueError: If `num_best` is not a positive integer.

    Example:

    >>> from keras import ops
    >>> emissions = ops.convert_to_tensor([[[0.0, 2.0], [1.0, 0.0]]])
    >>> potentials = chain_potentials(emissions, ops.zeros((2, 2)))
    >>> tags, scores = best_sequences(potentials, 2)
    >>> ops.convert_to_numpy(tags).tolist()
    [[[1, 0], [1, 1]]]
    """
    check_count("num_best", num_best)
    potentials = ops.convert_to_tensor(potentials)
    tags, scores = _search(potentials, num_best)
    exists = ops.logical_and(scores > _NEVER / 2, _is_allowed(tags, potentials))
    real = ops.logical_not(is_padding(potentials))
    shown = ops.logical_and(exists[:, :, None], real[:, None])
    scores = ops.where(exists, scores, ops.full_like(scores, -float("inf")))
    return ops.where(shown, tags, -1), scores


def is_padding(potentials):
    """Says where `chain_potentials` was told of padding.

    Args:
        potentials: Tensor `(B, T, N, N)`.

    Returns:
        Boolean `(B, T)`.
    """
    return ops.equal(ops.convert_to_tensor(potentials)[:, :, 0, 1], _PADDING)


def _search(potentials, num_best):
    """The tags `(B, K, T)` of the best sequences, at padding those before it."""
    num_tags = potentials.shape[-1]
    num_ways = num_tags * num_best

    def step(potentials, states):
        # From each tag and each of its K best ways to it, (B, N_to, N_from * K).
        scores = ops.reshape(states[0], (-1, num_tags, 1, num_best))
        scores = scores + ops.expand_dims(potentials, -1)
        scores = ops.moveaxis(scores, 2, 1)
        scores = ops.reshape(scores, (-1, num_tags, num_ways))
        scores, ways = _largest(scores, num_best)
        scores = ops.reshape(scores, (-1, num_ways))
        return ops.reshape(ways, (-1, num_ways)), [scores]

    begin = _beginning(num_ways, potentials)
    _, ways, (scores,) = run_steps(step, potentials, [begin])
    scores, places = _largest(scores, num_best)

    def back(ways, states):
        return states[0], [ops.take_along_axis(ways, states[0], axis=1)]

    _, places, _ = run_steps(back, ways, [places], go_backwards=True)
    tags = ops.flip(ops.moveaxis(places, 1, 2), axis=-1) // num_best
    return tags, scores


def _is_allowed(tags, potentials):
    """Whether no transition of the sequences `(B, K, T)` is forbidden, `(B, K)`."""
    num_tags = potentials.shape[-1]
    before = ops.concatenate([ops.zeros_like(tags[:, :, :1]), tags[:, :, :-1]], axis=2)
    moves = ops.moveaxis(before * num_tags + tags, 1, 2)
    flat = ops.reshape(potentials, (-1, ops.shape(potentials)[1], num_tags**2))
    return ops.all(ops.take_along_axis(flat, moves, axis=2) > FORBIDDEN / 2, axis=1)


def _forward(potentials, begin=None):
    """Sums over the tags before each position, `(B, N)` and `(B, T, N)`."""

    def step(potentials, states):
        sums = ops.logsumexp(ops.expand_dims(states[0], -1) + potentials, axis=1)
        return sums, [sums]

    if begin is None:
        begin = _beginning(potentials.shape[-1], potentials)
    last, sums, _ = run_steps(step, potentials, [begin])
    return last, sums


def _beginning(num_ways, potentials):
    """One way to begin: as if tag 0 came before, the first of its ways."""
    begin = ops.where(ops.equal(ops.arange(num_ways), 0), 0.0, _NEVER)
    # As many rows as the batch, which may be unknown.
    return ops.cast(begin, potentials.dtype) + ops.zeros_like(potentials[:, 0, 0, :1])


def _contradict(allowed, potentials):
    """0 where a tag is allowed, else `_CONTRADICTION`, for all tags before it."""
    scores = ops.cast(ops.logical_not(allowed), potentials.dtype) * _CONTRADICTION
    return ops.expand_dims(scores, 2)


def _largest(values, count):
    """The largest values along the last axis, falling, and their places."""
    if count == 1:
        places = ops.argmax(values, axis=-1, keepdims=True)
        return ops.max(values, axis=-1, keepdims=True), ops.cast(places, "int32")
    values, places = ops.top_k(values, count)
    return values, ops.cast(places, "int32")


def _only(where, scores):
    """Scores `(N,)` at the positions of `where`, else 0, `(B, T, N)`."""
    where = ops.expand_dims(where, -1)
    return ops.where(where, scores, ops.zeros_like(scores))
