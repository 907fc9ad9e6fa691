"""Beam search: the most likely sentences, not the most likely next words."""

import math
from typing import Any, NamedTuple

from keras import ops, tree

from keras_bahdanau.continuations import Pool, best_continuations, gather
from keras_bahdanau.search import (
    NEVER,
    SearchResult,
    check_number,
    check_search,
    for_each_sentence,
    prefix_rows,
    repeat_states,
    start_record,
    step_outputs,
    write_record,
)
from keras_bahdanau.weights import check_count

DEFAULT_ALPHA = {"none": 0.0, "gnmt": 0.6, "average": 1.0}
_LEAST_COVERAGE = 1e-6


class _Beams(NamedTuple):
    """The unfinished hypotheses, `K` a sentence."""

    token_ids: Any  # (B, K), the last word of each
    log_probs: Any  # (B, K), the sum over its words
    states: Any
    coverage: Any  # (B, K, S), the attention so far; () if unused
    history: Any  # (B, K, T), its words; () if unused


class _Rules(NamedTuple):
    """What does not change during a search."""

    end_id: int
    pad_id: int
    forbidden_ids: tuple
    min_length: Any  # (B,), or None
    max_length: Any  # (B,)
    prefix: Any
    no_repeat_ngram: int
    length_penalty: str
    alpha: float
    coverage_penalty: float
    source_mask: Any
    from_logits: bool


