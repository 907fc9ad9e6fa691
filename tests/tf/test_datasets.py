"""Parallel text: what is read, what is refused, and the batches made of it."""

import sys
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bahdanau.tf import (
    EmptySideWarning,
    PairCorpus,
    WordCodec,
    encode_pairs,
    parallel_files,
    parallel_folder,
    tfds_dataset,
    tfds_pairs,
    translation_batches,
)


class LetterCodec:
    """A codec whose tokens are letters, `a` being 4."""

    def encode(self, strings):
        letters = tf.strings.unicode_decode(strings, "UTF-8") - (ord("a") - 4)
        ends = tf.fill([letters.nrows(), 1], 3)
        return tf.concat([letters, ends], axis=1)


LETTERS = LetterCodec()


def files(folder, source, target, names=("en.train.txt", "fr.train.txt")):
    paths = [folder / name for name in names]
    for path, data in zip(paths, (source, target)):
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return paths


def corpus(count, longest=23):
    """Pairs of different lengths, each of which its source identifies."""
    random = np.random.default_rng(11)
    letters = "abcdefghijklmnopqrstuvwxyz"
    texts = set()
    while len(texts) < count:
        texts.add("".join(random.choice([*letters], random.integers(1, longest + 1))))
    sources = sorted(texts)
    targets = [text[: random.integers(1, len(text) + 1)] for text in sources]
    return PairCorpus(sources, targets)


def pairs_in(batches):
    """The pairs of a dataset of batches, as tuples of ids without padding."""
    found = []
    for inputs, labels in batches:
        for source, label in zip(inputs["source_ids"].numpy(), labels.numpy()):
            found.append((tuple(source[source > 0]), tuple(label[label > 0])))
    return found


def test_line_n_of_one_file_goes_with_line_n_of_the_other(tmp_path):
    paths = files(
        tmp_path,
        "\ufeffa dog\r\n  a\tcat \u00a0\nlast\n",
        "un chien\nun\u2028chat\r\u0085ici\n fin",
    )
    pairs = parallel_files(*paths)
    assert list(pairs) == [
        ("a dog", "un chien"),
        ("a\tcat", "un\u2028chat\r\u0085ici"),
        ("last", "fin"),
    ]
    assert (len(pairs), pairs.num_empty) == (3, 0)
    assert pairs[2] == ("last", "fin")
    assert pairs.take(2).targets == pairs.targets[:2]
    assert pairs.take(5).targets == pairs.targets
    for count in (0, -1):
        with pytest.raises(ValueError, match=f"`count` must be 1 .*: {count}"):
            pairs.take(count)
    dataset = pairs.dataset()
    assert dataset.cardinality() == 3
    assert [x.numpy() for x in next(iter(dataset))] == [b"a dog", b"un chien"]


def test_a_line_count_mismatch_names_both_files_and_the_line(tmp_path):
    source, target = files(tmp_path, "a\nb\nc\n", "a\nb\n")
    with pytest.raises(ValueError) as error:
        parallel_files(source, target)
    assert f"{source} with 3 and {target} with 2" in str(error.value)
    assert f"{target} has no line 3" in str(error.value)


def test_undecodable_bytes_name_file_and_line(tmp_path):
    paths = files(tmp_path, "a\nb\nc\n", b"a\n\xc3\xa9\ncaf\xe9 noir\n")
    with pytest.raises(ValueError, match=r"fr.train.txt.*line 3: byte 0xe9.*iconv"):
        parallel_files(*paths)


@pytest.mark.parametrize("content", ["", "\n", " \r\n\n"])
def test_an_empty_file_is_named(tmp_path, content):
    with pytest.raises(ValueError, match="must not be empty.*en.train.txt"):
        parallel_files(*files(tmp_path, content, "a\n"))


