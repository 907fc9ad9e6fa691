"""Parallel text and the batches that a translation model is fitted on.

Two steps: sentence pairs (`PairCorpus`) come from files, from a folder, or from
TensorFlow Datasets; `translation_batches` encodes them and puts pairs of similar
length together.
"""

import itertools
import logging
import pathlib
import warnings

import numpy as np
import tensorflow as tf

from keras_bahdanau.tf.codecs import PAD_ID, START_ID

_CHUNK = 4096
_BUCKETINGS = ("sorted_pool", "buckets", "tokens", None)

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
        """Gives a corpus of the first `count` pairs."""
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
    where = (f"{source_path}: line", f"{target_path}: line")
    return _corpus(sources, targets, f"{source_path}, {target_path}", where, 1)


def parallel_folder(folder, source, target, split="train"):
    """Reads pairs from a folder of `LANG.SPLIT.txt` files, such as `en.train.txt`.

    The files are read by `tfds.TranslateFolder`, after the two of `source` and
    `target` passed the checks of `parallel_files`. `TranslateFolder` reads every file
    of the folder, all languages and splits, and wants nothing else in it.

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
    tfds = _import_tfds()
    folder = pathlib.Path(folder)
    paths = _folder_files(folder, source, target, split)
    checked = parallel_files(*paths)
    expected = len(checked) + checked.num_empty
    _check_line_ends(paths, expected)
    builder = tfds.TranslateFolder(str(folder))
    sources, targets = _read_builder(tfds, builder, split, source, target)
    where = tuple(f"{path}: line" for path in paths)
    with warnings.catch_warnings():
        # The check has said so already.
        warnings.simplefilter("ignore", EmptySideWarning)
        return _corpus(sources, targets, f"{folder} {split}", where, 1)


def tfds_pairs(name, split, source, target, data_dir=None, download=False):
    """Reads pairs from a translation set of TensorFlow Datasets.

    Args:
        name: Name of the builder and its configuration, as `"wmt14_translate/fr-en"`,
            `"ted_hrlr_translate/fr_to_en"` or `"para_crawl/enfr"`.
        split: The split or a slice of it, as `"train[:100000]"`. All of it is held in
            memory.
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
    tfds = _import_tfds()
    builder = tfds.builder(name, data_dir=data_dir)
    if download:
        builder.download_and_prepare()
    _check_prepared(builder, name, data_dir)
    _check_features(builder, name, source, target)
    sources, targets = _read_builder(tfds, builder, split, source, target)
    where = tuple(f"{name}[{split}]: {side} of example" for side in (source, target))
    return _corpus(sources, targets, f"{name}[{split}]", where, 0)


class EmptySideWarning(UserWarning):
    """Pairs were left out because one side of them is empty."""


class EncodedPairs:
    """Pairs as token ids, ready to be put into batches.

    Args:
        source_ids: Pair of arrays: all ids one after another, and the `N + 1` limits
            of the rows in it. Rows end with the end token.
        target_ids: The same for the targets.
        num_too_long: Number of pairs that the length filter left out.
    """

    def __init__(self, source_ids, target_ids, num_too_long=0):
        self.source_ids, self.target_ids = source_ids, target_ids
        self.num_too_long = num_too_long
        self.source_lengths = np.diff(source_ids[1])
        self.target_lengths = np.diff(target_ids[1])

    def __len__(self):
        return len(self.source_lengths)

    def batch(self, rows, source_length, target_length):
        """Gives the padded batch of some rows, as `translation_batches` does."""
        source_ids = _padded(self.source_ids, rows, source_length)
        labels = _padded(self.target_ids, rows, target_length)
        target_ids = np.empty_like(labels)
        target_ids[:, 0] = START_ID
        target_ids[:, 1:] = labels[:, :-1]
        # The end token is read by no step.
        ends = self.target_lengths[rows]
        short = np.flatnonzero(ends < labels.shape[1])
        target_ids[short, ends[short]] = PAD_ID
        return {"source_ids": source_ids, "target_ids": target_ids}, labels