def beam_search(
    step_fn,
    states,
    batch_size,
    num_beams,
    max_length,
    num_results=1,
    start_id=2,
    end_id=3,
    pad_id=0,
    forbidden_ids=(),
    min_length=0,
    length_limits=None,
    forced_prefix=None,
    no_repeat_ngram=0,
    length_penalty="none",
    alpha=None,
    coverage_penalty=0.0,
    source_mask=None,
    from_logits=False,
):
    """Keeps the `K` most likely beginnings of each sentence at each step.

        score(y) = log p(y) / lp(|y|) + cp(y)
        lp(n) = 1, ((5 + n) / 6) ** alpha or n ** alpha
        cp(y) = beta * sum_j log(min(sum_i weights_ij, 1))

    Of all continuations of the beams by one word the `K` most likely are
    looked at: those that end leave the beam and are kept by score, and the
    beam is filled up to `K` with the next that do not end. With `|y|` the end
    token is counted. With one beam and no penalty this is `greedy_search`.

    A sentence is done when it has `num_results` hypotheses that nothing in the
    beam can overtake: since `log p` only falls and `lp` only rises, no
    continuation of `y` scores more than `log p(y) / lp(max_length)`, and with
    a coverage penalty no more than that and what `cp` is when the steps that
    are left spread their attention over what was covered least. This
    bound is the least one that holds whatever the model says next, so that
    the search stops neither earlier nor later. (Under constraints, which may
    keep `max_length` out of reach, it may go on for longer.) From then on
    the sentence is frozen. Hypotheses without an end token at `max_length` are
    cut, and come after all that have ended. Where the constraints allow no word
    at all behind any of the beams, what has ended until then is the result, be
    it nothing.

    Memory and keys belong into `step_fn`, one copy a sentence; they are not
    states. All states are reordered here, with their hypotheses.

    Masking: the words behind the end are padding, their log-probabilities and
    weights 0. Which sentences share a batch changes nothing.

    Args:
        step_fn: function `(token_ids (B, K), states)` that returns
            `(log_probs (B, K, V), states)` or, with attention weights,
            `(log_probs, states, weights (B, K, S))`.
        states: any nest of tensors `(B, ...)`; `step_fn` sees `(B, K, ...)`.
        batch_size: `B`, an integer or a scalar tensor.
        num_beams: `K`.
        max_length: largest number of words, the end token counted; an integer
            or a scalar tensor.
        num_results: `N`, how many hypotheses to return, at most `K`.
        start_id: the token that the first step sees.
        end_id: the token that ends a sentence.
        pad_id: the token behind the end.
        forbidden_ids: tokens that are never chosen, such as UNK. Padding and
            the start token never are, the end token always may be.
        min_length: least number of words, the end token counted: an integer or
            a tensor, a scalar or `(B,)`.
        length_limits: integers `(B,)`, a `max_length` for each sentence, such
            as a multiple of its source's length. With 0 it gets no hypothesis.
        forced_prefix: integers `(B, P)`, padding behind: the words with which
            the hypotheses must begin, or `None`. They may be forbidden ones.
        no_repeat_ngram: `n > 0`: no `n` words occur twice in a hypothesis.
        length_penalty: `"none"`, `"gnmt"` or `"average"`.
        alpha: exponent of the length penalty, 0 or more (default: 0.6 for
            `"gnmt"`, 1 for `"average"`); without a penalty there is none.
        coverage_penalty: `beta`, 0 or more; it needs weights and `source_mask`.
        source_mask: boolean `(B, S)`, the positions that are to be covered.
        from_logits: whether `step_fn` returns logits in place of
            log-probabilities. Only those of the best words are then normalised.

    Returns:
        `SearchResult` with an axis of `N` hypotheses, those that ended first,
        each kind by falling score: token ids
        `(B, N, T)`, lengths and scores `(B, N)`, log-probabilities
        `(B, N, T)`, weights `(B, N, T, S)`. Where there are fewer than `N`
        hypotheses the rest have length 0 and score `-inf`.

    Raises:
        ValueError: if an argument is out of its range or has not the shape that
            it must have, or a coverage penalty lacks weights or the mask.

    Example:

    >>> from keras import ops
    >>> log_probs = ops.log(ops.array([0.0, 0.0, 0.0, 0.4, 0.5, 0.1]))
    >>> def step_fn(token_ids, states):
    ...     shape = (*token_ids.shape, 6)
    ...     return ops.broadcast_to(log_probs, shape), states
    >>> result = beam_search(step_fn, (), 1, num_beams=3, max_length=4, num_results=2)
    >>> ops.convert_to_numpy(result.token_ids).tolist()
    [[[3, 0, 0, 0], [4, 3, 0, 0]]]

    Reference: Wu et al. 2016 (arXiv 1609.08144), section 7, for `"gnmt"` and
    the coverage penalty; Huang, Zhao and Ma 2017 (D17-1227) for optimal
    stopping.
    """
    check_search(max_length, end_id, pad_id)
    _check(num_beams, num_results, no_repeat_ngram)
    alpha = check_penalties(length_penalty, alpha, coverage_penalty)
    if coverage_penalty and source_mask is None:
        raise ValueError(
            "A coverage penalty needs `source_mask`, the positions that are to be "
            "covered."
        )
    rules = _Rules(
        end_id,
        pad_id,
        tuple(sorted({pad_id, start_id, *forbidden_ids} - {end_id})),
        None
        if isinstance(min_length, int) and min_length <= 1
        else for_each_sentence(min_length, "min_length", batch_size),
        _limits(max_length, length_limits, batch_size),
        prefix_rows(forced_prefix, batch_size),
        no_repeat_ngram,
        length_penalty,
        alpha,
        coverage_penalty,
        source_mask,
        from_logits,
    )
    shape = (batch_size, num_beams)
    beams = _Beams(
        ops.full(shape, start_id, dtype="int32"),
        # The beams are still equal: one of them is enough.
        ops.zeros(shape, "float32")
        + ops.array([0.0] + [NEVER] * (num_beams - 1), "float32"),
        repeat_states(states, num_beams),
        (),
        ops.full((*shape, max_length), pad_id, "int32") if no_repeat_ngram else (),
    )
    pool = _empty_pool(batch_size, num_results, pad_id)
    return _search(step_fn, beams, pool, rules.max_length < 1, max_length, rules)


