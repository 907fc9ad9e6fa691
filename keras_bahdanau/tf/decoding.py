"""From strings to the best translations, as one TensorFlow graph."""

from typing import NamedTuple

import tensorflow as tf

from keras_bahdanau.batching import UNK_ID
from keras_bahdanau.beam import check_penalties
from keras_bahdanau.tf.codecs import SPECIAL_TOKENS
from keras_bahdanau.tf.tokenization import surface


class DecodingSettings(NamedTuple):
    """How a `Translator` searches; its arguments of the same names."""

    max_length: int = 500
    max_length_factor: float = 2.0
    max_length_offset: int = 10
    allow_unknown: bool = True
    replace_unknown: bool = False
    dictionary: dict | None = None
    num_beams: int = 1
    num_results: int = 1
    length_penalty: str = "none"
    alpha: float | None = None
    coverage_penalty: float = 0.0
    min_length: int = 1
    min_length_factor: float = 0.0
    no_repeat_ngram: int = 0
    forbidden_words: tuple = ()

    @property
    def needs_beams(self):
        """Whether greedy search does not know what is asked for."""
        return bool(
            self.num_beams > 1
            or self.min_length > 1
            or self.min_length_factor
            or self.no_repeat_ngram
        )


class StringDecoder(tf.Module):
    """Translates a batch of strings; what `Translator` exports.

    Args:
        model: a model with `generate` and `beam_search`.
        source_codec: codec of the source.
        target_codec: codec of the target.
        attends: whether the model has attention weights.
        settings: `DecodingSettings`.

    Raises:
        ValueError: if a setting is out of its range.
    """

    def __init__(self, model, source_codec, target_codec, attends, settings):
        super().__init__(name="string_decoder")
        _check(settings, model, attends)
        self.model = model
        self.source_codec, self.target_codec = source_codec, target_codec
        self.attends = attends
        self.settings = settings
        self.dictionary = _table(settings.dictionary)
        self._forbidden = _ids_of(settings.forbidden_words, target_codec)
        if not settings.allow_unknown:
            self._forbidden += (target_codec.unk_id,)

    def __call__(self, strings):
        """Returns the outputs of `Translator.serve_nbest`, a dictionary."""
        search = self._beams if self.settings.needs_beams else self._greedy
        return self._translate(strings, search)

    def greedy(self, strings):
        """The same by greedy search, whatever the settings say of beams."""
        return self._translate(strings, self._greedy)

    def constrained(self, strings, prefixes, max_lengths):
        """The same, each translation with a beginning and a limit of its own."""
        return self._translate(strings, self._beams, prefixes, max_lengths)

    def sampler(self, **options):
        """A function that draws translations at random, as `RNNSearch.sample`."""

        def search(source_ids, limits, prefix_ids):
            longest = _longest(limits)
            found = self.model.sample(
                source_ids, longest, forbidden_ids=self._forbidden, **options
            )
            return _cut(found, limits)

        return lambda strings: self._translate(strings, search)

    def _translate(self, strings, search, prefixes=None, max_lengths=None):
        ids = self.source_codec.encode(strings)
        source_tokens = self.source_codec.tokenize(strings)
        limits = self._limits(tf.cast(ids.row_lengths(), tf.int32) - 1)
        prefix_ids = prefix_tokens = None
        if prefixes is not None:
            limits = tf.where(max_lengths > 0, tf.minimum(limits, max_lengths), limits)
            prefix_ids = self.target_codec.encode(prefixes, add_end=False)
            prefix_tokens = self.target_codec.tokenize(prefixes)
            # The beginning and the end always fit.
            least = tf.cast(prefix_ids.row_lengths(), tf.int32) + 1
            limits = tf.where(limits > 0, tf.maximum(limits, least), limits)
            prefix_ids = padded(prefix_ids, 0)
        found = search(padded(ids, 0), limits, prefix_ids)
        longest = _longest(found.lengths)
        token_ids = found.token_ids[:, :, :longest]
        weights = found.attention_weights
        if weights is None or not self.attends:
            weights = tf.zeros([*tf.unstack(tf.shape(token_ids)), 0])
        weights = weights[:, :, :longest]
        tokens, texts = self._words(token_ids, weights, source_tokens, prefix_tokens)
        # Nothing is an exact translation of nothing.
        best = tf.range(tf.shape(found.scores)[1]) < 1
        empty = tf.equal(limits, 0)[:, None] & best
        return {
            "translations": texts,
            "scores": tf.where(empty, 0.0, found.scores),
            "lengths": found.lengths,
            "log_probs": found.log_probs[:, :, :longest],
            "source_tokens": padded(source_tokens, "", 1),
            "target_tokens": tokens,
            "attention_weights": weights,
        }

    def _limits(self, lengths):
        """The largest number of target tokens of each source; 0 for an empty one."""
        limits = tf.cast(lengths, tf.float32) * self.settings.max_length_factor
        # Cut first: a very large float has no integer.
        limits = tf.minimum(tf.math.ceil(limits), float(self.settings.max_length))
        limits = tf.cast(limits, tf.int32) + self.settings.max_length_offset
        limits = tf.minimum(limits, self.settings.max_length)
        return tf.where(lengths > 0, limits, 0)

    def _beams(self, source_ids, limits, prefix_ids):
        settings = self.settings
        lengths = tf.reduce_sum(tf.cast(source_ids > 0, tf.int32), axis=1) - 1
        factor = min(settings.min_length_factor, float(settings.max_length))
        least = tf.math.ceil(tf.cast(lengths, tf.float32) * factor)
        least = tf.maximum(tf.cast(least, tf.int32), settings.min_length)
        return self.model.beam_search(
            source_ids,
            settings.num_beams,
            _longest(limits),
            num_results=settings.num_results,
            forbidden_ids=self._forbidden,
            min_length=tf.minimum(least, limits),
            length_limits=limits,
            forced_prefix=prefix_ids,
            no_repeat_ngram=settings.no_repeat_ngram,
            length_penalty=settings.length_penalty,
            alpha=settings.alpha,
            coverage_penalty=settings.coverage_penalty,
        )

    def _greedy(self, source_ids, limits, prefix_ids):
        longest = _longest(limits)
        found = self.model.generate(source_ids, longest, forbidden_ids=self._forbidden)
        parts = (None if part is None else part[:, None] for part in found)
        return _cut(type(found)(*parts), limits)

    def _words(self, token_ids, weights, source_tokens, prefix_tokens):
        """Target tokens `(B, N, T)`, one under each id, and texts `(B, N)`."""
        shape = tf.shape(token_ids)
        flat = tf.reshape(token_ids, [-1, shape[2]])
        rows = self.target_codec.ids_to_tokens(flat)
        if self.settings.replace_unknown or prefix_tokens is not None:
            unknown = tf.equal(flat, self.target_codec.unk_id)
            instead = tf.fill(tf.shape(flat), SPECIAL_TOKENS[UNK_ID])
            if self.settings.replace_unknown:
                instead = self._looked_at(weights, source_tokens)
            if prefix_tokens is not None:
                instead = _beginning(prefix_tokens, instead, shape)
            dense = rows.to_tensor("", shape=[None, None])
            width = tf.shape(dense)[1]
            dense = tf.where(unknown[:, :width], instead[:, :width], dense)
            rows = tf.RaggedTensor.from_tensor(dense, lengths=rows.row_lengths())
            texts = self.target_codec.detokenize(rows)
        else:
            texts = self.target_codec.decode(flat)
        tokens = rows.to_tensor("")
        missing = shape[2] - tf.shape(tokens)[1]
        tokens = tf.pad(tokens, [[0, 0], [0, missing]], constant_values="")
        return tf.reshape(tokens, shape), tf.reshape(texts, shape[:2])

    def _looked_at(self, weights, source_tokens):
        """For each target token the source token of the largest weight."""
        source_tokens = padded(source_tokens, "", 1)
        real = tf.not_equal(source_tokens, "")
        # Never the end token nor padding.
        among = tf.where(real[:, None, None], weights[..., : tf.shape(real)[1]], -1.0)
        place = tf.argmax(among, axis=-1, output_type=tf.int32)
        batch_size, count, length = tf.unstack(tf.shape(place))
        place = tf.reshape(place, [batch_size, -1])
        tokens = tf.gather(source_tokens, place, axis=1, batch_dims=1)
        # Two codecs of one kind share their spacing marks.
        alike = type(self.source_codec) is type(self.target_codec)
        words = tokens if alike else surface(tokens)
        if self.dictionary is not None:
            known = self.dictionary.lookup(surface(tokens))
            words = tf.where(tf.equal(known, ""), words, known)
        return tf.reshape(words, [batch_size * count, length])


