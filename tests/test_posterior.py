"""Posterior weights: Bayes' rule by plain loops, identities, padding."""

import keras
import numpy as np
import pytest
from arrays import assert_close, numbers, scrambled
from keras import ops

import keras_bahdanau as kb
from keras_bahdanau.posterior import posterior_weights

SOURCE_IDS = np.array([[5, 4, 9, 3, 0, 0, 0], [4, 5, 6, 7, 8, 9, 3]])
LABELS = np.array([[7, 8, 3, 0, 0], [4, 5, 6, 12, 3]])
START = 2


def make(**options):
    model = kb.RNNSearch(11, 13, embedding_dim=5, units=7, **options)
    model.build()
    return scrambled(model, 0.5)


def by_loops(model, source, labels, power):
    """One sentence without padding; a mask leaves one annotation over."""
    memory, states = model.encode(source[None])
    word, rows = START, []
    for label in labels:
        joint = []
        for j in range(len(source)):
            alone = {**memory, "mask": np.arange(len(source))[None] == j}
            logits = model.decode_step(np.array([word]), states, alone)[0]
            joint.append(numbers(ops.softmax(logits))[0, label])
        _, states, weights = model.decode_step(np.array([word]), states, memory)
        joint = np.array(joint) * numbers(weights)[0] ** power
        rows.append(joint / joint.sum())
        word = label
    return np.array(rows)


@pytest.mark.parametrize(
    "step_order, power",
    [
        ("look_update_generate", 1.0),
        ("look_generate_update", 1.0),
        ("look_update_generate", 0.3),
        ("look_update_generate", 0.0),
    ],
)
def test_they_are_those_of_bayes_rule_with_one_annotation_at_a_time(step_order, power):
    model = make(step_order=step_order)
    found = numbers(posterior_weights(model, SOURCE_IDS, LABELS, power=power))
    assert found.shape == (2, 5, 7)
    for row, source, labels in zip(found, SOURCE_IDS, LABELS):
        source, labels = source[source > 0], labels[labels > 0]
        expected = np.zeros((5, 7))
        expected[: len(labels), : len(source)] = by_loops(model, source, labels, power)
        assert_close(row, expected, atol=1e-5)


def test_they_are_the_weights_where_the_context_says_nothing():
    model = make()
    for kernel in (model.decoder.cell.context_kernel, model.readout.context_kernel):
        kernel.assign(np.zeros(kernel.shape))
    found = posterior_weights(model, SOURCE_IDS, LABELS)
    assert_close(found, model.score(SOURCE_IDS, LABELS).attention_weights, atol=1e-5)


def test_another_token_may_start_the_translation():
    model = make()
    found = numbers(posterior_weights(model, SOURCE_IDS, LABELS, start_id=10))
    vectors = numbers(model.target_embedding.embeddings)
    model.target_embedding.embeddings.assign(vectors[[0, 1, 10, *range(3, 13)]])
    assert_close(posterior_weights(model, SOURCE_IDS, LABELS), found, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        kb.RNNEncoderDecoder(11, 13, embedding_dim=5, units=7),
        keras.Sequential(name="other"),
    ],
    ids=["no_attention", "no_steps"],
)
def test_a_model_without_attention_or_steps_is_refused(model):
    with pytest.raises(ValueError, match="need a model with attention .*Received"):
        posterior_weights(model, SOURCE_IDS, LABELS)