def test_pairs_with_an_empty_side_are_left_out_and_counted(tmp_path):
    paths = files(tmp_path, "a\n\nc\n \ne\n", "A\nB\n\u00a0\n\nE\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pairs = parallel_files(*paths)
    assert list(pairs) == [("a", "A"), ("e", "E")]
    assert pairs.num_empty == 3
    messages = [str(warning.message) for warning in caught]
    assert messages == [
        f"{paths[0]}: line 2 is empty, the first of 2: such pairs are left out.",
        f"{paths[1]}: line 3 is empty, the first of 2: such pairs are left out.",
    ]
    assert {warning.category for warning in caught} == {EmptySideWarning}
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.filterwarnings("ignore::keras_bahdanau.tf.EmptySideWarning")
def test_files_without_one_whole_pair_are_refused(tmp_path):
    with pytest.raises(ValueError, match="none in .*after 2 with an empty side"):
        parallel_files(*files(tmp_path, "a\n\n", "\nb\n"))


def test_sides_of_different_length_are_refused():
    with pytest.raises(ValueError, match="same length. Received 2 and 1 in pairs"):
        PairCorpus(["a", "b"], ["c"])


def test_a_folder_is_read_through_tensorflow_datasets(tmp_path):
    files(tmp_path, "\ufeffa dog \nb\n", "chien\n c\n")
    files(tmp_path, "e\n", "f\n", ("en.val.txt", "fr.val.txt"))
    assert list(parallel_folder(tmp_path, "en", "fr")) == [
        ("a dog", "chien"),
        ("b", "c"),
    ]
    assert list(parallel_folder(str(tmp_path), "fr", "en", "val")) == [("f", "e")]


def test_a_folder_warns_of_empty_lines_once(tmp_path):
    files(tmp_path, "a\n\n", "b\nc\n")
    with pytest.warns(EmptySideWarning, match="en.train.txt: line 2") as caught:
        pairs = parallel_folder(tmp_path, "en", "fr")
    assert len(caught) == 1
    assert (list(pairs), pairs.num_empty) == ([("a", "b")], 1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("de.train.txt", b"caf\xe9\nb\n"),
        ("de.train.txt", b"one line\n"),
        ("de.train.txt", b""),
        ("de.train.txt", "a\u2028b\nc\n".encode()),
        ("de.val.txt", b"\xe9\n"),
        ("en.val.txt", b"\xe9\n"),
        ("README.md", b"about"),
        ("checksums", b"\xff"),
        ("de.txt", b""),
    ],
)
def test_other_files_of_the_folder_do_not_matter(tmp_path, name, content):
    files(tmp_path, "a dog\nb\n", "chien\nc\n")
    files(tmp_path, "e\n", "f\n", ("de.val.txt", "fr.val.txt"))
    (tmp_path / name).write_bytes(content)
    (tmp_path / "more").mkdir()
    before = sorted(tmp_path.iterdir())
    pairs = parallel_folder(tmp_path, "en", "fr")
    assert list(pairs) == [("a dog", "chien"), ("b", "c")]
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\ncaf\xe9\n", r"Received .*fr.train.txt, .* line 2: byte 0xe9"),
        (b"a\n", r"en.train.txt with 2 and .*fr.train.txt with 1: .* no line 2"),
        (b"", "must not be empty. Received .*fr.train.txt"),
    ],
)
def test_a_broken_file_of_a_wanted_language_is_named(tmp_path, content, message):
    files(tmp_path, "a\nb\n", content)
    (tmp_path / "de.train.txt").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=message):
        parallel_folder(tmp_path, "en", "fr")


def test_both_sides_of_a_folder_may_be_one_file(tmp_path):
    files(tmp_path, "a\nb\n", "c\nd\n")
    assert list(parallel_folder(tmp_path, "en", "en")) == [("a", "a"), ("b", "b")]


