"""Words of their characters, against plain loops."""

import keras
import numpy as np
import pytest
from arrays import assert_close, numbers, scrambled
from keras import ops

import keras_bahdanau as kb

WORDS = ((4, 9, 2, 7), (5,), (3, 3), ())
IDS = np.array([[*word, *[0] * (4 - len(word))] for word in WORDS], "int32")


def made(**options):
    encoder = kb.CharacterEncoder(11, 5, embedding_dim=3, **options)
    encoder.build((None, None))
    return scrambled(encoder, 0.7)


each_kind = pytest.mark.parametrize(
    "options", [{}, {"kind": "cnn", "widths": (2, 3)}], ids=["gru", "cnn"]
)


def test_the_filters_agree_with_plain_loops():
    encoder = made(kind="cnn", widths=(2, 3))
    embedding = numbers(encoder.embedding.embeddings)
    found = numbers(encoder(ops.convert_to_tensor(IDS)))
    assert (found[-1] == 0).all()
    for row, word in enumerate(WORDS[:-1]):
        expected = []
        for convolution in encoder.convolutions:
            kernel, bias = numbers(convolution.kernel), numbers(convolution.bias)
            width = len(kernel)
            for one in range(kernel.shape[2]):
                best = 0.0
                # The window stands around each character, a half more to its right.
                for start in range(len(word)):
                    value = bias[one]
                    for place in range(width):
                        index = start + place - (width - 1) // 2
                        if 0 <= index < len(word):
                            value += embedding[word[index]] @ kernel[place, :, one]
                    best = max(best, value)
                expected.append(best)
        np.testing.assert_allclose(found[row], expected, atol=1e-5)


def test_a_word_is_both_directions_at_their_ends():
    """Of each word alone, without padding or a mask, by two layers of Keras."""
    encoder = made()
    found = numbers(encoder(ops.convert_to_tensor(IDS)))
    assert (found[-1] == 0).all()
    parts = numbers_of_directions(encoder)
    for row, word in enumerate(WORDS[:-1]):
        embedded = encoder.embedding(ops.convert_to_tensor([word]))
        ends = [numbers(gru(embedded))[0] for gru in parts]
        np.testing.assert_allclose(found[row], np.concatenate(ends), atol=1e-5)


def numbers_of_directions(encoder):
    """Both directions as layers of Keras with the weights of the encoder."""
    weights = encoder.encoder.get_weights()
    half = len(weights) // 2
    layers = []
    for backward in (False, True):
        gru = keras.layers.GRU(5, reset_after=False, go_backwards=backward)
        gru.build((None, None, 3))
        gru.set_weights(weights[half:] if backward else weights[:half])
        layers.append(gru)
    return layers


@each_kind
def test_neither_padding_nor_other_words_change_a_word(options):
    encoder = made(**options)
    expected = numbers(encoder(ops.convert_to_tensor(IDS)))
    padded = np.pad(IDS, ((0, 0), (0, 3)))
    assert_close(encoder(ops.convert_to_tensor(padded)), expected, 1e-6)
    for row, word in enumerate(WORDS[:-1]):
        alone = encoder(ops.convert_to_tensor([word]))
        assert_close(alone[0], expected[row], 1e-6)
    sentences = encoder(ops.convert_to_tensor(IDS.reshape(2, 2, 4)))
    assert tuple(sentences.shape) == (2, 2, 10)
    assert_close(ops.reshape(sentences, (4, 10)), expected, 1e-6)


@each_kind
def test_the_order_of_characters_counts(options):
    encoder = made(**options)
    one, other = numbers(encoder(ops.convert_to_tensor([[4, 9, 2], [2, 9, 4]])))
    assert np.abs(one - other).max() > 1e-2


@each_kind
def test_dropout_is_off_outside_training(options):
    encoder = made(dropout=0.5, seed=1, **options)
    ids = ops.convert_to_tensor(IDS)
    assert_close(encoder(ids), made(**options)(ids))
    assert np.abs(numbers(encoder(ids, training=True) - encoder(ids))).max() > 1e-2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "lstm"}, r"`kind` must be one of \('gru', 'cnn'\).*'lstm'"),
        ({"units": 0}, "`units`"),
        ({"vocabulary_size": 0}, "`vocabulary_size`"),
        ({"embedding_dim": 1.5}, "`embedding_dim`"),
        ({"dropout": 1.0}, "`dropout`"),
        ({"kind": "cnn", "widths": ()}, "must be a multiple"),
        ({"kind": "cnn", "widths": (2, 3, 4)}, "must be a multiple"),
        ({"kind": "cnn", "widths": (0, 3)}, "`widths`"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        kb.CharacterEncoder(**{"vocabulary_size": 11, "units": 5, **options})
