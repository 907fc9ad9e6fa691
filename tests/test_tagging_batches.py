"""Batches of tagged sentences, against plain loops, and fitted with."""

import keras
import numpy as np
import pytest
from arrays import JIT

import keras_bahdanau as kb
from keras_bahdanau.batching import BatchSequence, EncodedPairs, open_lengths
from keras_bahdanau.tagging_batches import EncodedSentences, TaggingBatches

TAGS = 3
# On JAX a step that is not compiled compiles its loops each time.


def encoded(count=31, longest=13, seed=5, frequencies=True, lengths=None):
    rng = np.random.default_rng(seed)
    if lengths is None:
        lengths = rng.integers(1, longest + 1, count)
    words = int(np.sum(lengths))
    characters = rng.integers(1, 11, (words, 7))
    characters[np.arange(7) >= rng.integers(1, 8, words)[:, None]] = 0
    return EncodedSentences(
        lengths,
        rng.integers(1, 29, words),
        rng.integers(-1, TAGS, words),
        characters,
        rng.integers(1, 5, (words, 2)),
        rng.integers(0, 4, words) if frequencies else None,
    )


def rows_of(flat, lengths):
    """The rows of a flat array, by plain loops."""
    rows, start = [], 0
    for length in lengths:
        rows.append(flat[start : start + length].tolist())
        start += length
    return rows


def padded(row, length, fill):
    return [*row, *[fill] * (length - len(row))]


@pytest.mark.parametrize(("more_words", "more_characters"), [(0, 0), (2, 3)])
def test_a_batch_agrees_with_plain_loops(more_words, more_characters):
    sentences = encoded()
    chosen = [17, 3, 29, 3, 0]
    flat = {**sentences.inputs, **sentences.targets}
    rows = {name: rows_of(array, sentences.lengths) for name, array in flat.items()}
    length = max(len(rows["word_ids"][row]) for row in chosen) + more_words
    size = more_characters + max(
        sum(one > 0 for one in word)
        for row in chosen
        for word in rows["character_ids"][row]
    )
    assert sentences.num_characters(chosen) == size - more_characters
    options = {"length": length, "num_characters": size} if more_words else {}
    inputs, targets = sentences.batch(chosen, **options)
    assert sorted(inputs) == ["character_ids", "feature_ids", "word_ids"]
    assert sorted(targets) == ["frequencies", "scores", "tags"]
    assert {array.dtype for array in (*inputs.values(), *targets.values())} == {
        np.dtype("int32")
    }
    for place, row in enumerate(chosen):
        expected = padded(rows["word_ids"][row], length, 0)
        assert inputs["word_ids"][place].tolist() == expected
        expected = padded(rows["feature_ids"][row], length, [0, 0])
        assert inputs["feature_ids"][place].tolist() == expected
        words = [padded(word, size, 0)[:size] for word in rows["character_ids"][row]]
        expected = padded(words, length, [0] * size)
        assert inputs["character_ids"][place].tolist() == expected
        expected = padded(rows["labels"][row], length, -1)
        assert targets["tags"][place].tolist() == expected
        assert targets["scores"][place].tolist() == expected
        expected = padded(rows["frequencies"][row], length, -1)
        assert targets["frequencies"][place].tolist() == expected


def test_what_a_tagger_does_not_read_is_left_out():
    sentences = EncodedSentences([2, 1], [7, 5, 6])
    inputs, labels = sentences.batch([1, 0])
    assert labels is None and list(inputs) == ["word_ids"]
    assert inputs["word_ids"].tolist() == [[6, 0], [7, 5]]
    assert sentences.num_characters([0, 1]) == 0
    _, labels = encoded(frequencies=False).batch([0])
    assert isinstance(labels, np.ndarray)
    assert repr(sentences) == "<EncodedSentences: 2 sentences, 3 words>"


def contents(batches):
    return [batches[index][1]["tags"].tolist() for index in range(len(batches))]


@pytest.mark.parametrize("bucketing", ["sorted_pool", "buckets", "tokens", None])
def test_each_sentence_comes_once_an_epoch(bucketing):
    sentences = EncodedSentences(*numbered())
    options = {"batch_size": 7, "boundaries": (5, 11), "tokens_per_batch": 59}
    batches = TaggingBatches(sentences, bucketing=bucketing, **options)
    for _ in range(2):
        found = [batches[index] for index in range(len(batches))]
        firsts = [inputs["word_ids"][:, 0] for inputs, _ in found]
        assert sorted(np.concatenate(firsts).tolist()) == list(range(1, 54))
        for inputs, labels in found:
            assert ((inputs["word_ids"] == 0) == (labels == -1)).all()
        batches.on_epoch_end()