def test_a_folder_with_missing_files_is_refused(tmp_path):
    files(tmp_path, "a\n", "b\n")
    with pytest.raises(ValueError, match="without de.train.txt; it has: en.train.txt"):
        parallel_folder(tmp_path, "en", "de")
    with pytest.raises(ValueError, match="without en.test.txt and fr.test.txt"):
        parallel_folder(tmp_path, "en", "fr", "test")
    for arguments in (("en.gb", "fr"), ("en", "fr.ca"), ("en", "fr", "train.1")):
        with pytest.raises(ValueError, match="without a full stop.*`parallel_files`"):
            parallel_folder(tmp_path, *arguments)
    with pytest.raises(ValueError, match="no such folder"):
        parallel_folder(tmp_path / "nowhere", "en", "fr")


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x85", "\r"])
def test_line_ends_that_only_the_folder_reader_sees_are_refused(tmp_path, separator):
    files(tmp_path, "a\nb\n", f"A\nB{separator}\n".replace("B\r\n", "B\rb\n"))
    with pytest.raises(ValueError, match="fr.train.txt.*line 2.*`parallel_files`"):
        parallel_folder(tmp_path, "en", "fr")


def test_a_missing_tfds_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    for read in (
        lambda: parallel_folder(tmp_path, "en", "fr"),
        lambda: tfds_pairs("wmt14_translate/fr-en", "train", "en", "fr"),
    ):
        with pytest.raises(ImportError, match=r'pip install "keras-bahdanau\[tfds\]"'):
            read()


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("wmt14_translate/fr-en", "en", "fr"),
        ("ted_hrlr_translate/pt_to_en", "pt", "en"),
        ("para_crawl/enfr", "en", "fr"),
    ],
)
def test_any_translation_set_of_tfds_gives_pairs(name, source, target):
    import tensorflow_datasets as tfds

    sides = [f" {letter * 5} " for letter in "abcdefg"]

    def examples(self, *args, **kwargs):
        columns = {source: sides, target: [side.upper() for side in sides]}
        return tf.data.Dataset.from_tensor_slices(columns)

    with tfds.testing.mock_data(num_examples=7, as_dataset_fn=examples):
        pairs = tfds_pairs(name, "train", source, target)
        same = tfds_pairs(tfds.builder(name), "train", source, target)
    assert list(same) == list(pairs)
    assert list(pairs) == [(letter * 5, letter.upper() * 5) for letter in "abcdefg"]
    assert pairs.name == f"{name}[train]"


def test_empty_and_undecodable_examples_of_tfds_are_named():
    import tensorflow_datasets as tfds

    texts = [b"a", b"", b"c"]

    def examples(self, *args, **kwargs):
        return tf.data.Dataset.from_tensor_slices(
            {"en": [b"A", b"B", b"C"], "fr": texts}
        )

    with tfds.testing.mock_data(num_examples=3, as_dataset_fn=examples):
        with pytest.warns(EmptySideWarning, match="example 1 has an empty side"):
            pairs = tfds_pairs("wmt14_translate/fr-en", "train", "fr", "en")
        assert (list(pairs), pairs.num_empty) == ([("a", "A"), ("c", "C")], 1)
        texts[1:] = [b"b", b"\xe9"]
        with pytest.raises(ValueError, match="example 2 that is not"):
            tfds_pairs("wmt14_translate/fr-en", "train", "fr", "en")
        with pytest.raises(ValueError, match="'de'; it has: 'fr', 'en'"):
            tfds_pairs("wmt14_translate/fr-en", "train", "fr", "de")


def test_a_set_of_tfds_is_read_anew_with_each_iteration_and_by_encode_pairs():
    import tensorflow_datasets as tfds

    def examples(self, *args, **kwargs):
        columns = {"en": ["ab ", "", "c"], "fr": ["d", "e", " fgh"]}
        return tf.data.Dataset.from_tensor_slices(columns)

    with tfds.testing.mock_data(num_examples=3, as_dataset_fn=examples):
        dataset = tfds_dataset("wmt14_translate/fr-en", "train", "fr", "en")
        with pytest.raises(ValueError, match="'de'; it has: 'fr', 'en'"):
            tfds_dataset("wmt14_translate/fr-en", "train", "fr", "de")
    expected = [(b"d", b"ab"), (b"e", b""), (b"fgh", b"c")]
    for _ in range(2):
        assert list(dataset.as_numpy_iterator()) == expected
    assert dataset.cardinality() == 3
    with pytest.warns(EmptySideWarning, match="pair 1 has a side without a token"):
        pairs = encode_pairs(dataset, LETTERS, LETTERS)
    assert pairs.sources.tolist() == [7, 3, 9, 10, 11, 3] and pairs.num_empty == 1