def encode_pairs(
    pairs,
    source_codec,
    target_codec,
    max_source_length=None,
    max_target_length=None,
):
    """Encodes pairs and leaves out those with too many tokens.

    Args:
        pairs: A `PairCorpus`, another iterable of (source, target) strings, or a
            `tf.data.Dataset` of them.
        source_codec: Codec of the source, as a `WordCodec`.
        target_codec: Codec of the target.
        max_source_length: Largest number of source tokens, the end token not counted;
            `None` for any.
        max_target_length: The same for the target.

    Returns:
        An `EncodedPairs`; its `num_too_long` counts what was left out.

    Raises:
        ValueError: If no pair is left.
    """
    encode = tf.function(
        lambda sources, targets: (
            source_codec.encode(sources),
            target_codec.encode(targets),
        ),
        input_signature=[tf.TensorSpec([None], tf.string)] * 2,
    )
    columns = ([], [], [], [])
    for sources, targets in _pair_chunks(pairs):
        for column, ids in zip((0, 2), encode(sources, targets)):
            columns[column].append(ids.flat_values.numpy())
            columns[column + 1].append(ids.row_lengths().numpy())
    if not columns[0]:
        raise ValueError("`pairs` must hold a sentence pair. Received none.")
    flat_sources, source_lengths, flat_targets, target_lengths = (
        np.concatenate(column) for column in columns
    )
    keep = np.ones(len(source_lengths), bool)
    for lengths, limit in (
        (source_lengths, max_source_length),
        (target_lengths, max_target_length),
    ):
        if limit is not None:
            keep &= lengths <= limit + 1
    num_too_long = int(np.sum(~keep))
    if num_too_long == len(keep):
        raise ValueError(
            "A pair must be left after the length filter. Received "
            f"max_source_length={max_source_length}, "
            f"max_target_length={max_target_length}, and {num_too_long} pairs that are "
            "all longer. Raise the limits."
        )
    if num_too_long:
        logger.info(
            "The length filter left out %d of %d pairs.", num_too_long, len(keep)
        )
    return EncodedPairs(
        _kept(flat_sources, source_lengths, keep),
        _kept(flat_targets, target_lengths, keep),
        num_too_long,
    )


def translation_batches(
    pairs,
    source_codec=None,
    target_codec=None,
    batch_size=80,
    bucketing="sorted_pool",
    max_source_length=None,
    max_target_length=None,
    pool_batches=20,
    boundaries=(8, 16, 24, 32, 48, 64, 96, 128),
    tokens_per_batch=4096,
    pad_to_multiple=1,
    drop_remainder=False,
    shuffle=True,
    seed=None,
    initial_epoch=0,
):
    """Makes padded batches of pairs of similar length, as a `tf.data.Dataset`.

    Each element is `({"source_ids": (B, S), "target_ids": (B, T)}, labels (B, T))`,
    all `int32`. `source_ids` and `labels` close with the end token; `target_ids` are
    the labels moved one step on, behind the start token.

    `bucketing` says which pairs stand together:

    - `"sorted_pool"`, as the paper has it: 1,600 pairs are drawn, sorted by the length
      of their longer side and split into 20 minibatches of 80, which come in random
      order. (`pool_batches` is the 20.)
    - `"buckets"`: pairs whose longer side lies between the same two `boundaries`; both
      sides are padded to the upper one, so that a compiled step sees as many shapes
      as there are boundaries.
    - `"tokens"`: as many pairs as fit into `tokens_per_batch` positions on the longer
      side, padding included; long pairs come in small batches.
    - `None`: pairs as they come.

    Every iteration over the dataset draws another order, which `seed` and the number
    of the iteration settle. All ids are held in memory, encoded once; the number of
    batches is known to Keras, which shows a progress bar.

    Masking: padding is id 0 and stands on the right.

    Args:
        pairs: A `PairCorpus`, another iterable of (source, target) strings, a
            `tf.data.Dataset` of them, or an `EncodedPairs`, with which codecs and
            length limits go unused.
        source_codec: Codec of the source, as a `WordCodec`.
        target_codec: Codec of the target.
        batch_size: Number of pairs in a batch; unused for `"tokens"`.
        bucketing: `"sorted_pool"`, `"buckets"`, `"tokens"` or `None`.
        max_source_length: Largest number of source tokens, the end token not counted;
            longer pairs are left out, see `encode_pairs`. `None` for any.
        max_target_length: The same for the target.
        pool_batches: Number of minibatches in a pool.
        boundaries: Lengths, rising, the end token counted. Longer pairs form one more
            bucket.
        tokens_per_batch: Largest number of positions on either side of a batch.
        pad_to_multiple: Both lengths are padded to a multiple of it.
        drop_remainder: Whether to leave out batches with fewer pairs than the others.
        shuffle: Whether pairs and batches come in random order.
        seed: Integer seed of the order; `None` draws one.
        initial_epoch: Number of the first iteration, to go on with a stopped run.

    Returns:
        A `tf.data.Dataset` with known cardinality.

    Raises:
        ValueError: If an argument does not fit, or a pair does not fit into
            `tokens_per_batch`.
    """
    numbers = {
        "batch_size": batch_size,
        "pool_batches": pool_batches,
        "tokens_per_batch": tokens_per_batch,
        "pad_to_multiple": pad_to_multiple,
    }
    _check_batching(bucketing, numbers, boundaries)
    if not isinstance(pairs, EncodedPairs):
        if source_codec is None or target_codec is None:
            raise ValueError(
                "`source_codec` and `target_codec` must be given unless `pairs` is an "
                f"EncodedPairs. Received pairs of type {type(pairs).__name__}."
            )
        pairs = encode_pairs(
            pairs, source_codec, target_codec, max_source_length, max_target_length
        )
    planner = _Planner(
        pairs,
        bucketing,
        batch_size=batch_size,
        pool_batches=pool_batches,
        boundaries=boundaries,
        tokens_per_batch=tokens_per_batch,
        multiple=pad_to_multiple,
        drop_remainder=drop_remainder,
    )
    if seed is None:
        seed = int(np.random.SeedSequence().entropy % 2**63)
    epochs = itertools.count(initial_epoch)

    def batches():
        random = np.random.default_rng([seed, next(epochs)]) if shuffle else None
        for rows, source_length, target_length in planner.plan(random):
            yield pairs.batch(rows, source_length, target_length)

    ids = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(
        batches,
        output_signature=({"source_ids": ids, "target_ids": ids}, ids),
    )
    count = sum(1 for _ in planner.plan(None))
    return dataset.apply(tf.data.experimental.assert_cardinality(count)).prefetch(
        tf.data.AUTOTUNE
    )


