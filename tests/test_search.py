"""Greedy search on step functions that a person can follow."""

import itertools

import keras
import numpy as np
import pytest
from arrays import numbers
from keras import ops
from traces import made_by_the_loop

import keras_bahdanau as kb

START, END = 2, 3
BACKEND = keras.backend.backend()


def table_step(table):
    """Log-probabilities from a table `(T, V)` by the number of the step."""
    table = ops.convert_to_tensor(table.astype("float32"))

    def step_fn(token_ids, states):
        return ops.take(table, states, axis=0), states + 1

    return step_fn


def spelled(words, size=9):
    """A step function that says each row's words, with weights on the step."""
    table = np.full((*words.shape, size), -5.0, dtype="float32")
    for (b, t), word in np.ndenumerate(words):
        table[b, t, word] = -0.25
    table = ops.convert_to_tensor(table)

    def step_fn(token_ids, states):
        log_probs = ops.take_along_axis(table, states[:, None, None], axis=1)[:, 0]
        weights = ops.one_hot(states, words.shape[1])
        return log_probs, ops.minimum(states + 1, words.shape[1] - 1), weights

    return step_fn, ops.zeros((len(words),), dtype="int32")


def test_it_says_what_the_step_function_says():
    words = np.array([[5, 6, 7, END], [8, END, 4, 4], [4, 4, 4, 4]])
    result = kb.greedy_search(*spelled(words), batch_size=3, max_length=4)
    expected = [[5, 6, 7, END], [8, END, 0, 0], [4, 4, 4, 4]]
    assert numbers(result.token_ids).tolist() == expected
    assert numbers(result.lengths).tolist() == [4, 2, 4]
    np.testing.assert_allclose(numbers(result.scores), [-1.0, -0.5, -1.0])
    np.testing.assert_allclose(
        numbers(result.log_probs), -0.25 * (np.array(expected) > 0)
    )
    weights = numbers(result.attention_weights)
    np.testing.assert_array_equal(weights[0], np.eye(4))
    assert not weights[1, 2:].any()


def test_the_step_function_sees_the_word_before():
    def step_fn(token_ids, states):
        return ops.one_hot(ops.minimum(token_ids + 2, 8), 9), states

    result = kb.greedy_search(step_fn, ops.zeros((2,)), 2, 3)
    assert numbers(result.token_ids).tolist() == [[4, 6, 8]] * 2
    assert result.attention_weights is None


def test_it_stops_when_all_have_ended():
    calls = []

    def step_fn(token_ids, states):
        calls.append(1)
        return ops.one_hot(ops.zeros_like(token_ids) + END, 5), states

    result = kb.greedy_search(step_fn, ops.zeros((2,)), 2, 50)
    assert numbers(result.lengths).tolist() == [1, 1]
    assert len(calls) <= 3  # the first step, and at most the tracing of the loop


def test_forbidden_tokens_padding_and_the_start_are_never_chosen():
    table = np.log(np.array([[0.3, 0.3, 0.2, 0.01, 0.1, 0.09]] * 3))
    states = ops.zeros((1,), dtype="int32")
    step_fn = table_step(table)
    free = kb.greedy_search(step_fn, states, 1, 2)
    assert numbers(free.token_ids).tolist() == [[1, 1]]
    bound = kb.greedy_search(step_fn, states, 1, 2, forbidden_ids=[1, 4])
    assert numbers(bound.token_ids).tolist() == [[5, 5]]
    np.testing.assert_allclose(numbers(bound.scores), 2 * np.log(0.09), rtol=1e-5)


def test_where_steps_are_independent_it_is_the_best_of_all():
    table = np.log(np.random.default_rng(5).dirichlet(np.ones(6), size=3))
    table[:, :4] -= 9.0  # neither special tokens nor an early end
    result = kb.greedy_search(table_step(table), ops.zeros((1,), "int32"), 1, 3)
    best = max(
        itertools.product(range(4, 6), repeat=3),
        key=lambda words: sum(table[t, word] for t, word in enumerate(words)),
    )
    assert numbers(result.token_ids)[0].tolist() == list(best)


def test_any_nest_of_states_is_carried():
    states = {"count": ops.zeros((2,), "int32"), "more": [ops.ones((2, 3))]}

    def step_fn(token_ids, states):
        more = states["more"][0] * 2.0
        words = ops.where(more[:, 0] > 6.0, END, 4)
        return ops.one_hot(words, 5), {"count": states["count"], "more": [more]}

    result = kb.greedy_search(step_fn, states, 2, 9)
    assert numbers(result.token_ids)[0].tolist() == [4, 4, END] + [0] * 6