@pytest.mark.parametrize("read", [tfds_pairs, tfds_dataset])
def test_a_set_that_is_not_prepared_says_how_to_prepare_it(tmp_path, read):
    with pytest.raises(ValueError) as error:
        read("para_crawl/enfr", "train", "en", "fr", data_dir=tmp_path)
    message = str(error.value)
    assert str(tmp_path) in message
    assert "tfds.builder('para_crawl/enfr', data_dir=" in message
    assert ").download_and_prepare()" in message


def test_a_batch_closes_with_the_end_and_inputs_open_with_the_start():
    pairs = PairCorpus(["ab", "cde"], ["f", "gh"])
    batches = translation_batches(pairs, LETTERS, LETTERS, shuffle=False)
    ((inputs, labels),) = batches
    assert inputs["source_ids"].numpy().tolist() == [[4, 5, 3, 0], [6, 7, 8, 3]]
    assert inputs["target_ids"].numpy().tolist() == [[2, 9, 0], [2, 10, 11]]
    assert labels.numpy().tolist() == [[9, 3, 0], [10, 11, 3]]
    assert {x.dtype for x in (*inputs.values(), labels)} == {tf.int32}


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 7, "pool_batches": 5},
        {"batch_size": 7, "pool_batches": 1000, "pad_to_multiple": 3},
        {"batch_size": 7, "bucketing": "buckets", "boundaries": (5, 11, 13)},
        {"bucketing": "tokens", "tokens_per_batch": 53},
        {"bucketing": "tokens", "tokens_per_batch": 53, "pad_to_multiple": 7},
        {"batch_size": 7, "bucketing": None},
        {"batch_size": 7, "bucketing": None, "shuffle": False},
    ],
)
def test_every_pair_comes_once_an_epoch_in_as_many_batches_as_announced(options):
    pairs = corpus(101)
    batches = translation_batches(pairs, LETTERS, LETTERS, seed=3, **options)
    encoded = [LETTERS.encode(tf.constant(side)).to_list() for side in zip(*pairs)]
    expected = sorted(zip(map(tuple, encoded[0]), map(tuple, encoded[1])))
    epochs = [pairs_in(batches) for _ in range(2)]
    for epoch in epochs:
        assert sorted(epoch) == expected
    assert (epochs[0] == epochs[1]) == (options.get("shuffle") is False)
    assert len(list(batches)) == batches.cardinality()


def test_a_pool_is_sorted_by_its_longer_side_and_split():
    pairs = encode_pairs(corpus(101), LETTERS, LETTERS)
    batches = translation_batches(pairs, batch_size=5, pool_batches=7, shuffle=False)
    longer = np.maximum(pairs.source_lengths, pairs.target_lengths)
    expected = []
    for start in range(0, 101, 35):
        pool = sorted(longer[start : start + 35].tolist())
        expected += [pool[i : i + 5] for i in range(0, len(pool), 5)]
    found = []
    for inputs, labels in batches:
        lengths = [np.count_nonzero(x, axis=1) for x in (inputs["source_ids"], labels)]
        found.append(np.maximum(*lengths).tolist())
    assert found == expected


