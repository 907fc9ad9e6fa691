"""Beam search against all sentences there are, and against plain loops."""

import itertools
import warnings

import keras
import numpy as np
import pytest
from keras import ops

from keras_bahdanau import beam_search, greedy_search

PAD, UNK, START, END = 0, 1, 2, 3
NAN = float("nan")
B, V, U, S = 3, 7, 4, 5
WORDS = range(END + 1, V)


class Toy:
    """A recurrent model of `B` sentences, in NumPy and in keras.ops."""

    def __init__(self, seed=3, end=0.0, batch_size=B):
        rng = np.random.default_rng(seed)

        def draw(*shape):
            return rng.normal(size=shape).astype("float32")

        self.state = draw(batch_size, U)
        self.embedding, self.recurrent = draw(V, U), draw(U, U)
        self.output, self.look = 2 * draw(U, V), 2 * draw(U, S)
        self.bias = np.zeros(V, "float32")
        self.bias[END] = end

    def step_fn(self, token_ids, states):
        state = states["state"]
        state = ops.tanh(
            ops.matmul(state, self.recurrent) + ops.take(self.embedding, token_ids, 0)
        )
        logits = ops.add(ops.matmul(state, self.output), self.bias)
        weights = ops.softmax(ops.matmul(state, self.look), axis=-1)
        # A second state, of another rank and dtype: the words so far.
        words = ops.roll(states["words"], 1, axis=-1)
        words = ops.where(
            ops.equal(ops.arange(3), 0), ops.expand_dims(token_ids, -1), words
        )
        new = {"state": state, "words": words}
        return ops.log_softmax(logits, axis=-1), new, weights

    def states(self, rows=slice(None)):
        state = ops.convert_to_tensor(self.state[rows])
        return {"state": state, "words": ops.zeros((state.shape[0], 3), "int32")}

    def step(self, state, token_id):
        """The same in NumPy, for one hypothesis."""
        state = np.tanh(state @ self.recurrent + self.embedding[token_id])
        logits = state @ self.output + self.bias
        logits = logits - logits.max()
        weights = np.exp(state @ self.look)
        return (
            state,
            logits - np.log(np.exp(logits).sum()),
            weights / weights.sum(),
        )

    def force(self, row, words):
        """Log-probabilities and weights of given words."""
        state, before, log_probs, weights = self.state[row], START, [], []
        for word in words:
            state, chances, looked = self.step(state, before)
            log_probs.append(chances[word])
            weights.append(looked)
            before = word
        return np.array(log_probs), np.array(weights)


def penalty(name, length, alpha):
    if name == "gnmt":
        return ((5 + length) / 6) ** alpha
    return length**alpha if name == "average" else 1.0


def score(toy, row, words, options):
    log_probs, weights = toy.force(row, words)
    name, alpha = options.get("length_penalty", "none"), options.get("alpha", 0.0)
    total = log_probs.sum() / penalty(name, len(words), alpha)
    beta = options.get("coverage_penalty", 0.0)
    if beta:
        mask = options["source_mask"][row]
        covered = np.minimum(weights.sum(axis=0)[mask], 1.0)
        total += beta * np.log(np.maximum(covered, 1e-6)).sum()
    return total


def all_sentences(max_length):
    """Those that end, and those that are cut."""
    for length in range(max_length):
        for words in itertools.product(range(V), repeat=length):
            if not {PAD, START, END} & set(words):
                yield [*words, END]
    for words in itertools.product(range(V), repeat=max_length):
        if not {PAD, START, END} & set(words):
            yield list(words)


def by_brute_force(toy, row, max_length, count, options, allowed=lambda words: True):
    found = [
        (words[-1] == END, score(toy, row, words, options), words)
        for words in all_sentences(max_length)
        if allowed(words)
    ]
    return sorted(found, reverse=True)[:count]


def bound(toy, row, total, words, max_length, options):
    """The best score of what may follow `words`, if the model says what it likes."""
    name, alpha = options.get("length_penalty", "none"), options.get("alpha", 0.0)
    best = total / penalty(name, max_length, alpha)
    beta = options.get("coverage_penalty", 0.0)
    if beta:
        covered = toy.force(row, words)[1].sum(axis=0)[options["source_mask"][row]]
        # In small portions, each to where there is least.
        portions = 2_000
        for _ in range(portions if max_length > len(words) else 0):
            covered[covered.argmin()] += (max_length - len(words)) / portions
        best += beta * np.log(np.clip(covered, 1e-6, 1.0)).sum()
    return best


