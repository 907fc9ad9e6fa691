"""Parallel text and the batches that a translation model is fitted on.

Two steps: sentence pairs (`PairCorpus`) come from files, from a folder, or from
TensorFlow Datasets; `translation_batches` encodes them and puts pairs of similar
length together.
"""

import itertools
import logging
import pathlib
import re
import shutil
import tempfile
import warnings

import numpy as np
import tensorflow as tf

from keras_bahdanau.batching import (
    Batching,
    EncodedPairs,
    EpochOrder,
    check_any_batch,
    selected_pairs,
)

_CHUNK = 4096
# What `str.splitlines` and text mode take for line ends besides \n and \r\n.
_OTHER_LINE_ENDS = re.compile("[\v\f\x1c-\x1e\x85\u2028\u2029]|\r(?!\n)")

logger = logging.getLogger(__name__)


class PairCorpus:
    """Sentence pairs, with a known count of what there is and what was left out.

    Args:
        sources: Sequence of `str`, the source sentences.
        targets: Sequence of `str`, their translations.
        name: What messages call the corpus.
        num_empty: Number of pairs left out because a side was empty.

    Raises:
        ValueError: If the two sides differ in length or there is no pair.

    Example:

    >>> pairs = PairCorpus(["a dog", "a cat"], ["un chien", "un chat"])
    >>> len(pairs), pairs[1], pairs.take(1).targets
    (2, ('a cat', 'un chat'), ['un chien'])
    """

    def __init__(self, sources, targets, name="pairs", num_empty=0):
        self.sources, self.targets = list(sources), list(targets)
        self.name = name
        self.num_empty = num_empty
        if len(self.sources) != len(self.targets):
            raise ValueError(
                f"`sources` and `targets` must have the same length. Received "
                f"{len(self.sources)} and {len(self.targets)} in {name}."
            )
        if not self.sources:
            raise ValueError(
                f"A corpus must hold a sentence pair. Received none in {name}, after "
                f"{num_empty} with an empty side were left out."
            )

    def __len__(self):
        return len(self.sources)

    def __getitem__(self, index):
        return self.sources[index], self.targets[index]

    def __iter__(self):
        return zip(self.sources, self.targets)

    def __repr__(self):
        return f"<PairCorpus {self.name}: {len(self)} pairs>"

    def take(self, count):
        """Gives a corpus of the first `count` pairs.

        Args:
            count: Number of pairs; all are taken if there are no more.

        Returns:
            A `PairCorpus`.

        Raises:
            ValueError: If `count` is less than 1.
        """
        if count < 1:
            raise ValueError(f"`count` must be 1 or more. Received: {count}.")
        return PairCorpus(
            self.sources[:count], self.targets[:count], self.name, self.num_empty
        )

    def dataset(self):
        """Gives a `tf.data.Dataset` of (source, target) string scalars."""
        return tf.data.Dataset.from_tensor_slices((self.sources, self.targets))


def parallel_files(source_path, target_path):
    """Reads pairs from two text files: line n of one translates line n of the other.

    Lines end with `\\n` or `\\r\\n` and with nothing else; blanks around a line are
    taken off. A pair with an empty side is left out: one warning for each file says
    how many there are and where the first stands.

    Args:
        source_path: Name of the source file, UTF-8.
        target_path: Name of the target file, UTF-8.

    Returns:
        A `PairCorpus`.

    Raises:
        ValueError: If a file is empty or not UTF-8, or if the files differ in their
            number of lines.
    """
    sources, targets = _read_lines(source_path), _read_lines(target_path)
    if len(sources) != len(targets):
        shorter = source_path if len(sources) < len(targets) else target_path
        raise ValueError(
            "Parallel files must have the same number of lines. Received "
            f"{source_path} with {len(sources)} and {target_path} with "
            f"{len(targets)}: {shorter} has no line "
            f"{min(len(sources), len(targets)) + 1}. Align them line by line."
        )
    for path, lines in ((source_path, sources), (target_path, targets)):
        empty = [number for number, line in enumerate(lines, 1) if not line]
        if empty:
            _warn_empty(f"{path}: line {{}} is empty", empty)
    return _without_empty(sources, targets, f"{source_path}, {target_path}")