def test_shuffled_pools_hold_pairs_of_similar_length():
    """Less padding than without pools, and the order of the batches is mixed."""
    pairs = encode_pairs(corpus(503), LETTERS, LETTERS)
    shares, firsts = {}, []
    for bucketing in ("sorted_pool", None):
        batches = translation_batches(pairs, batch_size=5, bucketing=bucketing, seed=1)
        positions = sum(int(tf.size(labels)) for _, labels in batches)
        shares[bucketing] = pairs.target_lengths.sum() / positions
    for inputs, _ in translation_batches(pairs, batch_size=5, seed=1):
        firsts.append(inputs["source_ids"].shape[1])
    assert shares["sorted_pool"] > 1.2 * shares[None]
    assert firsts[:20] != sorted(firsts[:20])


def test_buckets_give_no_more_shapes_than_boundaries():
    pairs = encode_pairs(corpus(101), LETTERS, LETTERS)
    options = {"bucketing": "buckets", "boundaries": (5, 11, 17), "batch_size": 3}
    batches = translation_batches(pairs, **options)
    lengths = set()
    for inputs, labels in batches:
        assert inputs["source_ids"].shape[1] == labels.shape[1]
        lengths.add(labels.shape[1])
    assert lengths == {5, 11, 17, 24}


def test_batches_by_tokens_stay_within_the_budget_and_use_it():
    pairs = encode_pairs(corpus(1009), LETTERS, LETTERS)
    batches = translation_batches(
        pairs, bucketing="tokens", tokens_per_batch=97, pad_to_multiple=4
    )
    rows = {}
    for inputs, labels in batches:
        longest = max(inputs["source_ids"].shape[1], labels.shape[1])
        assert longest % 4 == 0 and labels.shape[1] % 4 == 0
        assert labels.shape[0] * longest <= 97
        rows.setdefault(longest, []).append(labels.shape[0])
    for longest, counts in rows.items():
        assert max(counts) == 97 // longest
        assert sum(count < 97 // longest for count in counts) <= 1


def test_only_full_batches_remain_without_remainders():
    pairs = encode_pairs(corpus(101), LETTERS, LETTERS)
    for bucketing, count in ((None, 14), ("sorted_pool", 14)):
        batches = translation_batches(
            pairs, batch_size=7, bucketing=bucketing, drop_remainder=True
        )
        assert batches.cardinality() == count
        assert [labels.shape[0] for _, labels in batches] == [7] * count
    with pytest.raises(ValueError, match="must be a full batch"):
        translation_batches(pairs, batch_size=103, drop_remainder=True)


def test_a_seed_settles_the_order_and_a_stopped_run_goes_on_with_it():
    pairs = encode_pairs(corpus(53), LETTERS, LETTERS)

    def epochs(count, **options):
        batches = translation_batches(pairs, batch_size=5, **options)
        return [pairs_in(batches) for _ in range(count)]

    whole = epochs(3, seed=13)
    assert epochs(3, seed=13) == whole
    assert epochs(2, seed=13, initial_epoch=1) == whole[1:]
    assert epochs(1, seed=17) != whole[:1]
    assert epochs(1) != epochs(1)


def test_the_length_filter_counts_what_it_leaves_out(caplog):
    pairs = PairCorpus(["a", "abc", "abcd", "ab"], ["a", "ab", "a", "abcd"])
    with caplog.at_level("INFO"):
        encoded = encode_pairs(pairs, LETTERS, LETTERS, 3, 3)
    assert (len(encoded), encoded.num_too_long, encoded.num_empty) == (2, 2, 0)
    assert "left out 2 of 4 pairs" in caplog.text
    batches = translation_batches(pairs, LETTERS, LETTERS, max_source_length=3)
    assert len(pairs_in(batches)) == 3
    with pytest.raises(ValueError, match="none, with 4 too long.*length limits"):
        encode_pairs(pairs, LETTERS, LETTERS, max_target_length=0)


def test_pairs_without_a_token_are_left_out_counted_and_named():
    pairs = PairCorpus(["a", "", "c", ""], ["a", "b", "", ""], num_empty=2)
    with pytest.warns(EmptySideWarning, match="pair 1 has .* the first of 3"):
        encoded = encode_pairs(pairs, LETTERS, LETTERS)
    assert (len(encoded), encoded.num_empty) == (1, 5)


def test_pairs_are_chosen_in_pieces_after_the_length_filter(monkeypatch):
    monkeypatch.setattr("keras_bahdanau.tf.datasets._CHUNK", 3)
    pieces = []

    def choose(piece):
        pieces.append(piece.sources.tolist())
        return piece.source_lengths == 2

    texts = ["a", "bb", "ccccc", "ddddd", "eeeee", "", "f", "gg", "h"]
    with pytest.warns(EmptySideWarning, match="pair 5 has .* the first of 1"):
        encoded = encode_pairs(
            zip(texts, texts), LETTERS, LETTERS, max_source_length=4, choose=choose
        )
    # In the second piece all are too long or empty.
    assert pieces == [[4, 3, 5, 5, 3], [9, 3, 10, 10, 3, 11, 3]]
    assert encoded.sources.tolist() == [4, 3, 9, 3, 11, 3]
    assert encoded.target_lengths.tolist() == [2, 2, 2]
    assert (encoded.num_too_long, encoded.num_empty) == (3, 1)


def test_pairs_may_be_a_generator_or_a_dataset():
    pairs = corpus(11)
    expected = encode_pairs(pairs, LETTERS, LETTERS)
    for same in (iter([*pairs]), pairs.dataset(), [*pairs]):
        encoded = encode_pairs(same, LETTERS, LETTERS)
        for name in ("sources", "source_lengths", "targets", "target_lengths"):
            np.testing.assert_array_equal(
                getattr(encoded, name), getattr(expected, name)
            )
    with pytest.raises(ValueError, match="must hold a sentence pair"):
        encode_pairs([], LETTERS, LETTERS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bucketing": "sorted"}, "`bucketing` must be one of.*'sorted'"),
        ({"batch_size": 0}, "`batch_size` must be 1 or more. Received: 0"),
        ({"pad_to_multiple": 0}, "`pad_to_multiple` must be 1 or more"),
        ({"bucketing": "buckets", "boundaries": (5, 5)}, "`boundaries` must.*rise"),
        ({"bucketing": "buckets", "boundaries": ()}, "`boundaries` must"),
        ({"bucketing": "tokens", "tokens_per_batch": 2}, "hold at least one pair.*3"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        translation_batches(PairCorpus(["ab"], ["a"]), LETTERS, LETTERS, **options)


def test_text_without_codecs_is_refused():
    with pytest.raises(ValueError, match="`source_codec` and `target_codec`.*list"):
        translation_batches([("a", "b")])


def test_a_model_fits_on_the_batches():
    """Keras reads the number of steps, and masks what is padded."""
    sources, targets = ["a dog", "two dogs run"], ["un chien", "deux chiens"]
    pairs = PairCorpus(sources * 7, targets * 7)
    codecs = WordCodec.train(sources), WordCodec.train(targets)
    batches = translation_batches(pairs, *codecs, batch_size=3)
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    embed = keras.layers.Embedding(13, 5, mask_zero=True)
    state = keras.layers.GRU(7)(embed(source_ids))
    outputs = keras.layers.GRU(7, return_sequences=True)(
        embed(target_ids), initial_state=state
    )
    logits = keras.layers.Dense(codecs[1].vocabulary_size)(outputs)
    model = keras.Model({"source_ids": source_ids, "target_ids": target_ids}, logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    history = model.fit(batches, epochs=2, shuffle=False, verbose=0)
    assert np.all(np.isfinite(history.history["loss"]))
    assert history.params["steps"] == 5 == batches.cardinality()


@pytest.mark.shared
def test_the_real_folder_is_read_whole(shared_dir):
    folder = shared_dir / "data" / "multi30k"
    pairs = parallel_folder(folder, "en", "de", "val")
    assert (len(pairs), pairs.num_empty) == (1014, 0)
    files_alone = parallel_files(folder / "en.val.txt", folder / "de.val.txt")
    assert list(pairs) == list(files_alone)
