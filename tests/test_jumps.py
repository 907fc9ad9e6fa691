"""Alignments as chains: against all paths one by one, and what must come out."""

import itertools

import numpy as np
import pytest

from keras_bahdanau.jumps import chain_weights, learn_jumps

JUMPS = np.array([0.1, 0.3, 0.4, 1.0, 0.2])
LEAST = 1e-6


def chance(jumps, size, before, after):
    """The probability of one jump: `jumps` of the one over those of all."""
    middle = len(jumps) // 2

    def of(place):
        return jumps[min(max(place - before + middle, 0), len(jumps) - 1)]

    return of(after) / sum(of(place) for place in range(size))


def paths(weights, jumps):
    """Every path of source words with its probability."""
    length, size = weights.shape
    found = {}
    for path in itertools.product(range(size), repeat=length):
        joint = 1.0
        for t, (before, after) in enumerate(zip((-1, *path), path)):
            joint *= (weights[t, after] + LEAST) * chance(jumps, size, before, after)
        found[path] = joint
    total = sum(found.values())
    return {path: joint / total for path, joint in found.items()}


def random_weights(*shape, seed=7):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[1]), size=shape[0])


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (1, 7), (3, 1)])
def test_the_weights_of_a_chain_are_those_of_all_paths(shape):
    weights = random_weights(*shape)
    expected = np.zeros(shape)
    for path, chance_of_path in paths(weights, JUMPS).items():
        for t, place in enumerate(path):
            expected[t, place] += chance_of_path
    np.testing.assert_allclose(chain_weights(weights, JUMPS), expected, atol=1e-12)


def test_jumps_are_learned_from_what_all_paths_are_expected_to_make():
    corpus = [random_weights(3, 5), random_weights(5, 3), random_weights(3, 1)]
    jumps = np.ones(5)
    for _ in range(2):
        made, possible = np.ones(5), np.full(5, 5.0)
        for weights in corpus:
            for path, chance_of_path in paths(weights, jumps).items():
                for before, after in itertools.pairwise(path):
                    made[min(max(after - before, -2), 2) + 2] += chance_of_path
                    for other in range(weights.shape[1]):
                        jump = min(max(other - before, -2), 2)
                        possible[jump + 2] += chance_of_path
        jumps = made / possible / (made / possible).max()
    found = learn_jumps(corpus, farthest=2, rounds=2)
    np.testing.assert_allclose(found, jumps, atol=1e-10)


def test_straight_alignments_teach_to_jump_by_one():
    jumps = learn_jumps([np.eye(11)] * 20, farthest=3)
    assert jumps.argmax() == 3 + 1 and jumps.max() == 1.0
    assert np.delete(jumps, 4).max() < 0.05


def test_jumps_that_are_all_the_same_change_nothing():
    weights = random_weights(5, 7)
    np.testing.assert_allclose(chain_weights(weights, [1.0]), weights, atol=1e-4)


def test_a_row_without_weight_follows_its_neighbours():
    weights = np.eye(5)
    weights[2] = 0.0
    assert chain_weights(weights, JUMPS).argmax(axis=1).tolist() == [0, 1, 2, 3, 4]


def test_long_sentences_neither_underflow_nor_overflow():
    weights = random_weights(211, 199).astype("float32")
    found = chain_weights(weights, JUMPS)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_sentences_without_words_have_no_weights():
    for shape in ((0, 3), (3, 0)):
        assert chain_weights(np.zeros(shape), JUMPS).shape == shape
        learned = learn_jumps([np.zeros(shape), np.eye(3)], farthest=1)
        np.testing.assert_array_equal(learned, learn_jumps([np.eye(3)], farthest=1))


@pytest.mark.parametrize(
    "jumps", [[], [1.0, 2.0], [1.0, 0.0, 1.0], [[1.0]], [1.0, np.nan, 1.0]]
)
def test_jumps_without_a_middle_or_a_chance_are_refused(jumps):
    with pytest.raises(ValueError, match="odd number of positive numbers.*Received"):
        chain_weights(np.eye(3), jumps)


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(ValueError, match="Received: 0 arrays, farthest=5, rounds=5"):
        learn_jumps([])
    with pytest.raises(ValueError, match="farthest=0"):
        learn_jumps([np.eye(2)], farthest=0)
    with pytest.raises(ValueError, match="must be finite and not negative"):
        learn_jumps([-np.eye(2)])
