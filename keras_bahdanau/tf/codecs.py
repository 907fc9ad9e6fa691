"""Codecs: from strings to token ids and back, in Python and in an exported graph."""

import base64
import collections
import functools
import hashlib
import importlib
import io
import itertools
import json
import pathlib

import keras
import tensorflow as tf

from keras_bahdanau.batching import END_ID, PAD_ID, START_ID, UNK_ID
from keras_bahdanau.tf.tokenization import (
    SPACER,
    detokenize,
    normalize,
    pieces_for,
    string_batch,
    surface,
    tokenize,
)

SPECIAL_TOKENS = ("<pad>", "<unk>", "<start>", "<end>")

_FORMAT = "keras_bahdanau.codec/1"
_CHUNK = 4096
_STRINGS = [tf.TensorSpec([None], tf.string, name="strings")]


class Codec(tf.Module):
    """What every codec does; a subclass says how one token and its id correspond.

    Ids 0 to 3 are padding, unknown, start and end in every codec. A codec is a
    `tf.Module`: as an attribute of a module that is exported with
    `tf.saved_model.save`, its tables travel along.

    Attributes:
        pad_id, unk_id, start_id, end_id: 0, 1, 2, 3.
        vocabulary_size: Number of ids, the four special ones included.
        lowercase: Whether text is put in lower case before it is encoded.
    """

    pad_id, unk_id, start_id, end_id = PAD_ID, UNK_ID, START_ID, END_ID

    def tokenize(self, strings):
        """Splits sentences into tokens, one for each id that `encode` gives.

        Args:
            strings: String tensor of shape `(B,)`.

        Returns:
            Ragged string tensor of shape `(B, None)`. Unknown tokens keep their text.
        """
        raise NotImplementedError

    def detokenize(self, tokens):
        """Joins tokens into sentences.

        Args:
            tokens: Ragged string tensor of shape `(B, None)`.

        Returns:
            String tensor of shape `(B,)`.
        """
        raise NotImplementedError

    def surfaces(self, strings):
        """Gives each token of `tokenize` as a reader sees it, without spacing marks.

        Args:
            strings: String tensor of shape `(B,)`.

        Returns:
            Ragged string tensor of shape `(B, None)`.
        """
        return surface(self.tokenize(strings))

    def whole_words(self, strings):
        """Gives for each token of `tokenize` the word of the text that it is part of.

        Args:
            strings: String tensor of shape `(B,)`.

        Returns:
            Ragged string tensor of shape `(B, None)`: tokens of
            `keras_bahdanau.tf.tokenize`, spelled as in the text, whatever the case
            that the codec puts it in.
        """
        raise NotImplementedError

    def as_tokens(self, words, before):
        """Gives words as tokens of this codec, for `detokenize`.

        Args:
            words: String tensor of any shape, words of `whole_words`.
            before: String tensor of that shape, the token that each follows.

        Returns:
            String tensor of that shape.
        """
        return words

    def ids_of_word(self, word):
        """Gives the ids of all tokens that a reader sees as one word.

        Args:
            word: A string that `tokenize` gives as one token.

        Returns:
            Tuple of `int`; empty if the vocabulary lacks the word. For subwords, the
            pieces of that spelling, at the beginning of a word and inside of one.

        Raises:
            ValueError: If `word` is not one token.
        """
        tokens = self.tokenize([word])[0].numpy()
        if len(tokens) != 1:
            raise ValueError(
                "A forbidden word must be one token of the target codec. Received "
                f"{word!r}, which is {len(tokens)}. Forbid its first token."
            )
        every = tf.range(len(SPECIAL_TOKENS), self.vocabulary_size)
        surfaces = surface(self.ids_to_tokens(every[:, None]).flat_values).numpy()
        same = surfaces == surface(tokens).numpy()[0]
        return tuple(int(place) + len(SPECIAL_TOKENS) for place in same.nonzero()[0])

    def encode(self, strings, add_end=True):
        """Turns sentences into ids.

        Args:
            strings: String tensor of shape `(B,)`, or what converts to one.
            add_end: Whether each row closes with `end_id`.

        Returns:
            Ragged `int32` tensor of shape `(B, None)`.
        """
        ids = self._encode(strings)
        if add_end:
            ends = tf.fill([ids.nrows(), 1], tf.constant(END_ID, ids.dtype))
            ids = tf.concat([ids, ends], axis=1)
        return ids

    def decode(self, ids):
        """Turns ids into sentences.

        A row counts up to its first `end_id`; padding and `start_id` say nothing; an
        id outside the vocabulary counts as unknown.

        Args:
            ids: Integer tensor of shape `(B, T)`, dense or ragged.

        Returns:
            String tensor of shape `(B,)`.
        """
        return self._decode(self._real_ids(ids))

    def ids_to_tokens(self, ids):
        """Turns ids into tokens; rows are cut as in `decode`.

        Args:
            ids: Integer tensor of shape `(B, T)`, dense or ragged.

        Returns:
            Ragged string tensor of shape `(B, None)`, with `<unk>` for unknown ones.
        """
        return self._ids_to_tokens(self._real_ids(ids))

    def save(self, path):
        """Writes the codec to one JSON file, which `load_codec` reads.

        Args:
            path: Name of the file; it is replaced if there is one.
        """
        content = {
            "format": _FORMAT,
            "class_name": type(self).__name__,
            "config": self.get_config(),
        }
        text = json.dumps(content, ensure_ascii=False, indent=0)
        pathlib.Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path):
        """Reads a codec of this class; see `load_codec`."""
        codec = load_codec(path)
        if not isinstance(codec, cls):
            raise ValueError(
                f"`path` must hold a {cls.__name__}. Received {path} with a "
                f"{type(codec).__name__}. Read it with `load_codec`."
            )
        return codec

    @classmethod
    def from_config(cls, config):
        """Makes a codec from what `get_config` gave."""
        return cls(**config)

    def _real_ids(self, ids):
        """Ragged ids of the real tokens alone, each within the vocabulary."""
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(tf.constant(PAD_ID, ids.dtype))
        ids = tf.cast(tf.convert_to_tensor(ids), tf.int32)
        if ids.shape.rank not in (2, None):
            raise ValueError(
                f"`ids` must have shape (batch, time). Received shape {ids.shape}. "
                "Give a single row as `ids[None]`."
            )
        ended = tf.cumsum(tf.cast(tf.equal(ids, END_ID), tf.int32), axis=1)
        skipped = tf.equal(ids, PAD_ID) | tf.equal(ids, START_ID)
        known = (ids >= 0) & (ids < self.vocabulary_size)
        ids = tf.where(known, ids, UNK_ID)
        return tf.ragged.boolean_mask(ids, tf.equal(ended, 0) & ~skipped)

    def _encode(self, strings):
        raise NotImplementedError

    def _decode(self, ids):
        raise NotImplementedError

    def _ids_to_tokens(self, ids):
        raise NotImplementedError


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class WordCodec(Codec):
    """Codec over the most frequent words; any other word is unknown.

    Words are the tokens of `keras_bahdanau.tf.tokenize`; ids come from
    `keras.layers.StringLookup`. An exported graph that uses it needs standard
    TensorFlow operations only. Words of equal frequency stand in the order of their
    code points, so that the same text gives the same ids.

    Masking: padding is id 0, for `keras.layers.Embedding(mask_zero=True)`.

    Args:
        vocabulary: The words, most frequent first, without the four special tokens.
        lowercase: Whether text is put in lower case before it is encoded.

    Raises:
        ValueError: If a word is empty, repeated, or one of the special tokens.

    Example:

    >>> codec = WordCodec.train(["the cat sees the dog.", "the dog sleeps."])
    >>> codec.words
    ('the', '.', 'dog', 'cat', 'sees', 'sleeps')
    >>> codec.encode(["the dog sleeps.", "the mouse"]).to_list()
    [[4, 6, 9, 5, 3], [4, 1, 3]]
    >>> codec.decode([[4, 6, 9, 5, 3, 0], [4, 1, 3, 0, 0, 0]]).numpy().tolist()
    [b'the dog sleeps.', b'the <unk>']
    """

    def __init__(self, vocabulary, lowercase=False):
        super().__init__(name="word_codec")
        _check_is_list(vocabulary, "vocabulary")
        words = [_as_text(word) for word in vocabulary]
        _check_words(words)
        self.words = tuple(words)
        self.lowercase = bool(lowercase)
        self.vocabulary_size = len(SPECIAL_TOKENS) + len(words)
        self._lookup = keras.layers.StringLookup(
            vocabulary=[*SPECIAL_TOKENS[2:], *words],
            mask_token=SPECIAL_TOKENS[PAD_ID],
            oov_token=SPECIAL_TOKENS[UNK_ID],
        )
        # Named, so that the export finds the table on backends whose layers
        # TensorFlow does not look into.
        self._table = self._lookup.lookup_table
        self._tokens = tf.constant([*SPECIAL_TOKENS, *words], tf.string)

    @classmethod
    def train(cls, texts, max_size=30000, min_frequency=1, lowercase=False):
        """Makes a codec of the most frequent words of `texts`.

        Args:
            texts: Iterable of `str` or `bytes`, or a `tf.data.Dataset` of string
                tensors, batched or not; read once, in pieces.
            max_size: Largest number of words, the special tokens not counted.
            min_frequency: Fewest times that a word must occur.
            lowercase: Whether to put text in lower case, in training and after.

        Returns:
            A `WordCodec`.

        Raises:
            ValueError: If a number is not positive or no word is left.
        """
        for name, value in (("max_size", max_size), ("min_frequency", min_frequency)):
            if value < 1:
                raise ValueError(f"`{name}` must be 1 or more. Received: {value}.")
        split = _splitter(bool(lowercase))
        counts = collections.Counter()
        for chunk in _chunks(texts):
            counts.update(split(chunk).numpy().tolist())
        # UTF-8 bytes sort as code points do.
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        words = [word for word, count in ranked[:max_size] if count >= min_frequency]
        if not words:
            raise ValueError(
                f"`texts` must hold a word that occurs `min_frequency` times. Received "
                f"{len(counts)} different words and min_frequency={min_frequency}. "
                "Give more text or a lower frequency."
            )
        return cls(words, lowercase)

    def tokenize(self, strings):
        return tokenize(strings, self.lowercase)

    def whole_words(self, strings):
        return tokenize(strings)

    def detokenize(self, tokens):
        return detokenize(tokens)

    def get_config(self):
        return {"vocabulary": list(self.words), "lowercase": self.lowercase}

    def _encode(self, strings):
        tokens = self.tokenize(strings)
        # The table itself, not the layer: the layer would hand back a tensor of
        # the Keras backend, whichever that is.
        ids = tf.cast(self._table.lookup(tokens.flat_values), tf.int32)
        return tokens.with_flat_values(ids)

    def _decode(self, ids):
        return detokenize(self._ids_to_tokens(ids))

    def _ids_to_tokens(self, ids):
        return ids.with_flat_values(tf.gather(self._tokens, ids.flat_values))


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class SubwordCodec(Codec):
    """Codec over SentencePiece subwords.

    The model is trained with the `sentencepiece` package and applied by
    `tensorflow_text.SentencepieceTokenizer`. An exported graph that uses it loads
    where `import tensorflow_text` went before.

    Masking: padding is id 0, for `keras.layers.Embedding(mask_zero=True)`.

    Args:
        model: The serialised SentencePiece model: `bytes`, or base64 text as in
            `get_config`.
        lowercase: Whether text is put in lower case before it is encoded.

    Raises:
        ImportError: If `tensorflow_text` is not installed.
        ValueError: If `model` is not a SentencePiece model, or its special ids are
            not 0, 1, 2, 3.

    Example:

    >>> texts = ["the cat sees the dog.", "the dog sleeps."]
    >>> codec = SubwordCodec.train(texts, vocabulary_size=20)
    >>> ids = codec.encode(["the cats sleep."])
    >>> codec.decode(ids).numpy().tolist()
    [b'the cats sleep.']

    Reference: Kudo and Richardson 2018, SentencePiece (D18-2012).
    """

    def __init__(self, model, lowercase=False):
        super().__init__(name="subword_codec")
        self.model = base64.b64decode(model) if isinstance(model, str) else bytes(model)
        self.lowercase = bool(lowercase)
        self._to_ids = _tokenizer(self.model, tf.int32)
        self._to_pieces = _tokenizer(self.model, tf.string)
        self.vocabulary_size = int(self._to_ids.vocab_size())
        _check_special_ids(self._to_ids)

    @classmethod
    def train(
        cls,
        texts,
        vocabulary_size=8000,
        model_type="unigram",
        lowercase=False,
        byte_fallback=False,
        character_coverage=1.0,
        normalization="identity",
    ):
        """Trains a SentencePiece model on `texts`.

        Text goes through `keras_bahdanau.tf.normalize` first, here and in `encode`.

        Args:
            texts: Iterable of `str` or `bytes`, or a `tf.data.Dataset` of string
                tensors, batched or not; read once, in pieces.
            vocabulary_size: Number of ids, the four special ones included.
            model_type: `"unigram"` or `"bpe"`.
            lowercase: Whether to put text in lower case, in training and after.
            byte_fallback: Whether characters outside the vocabulary become bytes
                instead of unknown tokens. It takes 256 of the ids.
            character_coverage: Share of the characters of `texts` that the vocabulary
                must hold, from 0.98 to 1.
            normalization: A rule of SentencePiece that changes characters:
                `"identity"` (none: text comes back as it was), `"nfkc"`,
                `"nmt_nfkc"`.

        Returns:
            A `SubwordCodec`.

        Raises:
            ImportError: If `sentencepiece` or `tensorflow_text` is not installed.
            ValueError: If the text is empty or cannot fill such a vocabulary.
        """
        if model_type not in ("unigram", "bpe"):
            raise ValueError(
                f'`model_type` must be "unigram" or "bpe". Received: {model_type!r}.'
            )
        sentencepiece = import_text("sentencepiece", "sentencepiece")
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_lines(texts, lowercase),
                model_writer=model,
                vocab_size=vocabulary_size,
                model_type=model_type,
                byte_fallback=byte_fallback,
                character_coverage=character_coverage,
                normalization_rule_name=normalization,
                pad_id=PAD_ID,
                unk_id=UNK_ID,
                bos_id=START_ID,
                eos_id=END_ID,
                pad_piece=SPECIAL_TOKENS[PAD_ID],
                unk_piece=SPECIAL_TOKENS[UNK_ID],
                bos_piece=SPECIAL_TOKENS[START_ID],
                eos_piece=SPECIAL_TOKENS[END_ID],
                unk_surface=SPECIAL_TOKENS[UNK_ID],
                # The default leaves longer lines out without a word.
                max_sentence_length=2**30,
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            raise ValueError(
                "`texts` must be able to fill `vocabulary_size`. Received "
                f"vocabulary_size={vocabulary_size} and text of which SentencePiece "
                f"says: {error} Change the size as it says, or give more text."
            ) from error
        return cls(model.getvalue(), lowercase)

    def tokenize(self, strings):
        return self._to_pieces.tokenize(self._prepare(strings))

    def whole_words(self, strings):
        text = normalize(string_batch(strings))
        parts, words = tf.strings.split(text), tokenize(text)
        pieces = self.tokenize(strings)
        part, offset = _places(pieces, parts)
        # Where each part and each word begins, counted in characters without blanks.
        sizes = tf.strings.length(parts.flat_values, "UTF8_CHAR")
        begins = tf.cumsum(sizes, exclusive=True)
        # The codec may change the number of characters, but not that of the parts.
        offset = tf.minimum(offset, tf.gather(sizes, part) - 1)
        place = tf.gather(begins, part) + offset
        sizes = tf.strings.length(surface(words.flat_values), "UTF8_CHAR")
        begins = tf.cumsum(sizes, exclusive=True)
        # One more of both, since there may be none.
        begins = tf.concat([begins, [tf.int32.max]], axis=0)
        place = tf.concat([place, [0]], axis=0)
        word = tf.searchsorted(begins, place, side="right")[:-1] - 1
        return pieces.with_flat_values(tf.gather(words.flat_values, word))

    def as_tokens(self, words, before):
        return pieces_for(words, before)

    def detokenize(self, tokens):
        # SentencePiece gives back the spacer of a piece that it does not know.
        text = self._to_pieces.detokenize(tokens)
        text = tf.strings.regex_replace(text, f"[{SPACER} ]+", " ")
        return tf.strings.regex_replace(text, "^ | $", "")

    def get_config(self):
        model = base64.b64encode(self.model).decode("ascii")
        return {"model": model, "lowercase": self.lowercase}

    def _prepare(self, strings):
        return _preparer(self.lowercase)(string_batch(strings))

    def _encode(self, strings):
        return self._to_ids.tokenize(self._prepare(strings))

    def _decode(self, ids):
        return self._to_ids.detokenize(ids)

    def _ids_to_tokens(self, ids):
        return ids.with_flat_values(self._to_ids.id_to_string(ids.flat_values))


