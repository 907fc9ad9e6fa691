"""Perplexity and token accuracy: exact means over tokens, not over batches."""

import keras
import numpy as np
import oracle
import pytest
from arrays import numbers
from keras import ops

from keras_bahdanau.losses import TokenCrossentropy
from keras_bahdanau.metrics import Perplexity, TagAccuracy, TokenAccuracy

B, T, V = 5, 3, 7
rng = np.random.default_rng(43)
LOGITS = (2 * rng.normal(size=(B, T, V))).astype("float32")
LABELS = np.where(np.arange(T) < np.array([[3], [1], [2], [0], [3]]), 1, 0)
LABELS = (LABELS * rng.integers(1, V, (B, T))).astype("int32")
LOGITS[0, 0, LABELS[0, 0]] = LOGITS[2, 1, LABELS[2, 1]] = 9.0
WEIGHTS = rng.uniform(0.5, 2.0, (B, T)).astype("float32")


def means(weights):
    """The weighted means of log loss and of hits over real tokens, by loops."""
    losses, hits, total = 0.0, 0.0, 0.0
    for b, t in zip(*np.nonzero(LABELS)):
        probabilities = oracle.softmax(LOGITS[b, t].astype("float64"))
        losses -= weights[b, t] * np.log(probabilities[LABELS[b, t]])
        hits += weights[b, t] * (np.argmax(LOGITS[b, t]) == LABELS[b, t])
        total += weights[b, t]
    return losses / total, hits / total


def update(metric, rows, weights=None):
    metric.update_state(
        ops.convert_to_tensor(LABELS[rows]),
        ops.convert_to_tensor(LOGITS[rows]),
        None if weights is None else weights[rows],
    )


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_batches_do_not_matter(size, weights):
    perplexity, accuracy = Perplexity(), TokenAccuracy()
    for metric in (perplexity, accuracy):
        for start in range(0, B, size):
            update(metric, slice(start, start + size), weights)
    loss, hits = means(np.ones((B, T)) if weights is None else weights)
    np.testing.assert_allclose(numbers(perplexity.result()), np.exp(loss), rtol=1e-5)
    np.testing.assert_allclose(numbers(accuracy.result()), hits, rtol=1e-5)
    assert 0.0 < hits < 1.0


def test_a_weight_per_sequence_weighs_all_its_tokens():
    perplexity = Perplexity()
    update(perplexity, slice(None), WEIGHTS[:, 0])
    loss, _ = means(np.repeat(WEIGHTS[:, :1], T, axis=1))
    np.testing.assert_allclose(numbers(perplexity.result()), np.exp(loss), rtol=1e-5)


@pytest.mark.parametrize("kind", [Perplexity, TokenAccuracy])
def test_the_mask_of_the_logits_and_the_padding_label_count(kind):
    embedding = keras.layers.Embedding(V, V, mask_zero=True)
    source = np.where(rng.random((B, T)) < 0.5, 0, 4)
    by_mask, by_label = kind(), kind()
    by_mask.update_state(
        ops.convert_to_tensor(LABELS), embedding(ops.convert_to_tensor(source))
    )
    by_label.update_state(np.where(source == 0, 0, LABELS), numbers(embedding(source)))
    np.testing.assert_allclose(
        numbers(by_mask.result()), numbers(by_label.result()), rtol=1e-6
    )
    assert numbers(by_mask.count) == ((source != 0) & (LABELS != 0)).sum()


@pytest.mark.parametrize("kind", [Perplexity, TokenAccuracy])
def test_padding_counts_for_nothing_whatever_it_holds(kind):
    logits = np.where((LABELS == 0)[..., None], np.inf, LOGITS)
    clean, dirty = kind(), kind()
    update(clean, slice(None))
    dirty.update_state(LABELS, ops.convert_to_tensor(logits))
    assert numbers(clean.result()) == numbers(dirty.result())


@pytest.mark.parametrize(("kind", "empty"), [(Perplexity, 1.0), (TokenAccuracy, 0.0)])
def test_a_reset_forgets_and_nothing_gives_a_defined_result(kind, empty):
    metric = kind()
    assert numbers(metric.result()) == empty
    update(metric, slice(3, 4))
    assert numbers(metric.result()) == empty
    update(metric, slice(0, 3))
    assert numbers(metric.result()) != empty
    metric.reset_state()
    assert numbers(metric.result()) == empty


@pytest.mark.parametrize("kind", [Perplexity, TokenAccuracy])
def test_a_padding_label_of_ones_own_or_none(kind):
    shifted, plain, whole = kind(pad_id=-1), kind(), kind(pad_id=None)
    update(plain, slice(None))
    shifted.update_state(
        np.where(LABELS == 0, -1, LABELS - 1), np.roll(LOGITS, -1, axis=-1)
    )
    np.testing.assert_allclose(
        numbers(shifted.result()), numbers(plain.result()), rtol=1e-6
    )
    update(whole, slice(None))
    assert numbers(whole.count) == B * T


@pytest.mark.parametrize("kind", [Perplexity, TokenAccuracy])
def test_padding_may_be_no_word_at_all(kind):
    plain = kind()
    update(plain, slice(None))
    for pad_id in (-100, V):
        metric = kind(pad_id=pad_id)
        metric.update_state(np.where(LABELS == 0, pad_id, LABELS), LOGITS)
        np.testing.assert_allclose(
            numbers(metric.result()), numbers(plain.result()), rtol=1e-6
        )