def _beginning(prefix_tokens, tokens, shape):
    """`tokens` `(B N, T)` with those of each beginning in their places."""
    prefix = prefix_tokens.to_tensor("", shape=[None, None])
    length = tf.shape(prefix)[1]
    prefix = tf.pad(prefix, [[0, 0], [0, tf.maximum(shape[2] - length, 0)]])
    prefix = tf.repeat(prefix[:, : shape[2]], shape[1], axis=0)
    return tf.where(tf.equal(prefix, ""), tokens, prefix)


def _longest(lengths):
    """The largest of the lengths, at least 1."""
    return tf.reduce_max(tf.concat([tf.reshape(lengths, [-1]), [1]], axis=0))


def _cut(found, limits):
    """What was found, `(B, N, ...)`, with the limit of each sentence.

    The limit of a search is that of its longest sentence.
    """
    limits = limits[:, None]
    kept = tf.range(tf.shape(found.token_ids)[2]) < limits[:, :, None]
    log_probs = tf.where(kept, found.log_probs, 0.0)
    weights = found.attention_weights
    if weights is not None:
        weights = tf.where(kept[..., None], weights, 0.0)
    return found._replace(
        token_ids=tf.where(kept, found.token_ids, 0),
        lengths=tf.minimum(found.lengths, limits),
        scores=tf.reduce_sum(log_probs, axis=-1),
        log_probs=log_probs,
        attention_weights=weights,
    )