def by_loops(toy, row, num_beams, max_length, count, options, allowed, stop):
    """The definition, hypothesis by hypothesis; also the number of steps made."""
    live, ended = [(0.0, [])], []
    for length in range(1, max_length + 1):
        options_of_all = []
        for total, words in live:
            log_probs, _ = toy.force(row, [*words, END])
            state, before = toy.state[row], START
            for word in words:
                state, _, _ = toy.step(state, before)
                before = word
            _, log_probs, _ = toy.step(state, before)
            for word in range(V):
                if word not in (PAD, START) and allowed([*words, word]):
                    options_of_all.append((total + log_probs[word], [*words, word]))
        options_of_all.sort(reverse=True)
        ended += [
            (score(toy, row, words, options), words)
            for _, words in options_of_all[:num_beams]
            if words[-1] == END
        ]
        ended = sorted(ended, reverse=True)[:count]
        live = [entry for entry in options_of_all if entry[1][-1] != END][:num_beams]
        if not live:
            return ended, length
        bounds = (bound(toy, row, *entry, max_length, options) for entry in live)
        if stop and len(ended) == count and ended[-1][0] >= max(bounds):
            return ended, length
    cut = sorted(
        ((score(toy, row, words, options), words) for _, words in live), reverse=True
    )
    return (ended + cut)[:count], max_length


def found(result, row):
    """The hypotheses of a sentence as (score, words)."""
    token_ids, lengths, scores = (
        ops.convert_to_numpy(part)[row]
        for part in (result.token_ids, result.lengths, result.scores)
    )
    return [
        (total, words[:length].tolist())
        for words, length, total in zip(token_ids, lengths, scores)
    ]


def assert_found(actual, expected):
    assert [words for _, words in actual] == [words for _, words in expected]
    np.testing.assert_allclose(
        [total for total, _ in actual], [total for total, _ in expected], atol=1e-4
    )


MASK = np.arange(S) < np.array([[S], [3], [4]])
PENALTIES = {
    "none": {},
    "gnmt": {"length_penalty": "gnmt", "alpha": 0.8},
    "average": {"length_penalty": "average", "alpha": 1.0},
    "coverage": {
        "length_penalty": "gnmt",
        "alpha": 0.6,
        "coverage_penalty": 0.3,
        "source_mask": MASK,
    },
}


@pytest.mark.parametrize("name", PENALTIES)
def test_a_wide_beam_finds_the_best_of_all_sentences(name):
    options, toy = PENALTIES[name], Toy(end=1.0)
    result = beam_search(
        toy.step_fn, toy.states(), B, 5**3, 4, num_results=20, **options
    )
    for row in range(B):
        expected = by_brute_force(toy, row, 4, 20, options)
        assert_found(found(result, row), [entry[1:] for entry in expected])


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize(
    "num_beams, count, end", [(1, 1, 1.0), (2, 1, -2.0), (3, 3, 1.0), (4, 2, -2.0)]
)
def test_a_narrow_beam_is_what_its_definition_says(name, num_beams, count, end):
    options, toy = PENALTIES[name], Toy(seed=5, end=end)
    result = beam_search(
        toy.step_fn, toy.states(), B, num_beams, 6, num_results=count, **options
    )
    for row in range(B):
        expected, _ = by_loops(
            toy, row, num_beams, 6, count, options, lambda words: True, stop=True
        )
        assert_found(found(result, row), expected)
        # And stopping early has cost nothing.
        slow, _ = by_loops(
            toy, row, num_beams, 6, count, options, lambda words: True, stop=False
        )
        assert_found(found(result, row), slow)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX traces one step")
@pytest.mark.parametrize("name", PENALTIES)
def test_it_stops_at_the_first_step_at_which_nothing_can_be_overtaken(name):
    options, early = dict(PENALTIES[name]), 0
    if "source_mask" in options:
        options["source_mask"] = MASK[:1]
    for seed in range(5):
        # With coverage it stops where what is left can no longer help enough.
        toy, calls = Toy(seed=seed, end=3.0, batch_size=1), []

        def step_fn(token_ids, states, toy=toy, calls=calls):
            calls.append(token_ids)
            return toy.step_fn(token_ids, states)

        result = beam_search(step_fn, toy.states(), 1, 3, 9, num_results=2, **options)
        expected, steps = by_loops(
            toy, 0, 3, 9, 2, options, lambda words: True, stop=True
        )
        assert_found(found(result, 0), expected)
        assert len(calls) == steps
        early += steps < 9
    assert early