@pytest.mark.parametrize("pad_id", [0, 1, 7])
def test_what_the_search_never_reached_is_padding_too(pad_id):
    words = np.array([[5, 6, END], [8, END, 4]])
    result = kb.greedy_search(*spelled(words), 2, 11, pad_id=pad_id)
    rest = [pad_id] * 8
    expected = [[5, 6, END, *rest], [8, END, pad_id, *rest]]
    assert numbers(result.token_ids).tolist() == expected
    assert numbers(result.lengths).tolist() == [3, 2]
    assert not numbers(result.attention_weights)[:, 3:].any()


def in_a_graph(function, jit_compile):
    """Compiled by TensorFlow; without XLA it knows no sizes while it is traced."""
    import tensorflow as tf

    signature = None
    if not jit_compile:
        signature = [tf.TensorSpec([None, None, None]), tf.TensorSpec([], tf.int32)]
    graph = tf.function(function, input_signature=signature, jit_compile=jit_compile)
    return lambda table, length: graph(
        table, length if jit_compile else tf.constant(length)
    )


def by_xla(function):
    if BACKEND == "tensorflow":
        return in_a_graph(function, jit_compile=True)
    import jax

    return jax.jit(function, static_argnums=1)


WAYS = {
    "eager": lambda function: function,
    "graph": lambda function: in_a_graph(function, jit_compile=False),
    "xla": by_xla,
}
WAYS_OF = {"tensorflow": ["eager", "graph", "xla"], "jax": ["eager", "xla"]}


@pytest.mark.parametrize("way", WAYS_OF.get(BACKEND, ["eager"]))
def test_compiled_it_does_the_same(way):
    words = np.array([[5, 6, END, 4], [8, END, 4, 4], [4, 7, 5, 6]])
    table = np.full((3, 4, 9), -5.0, dtype="float32")
    np.put_along_axis(table, words[..., None], -0.25, axis=-1)

    def search(table, length):
        def step_fn(token_ids, step):
            log_probs = ops.take(table, ops.minimum(step, 3), axis=1)
            weights = log_probs[:, :5] * ops.cast(step + 1, "float32")
            return log_probs, step + 1, weights

        step = ops.zeros((), "int32")
        return tuple(kb.greedy_search(step_fn, step, ops.shape(table)[0], length))

    found = WAYS[way](search)(ops.convert_to_tensor(table), 5)
    token_ids, lengths, scores, log_probs, weights = map(numbers, found)
    expected = [[5, 6, END, 0, 0], [8, END, 0, 0, 0], [4, 7, 5, 6, 6]]
    assert token_ids.tolist() == expected
    assert lengths.tolist() == [3, 2, 5]
    np.testing.assert_allclose(scores, [-0.75, -0.5, -1.25])
    np.testing.assert_allclose(log_probs, -0.25 * (token_ids > 0))
    for step in range(5):
        going_on = (step < lengths)[:, None]
        expected = table[:, min(step, 3), :5] * (step + 1) * going_on
        np.testing.assert_allclose(weights[:, step], expected)


WRITES = {
    "tensorflow": {"Placeholder", "TensorScatterUpdate", "Identity"},
    "jax": {"scatter"},
    # With torch this is the whole search: it starts and turns the record, too.
    "torch": {"clone", "to", "cat", "moveaxis"},
}


def test_a_step_writes_what_is_new_and_computes_no_record():
    """A step has S weights to write, not T * S of them to choose."""
    steps, rows, positions = 101, 2, 3
    words = np.full((rows, positions), 4)

    def search():
        return kb.greedy_search(*spelled(words), rows, steps).attention_weights

    made = {
        name
        for order in ((steps, rows, positions), (rows, steps, positions))
        for name in made_by_the_loop(search, order)
    }
    assert made and made <= WRITES[BACKEND]


def test_no_room_for_a_token_is_refused():
    with pytest.raises(ValueError, match="`max_length` must be 1 or more"):
        kb.greedy_search(lambda ids, states: None, [], 1, 0)


@pytest.mark.parametrize("length", [2.5, "3", None, np.float32(3)])
def test_a_length_that_is_no_integer_is_refused(length):
    with pytest.raises(ValueError, match="`max_length` must be an integer"):
        kb.greedy_search(lambda ids, states: None, [], 1, length)


def test_the_start_may_be_the_end_but_padding_may_not():
    def step_fn(token_ids, states):
        return ops.one_hot(ops.zeros_like(token_ids) + 3, 5), states

    result = kb.greedy_search(step_fn, ops.zeros((1,)), 1, 4, start_id=3, end_id=3)
    assert numbers(result.token_ids).tolist() == [[3, 0, 0, 0]]
    with pytest.raises(ValueError, match="must differ"):
        kb.greedy_search(step_fn, ops.zeros((1,)), 1, 4, end_id=0)
