"""Chains against the enumeration of all tag sequences, in plain loops and float64."""

import itertools
import math

import keras
import numpy as np
import pytest
from arrays import numbers, values
from gradients import gradients
from keras import ops, tree

from keras_bahdanau.chains import (
    FORBIDDEN,
    best_sequences,
    best_tags,
    chain_marginals,
    chain_potentials,
    is_padding,
    log_likelihood,
    log_partition,
)

B, T, N = 6, 5, 3
# Right padding, none, left padding, padding within, one word, no word.
MASK = np.array(
    [
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1],
        [0, 0, 1, 1, 1],
        [1, 0, 1, 0, 1],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0],
    ],
    bool,
)
PARTS = {
    "emissions": 2 * values(B, T, N),
    "transitions": 2 * values(N, N, seed=4),
    "start": values(N, seed=5),
    "end": values(N, seed=6),
}


def potentials_of(parts, mask=MASK):
    tensors = {
        name: None if part is None else ops.convert_to_tensor(part)
        for name, part in parts.items()
    }
    mask = None if mask is None else ops.convert_to_tensor(mask)
    return chain_potentials(**tensors, mask=mask)


def all_scores(row, parts, mask=MASK):
    """From each tag sequence of a row's real positions to its score."""
    places = np.flatnonzero(mask[row])
    scores = {}
    for tags in itertools.product(range(N), repeat=len(places)):
        score = 0.0
        for place, tag in zip(places, tags):
            score += float(parts["emissions"][row, place, tag])
        for before, after in itertools.pairwise(tags):
            score += float(parts["transitions"][before, after])
        if tags and parts["start"] is not None:
            score += float(parts["start"][tags[0]])
        if tags and parts["end"] is not None:
            score += float(parts["end"][tags[-1]])
        scores[tags] = score
    return scores


def log_sum(scores):
    return math.log(math.fsum(math.exp(score) for score in scores))


@pytest.fixture(params=["boundaries", "no boundaries"])
def parts(request):
    if request.param == "boundaries":
        return PARTS
    return {**PARTS, "start": None, "end": None}


def test_the_partition_is_the_sum_over_all_sequences(parts):
    found = numbers(log_partition(potentials_of(parts)))
    for row in range(B):
        expected = log_sum(all_scores(row, parts).values())
        assert found[row] == pytest.approx(expected, abs=1e-5)


def test_the_partition_of_allowed_tags_is_the_sum_over_those(parts):
    allowed = np.random.default_rng(2).random((B, T, N)) < 0.7
    allowed[..., 1] |= ~allowed.any(-1)
    allowed[~MASK] = True
    found = log_partition(potentials_of(parts), ops.convert_to_tensor(allowed))
    for row, value in enumerate(numbers(found)):
        places = np.flatnonzero(MASK[row])
        kept = [
            score
            for tags, score in all_scores(row, parts).items()
            if all(allowed[row, place, tag] for place, tag in zip(places, tags))
        ]
        assert value == pytest.approx(log_sum(kept), abs=1e-5)


@pytest.mark.parametrize("share", [1.0, 0.6, 0.0])
def test_the_likelihood_is_that_of_all_sequences_that_agree(parts, share):
    rng = np.random.default_rng(3)
    labels = np.where(rng.random((B, T)) < share, rng.integers(0, N, (B, T)), -1)
    # What is said of padding does not count; N is no tag either.
    labels[~MASK] = rng.integers(-1, N + 1, (~MASK).sum())
    found = log_likelihood(ops.convert_to_tensor(labels), potentials_of(parts))
    for row, value in enumerate(numbers(found)):
        given = labels[row, MASK[row]]
        scores = all_scores(row, parts)
        agree = [
            score
            for tags, score in scores.items()
            if all(label in (-1, tag) for label, tag in zip(given, tags))
        ]
        expected = log_sum(agree) - log_sum(scores.values())
        assert value == pytest.approx(expected, abs=1e-5)
        assert value <= 0
    assert found[-1] == 0
    if share == 0.0:
        assert not numbers(found).any()


