"""The CRF layer and its loss; the sums themselves are in test_chains.py."""

import itertools
import math

import keras
import numpy as np
import pytest
from arrays import numbers, real_until, scrambled, values
from gradients import assert_gradients_match_differences, needs_float64
from keras import ops

import keras_bahdanau as kb
from keras_bahdanau.chains import chain_marginals, log_likelihood

B, T, D, N = 3, 4, 5, 3
MASK = real_until([4, 2, 0], T)
LABELS = np.array([[0, 2, 1, 1], [2, 0, -1, -1], [-1, -1, -1, -1]])


def made(**options):
    crf = kb.CRF(N, **options)
    crf.build((None, None, D))
    return scrambled(crf)


def call(crf, inputs, mask=MASK):
    return crf(ops.convert_to_tensor(inputs), mask=ops.convert_to_tensor(mask))


def test_the_score_is_the_sum_of_the_paper():
    """Of each part once, against all sequences in plain loops."""
    crf, inputs = made(), values(B, T, D)
    weights = {weight.name: numbers(weight) for weight in crf.weights}
    emissions = inputs @ weights["kernel"] + weights["bias"]
    _, potentials = call(crf, inputs)
    found = numbers(kb.CRFNegativeLogLikelihood(reduction=None)(LABELS, potentials))
    for row, length in ((0, 4), (1, 2)):
        scores = {}
        for tags in itertools.product(range(N), repeat=length):
            scores[tags] = sum(emissions[row, t, tag] for t, tag in enumerate(tags))
            scores[tags] += weights["start"][tags[0]] + weights["end"][tags[-1]]
            for move in itertools.pairwise(tags):
                scores[tags] += weights["transitions"][move]
        total = math.log(sum(map(math.exp, scores.values())))
        expected = total - scores[tuple(LABELS[row, :length])]
        assert found[row] == pytest.approx(expected, rel=1e-5)
    assert found[2] == 0


def test_without_transitions_it_is_the_softmax_of_each_position():
    crf, inputs = made(use_boundaries=False), values(B, T, D)
    crf.transitions_scores.assign(np.zeros((N, N)))
    tags, potentials = call(crf, inputs)
    logits = inputs @ numbers(crf.kernel) + numbers(crf.bias)
    expected = numbers(ops.softmax(logits)) * MASK[..., None]
    np.testing.assert_allclose(
        numbers(chain_marginals(potentials)), expected, atol=1e-6
    )
    np.testing.assert_array_equal(numbers(tags), np.where(MASK, logits.argmax(-1), -1))
    loss = kb.CRFNegativeLogLikelihood()(LABELS, potentials)
    token = kb.TokenCrossentropy(pad_id=-1)(LABELS, ops.convert_to_tensor(logits))
    # Six words in three sentences.
    assert float(numbers(loss)) == pytest.approx(2 * float(numbers(token)), rel=1e-5)


@needs_float64
def test_gradients_are_those_of_differences():
    crf = made(dtype="float64")
    inputs = values(B, T, D).astype("float64")
    loss = kb.CRFNegativeLogLikelihood(dtype="float64")

    def objective():
        return loss(LABELS, call(crf, inputs)[1])

    assert_gradients_match_differences(objective, crf.trainable_variables)


def test_the_loss_is_never_negative_however_sure_the_model():
    crf = kb.CRF(N, use_projection=False)
    sure = 60.0 * np.eye(N, dtype="float32")[np.maximum(LABELS, 0)]
    _, potentials = call(crf, sure)
    losses = numbers(kb.CRFNegativeLogLikelihood(reduction=None)(LABELS, potentials))
    assert (losses >= 0).all() and losses.max() < 1e-4


def test_mixed_precision_sums_in_float32():
    """In float16 the score of a long sentence would overflow or lose its tail."""
    inputs = 20 * values(2, 300, D)
    exact = made()
    mixed = kb.CRF(N, dtype="mixed_float16")
    mixed.build((None, None, D))
    mixed.set_weights(exact.get_weights())
    labels = np.zeros((2, 300), "int32")
    mask = np.ones((2, 300), bool)
    (_, expected), (_, found) = call(exact, inputs, mask), call(mixed, inputs, mask)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    expected = numbers(log_likelihood(labels, expected))
    found = numbers(log_likelihood(labels, found))
    np.testing.assert_allclose(found, expected, rtol=2e-2)


def model_of(crf):
    words = keras.Input((None,), dtype="int32", name="words")
    embedded = keras.layers.Embedding(20, 8, mask_zero=True)(words)
    tags, potentials = crf(embedded)
    return keras.Model(words, {"tags": tags, "potentials": potentials})


