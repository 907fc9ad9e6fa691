"""From words to what a `SequenceTagger` reads, and from tags to their names."""

import collections
import json
import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_bahdanau.batching import PAD_ID, UNK_ID

_FORMAT = "keras_bahdanau.tag_codec/1"
_FIRST_ID = 2
# What is kept of a word: the kinds of its characters, its last two to four
# characters, its first two and three.
_SUFFIXES, _PREFIXES = (2, 3, 4), (2, 3)
_NUM_FEATURES = 1 + len(_SUFFIXES) + len(_PREFIXES)
_KINDS = (r"\p{Lu}", "X"), (r"\p{Ll}", "x"), (r"\p{N}", "d")
_SHAPE_LENGTH = 8


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class TagCodec(tf.Module):
    """Turns words into the inputs of a `SequenceTagger`, and tags into ids and back.

    Word ids are those of the words in lower case; upper case is told by the
    characters and the word's shape. In all inputs 0 is padding and 1 is unknown. Tags
    have ids from 0 on; -1 is no tag.

    The features are the shape of a word (`Xxxx` becomes `Xxx`: upper and lower case
    and digits by kind, runs cut to two) and its last two, three, four and first two,
    three characters in lower case.

    It is made of standard TensorFlow operations, so that an exported tagger does in its
    graph what was done in training. A codec is a `tf.Module`: as an attribute of one
    that is exported, its tables travel along.

    Masking: padding is id 0 on the right, `""` in strings.

    Args:
        words: Words in lower case, without padding and unknown.
        characters: Characters, likewise.
        features: For each of the six features, its values; `()` for no features.
        tags: Names of the tags.
        max_characters: Largest number of characters of a word that are read; of longer
            words the first and the last half of it.

    Raises:
        ValueError: If an argument is none of these, or a name stands twice.

    Example:

    >>> from keras_bahdanau.tagged_text import TaggedCorpus
    >>> corpus = TaggedCorpus([(["A", "dog"], ["DET", "NOUN"])] * 3)
    >>> codec = TagCodec.train(corpus)
    >>> inputs = codec.encode([["A", "cat", ""], ["dog", "a", "dog"]])
    >>> inputs["word_ids"].numpy().tolist()
    [[2, 1, 0], [3, 2, 3]]
    >>> codec.decode([[1, 0, -1]]).numpy().tolist()
    [[b'NOUN', b'DET', b'']]
    """

    def __init__(self, words, characters, features, tags, max_characters=18):
        super().__init__(name="tag_codec")
        for name, entries in (
            ("words", words),
            ("characters", characters),
            ("tags", tags),
            *((f"features[{index}]", one) for index, one in enumerate(features)),
        ):
            _check_entries(name, entries)
        if len(features) not in (0, _NUM_FEATURES):
            raise ValueError(
                f"`features` must be {_NUM_FEATURES} lists, or none. Received: "
                f"{len(features)}."
            )
        if max_characters < 2:
            raise ValueError(
                f"`max_characters` must be 2 or more. Received: {max_characters}."
            )
        self.words, self.characters = tuple(words), tuple(characters)
        self.features = tuple(tuple(one) for one in features)
        self.tags = tuple(tags)
        self.max_characters = max_characters
        self._word_table = _table(words, _FIRST_ID, UNK_ID)
        self._character_table = _table(characters, _FIRST_ID, UNK_ID)
        self._feature_tables = [_table(one, _FIRST_ID, UNK_ID) for one in features]
        self._tag_table = _table(tags, 0, -1)
        # The last is what -1 is read as.
        self._tag_names = tf.constant([*tags, ""], tf.string)

    @property
    def vocabulary_size(self):
        """Number of word ids."""
        return _FIRST_ID + len(self.words)

    @property
    def character_vocabulary_size(self):
        """Number of character ids."""
        return _FIRST_ID + len(self.characters)

    @property
    def feature_sizes(self):
        """Number of ids of each word feature."""
        return tuple(_FIRST_ID + len(one) for one in self.features)

    @property
    def num_tags(self):
        """Number of tags."""
        return len(self.tags)

    def model_sizes(self):
        """The sizes of a `SequenceTagger` for this codec.

        Returns:
            Dictionary of its arguments, for `SequenceTagger(**codec.model_sizes())`.
        """
        return {
            "num_tags": self.num_tags,
            "vocabulary_size": self.vocabulary_size,
            "character_vocabulary_size": self.character_vocabulary_size,
            "feature_sizes": self.feature_sizes,
        }

    @classmethod
    def train(
        cls,
        corpus,
        min_frequency=1,
        min_character_frequency=2,
        min_feature_frequency=3,
        word_features=True,
        extra_words=(),
        max_characters=18,
    ):
        """Makes a codec of the words and tags of a corpus.

        Args:
            corpus: A `TaggedCorpus`.
            min_frequency: Fewest times that a word must occur, upper case or lower.
            min_character_frequency: Likewise of a character.
            min_feature_frequency: Likewise of the value of a feature.
            word_features: Whether to read the six features.
            extra_words: Words to know besides, such as those with pre-trained vectors.
            max_characters: See `TagCodec`.

        Returns:
            A `TagCodec`. Entries stand by falling frequency, those of the same
            frequency by their code points; tags by name.
        """
        counts = corpus.words()
        forms, times = list(counts), np.array(list(counts.values()))
        flat = _clean(tf.constant(forms, tf.string))
        words = _count(_lower(flat), times)
        characters = collections.Counter()
        letters = tf.strings.unicode_split(flat, "UTF-8")
        repeated = np.repeat(times, letters.row_lengths().numpy())
        for letter, count in zip(letters.flat_values.numpy(), repeated):
            characters[letter] += int(count)
        columns = _features(flat) if word_features else []
        known = _ranked(words, min_frequency)
        extra = _lower(_clean(tf.constant(list(extra_words), tf.string))).numpy()
        more = sorted({word.decode() for word in extra} - set(known) - {""})
        return cls(
            [*known, *more],
            _ranked(characters, min_character_frequency),
            [_ranked(_count(one, times), min_feature_frequency) for one in columns],
            corpus.tag_names(),
            max_characters,
        )

    def encode(self, words):
        """Turns words into the inputs of the model.

        Args:
            words: Strings `(B, T)`, dense with `""` at padding on the right, or
                ragged; or what converts to either. What is no valid UTF-8, and
                NUL, becomes the replacement character.

        Returns:
            Dictionary of `int32` tensors: `word_ids` `(B, T)`, `character_ids`
            `(B, T, C)`, and, if there are features, `feature_ids` `(B, T, 6)`.
        """
        words = _clean(_dense(words))
        shape = tf.shape(words)
        flat = tf.reshape(words, [-1])
        real = tf.not_equal(flat, "")
        word_ids = tf.where(real, self._word_table.lookup(_lower(flat)), PAD_ID)
        characters = self._encode_characters(flat)
        inputs = {
            "word_ids": tf.reshape(word_ids, shape),
            "character_ids": _unflatten(characters, shape),
        }
        if self.features:
            columns = zip(self._feature_tables, _features(flat))
            ids = tf.stack([table.lookup(column) for table, column in columns], axis=-1)
            ids = tf.where(real[:, None], ids, PAD_ID)
            inputs["feature_ids"] = _unflatten(ids, shape)
        return inputs

    def encode_tags(self, tags):
        """Turns names of tags into ids.

        Args:
            tags: Strings of any shape.

        Returns:
            `int32` tensor of the same shape; -1 for what is no tag.
        """
        return self._tag_table.lookup(tf.convert_to_tensor(tags, tf.string))

    def decode(self, tag_ids):
        """Turns ids of tags into names.

        Args:
            tag_ids: Integers of any shape.

        Returns:
            String tensor of the same shape; `""` for what is no tag.
        """
        ids = tf.cast(tag_ids, tf.int32)
        known = (ids >= 0) & (ids < self.num_tags)
        return tf.gather(self._tag_names, tf.where(known, ids, self.num_tags))

    def save(self, path):
        """Writes the codec to one JSON file.

        Args:
            path: Name of the file; it is replaced if there is one.
        """
        content = {"format": _FORMAT, "config": self.get_config()}
        text = json.dumps(content, ensure_ascii=False, indent=0)
        pathlib.Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path):
        """Reads a codec that `save` wrote.

        Args:
            path: Name of the file.

        Returns:
            A `TagCodec`.

        Raises:
            ValueError: If there is no such file, or it does not hold a codec.
        """
        try:
            content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']!r} is not {_FORMAT!r}")
            return cls.from_config(content["config"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                "`path` must hold a codec written by `TagCodec.save`. Received "
                f"{path}, which does not: {error!r}."
            ) from error

    def get_config(self):
        """The arguments of the constructor, for JSON."""
        return {
            "words": list(self.words),
            "characters": list(self.characters),
            "features": [list(one) for one in self.features],
            "tags": list(self.tags),
            "max_characters": self.max_characters,
        }

    @classmethod
    def from_config(cls, config):
        """Makes a codec from what `get_config` gave."""
        return cls(**config)

    def _encode_characters(self, flat):
        """Ids `(W, C)` of the characters of words, the middle of long ones left out."""
        letters = tf.strings.unicode_split(flat, "UTF-8")
        place = tf.ragged.range(letters.row_lengths()).flat_values
        length = tf.gather(letters.row_lengths(), letters.value_rowids())
        first = self.max_characters // 2
        keep = (place < first) | (place >= length - (self.max_characters - first))
        ids = self._character_table.lookup(letters.flat_values)
        ids = tf.ragged.boolean_mask(
            letters.with_flat_values(ids), letters.with_flat_values(keep)
        )
        # At least one column, where all words are padding.
        ids = ids.to_tensor(PAD_ID)
        return tf.pad(ids, [[0, 0], [0, tf.maximum(1 - tf.shape(ids)[1], 0)]])


def _table(entries, first, default):
    """A table from strings to `int32`."""
    keys = tf.constant(list(entries), tf.string)
    values = tf.range(first, first + len(entries), dtype=tf.int32)
    if not len(entries):
        # A table must hold something.
        keys, values = tf.constant(["\0"]), tf.constant([default])
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
    return tf.lookup.StaticHashTable(initializer, default)


def _unflatten(ids, shape):
    """Rows `(B T, n)` as `(B, T, n)`."""
    return tf.reshape(ids, tf.concat([shape, tf.shape(ids)[1:]], axis=0))


def _check_entries(name, entries):
    if isinstance(entries, str | bytes):
        raise ValueError(f"`{name}` must be a list of strings. Received one string.")
    entries = list(entries)
    twice = [entry for entry, n in collections.Counter(entries).items() if n > 1]
    if twice or "" in entries or not all(isinstance(one, str) for one in entries):
        raise ValueError(
            f"`{name}` must be strings, none empty or twice. Received: "
            f"{(twice or entries)[:5]}."
        )


def _dense(words):
    if isinstance(words, tf.RaggedTensor):
        return words.to_tensor("")
    if not tf.is_tensor(words):
        words = tf.ragged.constant(words, ragged_rank=1, dtype=tf.string)
        return words.to_tensor("")
    return words


def _clean(strings):
    """Valid UTF-8, whatever came, without the NUL at which `lower` would stop."""
    strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")
    return tf.strings.regex_replace(strings, r"\x00", "\ufffd")


def _lower(strings):
    return tf.strings.lower(strings, encoding="utf-8")


def _features(flat):
    """The features of words, one string tensor for each."""
    shapes = flat
    for kind, sign in _KINDS:
        shapes = tf.strings.regex_replace(shapes, kind, sign)
    for _, sign in _KINDS:
        shapes = tf.strings.regex_replace(shapes, f"{sign}{{3,}}", 2 * sign)
    shapes = tf.strings.regex_replace(shapes, f"(?s)^(.{{{_SHAPE_LENGTH}}}).*$", r"\1")
    lower = _lower(flat)
    ends = [
        tf.strings.regex_replace(lower, f"(?s)^.*(.{{{size}}})$", r"\1")
        for size in _SUFFIXES
    ]
    begins = [
        tf.strings.regex_replace(lower, f"(?s)^(.{{{size}}}).*$", r"\1")
        for size in _PREFIXES
    ]
    return [shapes, *ends, *begins]


def _count(strings, times):
    """How often each string occurs, given how often each of its forms does."""
    counts = collections.Counter()
    for string, count in zip(strings.numpy(), times):
        counts[string] += int(count)
    return counts


def _ranked(counts, min_frequency):
    """Strings of bytes by falling frequency, as text."""
    # UTF-8 bytes sort as code points do.
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [text.decode() for text, count in ranked if count >= min_frequency and text]