@pytest.mark.parametrize("forbidden_ids", [(), (UNK,)])
def test_one_beam_is_greedy_search(forbidden_ids):
    for seed in range(2):
        toy = Toy(seed=seed, end=-1.0)
        options = {"max_length": 6, "forbidden_ids": forbidden_ids}
        result = beam_search(toy.step_fn, toy.states(), B, 1, **options)
        greedy = greedy_search(toy.step_fn, toy.states(), B, **options)
        for one, other in zip(result, greedy):
            one, other = ops.convert_to_numpy(one)[:, 0], ops.convert_to_numpy(other)
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_what_it_returns_is_what_forced_decoding_gives():
    toy = Toy(end=-1.0)
    result = beam_search(toy.step_fn, toy.states(), B, 4, 8, num_results=3)
    assert result.token_ids.shape == (B, 3, 8)
    assert result.attention_weights.shape == (B, 3, 8, S)
    parts = [ops.convert_to_numpy(part) for part in result]
    for row, place in itertools.product(range(B), range(3)):
        words, length, total, chances, weights = (part[row, place] for part in parts)
        log_probs, looked = toy.force(row, words[:length])
        np.testing.assert_allclose(chances[:length], log_probs, atol=1e-4)
        np.testing.assert_allclose(total, log_probs.sum(), atol=1e-4)
        np.testing.assert_allclose(weights[:length], looked, atol=1e-4)
        for part in (words, chances, weights):
            assert not part[length:].any()


def no_repeats(n):
    def allowed(words):
        grams = list(zip(*(words[start:] for start in range(n))))
        return len(grams) == len(set(grams))

    return allowed


def begins_with(prefix):
    return lambda words: words[: len(prefix)] == prefix[: len(words)]


CONSTRAINTS = {
    "forbidden": ({"forbidden_ids": (UNK, 5)}, lambda words: not {UNK, 5} & set(words)),
    "min length": ({"min_length": 3}, lambda words: END not in words[:2]),
    "no repeated word": ({"no_repeat_ngram": 1}, no_repeats(1)),
    "no repeated pair": ({"no_repeat_ngram": 2}, no_repeats(2)),
    "no repeated triple": ({"no_repeat_ngram": 3}, no_repeats(3)),
    "long n-gram": ({"no_repeat_ngram": 9}, lambda words: True),
    "prefix": (
        {"forced_prefix": np.array([[5, 4]] * B, "int32")},
        begins_with([5, 4]),
    ),
}


@pytest.mark.parametrize(
    "name, num_beams",
    [(name, 3) for name in CONSTRAINTS]
    + [("min length", 5**3), ("no repeated pair", 5**3)],
)
def test_constraints_hold(name, num_beams):
    options, allowed = CONSTRAINTS[name]
    toy = Toy(seed=8, end=0.5)
    result = beam_search(
        toy.step_fn, toy.states(), B, num_beams, 4, num_results=3, **options
    )
    for row in range(B):
        if num_beams == 3:
            expected, _ = by_loops(toy, row, 3, 4, 3, {}, allowed, stop=False)
        else:
            expected = by_brute_force(toy, row, 4, 3, {}, allowed)
            expected = [entry[1:] for entry in expected]
        assert_found(found(result, row), expected)


def test_each_sentence_has_its_own_prefix_and_lengths():
    toy = Toy(seed=8, end=0.5)
    prefix = np.array([[0, 0], [6, 0], [UNK, 4]], "int32")
    limits, least = np.array([0, 3, 5], "int32"), np.array([0, 2, 4], "int32")
    result = beam_search(
        toy.step_fn,
        toy.states(),
        B,
        2,
        5,
        forced_prefix=prefix,
        length_limits=limits,
        min_length=least,
        forbidden_ids=(UNK,),
    )
    (nothing,), (second,), (third,) = (found(result, row) for row in range(B))
    assert nothing == (-np.inf, [])
    assert second[1][0] == 6 and 2 <= len(second[1]) <= 3 and UNK not in second[1]
    assert third[1][:2] == [UNK, 4] and 4 <= len(third[1]) <= 5
    assert UNK not in third[1][2:]


