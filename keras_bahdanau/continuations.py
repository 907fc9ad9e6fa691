"""The words that may follow in a beam search, and the best of them."""

import functools
import math
from typing import Any, NamedTuple

import keras
from keras import ops, tree

from keras_bahdanau.scores import largest_of
from keras_bahdanau.search import NEVER, forbid

# Words that are compared as one. XLA takes the largest of more than 32 in two goes.
BLOCK = 32


class Pool(NamedTuple):
    """The best finished hypotheses, `N` a sentence, best first; -inf where none."""

    scores: Any
    steps: Any  # the step that ended it
    parents: Any  # the beam that it continued in that step
    token_ids: Any  # its last word
    log_probs: Any  # of its last word


def best_continuations(scores, step, beams, count, rules):
    """The `count` most likely beginnings that are one word longer, best first.

    The words are compared by block first: the best ones lie in the blocks with the
    largest scores. What is looked at in full is then a small part of the scores,
    and that alone is normalised and kept from forbidden words.
    """
    batch_size, num_beams, size = ops.shape(scores)
    totals = ops.expand_dims(beams.log_probs, -1)
    given, constrained = scores, rules.no_repeat_ngram or rules.prefix is not None
    if constrained:
        scores, allowed = _constrain(scores, step, beams, rules), None
    else:
        allowed = _allowed(step, rules)
    blocks = size // BLOCK if isinstance(size, int) else 0
    if blocks * num_beams <= count:
        shift = _log_totals(given, rules)
        words = ops.broadcast_to(ops.arange(size, dtype="int32"), ops.shape(scores))
        places = ops.zeros_like(words) + _beam_numbers(num_beams)
        parts = [(places, words, scores, shift, totals)]
    else:
        whole = scores[:, :, : blocks * BLOCK]
        whole = ops.reshape(whole, (batch_size, num_beams, blocks, BLOCK))
        highest = ops.squeeze(largest_of(whole), -1)
        rest = scores[:, :, blocks * BLOCK :]
        shift = _log_totals(given, rules, None if constrained else [highest, rest])
        if allowed is not None:
            highest = _allowed_maxima(highest, whole, allowed, rules)
        _, best = _largest(totals + (highest - shift), count)
        # In the order of the words, so that the first of equal ones is found.
        best = ops.expand_dims(ops.sort(best, axis=1), -1)
        places = best // blocks
        words = best % blocks * BLOCK + ops.arange(BLOCK, dtype="int32")
        whole = ops.reshape(whole, (batch_size, num_beams * blocks, BLOCK))
        beam = places[:, :, 0]
        parts = [
            (
                ops.broadcast_to(places, ops.shape(words)),
                words,
                gather(whole, best[:, :, 0]),
                gather(shift, beam),
                gather(totals, beam),
            )
        ]
        if size > blocks * BLOCK:
            words = ops.arange(blocks * BLOCK, size, dtype="int32")
            words = ops.broadcast_to(words, ops.shape(rest))
            places = ops.zeros_like(words) + _beam_numbers(num_beams)
            parts.append((places, words, rest, shift, totals))
    rows = []
    for places, words, scores, shift, totals in parts:
        if allowed is not None:
            scores = ops.where(allowed(words), scores, NEVER)
        chances = scores - shift
        found = (totals + chances, places, words, chances)
        width = math.prod(ops.shape(chances)[1:])
        rows.append([ops.reshape(part, (batch_size, width)) for part in found])
    sums, *found = (ops.concatenate(part, axis=1) for part in zip(*rows))
    totals, index = _largest(sums, count)
    places, words, chances = (ops.take_along_axis(part, index, 1) for part in found)
    steps = ops.broadcast_to(step, ops.shape(index))
    return Pool(totals, steps, places, words, chances)


def _beam_numbers(num_beams):
    return ops.expand_dims(ops.arange(num_beams, dtype="int32"), -1)


def _allowed(step, rules):
    """A function that says which words `(B, .., ..)` may follow."""
    ends = None
    if rules.min_length is not None:
        ends = ops.reshape(step + 1 >= rules.min_length, (-1, 1, 1))

    def allowed(words):
        fits = ops.ones_like(words, dtype="bool")
        for token_id in rules.forbidden_ids:
            fits = ops.logical_and(fits, ops.not_equal(words, token_id))
        if ends is None:
            return fits
        return ops.logical_and(fits, ops.logical_or(words != rules.end_id, ends))

    return allowed


