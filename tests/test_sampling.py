"""Sampling by frequencies, and ensembles by hand."""

import keras
import numpy as np
import pytest
from arrays import assert_close, numbers, scrambled, values
from keras import ops

import keras_bahdanau as kb

START, END = 2, 3
P = np.array([0.02, 0.08, 0.05, 0.1, 0.35, 0.15, 0.2, 0.05])
ROWS = 20_000


def always(probabilities, rows=ROWS):
    """A step function that gives the same probabilities at each step."""
    log_probs = np.tile(np.log(probabilities).astype("float32"), (rows, 1))

    def step_fn(token_ids, states):
        return ops.convert_to_tensor(log_probs), states

    return step_fn


def expected(temperature=1.0, top_k=None, top_p=None, forbidden=(0, START)):
    """What is left of `P`, word by word."""
    left = {word: p ** (1 / temperature) for word, p in enumerate(P)}
    for word in forbidden:
        del left[word]
    ranked = sorted(left, key=left.get, reverse=True)[:top_k]
    total, chosen, mass = sum(left[word] for word in ranked), [], 0.0
    for word in ranked:
        if top_p is None or mass < top_p:
            chosen.append(word)
        mass += left[word] / total
    found = np.zeros(len(P))
    for word in chosen:
        found[word] = left[word]
    return found / found.sum()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 3.0},
        {"top_k": 2},
        {"top_k": 99},
        {"top_p": 0.5},
        {"top_p": 1.0},
        {"temperature": 2.0, "top_k": 4, "top_p": 0.7},
    ],
    ids=str,
)
def test_words_come_as_often_as_they_should(options):
    result = kb.sample(always(P), (), ROWS, 1, seed=7, **options)
    words = numbers(result.token_ids)[:, 0]
    found = np.bincount(words, minlength=len(P)) / ROWS
    wanted = expected(**options)
    assert not found[wanted == 0].any()
    # Five standard deviations.
    bound = 5 * np.sqrt(wanted * (1 - wanted) / ROWS)
    assert (np.abs(found - wanted) <= bound).all()
    np.testing.assert_allclose(numbers(result.scores), np.log(P)[words], atol=1e-5)


def test_forbidden_words_never_come():
    result = kb.sample(always(P), (), ROWS, 1, seed=7, forbidden_ids=(4, 7))
    found = set(numbers(result.token_ids)[:, 0].tolist())
    assert found == {1, END, 5, 6}


def test_steps_and_rows_are_drawn_apart_and_end():
    result = kb.sample(always(P, 400), (), 400, 12, seed=3)
    token_ids, lengths = numbers(result.token_ids), numbers(result.lengths)
    # Most that go on for long are drawn once.
    long = [tuple(words) for words, length in zip(token_ids, lengths) if length > 6]
    assert len(long) > 100 and len(set(long)) > 0.95 * len(long)
    assert (token_ids[:, 0] != token_ids[:, 1]).any()
    for words, length in zip(token_ids, lengths):
        assert not words[length:].any() and 0 not in words[:length]
        assert END not in words[: length - 1]
        assert words[length - 1] == END or length == 12


def test_samples_of_a_sentence_share_its_memory_and_differ():
    seen = []

    def step_fn(token_ids, states):
        seen.append((tuple(token_ids.shape), tuple(states.shape)))
        log_probs = ops.log_softmax(states[..., :8] * 2.0, axis=-1)
        weights = ops.softmax(states[..., :5], axis=-1)
        return log_probs, states + 0.5 * ops.roll(states, 1, axis=-1), weights

    states = values(3, 11)
    result = kb.sample(step_fn, ops.convert_to_tensor(states), 3, 6, num_samples=4)
    assert set(seen) == {((3, 4), (3, 4, 11))}
    assert [part.shape for part in result] == [
        (3, 4, 6),
        (3, 4),
        (3, 4),
        (3, 4, 6),
        (3, 4, 6, 5),
    ]
    words = numbers(result.token_ids)
    assert len({tuple(row) for row in words.reshape(-1, 6)}) > 3
    log_probs = 2.0 * states[:, :8]
    log_probs = log_probs - np.log(np.exp(log_probs).sum(axis=-1, keepdims=True))
    first = np.take_along_axis(log_probs[:, None], words[:, :, :1], axis=-1)
    assert_close(result.log_probs[:, :, :1], first, atol=1e-5)
    real = np.arange(6) < numbers(result.lengths)[..., None]
    assert (numbers(result.attention_weights).sum(axis=-1) > 0.5).tolist() == (
        real.tolist()
    )