def _search(step_fn, beams, pool, done, capacity, rules):
    # The first step is made outside of the loop: it tells the shapes.
    step = ops.zeros((), "int32")
    found, beams, pool, done = _advance(step_fn, step, beams, pool, done, rules)
    record = tree.map_structure(lambda part: start_record(part, capacity), found)

    def unfinished(step, record, beams, pool, done):
        return ops.logical_and(step < capacity, ops.logical_not(ops.all(done)))

    def body(step, record, beams, pool, done):
        found, beams, pool, done = _advance(step_fn, step, beams, pool, done, rules)
        record = tree.map_structure(
            lambda whole, part: write_record(whole, part, step), record, found
        )
        return step + 1, record, beams, pool, done

    _, record, _, pool, _ = ops.while_loop(
        unfinished, body, (step + 1, record, beams, pool, done)
    )
    return _trace_back(record, pool, rules.pad_id)


def _advance(step_fn, step, beams, pool, done, rules):
    """One step of all beams: what to record, and the beams after it."""
    scores, states, weights = step_outputs(step_fn(beams.token_ids, beams.states))
    scores = ops.cast(scores, "float32")
    num_beams = ops.shape(scores)[1]
    # Of 2 K continuations K or more do not end.
    found = best_continuations(scores, step, beams, 2 * num_beams, rules)
    totals = found.scores
    coverage = _covered(beams.coverage, weights, rules)
    scores = _scores(totals, step + 1, coverage, found.parents, rules)
    ended = ops.equal(found.token_ids, rules.end_id)

    # The hypotheses that end, if they are among the K most likely.
    among = ops.arange(2 * num_beams) < num_beams
    ending = found._replace(scores=ops.where(ended & among, scores, NEVER))
    frozen = ops.expand_dims(done, -1)
    pool = _choose(frozen, pool, _best(_join(pool, ending), ops.shape(pool.scores)[1]))

    # The K most likely that go on.
    live = ops.where(ended, NEVER, totals)
    live, order = ops.top_k(live, num_beams)
    goes_on = gather(found, ops.cast(order, "int32"))

    # At the limit these are cut, and are worth less than any that has ended.
    scores = _scores(live, step + 1, coverage, goes_on.parents, rules)
    at_limit = step + 1 >= rules.max_length
    cut = _behind(pool, goes_on._replace(scores=scores))
    is_cut = ops.logical_and(at_limit, ops.logical_not(done))
    pool = _choose(ops.expand_dims(is_cut, -1), cut, pool)

    bound = _bound(live, step + 1, coverage, goes_on.parents, rules)
    settled = pool.scores[:, -1] >= bound
    done = done | at_limit | settled

    parents = goes_on.parents
    beams = _Beams(
        goes_on.token_ids,
        live,
        gather(states, parents),
        () if rules.coverage_penalty == 0 else gather(coverage, parents),
        _lengthen(beams.history, parents, goes_on.token_ids, step),
    )
    weights = () if weights is None else ops.cast(weights, "float32")
    record = (goes_on.token_ids, parents, goes_on.log_probs, weights)
    return record, beams, pool, done


def _lengthen(history, parents, token_ids, step):
    if isinstance(history, tuple):
        return history
    here = ops.equal(ops.arange(ops.shape(history)[-1], dtype="int32"), step)
    return ops.where(here, ops.expand_dims(token_ids, -1), gather(history, parents))


def _covered(coverage, weights, rules):
    """The attention that each source position has had, `(B, K, S)`."""
    if rules.coverage_penalty == 0:
        return ()
    if weights is None:
        raise ValueError("A coverage penalty needs a `step_fn` that returns weights.")
    weights = ops.cast(weights, "float32")
    return weights if isinstance(coverage, tuple) else coverage + weights