def test_the_likelihoods_of_all_sequences_sum_to_one():
    potentials = ops.repeat(potentials_of(PARTS)[:1], N**3, axis=0)
    labels = np.full((N**3, T), -1)
    labels[:, :3] = list(itertools.product(range(N), repeat=3))
    found = log_likelihood(ops.convert_to_tensor(labels), potentials)
    assert np.exp(numbers(found)).sum() == pytest.approx(1, abs=1e-5)


def test_marginals_are_sums_over_the_sequences_through_a_tag(parts):
    found = numbers(chain_marginals(potentials_of(parts)))
    for row in range(B):
        scores = all_scores(row, parts)
        total = log_sum(scores.values())
        for index, place in enumerate(np.flatnonzero(MASK[row])):
            for tag in range(N):
                through = [
                    math.exp(score - total)
                    for tags, score in scores.items()
                    if tags[index] == tag
                ]
                assert found[row, place, tag] == pytest.approx(sum(through), abs=1e-5)
    assert not found[~MASK].any()


def test_viterbi_finds_the_best_sequence(parts):
    tags, scores = map(numbers, best_tags(potentials_of(parts)))
    for row in range(B):
        expected = all_scores(row, parts)
        best = max(expected, key=expected.get)
        assert tuple(tags[row, MASK[row]]) == best
        assert scores[row] == pytest.approx(expected[best], abs=1e-5)
    assert (tags[~MASK] == -1).all()


@pytest.mark.parametrize("count", [1, 4, 10])
def test_the_best_sequences_come_in_order_and_end_where_there_are_no_more(parts, count):
    tags, scores = map(numbers, best_sequences(potentials_of(parts), count))
    assert tags.shape == (B, count, T)
    for row in range(B):
        expected = all_scores(row, parts)
        ranked = sorted(expected, key=expected.get, reverse=True)[:count]
        for place, best in enumerate(ranked):
            assert tuple(tags[row, place, MASK[row]]) == best
            assert scores[row, place] == pytest.approx(expected[best], abs=1e-5)
        assert (tags[row, len(ranked) :] == -1).all()
        assert np.isneginf(scores[row, len(ranked) :]).all()
        assert (tags[row][:, ~MASK[row]] == -1).all()


def test_forbidden_moves_are_never_made():
    transitions = PARTS["transitions"].copy()
    transitions[0, 1] = transitions[2, 2] = FORBIDDEN
    start = PARTS["start"].copy()
    start[2] = FORBIDDEN
    emissions = PARTS["emissions"].copy()
    emissions[:, :, 2] += 50
    parts = {
        **PARTS,
        "emissions": emissions,
        "transitions": transitions,
        "start": start,
    }
    tags, scores = map(numbers, best_sequences(potentials_of(parts), 30))
    for row in range(B):
        expected = all_scores(row, parts)
        ways = {tags: score for tags, score in expected.items() if score > -1e4}
        ranked = sorted(ways, key=ways.get, reverse=True)[:30]
        found = tags[row][np.isfinite(scores[row])][:, MASK[row]]
        assert [tuple(one) for one in found] == ranked


def test_padding_and_what_it_holds_change_nothing():
    emissions = PARTS["emissions"].copy()
    emissions[~MASK] = 1e4
    wider = np.pad(emissions, ((0, 0), (2, 1), (0, 0)), constant_values=-77.0)
    mask = np.pad(MASK, ((0, 0), (2, 1)))
    short = potentials_of(PARTS)
    wide = potentials_of({**PARTS, "emissions": wider}, mask)
    np.testing.assert_allclose(
        numbers(log_partition(wide)), numbers(log_partition(short)), atol=1e-5
    )
    for function in (chain_marginals, lambda p: best_tags(p)[0]):
        found, expected = numbers(function(wide)), numbers(function(short))
        np.testing.assert_allclose(found[:, 2:-1], expected, atol=1e-5)
    np.testing.assert_array_equal(numbers(is_padding(wide)), ~mask)


