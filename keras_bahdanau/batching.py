"""Batches of pairs of similar length, planned in NumPy; no backend is involved."""

import dataclasses
import itertools

import keras
import numpy as np

PAD_ID, UNK_ID, START_ID, END_ID = range(4)

BUCKETINGS = ("sorted_pool", "buckets", "tokens", None)


class EncodedPairs:
    """Pairs of sentences as token ids, held in memory as flat arrays.

    Args:
        sources: The ids of all sources, one after another: integer array.
        source_lengths: The number of ids of each source: integer array `(N,)`. Each
            source ends with the end token, which counts.
        targets: The ids of all targets.
        target_lengths: The number of ids of each target.
        num_too_long: Number of pairs that a length filter left out.
        num_empty: Number of pairs left out because a side was empty.

    Raises:
        ValueError: If the arrays do not fit together, or there is no pair.

    Example:

    >>> import numpy as np
    >>> pairs = EncodedPairs(
    ...     np.array([7, 3, 8, 9, 3]), np.array([2, 3]), np.array([5, 3, 3]), [2, 1]
    ... )
    >>> inputs, labels = pairs.batch(np.array([0, 1]))
    >>> inputs["source_ids"].tolist(), inputs["target_ids"].tolist()
    ([[7, 3, 0], [8, 9, 3]], [[2, 5], [2, 0]])
    >>> labels.tolist()
    [[5, 3], [3, 0]]
    """

    def __init__(
        self,
        sources,
        source_lengths,
        targets,
        target_lengths,
        num_too_long=0,
        num_empty=0,
    ):
        self.sources = np.asarray(sources, np.int32)
        self.targets = np.asarray(targets, np.int32)
        self.source_lengths = np.asarray(source_lengths, np.int64)
        self.target_lengths = np.asarray(target_lengths, np.int64)
        self.num_too_long, self.num_empty = num_too_long, num_empty
        self._source_starts = np.cumsum(self.source_lengths) - self.source_lengths
        self._target_starts = np.cumsum(self.target_lengths) - self.target_lengths
        self._check()

    def __len__(self):
        return len(self.source_lengths)

    def __repr__(self):
        return (
            f"<EncodedPairs: {len(self)} pairs, {self.num_too_long} too long, "
            f"{self.num_empty} empty>"
        )

    def batch(self, rows, source_length=None, target_length=None):
        """Gives the padded batch of some pairs.

        Args:
            rows: Integer array `(B,)`, the numbers of the pairs.
            source_length: `S`, no less than the longest source; by default that.
            target_length: `T`, no less than the longest target; by default that.

        Returns:
            `({"source_ids": (B, S), "target_ids": (B, T)}, labels (B, T))`, all
            `int32`. `target_ids` are the labels moved one step on, behind the start
            token.
        """
        rows = np.asarray(rows)
        lengths = self.source_lengths[rows]
        source_ids = padded_rows(
            self.sources, self._source_starts[rows], lengths, source_length
        )
        lengths = self.target_lengths[rows]
        labels = padded_rows(
            self.targets, self._target_starts[rows], lengths, target_length
        )
        target_ids = np.full_like(labels, START_ID)
        # No step reads the end token.
        columns = np.arange(1, labels.shape[1])
        target_ids[:, 1:] = np.where(columns < lengths[:, None], labels[:, :-1], PAD_ID)
        return {"source_ids": source_ids, "target_ids": target_ids}, labels

    def select(self, keep):
        """Some of the pairs.

        Args:
            keep: Boolean array `(N,)`, `True` for those to take.

        Returns:
            `EncodedPairs` of these.

        Raises:
            ValueError: If none is left.
        """
        sides = self.sources, self.source_lengths, self.targets, self.target_lengths
        return EncodedPairs(*selected_pairs(sides, keep))

    def _check(self):
        for name in ("source", "target"):
            ids = getattr(self, f"{name}s")
            lengths = getattr(self, f"{name}_lengths")
            if lengths.ndim != 1 or np.any(lengths < 1) or lengths.sum() != len(ids):
                raise ValueError(
                    f"`{name}_lengths` must be one axis of numbers of 1 or more that "
                    f"sum to the number of ids. Received {len(ids)} ids and lengths "
                    f"of shape {lengths.shape} that sum to {lengths.sum()}."
                )
        if len(self.source_lengths) != len(self.target_lengths):
            raise ValueError(
                "There must be as many sources as targets. Received "
                f"{len(self.source_lengths)} and {len(self.target_lengths)}."
            )
        if not len(self):
            raise ValueError(
                f"A pair must be left. Received none, with {self.num_too_long} too "
                f"long and {self.num_empty} empty. Raise the length limits."
            )