def test_a_model_learns_predicts_saves_and_goes_on(tmp_path):
    """The tag is that of the word before, which no emission alone can say."""
    rng = np.random.default_rng(1)
    words = rng.integers(1, 4, (64, 7))
    words[::3, 5:] = 0
    labels = np.where(words > 0, (words + np.roll(words, 1, axis=1)) % 2, -1)
    labels[:, 0] = np.where(words[:, 0] > 0, 0, -1)
    model = model_of(kb.CRF(2))
    model.compile(
        keras.optimizers.SGD(0.2),
        loss={"potentials": kb.CRFNegativeLogLikelihood()},
        metrics={"tags": kb.TagAccuracy(name="accuracy")},
    )
    targets = {"tags": labels, "potentials": labels}
    history = model.fit(words, targets, epochs=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    predicted = model.predict(words, verbose=0)
    assert (predicted["tags"][words == 0] == -1).all()
    loss, accuracy = model.evaluate(words, targets, verbose=0)
    hits = (predicted["tags"] == labels)[words > 0]
    assert accuracy == pytest.approx(hits.mean(), abs=1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = loaded.predict(words, verbose=0)
    np.testing.assert_array_equal(again["tags"], predicted["tags"])
    assert loaded.evaluate(words, targets, verbose=0)[0] == pytest.approx(
        loss, rel=1e-5
    )


def test_constraints_hold_from_the_first_step_on():
    allowed = (
        np.array([True, True, False]),
        np.array([[1, 1, 0], [1, 1, 1], [1, 0, 1]], bool),
        np.array([False, True, True]),
    )
    crf = kb.CRF(N, allowed=allowed, transition_initializer="random_normal")
    tags = numbers(call(crf, 9 * values(40, 6, D), np.ones((40, 6), bool))[0])
    assert allowed[0][tags[:, 0]].all() and allowed[2][tags[:, -1]].all()
    assert allowed[1][tags[:, :-1], tags[:, 1:]].all()
    assert len(np.unique(tags)) == N
    again = kb.CRF.from_config(crf.get_config())
    assert again.allowed == crf.allowed


def test_labels_that_break_a_constraint_have_a_large_finite_loss():
    crf = kb.CRF(N, allowed=(None, np.eye(N, dtype=bool), None))
    _, potentials = call(crf, values(B, T, D))
    losses = numbers(kb.CRFNegativeLogLikelihood(reduction=None)(LABELS, potentials))
    assert 1e5 < losses[0] < 1e6 and np.isfinite(losses).all()


@pytest.mark.tf_only
def test_a_compiled_step_that_does_not_use_the_tags_does_not_look_for_them():
    import tensorflow as tf

    crf = made()

    @tf.function
    def step(inputs):
        return kb.CRFNegativeLogLikelihood()(LABELS, call(crf, inputs)[1])

    graph = step.get_concrete_function(tf.TensorSpec((B, T, D))).graph
    pruned = tf.compat.v1.graph_util.extract_sub_graph(
        graph.as_graph_def(), [graph.outputs[0].op.name]
    )
    loops = [node for node in pruned.node if "While" in node.op]
    assert len(loops) == 1


@pytest.mark.tf_only
def test_it_exports_with_open_batch_and_length(tmp_path):
    import tensorflow as tf

    model = model_of(kb.CRF(N))
    scrambled(model)
    model.export(tmp_path / "exported", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "exported")
    for shape in ((3, 7), (1, 2), (2, 11)):
        words = np.random.default_rng(5).integers(0, 20, shape, dtype="int32")
        expected, found = model.predict(words, verbose=0), loaded.serve(words)
        np.testing.assert_array_equal(found["tags"], expected["tags"])
        np.testing.assert_allclose(
            found["potentials"], expected["potentials"], atol=1e-5
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_tags": 1}, "2 or more"),
        ({"num_tags": 0}, "num_tags"),
        ({"allowed": (None, None)}, "three arrays"),
        ({"allowed": (None, np.ones((2, 2), bool), None)}, r"shape \(3, 3\)"),
        ({"allowed": (np.ones(3), None, None)}, "booleans"),
        ({"allowed": (np.zeros(3, bool), None, None)}, "leave something"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        kb.CRF(**{"num_tags": N, **options})


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="a score for each"):
        kb.CRF(N, use_projection=False)(ops.ones((2, 3, 4)))
    with pytest.raises(ValueError, match="ndim"):
        kb.CRF(N)(ops.ones((2, 3)))
    _, potentials = kb.CRF(N)(ops.ones((2, 4, 5)))
    with pytest.raises(ValueError, match="second output"):
        kb.CRFNegativeLogLikelihood()(LABELS[:2], potentials[:, :, 0])
    loss = kb.CRFNegativeLogLikelihood()
    for labels in (LABELS[:2, :, None], np.zeros((2, 1), int), np.zeros((2, 3), int)):
        with pytest.raises(ValueError, match="second output"):
            loss(labels, potentials)
    with pytest.raises(ValueError, match="one position at least"):
        kb.CRF(N)(np.zeros((2, 0, 4)))
    labels = np.zeros((2, 4), int)
    with pytest.raises(ValueError, match=r"one weight per sentence.*\(2, 4\)"):
        loss(labels, potentials, np.ones((2, 4)))
    expected = numbers(loss(labels, potentials, np.array([1.0, 3.0])))
    found = numbers(loss(labels, potentials, np.array([[1.0], [3.0]])))
    np.testing.assert_allclose(found, expected)
