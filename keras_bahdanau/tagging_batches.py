"""Batches of encoded sentences with their tags, for `fit` on any backend."""

import numpy as np

from keras_bahdanau.batching import PlannedBatches, padded_rows

NO_TAG = -1


class EncodedSentences:
    """Sentences as ids, all words one behind the other.

    `W` is the number of all words, `C` the largest number of characters that is kept of
    a word, `F` the number of word features.

    Args:
        lengths: The number of words of each sentence.
        word_ids: Integers `(W,)`, at least 1.
        labels: Integers `(W,)`, -1 for words without a tag; `None` for no tags at all.
        character_ids: Integers `(W, C)` with 0 as padding, or `None`.
        feature_ids: Integers `(W, F)`, at least 1, or `None`.
        frequencies: Integers `(W,)`, the classes of the auxiliary output of a
            `SequenceTagger`, or `None`.

    Raises:
        ValueError: If the arrays do not fit together, or there is no sentence.

    Example:

    >>> sentences = EncodedSentences([2, 1], [7, 5, 6], [0, 1, 0])
    >>> inputs, labels = sentences.batch([0, 1])
    >>> inputs["word_ids"].tolist(), labels.tolist()
    ([[7, 5], [6, 0]], [[0, 1], [0, -1]])
    """

    def __init__(
        self,
        lengths,
        word_ids,
        labels=None,
        character_ids=None,
        feature_ids=None,
        frequencies=None,
    ):
        self.lengths = np.asarray(lengths, np.int64)
        inputs = {
            "word_ids": word_ids,
            "character_ids": character_ids,
            "feature_ids": feature_ids,
        }
        self.inputs = _arrays(inputs)
        self.targets = _arrays({"labels": labels, "frequencies": frequencies})
        self._starts = np.cumsum(self.lengths) - self.lengths
        self._check()
        self._num_characters = np.zeros(len(self.lengths), np.int64)
        if character_ids is not None:
            ids = self.inputs["character_ids"]
            sizes = np.where(ids > 0, np.arange(1, ids.shape[1] + 1), 1).max(1)
            self._num_characters = np.maximum.reduceat(sizes, self._starts)

    def __len__(self):
        return len(self.lengths)

    def __repr__(self):
        return f"<EncodedSentences: {len(self)} sentences, {self.lengths.sum()} words>"

    @property
    def source_lengths(self):
        """The lengths, by the name that `Batching.plan` knows."""
        return self.lengths

    target_lengths = source_lengths

    def num_characters(self, rows):
        """Gives the number of characters of the longest word of some sentences.

        Args:
            rows: Integers `(B,)`, the numbers of the sentences.

        Returns:
            `C`, 0 without characters.
        """
        return int(self._num_characters[np.asarray(rows)].max())

    def batch(self, rows, length=None, num_characters=None):
        """Gives the padded batch of some sentences.

        Args:
            rows: Integers `(B,)`, the numbers of the sentences.
            length: `T`, no less than the longest sentence; by default that.
            num_characters: `C`, no less than `num_characters(rows)`; by default that.

        Returns:
            The pair of inputs and targets of a `SequenceTagger`. The inputs are a
            dictionary of `(B, T)`, `(B, T, C)` and `(B, T, F)`. The targets are the
            labels `(B, T)`, -1 at padding, or with frequencies a dictionary of `tags`,
            `scores` and `frequencies`. `None` without labels.
        """
        rows = np.asarray(rows)
        lengths = self.lengths[rows]
        starts = self._starts[rows]
        inputs = dict(self.inputs)
        if "character_ids" in inputs:
            size = num_characters or self.num_characters(rows)
            inputs["character_ids"] = inputs["character_ids"][:, :size]
        inputs = {
            name: padded_rows(ids, starts, lengths, length)
            for name, ids in inputs.items()
        }
        if "character_ids" in inputs:
            ids = inputs["character_ids"]
            more = (0, 0), (0, 0), (0, size - ids.shape[2])
            inputs["character_ids"] = np.pad(ids, more)
        targets = {
            name: padded_rows(ids, starts, lengths, length, NO_TAG)
            for name, ids in self.targets.items()
        }
        labels = targets.pop("labels", None)
        if targets:
            return inputs, {"tags": labels, "scores": labels, **targets}
        return inputs, labels

    def _check(self):
        if self.lengths.ndim != 1 or not len(self) or np.any(self.lengths < 1):
            raise ValueError(
                "`lengths` must be one axis of numbers of 1 or more, one at least. "
                f"Received: shape {self.lengths.shape}. Leave empty sentences out."
            )
        for name, array in {**self.inputs, **self.targets}.items():
            is_wide = name in ("character_ids", "feature_ids")
            words = self.lengths.sum()
            if array.ndim != 1 + is_wide or len(array) != words:
                shape = f"({words}, any)" if is_wide else f"({words},)"
                raise ValueError(
                    f"`{name}` must have the shape {shape}, a row for each word. "
                    f"Received: shape {array.shape}."
                )
        if "frequencies" in self.targets and "labels" not in self.targets:
            raise ValueError("`frequencies` go with `labels`. Received no labels.")
        ids = self.inputs["word_ids"]
        if ids.min() < 1:
            raise ValueError(
                "`word_ids` must be 1 (unknown) or more, for 0 is padding. Received: "
                f"{ids.min()}."
            )


class TaggingBatches(PlannedBatches):
    """Batches of tagged sentences of similar length.

    Masking: padding is id 0 in the inputs and -1 in the labels; it stands on the right.

    Args:
        sentences: An `EncodedSentences` with labels.
        shuffle: Whether sentences and batches come in a new random order each epoch.
        seed: Integer seed of the order; `None` draws one.
        **options: Arguments of `Batching`.

    Raises:
        ValueError: If there are no labels, or as `Batching` says.

    Example:

    >>> sentences = EncodedSentences([2, 1], [7, 5, 6], [0, 1, 0])
    >>> batches = TaggingBatches(sentences, shuffle=False, batch_size=2)
    >>> len(batches), batches[0][1].tolist()
    (1, [[0, -1], [0, 1]])
    """

    def __init__(self, sentences, shuffle=True, seed=None, **options):
        if "labels" not in sentences.targets:
            raise ValueError(
                "`sentences` must have labels. Received: sentences without. Give "
                "`EncodedSentences` the tags."
            )
        self.sentences = sentences
        super().__init__(sentences, shuffle, seed, **options)

    def _entries(self, random):
        for rows, length, _ in super()._entries(random):
            yield rows, length, self.sentences.num_characters(rows)


def _arrays(columns):
    """Those that are not `None`, as int32."""
    return {
        name: np.asarray(column, np.int32)
        for name, column in columns.items()
        if column is not None
    }