def _places(pieces, parts):
    """Of each piece the number of its part of the text, and what goes before there.

    Parts stand between blanks. Both are counted over the whole batch.
    """
    values, rows = pieces.flat_values, pieces.value_rowids()
    begins = tf.strings.regex_full_match(values, f"(?s){SPACER}.*")
    begins |= tf.equal(tf.ragged.range(pieces.row_lengths()).flat_values, 0)
    part = tf.cumsum(tf.cast(begins, tf.int32)) - 1
    count = tf.reduce_sum(tf.cast(begins, tf.int32))
    bare = tf.strings.regex_replace(values, f"^{SPACER}", "")
    # A byte may be a character or begin one, or continue that of the byte before.
    more = tf.strings.regex_full_match(bare, "<0x[89AB][0-9A-F]>")
    bare = tf.where(more, "", tf.strings.regex_replace(bare, "^<0x[0-9A-F]{2}>$", "x"))
    size = tf.strings.length(bare, "UTF8_CHAR")
    before = tf.cumsum(size, exclusive=True)
    first = tf.math.unsorted_segment_min(before, part, count)
    # A piece of several words is part of the first with a letter or a digit.
    lead = tf.strings.regex_replace(bare, r"^[^\p{L}\p{N}]+", "")
    lead = size - tf.strings.length(lead, "UTF8_CHAR")
    lead = tf.where(lead < size, lead, 0) - tf.cast(more, tf.int32)
    offset = before + lead - tf.gather(first, part)
    first = tf.gather(tf.math.unsorted_segment_min(part, rows, pieces.nrows()), rows)
    last = tf.cast(tf.gather(parts.row_lengths(), rows), tf.int32) - 1
    start = tf.cast(tf.gather(parts.row_starts(), rows), tf.int32)
    return start + tf.minimum(part - first, last), offset


