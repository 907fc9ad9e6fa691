"""Batches planned in NumPy, and fitted without tf.data."""

import keras
import numpy as np
import pytest

from keras_bahdanau.batching import Batching, BatchSequence, EncodedPairs


def encoded(count, longest=13):
    random = np.random.default_rng(5)
    sides = []
    for _ in range(2):
        lengths = random.integers(1, longest + 1, count)
        ids = random.integers(4, 29, lengths.sum())
        ids[np.cumsum(lengths) - 1] = 3
        sides += [ids, lengths]
    return EncodedPairs(*sides)


def rows_of(ids, lengths):
    """The rows of a flat array, by plain loops."""
    rows, start = [], 0
    for length in lengths:
        rows.append([int(x) for x in ids[start : start + length]])
        start += length
    return rows


def test_a_batch_agrees_with_plain_loops():
    pairs = encoded(31)
    sources = rows_of(pairs.sources, pairs.source_lengths)
    targets = rows_of(pairs.targets, pairs.target_lengths)
    chosen = [17, 3, 29, 3, 0]
    for source_length, target_length in ((None, None), (19, 23)):
        inputs, labels = pairs.batch(chosen, source_length, target_length)
        width = source_length or max(len(sources[row]) for row in chosen)
        depth = target_length or max(len(targets[row]) for row in chosen)
        assert inputs["source_ids"].shape == (5, width)
        assert inputs["target_ids"].shape == labels.shape == (5, depth)
        for place, row in enumerate(chosen):
            source, target = sources[row], targets[row]
            moved = [2, *target[:-1]]
            for array, expected in (
                (inputs["source_ids"], source),
                (inputs["target_ids"], moved),
                (labels, target),
            ):
                assert array.dtype == np.int32
                padding = [0] * (array.shape[1] - len(expected))
                assert array[place].tolist() == expected + padding


@pytest.mark.parametrize("bucketing", ["sorted_pool", "buckets", "tokens", None])
def test_the_number_of_batches_does_not_depend_on_the_order(bucketing):
    pairs = encoded(211)
    batching = Batching(
        batch_size=7,
        bucketing=bucketing,
        pool_batches=3,
        boundaries=(5, 11),
        tokens_per_batch=59,
    )
    counts = set()
    for seed in (None, 1, 2, 3):
        random = None if seed is None else np.random.default_rng(seed)
        plan = list(batching.plan(pairs, random))
        counts.add(len(plan))
        rows = np.concatenate([rows for rows, _, _ in plan])
        assert sorted(rows.tolist()) == list(range(211))
    assert len(counts) == 1


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([3], [2], [3], [1]), "`source_lengths` must.*1 ids.*sum to 2"),
        (([3], [1], [3], [1, 0]), "`target_lengths` must"),
        (([3, 3], [1, 1], [3], [1]), "as many sources as targets. Received 2 and 1"),
        (([], [], [], []), "A pair must be left"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(arrays, message):
    with pytest.raises(ValueError, match=message):
        EncodedPairs(*arrays)


def test_each_epoch_has_its_own_order():
    pairs = encoded(53)
    batches = BatchSequence(pairs, seed=3, batch_size=5)
    again = BatchSequence(pairs, seed=3, batch_size=5)
    epochs = []
    for _ in range(2):
        epochs.append([batches[index][1].tolist() for index in range(len(batches))])
        assert epochs[-1] == [again[index][1].tolist() for index in range(len(again))]
        batches.on_epoch_end()
        again.on_epoch_end()
    assert epochs[0] != epochs[1]
    assert len(batches) == 11


def test_no_full_batch_is_refused():
    with pytest.raises(ValueError, match="must be a full batch"):
        BatchSequence(encoded(3), batch_size=5, drop_remainder=True)


def test_a_model_fits_on_a_batch_sequence():
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    embed = keras.layers.Embedding(29, 5)
    context = keras.layers.GlobalAveragePooling1D()(embed(source_ids))
    repeated = keras.layers.Dense(5)(context)[:, None, :] + embed(target_ids)
    logits = keras.layers.Dense(29)(repeated)
    model = keras.Model({"source_ids": source_ids, "target_ids": target_ids}, logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile("adam", loss)
    batches = BatchSequence(encoded(23), seed=1, batch_size=5, pad_to_multiple=13)
    history = model.fit(batches, epochs=2, shuffle=False, verbose=0)
    assert np.all(np.isfinite(history.history["loss"]))
    assert history.params["steps"] == 5


def test_some_pairs_are_selected_with_their_ids():
    pairs = EncodedPairs([7, 3, 8, 9, 3], [2, 3], [5, 3, 3], [2, 1])
    second = pairs.select(np.array([False, True]))
    assert second.sources.tolist() == [8, 9, 3] and second.targets.tolist() == [3]
    assert (len(second), second.source_lengths.tolist()) == (1, [3])
    with pytest.raises(ValueError, match="A pair must be left"):
        pairs.select(np.array([False, False]))