def parallel_folder(folder, source, target, split="train"):
    """Reads pairs from a folder of `LANG.SPLIT.txt` files, such as `en.train.txt`.

    The two files are read by `tfds.TranslateFolder`, after they passed the checks of
    `parallel_files`. It would read all files of the folder, of every language and
    split, so it is given a copy of the two: what else there is does not matter.

    Args:
        folder: Name of the folder.
        source: Language of the source files, as `"en"`.
        target: Language of the target files.
        split: The split, as `"train"`.

    Returns:
        A `PairCorpus`.

    Raises:
        ImportError: If `tensorflow_datasets` is not installed.
        ValueError: If a file is missing, or for the reasons of `parallel_files`.
    """
    tfds = import_tfds()
    folder = pathlib.Path(folder)
    paths = _folder_files(folder, source, target, split)
    parallel_files(*paths)
    _check_line_ends(paths)
    with tempfile.TemporaryDirectory() as copy:
        for path in set(paths):
            shutil.copyfile(path, pathlib.Path(copy, path.name))
        builder = tfds.TranslateFolder(copy)
        sides = _read_builder(tfds, builder, split, source, target)
    return _without_empty(*sides, f"{folder} {split}")


def tfds_pairs(name, split, source, target, data_dir=None, download=False):
    """Reads pairs from a translation set of TensorFlow Datasets.

    Args:
        name: Name of the builder and its configuration, as `"wmt14_translate/fr-en"`,
            `"ted_hrlr_translate/pt_to_en"` or `"para_crawl/enfr"`; or a builder.
        split: The split or a slice of it, as `"train[:100000]"`. All of it is held in
            memory; for more, see `tfds_dataset`.
        source: Feature that holds the source sentence, as `"en"`.
        target: Feature that holds the target sentence.
        data_dir: Folder of prepared sets; by default that of TensorFlow Datasets.
        download: Whether the set may be downloaded and prepared if it is not there.

    Returns:
        A `PairCorpus`.

    Raises:
        ImportError: If `tensorflow_datasets` is not installed.
        ValueError: If the set is not prepared and `download` is false, or if it has
            no such split or feature.
    """
    tfds, builder, name = _checked_builder(name, source, target, data_dir, download)
    try:
        sides = _read_builder(tfds, builder, split, source, target)
    except AssertionError as error:
        # So TensorFlow Datasets says that there is no data.
        raise ValueError(not_prepared(builder, name, data_dir)) from error
    empty = [number for number, pair in enumerate(zip(*sides)) if not all(pair)]
    if empty:
        _warn_empty(f"{name}[{split}]: example {{}} has an empty side", empty)
    return _without_empty(*sides, f"{name}[{split}]")


def tfds_dataset(name, split, source, target, data_dir=None, download=False):
    """Reads pairs from a translation set that is too large to be held as text.

    Each iteration reads the set from the disk anew. Pairs with an empty side are
    among them; `encode_pairs` and `translation_batches` leave them out.

    Args:
        name, split, source, target, data_dir, download: As `tfds_pairs`.

    Returns:
        A `tf.data.Dataset` of (source, target) string scalars, as `encode_pairs`
        takes it; its length is known if that of the split is.

    Raises:
        ImportError: If `tensorflow_datasets` is not installed.
        ValueError: For the reasons of `tfds_pairs`.
    """
    _, builder, name = _checked_builder(name, source, target, data_dir, download)
    try:
        dataset = builder.as_dataset(split=split, shuffle_files=False)
    except AssertionError as error:
        raise ValueError(not_prepared(builder, name, data_dir)) from error
    return dataset.map(
        lambda example: tuple(
            tf.strings.strip(example[side]) for side in (source, target)
        ),
        num_parallel_calls=tf.data.AUTOTUNE,
    )