@pytest.mark.parametrize("wrong", [-100, -1, V])
def test_a_real_label_that_is_no_word_is_a_miss_and_makes_perplexity_nan(wrong):
    labels = np.where(LABELS == 0, wrong, LABELS)
    perplexity, accuracy = Perplexity(), TokenAccuracy()
    for metric in (perplexity, accuracy):
        metric.update_state(labels, LOGITS)
    assert np.isnan(numbers(perplexity.result()))
    hits = (LOGITS.argmax(-1) == LABELS)[LABELS != 0].sum()
    np.testing.assert_allclose(numbers(accuracy.result()), hits / (B * T), rtol=1e-6)


def test_tags_count_where_there_is_a_label_and_a_tag():
    labels, tags = [[1, 2, -1, 0, 0]], [[1, 0, 2, -1, -1]]
    assert float(numbers(TagAccuracy()(labels, tags))) == 0.5
    weighed = TagAccuracy()(labels, tags, sample_weight=[[1.0, 3.0, 9, 9, 9]])
    assert float(numbers(weighed)) == 0.25


def test_the_mask_alone_counts_but_in_fit_on_jax():
    """There Keras hands on what left the gradient, another tensor, without its mask."""
    source, labels = LABELS, np.where(LABELS == 0, 3, LABELS)
    embedding = keras.layers.Embedding(V, V, mask_zero=True)
    model = keras.Sequential([keras.Input((None,), dtype="int32"), embedding])
    embedding.embeddings.assign(np.eye(V))
    metrics = [Perplexity(), TokenAccuracy()]
    model.compile(keras.optimizers.SGD(0.0), TokenCrossentropy(), metrics=metrics)
    options = {"batch_size": 2, "verbose": 0}
    found = model.evaluate(source, labels, return_dict=True, **options)
    history = model.fit(source, labels, **options).history
    no_masks = keras.backend.backend() == "jax"
    for metric in (Perplexity(), TokenAccuracy()):
        logits = numbers(embedding(source))
        metric.update_state(np.where(source == 0, 0, labels), logits)
        with_mask = numbers(metric.result())
        np.testing.assert_allclose(found[metric.name], with_mask, rtol=1e-5)
        metric.reset_state()
        metric.update_state(labels, logits)
        without = numbers(metric.result())
        assert abs(with_mask - without) > 0.1
        expected = without if no_masks else with_mask
        np.testing.assert_allclose(history[metric.name][0], expected, rtol=1e-5)


def test_weights_may_change_their_rank_between_calls():
    model = keras.Sequential(
        [keras.Input((None,), dtype="int32"), keras.layers.Embedding(V, V)]
    )
    weighted = [Perplexity(), TokenAccuracy()]
    model.compile(loss=TokenCrossentropy(), weighted_metrics=weighted)
    logits = model.predict(LABELS, verbose=0)
    for weights in (WEIGHTS[:, 0], WEIGHTS, None):
        found = model.evaluate(
            LABELS, LABELS, sample_weight=weights, verbose=0, return_dict=True
        )
        for metric in (Perplexity(), TokenAccuracy()):
            metric.update_state(LABELS, logits, weights)
            expected = numbers(metric.result())
            np.testing.assert_allclose(found[metric.name], expected, rtol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_fit_and_evaluate_report_the_mean_over_all_batches(masked):
    embedding = keras.layers.Embedding(V, V, mask_zero=masked)
    model = keras.Sequential([keras.Input((None,), dtype="int32"), embedding])
    embedding.embeddings.assign(rng.normal(size=(V, V)))
    model.compile(
        keras.optimizers.SGD(0.0),
        # Keras' own losses would scale the weights in place where there is a mask
        # (torch, Keras 3.15), before the weighted metrics see them.
        TokenCrossentropy(),
        metrics=[Perplexity(), TokenAccuracy()],
        weighted_metrics=[Perplexity(name="weighted"), TokenAccuracy(name="hits")],
    )
    options = {"batch_size": 2, "sample_weight": WEIGHTS, "verbose": 0}
    found = model.evaluate(LABELS, LABELS, return_dict=True, **options)
    history = model.fit(LABELS, LABELS, **options).history
    logits = numbers(embedding(LABELS))
    for names, weights in (
        (("perplexity", "token_accuracy"), None),
        (("weighted", "hits"), WEIGHTS),
    ):
        for name, metric in zip(names, (Perplexity(), TokenAccuracy())):
            metric.update_state(LABELS, logits, weights)
            expected = numbers(metric.result())
            np.testing.assert_allclose(found[name], expected, rtol=1e-5)
            np.testing.assert_allclose(history[name][0], expected, rtol=1e-5)


@pytest.mark.parametrize("kind", [Perplexity, TokenAccuracy])
def test_it_survives_its_config(kind):
    metric = kind(pad_id=3, name="mine")
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(metric)
    )
    assert type(copy) is kind and copy.get_config() == metric.get_config()
    assert (copy.pad_id, copy.name) == (3, "mine")


@pytest.mark.parametrize("kind", [Perplexity, TokenAccuracy])
def test_labels_of_the_wrong_rank_are_refused(kind):
    with pytest.raises(ValueError, match="one axis less than the logits"):
        kind().update_state(LABELS[..., None], LOGITS)