def _check_batching(bucketing, numbers, boundaries):
    """Checks the arguments of `translation_batches`; `numbers` by their names."""
    if bucketing not in _BUCKETINGS:
        raise ValueError(
            f"`bucketing` must be one of {_BUCKETINGS}. Received: {bucketing!r}."
        )
    for name, value in numbers.items():
        if value < 1:
            raise ValueError(f"`{name}` must be 1 or more. Received: {value}.")
    rising = list(boundaries)
    if rising != sorted(set(rising)) or rising[:1] < [1]:
        raise ValueError(
            f"`boundaries` must be positive and rise. Received: {boundaries}."
        )


class _Planner:
    """Says which pairs form which batches, and how far each is padded.

    The number of batches is the same for every order of the pairs.
    """

    def __init__(
        self,
        pairs,
        bucketing,
        batch_size,
        pool_batches,
        boundaries,
        tokens_per_batch,
        multiple,
        drop_remainder,
    ):
        self.sources, self.targets = pairs.source_lengths, pairs.target_lengths
        self.longer = np.maximum(self.sources, self.targets)
        self.bucketing = bucketing
        self.batch_size, self.pool_batches = batch_size, pool_batches
        self.multiple, self.drop_remainder = multiple, drop_remainder
        if bucketing == "buckets":
            ends = sorted({*map(int, boundaries), int(self.longer.max())})
            ends = np.asarray([end for end in ends if end <= self.longer.max()])
            self.padded = _up_to(ends[np.searchsorted(ends, self.longer)], multiple)
        else:
            self.padded = _up_to(self.longer, multiple)
        self.tokens_per_batch = tokens_per_batch
        if bucketing == "tokens" and self.padded.max() > tokens_per_batch:
            raise ValueError(
                "`tokens_per_batch` must hold at least one pair. Received "
                f"tokens_per_batch={tokens_per_batch} and a pair padded to "
                f"{self.padded.max()} tokens. Raise it, or set max_source_length and "
                "max_target_length."
            )

    def plan(self, random):
        """Gives (rows, source length, target length) for each batch of an epoch."""
        order = np.arange(len(self.longer))
        if random is not None:
            random.shuffle(order)
        for rows in self._groups(order, random):
            if self.bucketing == "buckets":
                yield rows, self.padded[rows[0]], self.padded[rows[0]]
            else:
                yield (
                    rows,
                    _up_to(self.sources[rows].max(), self.multiple),
                    _up_to(self.targets[rows].max(), self.multiple),
                )

    def _groups(self, order, random):
        """Splits the pairs into batches: arrays of row numbers."""
        if self.bucketing is None:
            return self._split(order, self.batch_size)
        if self.bucketing == "sorted_pool":
            pools = self._pools(order)
            return itertools.chain.from_iterable(
                self._shuffled(self._split(pool, self.batch_size), random)
                for pool in pools
            )
        groups = []
        by_length = order[np.argsort(self.padded[order], kind="stable")]
        limits = np.flatnonzero(np.diff(self.padded[by_length])) + 1
        for bucket in np.split(by_length, limits):
            size = self.batch_size
            if self.bucketing == "tokens":
                size = self.tokens_per_batch // int(self.padded[bucket[0]])
            groups += self._split(bucket, size)
        return self._shuffled(groups, random)

    def _pools(self, order):
        size = self.batch_size * self.pool_batches
        for start in range(0, len(order), size):
            pool = order[start : start + size]
            yield pool[np.argsort(self.longer[pool], kind="stable")]

    def _split(self, rows, size):
        batches = [rows[start : start + size] for start in range(0, len(rows), size)]
        if self.drop_remainder and len(batches[-1]) < size:
            batches.pop()
        return batches

    def _shuffled(self, batches, random):
        if random is not None:
            random.shuffle(batches)
        return batches