def test_the_rest_of_the_batch_changes_nothing():
    toy = Toy(seed=8, end=0.0)
    options = {"num_results": 3, "length_penalty": "gnmt"}
    whole = beam_search(toy.step_fn, toy.states(), B, 3, 9, **options)
    for row in range(B):
        rows = slice(row, row + 1)
        alone = beam_search(toy.step_fn, toy.states(rows), 1, 3, 9, **options)
        for one, other in zip(whole, alone):
            one, other = ops.convert_to_numpy(one)[rows], ops.convert_to_numpy(other)
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_more_beams_than_there_are_sentences():
    toy = Toy(seed=2)
    result = beam_search(toy.step_fn, toy.states(), B, 12, 1, num_results=12)
    for row in range(B):
        hypotheses = found(result, row)
        expected = by_brute_force(toy, row, 1, 12, {})
        assert len(expected) == 5  # the end token, and four words that are cut
        assert_found(hypotheses[:5], [entry[1:] for entry in expected])
        assert hypotheses[5:] == [(-np.inf, [])] * 7


def test_without_an_end_token_the_best_are_cut():
    toy = Toy(end=-50.0)
    result = beam_search(toy.step_fn, toy.states(), B, 3, 4, num_results=2)
    assert np.array_equal(ops.convert_to_numpy(result.lengths), [[4, 4]] * B)
    for row in range(B):
        expected, _ = by_loops(toy, row, 3, 4, 2, {}, lambda words: True, stop=False)
        assert_found(found(result, row), expected)


@pytest.mark.parametrize("floatx", ["float64", "float16"])
def test_the_default_float_changes_nothing(floatx):
    expected = beam_search(Toy().step_fn, Toy().states(), B, 3, 5)
    default = keras.config.floatx()
    keras.config.set_floatx(floatx)
    try:
        result = beam_search(Toy().step_fn, Toy().states(), B, 3, 5)
    finally:
        keras.config.set_floatx(default)
    for row in range(B):
        assert_found(found(result, row), found(expected, row))


def test_log_probabilities_in_half_precision_are_added_in_float32():
    toy = Toy(end=-3.0)

    def step_fn(token_ids, states):
        log_probs, states, weights = toy.step_fn(token_ids, states)
        return ops.cast(log_probs, "bfloat16"), states, weights

    result = beam_search(step_fn, toy.states(), B, 3, 9)
    scores = ops.convert_to_numpy(result.scores)
    log_probs = ops.convert_to_numpy(result.log_probs)
    assert scores.dtype == log_probs.dtype == np.float32
    np.testing.assert_allclose(scores, log_probs.sum(axis=-1), atol=1e-5)


def test_where_no_word_is_allowed_the_result_is_what_had_ended():
    toy = Toy(end=2.0)
    options = {"forbidden_ids": range(V), "num_results": 2}
    nothing = beam_search(toy.step_fn, toy.states(), B, 2, 5, min_length=2, **options)
    ended = beam_search(toy.step_fn, toy.states(), B, 2, 5, **options)
    for row in range(B):
        assert found(nothing, row) == [(-np.inf, [])] * 2
        assert [words for _, words in found(ended, row)] == [[END], []]


def test_a_prefix_of_no_words_and_numbers_of_numpy_are_taken():
    toy = Toy()
    expected = beam_search(toy.step_fn, toy.states(), B, 2, 4)
    result = beam_search(
        toy.step_fn,
        toy.states(),
        B,
        np.int64(2),
        4,
        forced_prefix=np.zeros((B, 0), "int32"),
    )
    for row in range(B):
        assert_found(found(result, row), found(expected, row))


def test_lists_are_taken_as_arrays_are():
    toy = Toy()
    given = {"forced_prefix": [[4], [5], [6]], "length_limits": [4, 2, 3]}
    arrays = {name: np.array(value) for name, value in given.items()}
    expected = beam_search(toy.step_fn, toy.states(), B, 2, 4, **arrays)
    result = beam_search(toy.step_fn, toy.states(), B, 2, 4, **given)
    for row in range(B):
        assert found(result, row)[0][1][0] == 4 + row
        assert_found(found(result, row), found(expected, row))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"coverage_penalty": 0.2, "source_mask": np.ones((0, S), bool)},
        {
            "no_repeat_ngram": 2,
            "min_length": 2,
            "forced_prefix": np.zeros((0, 2), "int32"),
            "length_limits": np.zeros((0,), "int32"),
        },
    ],
)
def test_of_no_sentence_there_is_no_hypothesis(options):
    toy = Toy()
    states = toy.states(slice(0))
    result = beam_search(toy.step_fn, states, 0, 3, 5, num_results=2, **options)
    shapes = [tuple(part.shape) for part in result]
    assert shapes == [(0, 2, 5), (0, 2), (0, 2), (0, 2, 5), (0, 2, 5, S)]