def _scores(totals, length, coverage, parents, rules):
    """The scores of hypotheses `(B, M)` of one length that continue `parents`."""
    scores = totals / _length_penalty(length, rules)
    if rules.coverage_penalty == 0:
        return scores
    return scores + gather(_coverage_penalty(coverage, rules), parents)


def _bound(totals, length, coverage, parents, rules):
    """What no continuation of the hypotheses `(B, M)` can score more than, `(B,)`."""
    bounds = totals / ops.expand_dims(_length_penalty(rules.max_length, rules), -1)
    if rules.coverage_penalty:
        left = ops.cast(rules.max_length - length, "float32")
        best = _coverage_penalty(_filled(coverage, left, rules), rules)
        bounds = bounds + gather(best, parents)
    # Of no sentence there is no `max`.
    return ops.top_k(bounds, 1)[0][:, 0]


def _coverage_penalty(coverage, rules):
    """What to add to the scores for a coverage `(B, K, S)`, `(B, K)`."""
    covered = ops.log(ops.clip(coverage, _LEAST_COVERAGE, 1.0))
    mask = ops.expand_dims(ops.cast(rules.source_mask, "bool"), 1)
    return rules.coverage_penalty * ops.sum(ops.where(mask, covered, 0.0), axis=-1)


def _filled(coverage, attention, rules):
    """The coverage when `attention` `(B,)` more goes where it helps most.

    The sum of logarithms is concave: as water fills a vessel, the lowest positions
    rise to one level.
    """
    mask = ops.expand_dims(ops.cast(rules.source_mask, "bool"), 1)
    # What need not be covered takes no water below the brim.
    coverage = ops.where(mask, coverage, 1.0)
    lowest = ops.cumsum(ops.sort(coverage, axis=-1), axis=-1)
    count = ops.arange(1, ops.shape(coverage)[-1] + 1, dtype="float32")
    levels = (ops.reshape(attention, (-1, 1, 1)) + lowest) / count
    # Of no sentence there is no `min`.
    return ops.maximum(coverage, ops.sort(levels, axis=-1)[..., :1])


def _length_penalty(length, rules):
    length = ops.cast(length, "float32")
    if rules.length_penalty == "gnmt":
        return ops.power((5.0 + length) / 6.0, rules.alpha)
    if rules.length_penalty == "average":
        return ops.power(ops.maximum(length, 1.0), rules.alpha)
    return ops.ones_like(length)


def _empty_pool(batch_size, count, pad_id):
    shape = (batch_size, count)
    return Pool(
        ops.full(shape, NEVER, "float32"),
        ops.full(shape, -1, "int32"),
        ops.zeros(shape, "int32"),
        ops.full(shape, pad_id, "int32"),
        ops.zeros(shape, "float32"),
    )


def _join(pool, other):
    return tree.map_structure(lambda *both: ops.concatenate(both, axis=1), pool, other)


def _choose(condition, pool, other):
    return tree.map_structure(
        lambda one, two: ops.where(condition, one, two), pool, other
    )


def _best(pool, count):
    """The entries of the `count` largest scores, best first."""
    _, order = ops.top_k(pool.scores, count)
    return gather(pool, ops.cast(order, "int32"))


def _behind(pool, cut):
    """The pool, its empty places filled with the best of those that were cut."""
    count = ops.shape(pool.scores)[1]
    cut = _best(cut, ops.shape(cut.scores)[1])
    joined = _join(pool, cut)
    # Those that ended in their order, those that were cut in theirs, the rest.
    ranks = ops.arange(ops.shape(joined.scores)[1], dtype="int32")
    ranks = ops.where(joined.scores > NEVER, -ranks, -(2**30))
    _, order = ops.top_k(ranks, count)
    return gather(joined, ops.cast(order, "int32"))