def _up_to(length, multiple):
    return -(-length // multiple) * multiple


def _padded(ids, rows, length):
    """Rows of a flat array as one padded `int32` matrix."""
    flat, limits = ids
    columns = np.arange(length)
    real = columns < (limits[rows + 1] - limits[rows])[:, None]
    places = np.where(real, limits[rows][:, None] + columns, 0)
    return np.where(real, flat[places], np.int32(PAD_ID))


def _kept(flat, lengths, keep):
    """The rows to keep, as a flat array and the limits of its rows."""
    flat = flat[np.repeat(keep, lengths)]
    return flat, np.concatenate([[0], np.cumsum(lengths[keep])])


def _pair_chunks(pairs):
    """Gives (sources, targets) as tensors of some thousand pairs at a time."""
    if isinstance(pairs, tf.data.Dataset):
        yield from pairs.batch(_CHUNK)
        return
    pairs = iter(pairs)
    while chunk := list(itertools.islice(pairs, _CHUNK)):
        sources, targets = zip(*chunk)
        yield tf.constant(sources, tf.string), tf.constant(targets, tf.string)


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


def _corpus(sources, targets, name, where, first):
    """Leaves out the pairs with an empty side, and says so."""
    keep = [bool(source and target) for source, target in zip(sources, targets)]
    for side, place in zip((sources, targets), where):
        empty = [number for number, text in enumerate(side, first) if not text]
        if empty:
            warnings.warn(
                f"{place} {empty[0]} is empty, the first of {len(empty)}: such pairs "
                "are left out.",
                EmptySideWarning,
                stacklevel=3,
            )
    return PairCorpus(
        itertools.compress(sources, keep),
        itertools.compress(targets, keep),
        name,
        keep.count(False),
    )


def _folder_files(folder, source, target, split):
    """The two files of a split; every file of the folder must be `LANG.SPLIT.txt`."""
    names = sorted(path.name for path in folder.iterdir())
    wrong = [
        name for name in names if name.count(".") != 2 or not name.endswith(".txt")
    ]
    if wrong:
        raise ValueError(
            f"The folder must hold LANG.SPLIT.txt files only. Received {folder} with "
            f"{wrong[0]}. Move it away, or read the two files with `parallel_files`."
        )
    wanted = [f"{language}.{split}.txt" for language in (source, target)]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(
            f"The folder must hold {' and '.join(wanted)}. Received {folder} without "
            f"{' and '.join(missing)}; it has: {', '.join(names) or 'no file'}."
        )
    return [folder / name for name in wanted]


def _check_line_ends(paths, expected):
    """Finds what `TranslateFolder`, but no one else, takes for the end of a line."""
    for path in paths:
        text = path.read_bytes().decode("utf-8-sig")
        if len(text.splitlines()) == expected:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if len(line.splitlines()) > 1:
                raise ValueError(
                    "A line must not hold another line separator, at which "
                    f"`tfds.TranslateFolder` would split it. Received {path} with one "
                    f"in line {number}. Read the files with `parallel_files`."
                )


def _check_prepared(builder, name, data_dir):
    if builder.info.splits:
        return
    place = "" if data_dir is None else f", data_dir={str(data_dir)!r}"
    raise ValueError(
        f"{name} must have been prepared. Received a data folder without it: "
        f"{builder.data_dir}. Prepare it once, with a network: "
        f"`tfds.builder({name!r}{place}).download_and_prepare()`, or pass "
        "`download=True`."
    )


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
                    side.append(text.decode("utf-8").strip())
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"Text must be UTF-8. Received {builder.name}[{split}] with "
                        f"example {len(side)} that is not: {error}."
                    ) from error
    return sides


def _import_tfds():
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise ImportError(
            "This needs the package `tensorflow-datasets`, which does not import here: "
            'install it with `pip install "keras-bahdanau[tfds]"`.'
        ) from error
    return tfds