class _NamedModel(tf.saved_model.experimental.TrackableResource):
    """A SentencePiece model that stays until the process ends.

    The resource that the tokenizer makes by itself has no name and belongs to an eager
    kernel: `keras.utils.set_random_seed` and `clear_session` drop such kernels, and
    traced functions then fail. A named one is kept; equal models share it.
    """

    def __init__(self, model):
        super().__init__()
        self._model = model
        self._shared_name = "sentencepiece_" + hashlib.sha256(model).hexdigest()
        # Reading it creates the resource.
        _ = self.resource_handle

    def _create_resource(self):
        module = "tensorflow_text.python.ops.sentencepiece_tokenizer"
        operations = importlib.import_module(module).gen_sentencepiece_tokenizer
        return operations.sentencepiece_op(
            model=self._model, shared_name=self._shared_name
        )


def _tokenizer(model, out_type):
    text = import_text("tensorflow_text", "tensorflow-text")
    try:
        tokenizer = text.SentencepieceTokenizer(model, out_type=out_type)
    except tf.errors.OpError as error:
        raise ValueError(
            "`model` must be a serialised SentencePiece model. Received "
            f"{len(model)} bytes that are not. Train it with `SubwordCodec.train`."
        ) from error
    tokenizer._model_resource = _NamedModel(model)
    return tokenizer