def _trace_back(record, pool, pad_id):
    """Follows the pool's hypotheses from their ends to their beginnings."""
    token_ids, parents, log_probs, weights = record
    capacity, batch_size, num_beams = ops.shape(token_ids)
    count = ops.shape(pool.scores)[1]
    ends = ops.where(pool.scores > NEVER, pool.steps, -1)

    def body(step, place, places_before, places):
        # A hypothesis comes out of a step in one place, and went in in another.
        before = ops.take_along_axis(ops.take(parents, step, axis=0), place, axis=1)
        before = ops.where(ops.equal(step, ends), pool.parents, before)
        before = ops.where(step > ends, place, before)
        places = write_record(places, place, step)
        places_before = write_record(places_before, before, step)
        return step - 1, before, places_before, places

    nowhere = ops.zeros((capacity, batch_size, count), "int32")
    # With no sentence there is no way back.
    last_step = _as_int(capacity) * _as_int(ops.minimum(batch_size, 1)) - 1
    _, _, places_before, places = ops.while_loop(
        lambda step, *_: step >= 0,
        body,
        (last_step, ops.zeros_like(ends), nowhere, nowhere),
    )
    step = ops.reshape(ops.arange(capacity, dtype="int32"), (-1, 1, 1))
    last, behind = ops.equal(step, ends), step > ends

    def words(record, last_word, padding):
        chosen = ops.take_along_axis(record, places, axis=2)
        chosen = ops.where(behind, padding, ops.where(last, last_word, chosen))
        return ops.transpose(chosen, (1, 2, 0))

    if not isinstance(weights, tuple):
        rows = capacity * batch_size
        flat = ops.reshape(weights, (rows, *ops.shape(weights)[2:]))
        index = ops.reshape(places_before, (rows, count))
        weights = ops.reshape(
            gather(flat, index), (capacity, batch_size, count, ops.shape(flat)[-1])
        )
        weights = ops.where(ops.expand_dims(behind, -1), 0.0, weights)
        weights = ops.transpose(weights, (1, 2, 0, 3))
    return SearchResult(
        token_ids=words(token_ids, pool.token_ids, pad_id),
        lengths=ends + 1,
        scores=pool.scores,
        log_probs=words(log_probs, pool.log_probs, 0.0),
        attention_weights=None if isinstance(weights, tuple) else weights,
    )


def _as_int(value):
    return ops.convert_to_tensor(value, "int32")


def _limits(max_length, length_limits, batch_size):
    limits = ops.broadcast_to(_as_int(max_length), (batch_size,))
    if length_limits is None:
        return limits
    return ops.minimum(
        limits, for_each_sentence(length_limits, "length_limits", batch_size)
    )


def _check(num_beams, num_results, no_repeat_ngram):
    check_count("num_beams", num_beams)
    check_count("num_results", num_results)
    if no_repeat_ngram:
        check_count("no_repeat_ngram", no_repeat_ngram)
    if num_results > num_beams:
        raise ValueError(
            "A search finds as many hypotheses as it has beams. Received: "
            f"num_results={num_results}, num_beams={num_beams}"
        )


def check_penalties(length_penalty, alpha, coverage_penalty):
    """Raises `ValueError` at a wrong penalty; returns the exponent of the length."""
    if length_penalty not in DEFAULT_ALPHA:
        raise ValueError(
            f"`length_penalty` must be one of {tuple(DEFAULT_ALPHA)}. "
            f"Received: length_penalty={length_penalty!r}"
        )
    if alpha is not None and length_penalty == "none":
        raise ValueError(
            "`alpha` is the exponent of a length penalty, of which there is none. "
            f"Received: alpha={alpha!r}, length_penalty='none'. Leave it out, or pass "
            'length_penalty="gnmt" or "average".'
        )
    alpha = DEFAULT_ALPHA[length_penalty] if alpha is None else alpha
    for name, value in (("alpha", alpha), ("coverage_penalty", coverage_penalty)):
        check_number(name, value, "0 or more, and finite", lambda v: 0 <= v < math.inf)
    return float(alpha)