@dataclasses.dataclass(frozen=True)
class Batching:
    """How pairs are put into batches.

    `bucketing` says which pairs stand together:

    - `"sorted_pool"`, as in the paper: 1,600 pairs are drawn, sorted by the length of
      their longer side and split into 20 minibatches of 80, which come in random
      order. `pool_batches` is the 20.
    - `"buckets"`: pairs whose longer side lies between the same two `boundaries`; both
      sides are padded to the upper one, so that a compiled step sees no more shapes
      than there are buckets.
    - `"tokens"`: as many pairs as fit into `tokens_per_batch` positions of the longer
      side, padding included: the longer the pairs, the smaller the batch. With
      `pad_to_multiple`, few shapes occur.
    - `None`: pairs as they come.

    The number of batches is the same for every order of the pairs.

    Args:
        batch_size: Number of pairs in a batch; unused for `"tokens"`.
        bucketing: `"sorted_pool"`, `"buckets"`, `"tokens"` or `None`.
        pool_batches: Number of minibatches in a pool.
        boundaries: Lengths, rising, the end token counted. Longer pairs form one more
            bucket.
        tokens_per_batch: Largest number of positions on either side of a batch.
        pad_to_multiple: Both lengths are padded to a multiple of it.
        drop_remainder: Whether to leave out batches with fewer pairs than the others.

    Raises:
        ValueError: If an argument does not fit.

    Reference: Bahdanau, Cho and Bengio 2015 (arXiv:1409.0473), appendix B.1.
    """

    batch_size: int = 80
    bucketing: str | None = "sorted_pool"
    pool_batches: int = 20
    boundaries: tuple = (8, 16, 24, 32, 48, 64, 96, 128)
    tokens_per_batch: int = 4096
    pad_to_multiple: int = 1
    drop_remainder: bool = False

    def __post_init__(self):
        if self.bucketing not in BUCKETINGS:
            raise ValueError(
                f"`bucketing` must be one of {BUCKETINGS}. "
                f"Received: {self.bucketing!r}."
            )
        for name in (
            "batch_size",
            "pool_batches",
            "tokens_per_batch",
            "pad_to_multiple",
        ):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"`{name}` must be 1 or more. Received: {getattr(self, name)}."
                )
        rising = list(self.boundaries)
        if not rising or rising != sorted(set(rising)) or rising[0] < 1:
            raise ValueError(
                "`boundaries` must be positive numbers that rise. "
                f"Received: {self.boundaries}."
            )

    def plan(self, pairs, random=None):
        """Gives the batches of one pass over the pairs.

        Args:
            pairs: An `EncodedPairs`.
            random: A `numpy.random.Generator` that orders pairs and batches; `None`
                keeps the pairs in their order.

        Returns:
            Iterator over `(rows, source_length, target_length)`, as
            `EncodedPairs.batch` takes them.

        Raises:
            ValueError: If a pair does not fit into `tokens_per_batch`.
        """
        longer = np.maximum(pairs.source_lengths, pairs.target_lengths)
        padded = self._padded_lengths(longer)
        order = np.arange(len(pairs))
        if random is not None:
            random.shuffle(order)
        if self.bucketing is None:
            groups = self._split(order, self.batch_size)
        elif self.bucketing == "sorted_pool":
            groups = self._pooled(order, longer, random)
        else:
            groups = self._by_length(order, padded, random)
        if self.bucketing == "buckets":
            return ((rows, padded[rows[0]], padded[rows[0]]) for rows in groups)
        return (
            (
                rows,
                self._up(pairs.source_lengths[rows].max()),
                self._up(pairs.target_lengths[rows].max()),
            )
            for rows in groups
        )

    def _padded_lengths(self, longer):
        """The length that each pair is padded to, as far as it is settled now."""
        if self.bucketing == "buckets":
            ends = np.asarray(
                [*self.boundaries, max(longer.max(), self.boundaries[-1])]
            )
            return self._up(ends[np.searchsorted(ends, longer)])
        padded = self._up(longer)
        if self.bucketing == "tokens" and padded.max() > self.tokens_per_batch:
            raise ValueError(
                "`tokens_per_batch` must hold at least one pair. Received "
                f"tokens_per_batch={self.tokens_per_batch} and a pair padded to "
                f"{padded.max()} tokens. Raise it, or leave out long pairs."
            )
        return padded

    def _pooled(self, order, longer, random):
        for pool in _slices(order, self.batch_size * self.pool_batches):
            pool = pool[np.argsort(longer[pool], kind="stable")]
            yield from _shuffled(self._split(pool, self.batch_size), random)

    def _by_length(self, order, padded, random):
        order = order[np.argsort(padded[order], kind="stable")]
        limits = np.flatnonzero(np.diff(padded[order])) + 1
        batches = []
        for bucket in np.split(order, limits):
            size = self.batch_size
            if self.bucketing == "tokens":
                size = self.tokens_per_batch // int(padded[bucket[0]])
            batches += self._split(bucket, size)
        return _shuffled(batches, random)

    def _split(self, rows, size):
        batches = _slices(rows, size)
        if self.drop_remainder and len(batches[-1]) < size:
            batches.pop()
        return batches

    def _up(self, length):
        return -(-length // self.pad_to_multiple) * self.pad_to_multiple


class EpochOrder:
    """Gives each pass over the data its own order, which a seed settles.

    Args:
        shuffle: Whether there is a random order at all.
        seed: Integer seed; `None` draws one.
        initial_epoch: Number of the first pass.
    """

    def __init__(self, shuffle=True, seed=None, initial_epoch=0):
        self.shuffle = shuffle
        self.seed = np.random.SeedSequence().entropy if seed is None else seed
        self._epochs = itertools.count(initial_epoch)

    def next_generator(self):
        """Gives the `numpy.random.Generator` of the next pass, or `None`."""
        epoch = next(self._epochs)
        return np.random.default_rng([self.seed, epoch]) if self.shuffle else None


class PlannedBatches(keras.utils.PyDataset):
    """What `BatchSequence` and `TaggingBatches` have in common.

    Args:
        source: What has a `batch` for each entry of a plan.
        shuffle: Whether batches come in a new random order each epoch.
        seed: Integer seed of the order; `None` draws one.
        **options: Arguments of `Batching`.
    """

    def __init__(self, source, shuffle=True, seed=None, **options):
        super().__init__()
        self.batching = Batching(**options)
        self._source = source
        self._order = EpochOrder(shuffle, seed)
        self.on_epoch_end()
        check_any_batch(len(self._plan), self.batching)

    def __len__(self):
        return len(self._plan)

    def __getitem__(self, index):
        return self._source.batch(*self._plan[index])

    def on_epoch_end(self):
        plan = list(self._entries(self._order.next_generator()))
        self._plan = open_lengths(plan, self.batching.pad_to_multiple)

    def _entries(self, random):
        """The arguments of `batch` for each batch of one pass."""
        return self.batching.plan(self._source, random)


class BatchSequence(PlannedBatches):
    """Batches of pairs for `fit` on any backend, without tf.data.

    Each item is `({"source_ids": (B, S), "target_ids": (B, T)}, labels (B, T))`.
    `keras_bahdanau.tf.translation_batches` gives the same as a `tf.data.Dataset`.

    Masking: padding is id 0 and stands on the right.

    Args:
        pairs: An `EncodedPairs`.
        shuffle: Whether pairs and batches come in a new random order each epoch.
        seed: Integer seed of the order; `None` draws one.
        **options: Arguments of `Batching`.

    Raises:
        ValueError: If `options` leave no batch, or as `Batching` says.

    Example:

    >>> pairs = EncodedPairs([7, 3, 8, 9, 3], [2, 3], [5, 3, 3], [2, 1])
    >>> batches = BatchSequence(pairs, shuffle=False, batch_size=1, bucketing=None)
    >>> len(batches), batches[1][1].tolist()
    (2, [[3]])
    """

    def __init__(self, pairs, shuffle=True, seed=None, **options):
        self.pairs = pairs
        super().__init__(pairs, shuffle, seed, **options)


def selected_pairs(sides, keep):
    """Ids and lengths of both sides, as in `EncodedPairs`, of some pairs or none."""
    sources, source_lengths, targets, target_lengths = sides
    return [
        sources[np.repeat(keep, source_lengths)],
        source_lengths[keep],
        targets[np.repeat(keep, target_lengths)],
        target_lengths[keep],
    ]


def open_lengths(plan, step=1):
    """Pads the first batch more where it has a length of the second.

    Keras with TensorFlow takes a length that is the same in both for that of all
    batches, and fails at the first other one.

    Args:
        plan: List of the batches, as `Batching.plan` gives them.
        step: By how much to pad more.

    Returns:
        The list, its first entry changed or not.
    """
    if len(plan) > 1 and keras.backend.backend() == "tensorflow":
        (rows, *first), (_, *second) = plan[:2]
        lengths = [a + step if a == b else a for a, b in zip(first, second)]
        plan[0] = (rows, *lengths)
    return plan


def check_any_batch(count, batching):
    """Raises a `ValueError` where `drop_remainder` left nothing."""
    if not count:
        raise ValueError(
            "There must be a full batch with drop_remainder=True. Received too few "
            f"pairs for {batching}. Make the batches smaller."
        )


def padded_rows(ids, starts, lengths, length=None, fill=PAD_ID):
    """Rows of a flat array as one padded `int32` array.

    Args:
        ids: Array `(W, ...)`, the rows one behind the other.
        starts: Integers `(B,)`, where each row begins.
        lengths: Integers `(B,)`, how long it is.
        length: `T`; by default the largest of the lengths.
        fill: What stands at padding.

    Returns:
        Array `(B, T, ...)`.
    """
    columns = np.arange(lengths.max() if length is None else length)
    real = columns < lengths[:, None]
    places = np.where(real, starts[:, None] + columns, 0)
    real = real.reshape(real.shape + (1,) * (ids.ndim - 1))
    return np.where(real, ids[places], np.int32(fill))


def _slices(rows, size):
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _shuffled(batches, random):
    if random is not None:
        random.shuffle(batches)
    return batches