class EmptySideWarning(UserWarning):
    """Pairs were left out because one side of them is empty."""


def encode_pairs(
    pairs,
    source_codec,
    target_codec,
    max_source_length=None,
    max_target_length=None,
    choose=None,
):
    """Encodes pairs and leaves out those with too many tokens.

    A pair with a side of no token is left out too; one warning says how many there
    are and which is the first. What is left out takes no memory: the pairs are read in
    pieces.

    Args:
        pairs: A `PairCorpus`, another iterable of (source, target) strings, or a
            `tf.data.Dataset` of them, read in pieces.
        source_codec: Codec of the source, as a `WordCodec`.
        target_codec: Codec of the target.
        max_source_length: Largest number of source tokens, the end token not counted;
            `None` for any.
        max_target_length: The same for the target.
        choose: Function that says which of the other pairs to take: from an
            `EncodedPairs` of those of a piece to a boolean array `(N,)`. `None` for
            all.

    Returns:
        A `keras_bahdanau.batching.EncodedPairs`: 4 bytes a token, and the numbers
        `num_too_long` and `num_empty` of what was left out.

    Raises:
        ValueError: If no pair is left.
    """
    parts, empty, count, num_too_long = [], [], 0, 0
    limits = (max_source_length, max_target_length)
    for encoded in _encoded_chunks(pairs, source_codec, target_codec):
        part = [array.numpy() for array in encoded]
        # The end token alone is one.
        is_empty = np.minimum(part[1], part[3]) < 2
        too_long = np.zeros_like(is_empty)
        for lengths, limit in zip(part[1::2], limits):
            if limit is not None:
                too_long |= lengths > limit + 1
        empty += [np.flatnonzero(is_empty) + count]
        num_too_long += int(np.sum(too_long & ~is_empty))
        count += len(is_empty)
        part = selected_pairs(part, ~(too_long | is_empty))
        if choose is not None and len(part[1]):
            part = selected_pairs(part, choose(EncodedPairs(*part)))
        parts.append(part)
    if not parts:
        raise ValueError("`pairs` must hold a sentence pair. Received none.")
    empty = np.concatenate(empty)
    if len(empty):
        _warn_empty("`pairs`: pair {} has a side without a token", empty)
    if num_too_long:
        logger.info("The length filter left out %d of %d pairs.", num_too_long, count)
    return EncodedPairs(
        *map(np.concatenate, zip(*parts)),
        num_too_long=num_too_long,
        num_empty=len(empty) + getattr(pairs, "num_empty", 0),
    )