def load_codec(path):
    """Reads a codec that `Codec.save` wrote, of whichever class it is.

    Args:
        path: Name of the JSON file.

    Returns:
        A `WordCodec` or a `SubwordCodec`.

    Raises:
        ImportError: If it is a `SubwordCodec` and `tensorflow_text` is not installed.
        ValueError: If there is no such file, or it does not hold a codec.
    """
    classes = {cls.__name__: cls for cls in (WordCodec, SubwordCodec)}
    try:
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if content["format"] == _FORMAT:
            return classes[content["class_name"]].from_config(content["config"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"`path` must hold a codec written by `save`. Received {path}, which does "
            f"not: {error!r}."
        ) from error
    raise ValueError(
        f"`path` must hold a codec of format {_FORMAT!r}. Received {path} of format "
        f"{content['format']!r}. Write it again with this version's `save`."
    )


def _chunks(texts):
    """Gives the strings of `texts` as tensors of some thousand at a time."""
    _check_is_list(texts, "texts")
    if isinstance(texts, tf.data.Dataset):
        if texts.element_spec.shape.rank:
            yield from (tf.reshape(batch, [-1]) for batch in texts)
        else:
            yield from texts.batch(_CHUNK)
        return
    texts = iter(texts)
    while chunk := list(itertools.islice(texts, _CHUNK)):
        yield tf.constant(chunk, tf.string)


def _lines(texts, lowercase):
    """Gives the normalised, non-empty strings of `texts` one by one."""
    prepare = _preparer(bool(lowercase))
    for chunk in _chunks(texts):
        yield from (line.decode() for line in prepare(chunk).numpy() if line)


@functools.cache
def _splitter(lowercase):
    """A traced function from strings to all of their tokens."""
    return tf.function(
        lambda strings: tokenize(strings, lowercase).flat_values,
        input_signature=_STRINGS,
    )


@functools.cache
def _preparer(lowercase):
    """A traced function from strings to what SentencePiece is to see of them."""

    def prepare(strings):
        strings = normalize(strings)
        return tf.strings.lower(strings, "utf-8") if lowercase else strings

    return tf.function(prepare, input_signature=_STRINGS)


def _as_text(word):
    return word.decode("utf-8") if isinstance(word, bytes) else str(word)


def _check_is_list(strings, name):
    if isinstance(strings, (str, bytes)):
        raise ValueError(
            f"`{name}` must be an iterable of strings. Received one string. Wrap it in "
            "a list."
        )


def _check_words(words):
    seen = collections.Counter(words)
    wrong = [word for word in seen if not word or word in SPECIAL_TOKENS]
    wrong += [word for word, count in seen.items() if count > 1]
    if wrong:
        raise ValueError(
            "`vocabulary` must hold different words, none of them empty or one of "
            f"{SPECIAL_TOKENS}. Received with: {wrong[:5]}. Leave them out."
        )


def _check_special_ids(tokenizer):
    pieces = tokenizer.id_to_string(tf.range(len(SPECIAL_TOKENS))).numpy()
    pieces = tuple(piece.decode("utf-8") for piece in pieces)
    if pieces != SPECIAL_TOKENS:
        raise ValueError(
            f"Ids 0 to 3 of the SentencePiece model must be {SPECIAL_TOKENS}. "
            f"Received: {pieces}. Train it with `SubwordCodec.train`."
        )


def import_text(module, package):
    """Imports what the `text` extra brings."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"SubwordCodec needs the package `{package}`, which does not import here: "
            'install it with `pip install "keras-bahdanau[text]"`.'
        ) from error