def _log_totals(scores, rules, parts=None):
    """What to take from the scores of each beam so that they are log-probabilities.

    Args:
        scores: `(B, K, V)`.
        rules: the rules of the search.
        parts: list of tensors `(B, K, ..)` the largest of which is the largest score,
            where they are known.

    Returns:
        Tensor `(B, K, 1)`.
    """
    if not rules.from_logits:
        return ops.zeros_like(scores[:, :, :1])
    if parts is None or keras.backend.backend() == "torch":
        # That of torch makes no tensor of the size of the scores.
        return ops.logsumexp(scores, axis=-1, keepdims=True)
    # By `top_k`: of a maximum of maxima XLA makes one of all scores again.
    maxima = [ops.top_k(part, 1)[0] for part in parts if part.shape[-1]]
    largest = functools.reduce(ops.maximum, maxima)
    largest = ops.where(ops.isfinite(largest), largest, 0.0)
    powers = ops.exp(scores - largest)
    # As a product: a sum of all words would be one more pass over them.
    ones = ops.ones((scores.shape[-1], 1), scores.dtype)
    return largest + ops.log(ops.matmul(powers, ones))


def _allowed_maxima(highest, whole, allowed, rules):
    """The largest score of each block `(B, K, N, BLOCK)`, of allowed words."""
    blocks = ops.shape(whole)[2]
    numbers = ops.arange(blocks, dtype="int32")
    # Only few blocks have words that may be forbidden.
    for block in sorted(
        {word // BLOCK for word in (*rules.forbidden_ids, rules.end_id)}
    ):
        if 0 <= block < blocks:
            words = ops.arange(BLOCK, dtype="int32") + block * BLOCK
            words = ops.reshape(words, (1, 1, BLOCK))
            part = ops.where(allowed(words), whole[:, :, block], NEVER)
            here = ops.equal(numbers, block)
            highest = ops.where(here, largest_of(part), highest)
    return highest


def _largest(values, count):
    """The `count` largest of all values of a sentence, and their places."""
    batch_size = ops.shape(values)[0]
    values = ops.reshape(values, (batch_size, math.prod(ops.shape(values)[1:])))
    values, index = ops.top_k(values, count)
    return values, ops.cast(index, "int32")


def _constrain(log_probs, step, beams, rules):
    """The scores of the words, -inf where a word may not follow."""
    words = ops.arange(ops.shape(log_probs)[-1], dtype="int32")
    allowed = forbid(log_probs, rules.forbidden_ids)
    if rules.min_length is not None:
        too_short = ops.reshape(step + 1 < rules.min_length, (-1, 1, 1))
        ends = ops.equal(words, rules.end_id)
        allowed = ops.where(ops.logical_and(too_short, ends), NEVER, allowed)
    if rules.no_repeat_ngram:
        allowed = _ban_repeats(allowed, beams.history, step, rules)
    if rules.prefix is not None:
        count = ops.shape(rules.prefix)[1]
        word = ops.take(rules.prefix, ops.minimum(step, count - 1), axis=1)
        word = ops.reshape(ops.cast(word, "int32"), (-1, 1, 1))
        is_forced = ops.logical_and(step < count, ops.not_equal(word, rules.pad_id))
        forced = ops.where(ops.equal(words, word), log_probs, NEVER)
        allowed = ops.where(is_forced, forced, allowed)
    return allowed


def _ban_repeats(log_probs, history, step, rules):
    """-inf for each word that would complete `n` words that occurred before."""
    length = rules.no_repeat_ngram - 1
    if isinstance(history.shape[-1], int) and history.shape[-1] <= length:
        return log_probs
    batch_size, num_beams, size = ops.shape(log_probs)
    followers = history[:, :, length:]
    count = ops.shape(followers)[-1]
    positions = ops.arange(count, dtype="int32") + length
    repeated = ops.broadcast_to(positions < step, ops.shape(followers))
    for offset in range(length):
        last = ops.maximum(step - length + offset, 0)
        last = ops.expand_dims(ops.take(history, last, axis=2), -1)
        there = history[:, :, offset : offset + count]
        repeated = ops.logical_and(repeated, ops.equal(there, last))
    # Padding is forbidden in any case.
    banned = ops.where(repeated, followers, rules.pad_id)
    row = ops.reshape(ops.arange(batch_size * num_beams, dtype="int32"), (-1, 1))
    index = row * size + ops.reshape(banned, (batch_size * num_beams, count))
    index = ops.reshape(index, (-1, 1))
    never = ops.full((ops.shape(index)[0],), NEVER, log_probs.dtype)
    flat = ops.scatter_update(ops.reshape(log_probs, (-1,)), index, never)
    return ops.reshape(flat, (batch_size, num_beams, size))


def gather(nest, index):
    """Of each tensor `(B, K, ...)` of a nest, the parts `(B, M, ...)` at an index."""
    if not tree.flatten(nest):
        return nest
    batch_size, size = ops.shape(tree.flatten(nest)[0])[:2]
    count = ops.shape(index)[1]
    rows = ops.expand_dims(ops.arange(batch_size, dtype="int32") * size, 1)
    # Of one axis: of no sentence JAX gives other shapes else.
    rows = ops.reshape(rows + index, (batch_size * count,))

    def chosen(tensor):
        rest = ops.shape(tensor)[2:]
        flat = ops.reshape(tensor, (batch_size * size, *rest))
        return ops.reshape(ops.take(flat, rows, axis=0), (batch_size, count, *rest))

    return tree.map_structure(chosen, nest)