def translation_batches(
    pairs,
    source_codec=None,
    target_codec=None,
    batch_size=80,
    bucketing="sorted_pool",
    max_source_length=None,
    max_target_length=None,
    shuffle=True,
    seed=None,
    initial_epoch=0,
    **options,
):
    """Makes padded batches of pairs of similar length, as a `tf.data.Dataset`.

    Each element is `({"source_ids": (B, S), "target_ids": (B, T)}, labels (B, T))`,
    all `int32`. `source_ids` and `labels` close with the end token; `target_ids` are
    the labels moved one step on, behind the start token.

    The ids are encoded once and held in memory. Each iteration over the dataset draws
    another order, settled by `seed` and the number of the iteration; the number of
    batches stays the same and is known to Keras, which shows a progress bar. (On the
    JAX and torch backends `fit` begins one iteration more, to build the model.)

    Masking: padding is id 0 and stands on the right.

    Args:
        pairs: A `PairCorpus`, another iterable of (source, target) strings, a
            `tf.data.Dataset` of them, or an `EncodedPairs`, with which codecs and
            length limits go unused.
        source_codec: Codec of the source, as a `WordCodec`.
        target_codec: Codec of the target.
        batch_size: Number of pairs in a batch; unused for `"tokens"`.
        bucketing: Which pairs stand together: `"sorted_pool"` (the paper: 1,600 pairs
            sorted by length and split into 20 minibatches), `"buckets"`, `"tokens"`
            or `None`. See `keras_bahdanau.batching.Batching`.
        max_source_length: Largest number of source tokens, the end token not counted;
            longer pairs are left out, see `encode_pairs`. `None` for any.
        max_target_length: The same for the target.
        shuffle: Whether pairs and batches come in random order.
        seed: Integer seed of the order; `None` draws one.
        initial_epoch: Number of the first iteration, to go on with a stopped run.
        **options: More arguments of `Batching`: `pool_batches`, `boundaries`,
            `tokens_per_batch`, `pad_to_multiple`, `drop_remainder`.

    Returns:
        A `tf.data.Dataset` with known cardinality.

    Raises:
        ValueError: If an argument does not fit, or no batch is left.

    Example:

    >>> from keras_bahdanau.tf import WordCodec
    >>> pairs = PairCorpus(["a dog", "a cat sleeps"], ["un chien", "un chat dort"])
    >>> source, target = WordCodec.train(pairs.sources), WordCodec.train(pairs.targets)
    >>> batches = translation_batches(pairs, source, target, batch_size=2, seed=1)
    >>> inputs, labels = next(iter(batches))
    >>> inputs["source_ids"].shape, inputs["target_ids"].shape, labels.shape
    (TensorShape([2, 4]), TensorShape([2, 4]), TensorShape([2, 4]))
    """
    batching = Batching(batch_size=batch_size, bucketing=bucketing, **options)
    if not isinstance(pairs, EncodedPairs):
        if source_codec is None or target_codec is None:
            raise ValueError(
                "`source_codec` and `target_codec` must be given unless `pairs` is an "
                f"EncodedPairs. Received pairs of type {type(pairs).__name__}."
            )
        pairs = encode_pairs(
            pairs, source_codec, target_codec, max_source_length, max_target_length
        )
    order = EpochOrder(shuffle, seed, initial_epoch)

    def batches():
        for planned in batching.plan(pairs, order.next_generator()):
            yield pairs.batch(*planned)

    count = sum(1 for _ in batching.plan(pairs))
    check_any_batch(count, batching)
    ids = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(
        batches, output_signature=({"source_ids": ids, "target_ids": ids}, ids)
    )
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(count))
    return dataset.prefetch(tf.data.AUTOTUNE)


def _encoded_chunks(pairs, source_codec, target_codec):
    """A dataset of (ids, lengths) of both sides, some thousand pairs at a time."""

    def encode(sources, targets):
        sources, targets = source_codec.encode(sources), target_codec.encode(targets)
        return (
            sources.flat_values,
            sources.row_lengths(),
            targets.flat_values,
            targets.row_lengths(),
        )

    def chunks():
        rest = iter(pairs)
        while chunk := list(itertools.islice(rest, _CHUNK)):
            yield tuple(zip(*chunk))

    if isinstance(pairs, tf.data.Dataset):
        dataset = pairs.batch(_CHUNK)
    else:
        strings = tf.TensorSpec([None], tf.string)
        dataset = tf.data.Dataset.from_generator(
            chunks, output_signature=(strings, strings)
        )
    return dataset.map(encode, num_parallel_calls=tf.data.AUTOTUNE)


def _read_lines(path):
    """The lines of a UTF-8 file, blanks around them taken off."""
    data = pathlib.Path(path).read_bytes()
    if not data.strip():
        raise ValueError(
            f"A text file must not be empty. Received {path}, with no text in "
            f"{len(data)} bytes."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"A text file must be UTF-8. Received {path}, which is not at line {line}: "
            f"byte 0x{data[error.start]:02x}, {error.reason}. Convert it, for example "
            f"with `iconv -t UTF-8`."
        ) from error
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.strip() for line in lines]


def _without_empty(sources, targets, name):
    """A corpus of the pairs both of whose sides hold text."""
    keep = [bool(source and target) for source, target in zip(sources, targets)]
    return PairCorpus(
        itertools.compress(sources, keep),
        itertools.compress(targets, keep),
        name,
        keep.count(False),
    )