def padded(rows, value, extra=0):
    """A dense tensor of ragged rows, with `extra` columns, and one at least."""
    dense = rows.to_tensor(value)
    missing = tf.maximum(extra, 1 - tf.shape(dense)[1])
    return tf.pad(dense, [[0, 0], [0, missing]], constant_values=value)


def _table(dictionary):
    if not dictionary:
        return None
    pairs = tf.lookup.KeyValueTensorInitializer(
        list(dictionary), list(dictionary.values()), tf.string, tf.string
    )
    return tf.lookup.StaticHashTable(pairs, default_value="")


def _ids_of(words, codec):
    """The ids of words that the codec has as one token; a word it lacks has none."""
    if isinstance(words, (str, bytes)):
        raise ValueError(
            "`forbidden_words` must be a list of words. Received one string. Wrap it "
            "in a list."
        )
    found = codec.encode(list(words), add_end=False).to_list() if words else []
    for word, ids in zip(words, found):
        if len(ids) != 1:
            raise ValueError(
                "A forbidden word must be one token of the target codec. Received "
                f"{word!r}, which is {len(ids)}. Forbid its first token."
            )
    return tuple(ids[0] for ids in found if ids[0] != codec.unk_id)


def _check(settings, model, attends):
    for name, least in (
        ("max_length", 1),
        ("max_length_factor", 0),
        ("max_length_offset", 1),
        ("num_beams", 1),
        ("num_results", 1),
        ("min_length", 1),
        ("min_length_factor", 0),
        ("no_repeat_ngram", 0),
    ):
        value = getattr(settings, name)
        if not least <= value < float("inf"):
            raise ValueError(
                f"`{name}` must be {least} or more, and finite. Received: {value}."
            )
    if settings.num_results > settings.num_beams:
        raise ValueError(
            "`num_results` must be `num_beams` at most. Received: "
            f"num_results={settings.num_results}, num_beams={settings.num_beams}."
        )
    check_penalties(settings.length_penalty, settings.alpha, settings.coverage_penalty)
    penalised = settings.length_penalty != "none" or settings.coverage_penalty
    if settings.num_beams == 1 and (penalised or settings.alpha is not None):
        raise ValueError(
            "Penalties are for beams. Received: "
            f"length_penalty={settings.length_penalty!r}, alpha={settings.alpha}, "
            f"coverage_penalty={settings.coverage_penalty} with num_beams=1. Pass "
            "num_beams=5, say."
        )
    if settings.needs_beams and not hasattr(model, "beam_search"):
        raise ValueError(
            "Beams, least lengths and n-grams need a model with `beam_search`. "
            f"Received a {type(model).__name__}."
        )
    if settings.coverage_penalty and not attends:
        raise ValueError(
            "`coverage_penalty` needs attention weights, which this model has not. "
            "Translate with an RNNSearch."
        )
    if settings.replace_unknown and not attends:
        raise ValueError(
            "`replace_unknown` needs attention weights, which this model has not. "
            "Translate with an RNNSearch."
        )
    if settings.dictionary and not settings.replace_unknown:
        raise ValueError(
            "`dictionary` has the words for unknown ones. Pass `replace_unknown=True`."
        )