def test_each_of_many_samples_is_drawn_by_itself():
    def step_fn(token_ids, states):
        return ops.broadcast_to(
            ops.log(ops.convert_to_tensor(P.astype("float32"))), (2, ROWS, len(P))
        ), states

    result = kb.sample(step_fn, (), 2, 1, seed=5, num_samples=ROWS)
    for words in numbers(result.token_ids)[:, :, 0]:
        found = np.bincount(words, minlength=len(P)) / ROWS
        np.testing.assert_allclose(found, expected(), atol=0.02)


def test_a_seed_gives_the_same_words():
    def draw(seed):
        result = kb.sample(always(P, 50), (), 50, 8, seed=seed)
        return numbers(result.token_ids).tolist()

    assert draw(1) == draw(1) != draw(2)
    generator = keras.random.SeedGenerator(1)
    assert draw(generator) != draw(generator)


def test_the_likeliest_word_alone_is_greedy_search():
    model = kb.RNNSearch(11, 13, embedding_dim=5, units=7)
    model.build()
    scrambled(model)  # so that no two words are about as likely
    ids = np.array([[5, 4, 9, 3, 0], [4, 5, 6, 7, 3]])
    greedy = model.generate(ids, 6)
    for options in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-3}):
        result = model.sample(ids, 6, seed=1, **options)
        for one, other in zip(result, greedy):
            np.testing.assert_allclose(numbers(one), numbers(other), atol=1e-6)


def test_sampling_compiles():
    step_fn = always(P, 50)

    def draw():
        return kb.sample(step_fn, (), 50, 8, top_k=5, top_p=0.9, seed=4).token_ids

    if keras.backend.backend() == "jax":
        import jax

        compiled = [jax.jit(draw)]
    elif keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        compiled = [tf.function(draw)]
        # XLA draws other numbers, but the same each time.
        by_xla = tf.function(draw, jit_compile=True)
        assert numbers(by_xla()).tolist() == numbers(by_xla()).tolist()
    else:
        compiled = [draw]
    for function in compiled:
        assert numbers(function()).tolist() == numbers(draw()).tolist()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"num_samples": 0}, "num_samples"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": "1"}, "temperature='1'"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_k": 1.5}, "top_k=1.5"),
        ({"top_p": float("nan")}, "top_p=nan"),
        ({"max_length": 2.5}, "max_length=2.5"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.1}, "top_p=1.1"),
        ({"max_length": 0}, "max_length=0"),
        ({"end_id": 0}, "end_id=0"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    arguments = {"max_length": 3, **options}
    with pytest.raises(ValueError, match=message):
        kb.sample(always(P, 2), (), 2, **arguments)


def test_an_ensemble_takes_the_mean_of_probabilities_and_weights():
    models = [kb.RNNSearch(11, 13, embedding_dim=5, units=7, seed=n) for n in (1, 2)]
    ids = np.array([[5, 4, 9, 3, 0], [4, 5, 6, 7, 3]])
    labels = np.array([[4, 7, 3], [5, 12, 3]])
    functions, states = zip(*(model.step_function(ids) for model in models))
    joint, states = kb.ensemble(functions), list(states)
    before = np.pad(labels[:, :-1], ((0, 0), (1, 0)), constant_values=START)
    scored = [model.score(ids, labels) for model in models]
    for step in range(3):
        token_ids = ops.convert_to_tensor(before[:, step])
        log_probs, states, weights = joint(token_ids, states)
        found = np.take_along_axis(numbers(log_probs), labels[:, step : step + 1], 1)
        wanted = np.mean([np.exp(numbers(one.log_probs)[:, step]) for one in scored], 0)
        np.testing.assert_allclose(np.exp(found[:, 0]), wanted, atol=1e-6)
        looked = [numbers(one.attention_weights)[:, step] for one in scored]
        np.testing.assert_allclose(numbers(weights), np.mean(looked, 0), atol=1e-6)


def test_an_ensemble_of_one_model_twice_is_that_model():
    model = kb.RNNSearch(11, 13, embedding_dim=5, units=7, seed=1)
    ids = np.array([[5, 4, 9, 3, 0], [4, 5, 6, 7, 3]])
    functions, states = zip(*(model.step_function(ids) for _ in range(2)))
    found = kb.beam_search(kb.ensemble(functions), list(states), 2, 3, 6)
    for one, other in zip(found, model.beam_search(ids, 3, 6)):
        np.testing.assert_allclose(numbers(one), numbers(other), atol=1e-5)


def test_an_ensemble_has_weights_if_all_have():
    def plain(token_ids, states):
        return ops.zeros((1, 4)), states

    def looking(token_ids, states):
        return ops.zeros((1, 4)), states, ops.ones((1, 2))

    token_ids = ops.zeros((1,), "int32")
    assert len(kb.ensemble([plain, looking])(token_ids, [(), ()])) == 2
    assert len(kb.ensemble([looking, looking])(token_ids, [(), ()])) == 3
    with pytest.raises(ValueError, match="Received none"):
        kb.ensemble([])
