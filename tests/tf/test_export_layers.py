"""Functional models of the layers, exported and loaded again without them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from arrays import assert_close, scrambled, values
from keras import tree

import keras_bahdanau as kb

WORDS, M, D, U, A, TAGS = 13, 5, 3, 7, 11, 2
# Row 1 is half padding, row 2 all padding.
SIZES = ((3, 6, 4), (1, 2, 7), (4, 1, 5))


def embedded(length=None, mask_zero=True):
    ids = keras.Input((length,), dtype="int32")
    return ids, keras.layers.Embedding(WORDS, M, mask_zero=mask_zero)(ids)


def tagger(reset_after=False, length=None, unroll=False):
    ids, words = embedded(length)
    encoder = kb.BidirectionalGRUEncoder(U, reset_after=reset_after, unroll=unroll)
    return keras.Model([ids], keras.layers.Dense(TAGS)(encoder(words)[0]))


def attention():
    query, value = keras.Input((None, M)), keras.Input((None, D))
    masks = [keras.Input((None,), dtype="bool") for _ in range(2)]
    outputs = kb.BahdanauAttention(A)(
        [query, value], mask=masks, return_attention_scores=True
    )
    return keras.Model([query, value, *masks], list(outputs))


def translation(plain=False):
    source, read = embedded()
    target, written = embedded(mask_zero=not plain)
    memory, state = kb.BidirectionalGRUEncoder(U)(read)
    start, looker = kb.StateBridge(U)([memory, state]), kb.BahdanauAttention(A)
    cell = kb.AttentiveGRUDecoderCell(U, looker, output_context=plain)
    if plain:
        states = kb.MemoryStates(looker)([start, memory])
        rnn = keras.layers.RNN(cell, return_sequences=True)
        return keras.Model([source, target], rnn(written, initial_state=states))
    rnn = kb.AttentiveRNN(
        cell, return_sequences=True, return_contexts=True, return_attention_scores=True
    )
    outputs, contexts, weights = rnn(written, memory, start)
    logits = kb.MaxoutReadout(WORDS, U)([outputs, written, contexts])
    return keras.Model([source, target], [weights, logits])


def ids(batch, length):
    array = np.random.default_rng(5).integers(1, WORDS, (batch, length), dtype="int32")
    array[1:2, length // 2 :] = 0
    array[2:3] = 0
    return array


def of_source(batch, source, target):
    return [ids(batch, source)]


def of_both(batch, source, target):
    return [ids(batch, source), ids(batch, target)]


def with_masks(batch, source, target):
    query, value = values(batch, target, M), values(batch, source, D)
    return [query, value, ids(batch, target) > 0, ids(batch, source) > 0]


MODELS = {
    "tagger": (tagger, of_source),
    "tagger_reset_after": (lambda: tagger(reset_after=True), of_source),
    "attention": (attention, with_masks),
    "decoder": (translation, of_both),
    "plain_rnn": (lambda: translation(plain=True), of_both),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_for_other_numbers_and_lengths(name, tmp_path):
    make, draw = MODELS[name]
    model = scrambled(make())
    model.export(str(tmp_path), verbose=False)
    loaded = tf.saved_model.load(str(tmp_path))
    layer = keras.layers.TFSMLayer(str(tmp_path), call_endpoint="serve")
    for size in SIZES:
        arrays = draw(*size)
        expected = tree.flatten(model(arrays))
        for outputs in (loaded.serve(list(map(tf.constant, arrays))), layer(arrays)):
            for one, other in zip(tree.flatten(outputs), expected, strict=True):
                assert np.isfinite(one).all()
                assert_close(one, other, atol=1e-5)


def test_padding_is_padding_after_the_export(tmp_path):
    """A tag of padding is the bias, and a memory of padding has no weight."""
    model = scrambled(tagger())
    model.export(str(tmp_path / "tagger"), verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "tagger"))
    array = ids(3, 6)
    found = loaded.serve([tf.constant(array)]).numpy()
    bias = model.layers[-1].bias.numpy()
    assert_close(found[array == 0], np.broadcast_to(bias, (9, TAGS)))
    padded = loaded.serve([tf.constant(np.pad(array, ((0, 0), (0, 5))))])
    assert_close(padded[:, :6], found)

    model = scrambled(attention())
    model.export(str(tmp_path / "attention"), verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "attention"))
    arrays = with_masks(3, 6, 4)
    contexts, weights = loaded.serve(list(map(tf.constant, arrays)))
    real = arrays[3][:, None]
    assert not np.where(real, 0, weights).any()
    assert_close(np.sum(weights, -1), np.broadcast_to([[1], [1], [0]], (3, 4)))
    assert not contexts[2].numpy().any()


def test_an_unrolled_model_needs_no_flex_operations_in_litert(tmp_path):
    path = tmp_path / "model.tflite"
    scrambled(tagger(length=3, unroll=True)).export(
        str(path), format="litert", verbose=False
    )
    assert b"Flex" not in path.read_bytes()