def test_a_long_sentence_stays_exact():
    """In logarithms nothing overflows: with transitions of 0 the tags are free."""
    emissions = 30 * values(2, 400, N)
    potentials = chain_potentials(
        ops.convert_to_tensor(emissions), ops.zeros((N, N), "float32")
    )
    expected = np.logaddexp.reduce(emissions.astype("float64"), axis=-1).sum(-1)
    np.testing.assert_allclose(numbers(log_partition(potentials)), expected, rtol=1e-5)
    labels = emissions.argmax(-1)
    np.testing.assert_array_equal(numbers(best_tags(potentials)[0]), labels)
    found = numbers(log_likelihood(ops.convert_to_tensor(labels), potentials))
    assert (found <= 0).all() and np.isfinite(found).all()


def test_low_scores_are_scores_too():
    potentials = chain_potentials(ops.full((1, 2500, N), -21.0), ops.zeros((N, N)))
    tags, scores = map(numbers, best_sequences(potentials, 2))
    assert (tags >= 0).all() and (tags[0, 0] != tags[0, 1]).any()
    np.testing.assert_allclose(scores, -52500, rtol=1e-5)


def test_high_scores_make_nothing_of_what_is_forbidden():
    emissions = np.full((1, 3, N), 2e4, "float32")
    transitions = np.where(np.eye(N), 0, FORBIDDEN).astype("float32")
    potentials = chain_potentials(emissions, transitions)
    tags, scores = map(numbers, best_sequences(potentials, 5))
    assert sorted(map(tuple, tags[0, :N])) == [(tag,) * 3 for tag in range(N)]
    np.testing.assert_allclose(scores[0, :N], 6e4)
    assert (tags[0, N:] == -1).all() and np.isneginf(scores[0, N:]).all()


def test_where_nothing_is_allowed_the_least_forbidden_is_best():
    transitions = np.full((N, N), FORBIDDEN, "float32")
    transitions[1, 2] = 0
    potentials = chain_potentials(np.zeros((1, 3, N), "float32"), transitions)
    tags, scores = map(numbers, best_tags(potentials))
    assert (1, 2) in itertools.pairwise(tags[0]) and (tags >= 0).all()
    assert scores[0] == pytest.approx(FORBIDDEN)
    tags, scores = map(numbers, best_sequences(potentials, 2))
    assert (tags == -1).all() and np.isneginf(scores).all()


def test_forbidden_labels_have_the_score_of_their_own_sequence():
    """Not that of others, which are forbidden no more and contradict them."""
    transitions = PARTS["transitions"].copy()
    transitions[0, 1] = FORBIDDEN
    parts = {**PARTS, "transitions": transitions}
    labels = np.tile([0, 1, 1, 2, 2], (B, 1))
    found = numbers(log_likelihood(ops.convert_to_tensor(labels), potentials_of(parts)))
    for row in range(B):
        scores = all_scores(row, parts)
        expected = scores[tuple(labels[row, MASK[row]])] - log_sum(scores.values())
        assert found[row] == pytest.approx(expected, abs=0.02)
    # Its gradient is that of the same sequence: no label's score is to fall.
    emissions = keras.Variable(PARTS["emissions"])

    def loss():
        tensors = {k: ops.convert_to_tensor(v) for k, v in parts.items()}
        potentials = chain_potentials(**{**tensors, "emissions": emissions.value})
        return -ops.sum(log_likelihood(ops.convert_to_tensor(labels), potentials))

    (gradient,) = gradients(loss, [emissions])
    given = np.take_along_axis(gradient, labels[..., None], axis=2)
    assert (given <= 0).all()


def test_arrays_are_taken_as_tensors_are():
    potentials = numbers(potentials_of(PARTS))
    labels = np.zeros((B, T), int)
    for function in (log_partition, chain_marginals, best_tags, is_padding):
        found = function(potentials)
        expected = function(ops.convert_to_tensor(potentials))
        for one, other in zip(tree.flatten(found), tree.flatten(expected)):
            np.testing.assert_array_equal(numbers(one), numbers(other))
    assert numbers(log_likelihood(labels, potentials)).shape == (B,)
    assert best_sequences(potentials, 2)[0].shape == (B, 2, T)


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_a_wrong_number_of_sequences_is_refused(count):
    with pytest.raises(ValueError, match="num_best"):
        best_sequences(potentials_of(PARTS), count)