def _warn_empty(finding, numbers, stacklevel=2):
    """Says once where the first pair with an empty side stands, and how many are."""
    warnings.warn(
        f"{finding.format(numbers[0])}, the first of {len(numbers)}: such pairs are "
        "left out.",
        EmptySideWarning,
        stacklevel=stacklevel + 1,
    )


def _folder_files(folder, source, target, split):
    """The two files of a split."""
    if not folder.is_dir():
        raise ValueError(f"`folder` must be one. Received {folder}: no such folder.")
    for name, value in (("source", source), ("target", target), ("split", split)):
        if "." in value:
            raise ValueError(
                f"`{name}` must be a part of the name LANG.SPLIT.txt, without a full "
                f"stop. Received: {value!r}. Read the two files with `parallel_files`."
            )
    names = sorted(path.name for path in folder.iterdir())
    wanted = [f"{language}.{split}.txt" for language in (source, target)]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(
            f"The folder must hold {' and '.join(wanted)}. Received {folder} without "
            f"{' and '.join(missing)}; it has: {', '.join(names) or 'no file'}."
        )
    return [folder / name for name in wanted]


def _check_line_ends(paths):
    """Finds what `TranslateFolder`, but no one else, takes for the end of a line."""
    for path in paths:
        text = path.read_bytes().decode("utf-8")
        if found := _OTHER_LINE_ENDS.search(text):
            line = text.count("\n", 0, found.start()) + 1
            raise ValueError(
                "A line must not hold another line separator, at which "
                f"`tfds.TranslateFolder` would split it. Received {path} with "
                f"{found[0]!r} in line {line}. Read the files with `parallel_files`."
            )


def _checked_builder(name, source, target, data_dir, download):
    """The package, the builder of a set that has both features, and its name."""
    tfds, builder, name = find_builder(name, data_dir, download)
    _check_features(builder, name, source, target)
    return tfds, builder, name


def find_builder(name, data_dir=None, download=False):
    """The package `tensorflow_datasets`, the builder of a set, and the set's name.

    Args:
        name: Name of the set, or its builder.
        data_dir: Where the sets are, `None` for the usual place.
        download: Whether to download and prepare the set.
    """
    tfds = import_tfds()
    if isinstance(name, str):
        builder = tfds.builder(name, data_dir=data_dir)
    else:
        builder, name = name, name.name
    if download:
        builder.download_and_prepare()
    return tfds, builder, name


def _check_features(builder, name, source, target):
    features = list(builder.info.features)
    for feature in (source, target):
        if feature not in features:
            raise ValueError(
                f"`source` and `target` must be features of {name}. Received "
                f"{feature!r}; it has: {', '.join(map(repr, features))}."
            )


def _read_builder(tfds, builder, split, source, target):
    """Both sides of a split as lists of `str`."""
    dataset = builder.as_dataset(split=split, shuffle_files=False)
    dataset = dataset.map(lambda example: (example[source], example[target]))
    sides = ([], [])
    for batch in tfds.as_numpy(dataset.batch(_CHUNK)):
        for side, texts in zip(sides, batch):
            for text in texts:
                try:
                    side.append(text.decode("utf-8-sig").strip())
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"Text must be UTF-8. Received {builder.name}[{split}] with "
                        f"example {len(side)} that is not: {error}."
                    ) from error
    return sides


def not_prepared(builder, name, data_dir):
    """What to say of a set of TensorFlow Datasets that is not on this machine."""
    place = "" if data_dir is None else f", data_dir={str(data_dir)!r}"
    return (
        f"{name} must have been prepared. Received a data folder without it: "
        f"{builder.data_dir}. Prepare it once, with a network: "
        f"`tfds.builder({name!r}{place}).download_and_prepare()`, or pass "
        "`download=True`."
    )


def import_tfds():
    """The package `tensorflow_datasets`; an ImportError says how to install it."""
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise ImportError(
            "This needs the package `tensorflow-datasets`, which does not import here: "
            'install it with `pip install "keras-bahdanau[tfds]"`.'
        ) from error
    return tfds