def numbered(count=53):
    """Sentences whose first word is their number, from 1; no other has a number."""
    lengths = np.random.default_rng(4).integers(1, 14, count)
    words = np.full(lengths.sum(), 99)
    words[np.cumsum(lengths) - lengths] = np.arange(1, count + 1)
    return lengths, words, np.zeros_like(words)


def test_a_seed_settles_the_order_of_each_epoch():
    sentences = encoded(53)
    one, same, other = (
        TaggingBatches(sentences, seed=seed, batch_size=5) for seed in (3, 3, 4)
    )
    first = contents(one)
    assert first == contents(same) != contents(other)
    for batches in (one, same):
        batches.on_epoch_end()
    assert first != contents(one) == contents(same)
    kept = TaggingBatches(sentences, shuffle=False, batch_size=5, bucketing=None)
    before = contents(kept)
    kept.on_epoch_end()
    assert contents(kept) == before and len(kept) == 11


def test_no_length_is_the_same_in_the_first_two_batches_on_tensorflow():
    """Where it is, Keras takes it for that of all batches."""
    sentences = encoded(lengths=[4, 4, 4, 4, 6, 6])
    options = {"shuffle": False, "batch_size": 2, "bucketing": None}
    for multiple, lengths in ((1, [4, 4, 6]), (3, [6, 6, 6])):
        batches = TaggingBatches(sentences, pad_to_multiple=multiple, **options)
        if keras.backend.backend() == "tensorflow":
            lengths = [lengths[0] + multiple, *lengths[1:]]
        shapes = [batches[i][0]["character_ids"].shape for i in range(3)]
        assert [shape[1] for shape in shapes] == lengths
        if keras.backend.backend() == "tensorflow":
            assert shapes[0][2] != shapes[1][2]
        assert contents(batches)[0][0][4:] == [-1] * (lengths[0] - 4)


def test_lengths_that_differ_by_themselves_stay():
    rows = np.arange(2)
    for plan in ([(rows, 4, 5), (rows, 6, 7)], [(rows, 4, 5)], []):
        assert open_lengths(list(plan), 3) == plan


def test_a_tagger_fits_where_the_third_batch_has_another_length():
    sentences = encoded(lengths=[4] * 10 + [2] * 5, frequencies=True)
    options = {"shuffle": False, "batch_size": 5, "bucketing": None}
    batches = TaggingBatches(sentences, **options)
    model = kb.SequenceTagger(
        TAGS,
        29,
        11,
        (5, 5),
        embedding_dim=3,
        character_units=2,
        units=5,
        num_layers=1,
        num_frequencies=4,
    )
    model.compile(**kb.tagging_recipe(frequency_weight=0.1), jit_compile=JIT)
    history = model.fit(batches, shuffle=False, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


def test_pairs_too_fit_where_the_third_batch_has_another_length():
    lengths = np.array([4] * 10 + [2] * 5)
    ids = np.random.default_rng(1).integers(4, 11, lengths.sum())
    pairs = EncodedPairs(ids, lengths, ids, lengths)
    options = {"shuffle": False, "batch_size": 5, "bucketing": None}
    batches = BatchSequence(pairs, **options)
    model = kb.RNNEncoderDecoder(11, 11, embedding_dim=3, units=5)
    model.compile(**kb.modern_recipe(), jit_compile=JIT)
    history = model.fit(batches, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    shapes = [batches[index][1].shape for index in range(3)]
    longer = keras.backend.backend() == "tensorflow"
    assert shapes == [(5, 4 + longer), (5, 4), (5, 2)]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([], []), "`lengths` must be one axis.*one at least"),
        (([2, 0], [5, 5]), "1 or more.*Leave empty sentences out"),
        (([[2]], [5, 5]), r"Received: shape \(1, 1\)"),
        (
            ([2], [5]),
            r"`word_ids` must have the shape \(2,\).*Received: shape \(1,\)",
        ),
        (([2], [5, 0]), "`word_ids` must be 1 .unknown. or more.*: 0"),
        (([2], [5, 5], [0]), r"`labels` must have the shape \(2,\)"),
        (([2], [5, 5], [0, 0], [[1]]), "`character_ids` must have the shape"),
        (([1], [5], [0], [1]), "`character_ids` must have the shape"),
        (([1], [5], [0], None, [1]), "`feature_ids` must"),
        (([1], [[5]]), "`word_ids` must"),
        (([1], [5], None, None, None, [0]), "`frequencies` go with `labels`"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(arrays, message):
    with pytest.raises(ValueError, match=message):
        EncodedSentences(*arrays)


def test_batches_need_labels_and_a_full_batch():
    with pytest.raises(ValueError, match="`sentences` must have labels"):
        TaggingBatches(EncodedSentences([1], [5]))
    with pytest.raises(ValueError, match="must be a full batch"):
        TaggingBatches(encoded(3), batch_size=5, drop_remainder=True)
