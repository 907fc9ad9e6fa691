"""Gold links from files, and a translator's weights between given words."""

import numpy as np
import pytest
from translators import CODEC, real

from keras_bahdanau import RNNEncoderDecoder
from keras_bahdanau.posterior import posterior_weights
from keras_bahdanau.tf.word_alignment import (
    posterior_align,
    read_gold,
    word_weights,
)

SOURCES = [["the", "dog", "sees", "the", "cat,"], ["cat"], ["is", "a", "cat", "asleep"]]
TARGETS = [["a", "cat"], ["the", "dog", "sleeps."], ["is", "asleep?"]]
TEXTS = [[" ".join(words) for words in side] for side in (SOURCES, TARGETS)]


@pytest.fixture
def story(tmp_path):
    (tmp_path / "story.en").write_text("The dog\nIt sleeps .\n")
    (tmp_path / "story.fr").write_text("Le chien\nIl dort .\n")
    (tmp_path / "story.fr-en.talp").write_text("0-1 1p0\n\n")
    return tmp_path


def test_gold_links_are_read_in_either_order_of_the_languages(story):
    for source, target, sure, possible in (
        ("en", "fr", {(1, 0)}, {(1, 0), (0, 1)}),
        ("fr", "en", {(0, 1)}, {(0, 1), (1, 0)}),
    ):
        [(name, text)] = read_gold(story, source, target).items()
        assert name == "story"
        words = {"en": text.sources, "fr": text.targets}
        if source == "fr":
            words = {"fr": text.sources, "en": text.targets}
        assert words["en"] == [["The", "dog"], ["It", "sleeps", "."]]
        assert words["fr"] == [["Le", "chien"], ["Il", "dort", "."]]
        assert text.sure == [sure, set()] and text.possible == [possible, set()]


def test_files_that_do_not_fit_and_missing_links_are_refused(story):
    with pytest.raises(ValueError, match="no links of en and de"):
        read_gold(story, "en", "de")
    (story / "story.en").write_text("The dog\n")
    with pytest.raises(ValueError, match="They have 1, 2 and 2."):
        read_gold(story, "en", "fr")


def test_the_weights_of_words_are_those_of_their_tokens():
    translator = real(seed=7)
    found = word_weights(translator, SOURCES, TARGETS)
    tokens = translator.align(*TEXTS)
    # "cat," is two tokens of the source.
    np.testing.assert_allclose(found[0][:, :4], tokens[0][:-1, :4], atol=1e-6)
    np.testing.assert_allclose(
        found[0][:, 4], tokens[0][:-1, 4:6].sum(axis=1), atol=1e-6
    )
    # "sleeps." is two tokens of the target; the end stands behind.
    np.testing.assert_allclose(found[1][:2], tokens[1][:2], atol=1e-6)
    mean = (6 * tokens[1][2] + tokens[1][3]) / 7
    np.testing.assert_allclose(found[1][2], mean, atol=1e-6)
    for weights, source, target in zip(found, SOURCES, TARGETS):
        assert weights.shape == (len(target), len(source) + 1)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-5)


def test_given_weights_take_the_place_of_the_attention():
    translator = real(seed=7)
    given = [np.zeros_like(weights) for weights in translator.align(*TEXTS)]
    for weights in word_weights(translator, SOURCES, TARGETS, given):
        assert not weights.any()
    with pytest.raises(ValueError):
        word_weights(translator, SOURCES, TARGETS, given[:2])


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_the_posterior_of_a_pair_does_not_depend_on_its_batch(batch_size):
    translator = real(seed=7)
    found = posterior_align(translator, *TEXTS, power=0.3, batch_size=batch_size)
    for weights, source, target in zip(found, *TEXTS):
        ids = [CODEC.encode([text]).to_tensor() for text in (source, target)]
        alone = posterior_weights(translator.model, *ids, power=0.3)[0]
        np.testing.assert_allclose(weights, alone, atol=1e-5)


def test_the_posterior_of_other_numbers_of_texts_or_no_attention_is_refused():
    with pytest.raises(ValueError, match="same length. Received 2 and 3"):
        posterior_align(real(), TEXTS[0][:2], TEXTS[1])
    with pytest.raises(ValueError, match="need a model with attention"):
        posterior_align(real(model_class=RNNEncoderDecoder), *TEXTS)