def test_it_works_without_weights_and_without_states():
    log_probs = np.log([1e-9, 0.1, 1e-9, 0.2, 0.6, 0.05, 0.05]).astype("float32")

    def step_fn(token_ids, states):
        return ops.broadcast_to(log_probs, (*ops.shape(token_ids), V)), states

    result = beam_search(step_fn, (), 2, 2, 3)
    assert result.attention_weights is None
    assert found(result, 0)[0][1] == [3]


@pytest.mark.parametrize("length_penalty", ["none", "gnmt"])
def test_it_compiles(length_penalty):
    toy = Toy(end=0.5)

    def search(state, words):
        states = {"state": state, "words": words}
        result = beam_search(
            toy.step_fn,
            states,
            ops.shape(state)[0],
            3,
            6,
            num_results=2,
            length_penalty=length_penalty,
            no_repeat_ngram=2,
        )
        return tuple(result)

    states = toy.states()
    expected = search(states["state"], states["words"])
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        compiled = [jax.jit(search)]
    elif backend == "tensorflow":
        import tensorflow as tf

        signature = [
            tf.TensorSpec([None, U], tf.float32),
            tf.TensorSpec([None, 3], tf.int32),
        ]
        compiled = [
            tf.function(search, input_signature=signature),
            tf.function(search, jit_compile=True),
        ]
    else:
        import torch

        # Dynamo alone: no compiler of C++ is needed for that.
        compiled = [torch.compile(search, backend="eager", dynamic=True)]
    for function in compiled:
        with warnings.catch_warnings():
            # Dynamo warns of caches within Keras.
            warnings.simplefilter("ignore", UserWarning)
            found = function(states["state"], states["words"])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                ops.convert_to_numpy(one), ops.convert_to_numpy(other), atol=1e-5
            )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_beams": 0}, "num_beams"),
        ({"num_results": 3}, "num_results=3, num_beams=2"),
        ({"max_length": 0}, "max_length"),
        ({"end_id": 0}, "end_id=0, pad_id=0"),
        ({"length_penalty": "google"}, "length_penalty='google'"),
        ({"alpha": -1.0, "length_penalty": "gnmt"}, "alpha=-1.0"),
        ({"alpha": NAN, "length_penalty": "gnmt"}, "alpha=nan"),
        ({"alpha": "1", "length_penalty": "gnmt"}, "alpha='1'"),
        ({"alpha": 1.0}, "alpha=1.0, length_penalty='none'. Leave it out"),
        ({"coverage_penalty": NAN}, "coverage_penalty=nan"),
        ({"max_length": 2.5}, "max_length=2.5"),
        ({"max_length": np.float32(2)}, "max_length=.*2.0"),
        ({"max_length": "3"}, "max_length='3'"),
        ({"forced_prefix": [4, 5]}, r"`forced_prefix`.*\(3, P\).*shape: \(2,\)"),
        ({"forced_prefix": [[4], [5]]}, r"`forced_prefix`.*shape: \(2, 1\)"),
        ({"forced_prefix": [[4], [5, 4], [4]]}, "`forced_prefix`.*rows of one length"),
        ({"forced_prefix": np.ones((B, 1), "float32")}, "`forced_prefix`.*float32"),
        ({"length_limits": [4, 4]}, r"`length_limits`.*\(3,\).*shape: \(2,\)"),
        ({"length_limits": [[4], [4], [4]]}, r"`length_limits`.*shape: \(3, 1\)"),
        ({"length_limits": 2.5}, "`length_limits` must be integers"),
        ({"min_length": [1, 2]}, r"`min_length`.*shape: \(2,\)"),
        ({"coverage_penalty": -0.5}, "coverage_penalty=-0.5"),
        ({"coverage_penalty": 0.5}, "source_mask"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    toy = Toy()
    arguments = {"num_beams": 2, "max_length": 3, **options}
    with pytest.raises(ValueError, match=message):
        beam_search(toy.step_fn, toy.states(), B, **arguments)


def test_a_coverage_penalty_needs_weights():
    def step_fn(token_ids, states):
        return ops.zeros((*ops.shape(token_ids), V)), states

    with pytest.raises(ValueError, match="returns weights"):
        beam_search(
            step_fn, (), 1, 2, 3, coverage_penalty=0.2, source_mask=np.ones((1, 2))
        )
