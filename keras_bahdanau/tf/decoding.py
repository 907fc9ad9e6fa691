"""From strings to the best translations, as one TensorFlow graph."""

import collections.abc
import numbers
from typing import NamedTuple

import tensorflow as tf

from keras_bahdanau.beam import check_penalties
from keras_bahdanau.tf.tokenization import normalize, surface, tokenize


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
        self._never = _surfaces(settings.forbidden_words, target_codec)
        self.dictionary = _table(settings.dictionary, self._never)
        self._forbidden = tuple(
            token_id
            for word in settings.forbidden_words
            for token_id in target_codec.ids_of_word(word)
        )
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
        for name, given in (("prefixes", prefixes), ("max_lengths", max_lengths)):
            tf.debugging.assert_equal(
                tf.size(given),
                tf.size(strings),
                f"`{name}` must have one for each of the strings.",
            )
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
        words = None
        if self.settings.replace_unknown:
            words = self.source_codec.whole_words(strings)
        tokens, texts = self._words(token_ids, weights, words, prefix_tokens)
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

    def _words(self, token_ids, weights, source_words, prefix_tokens):
        """Target tokens `(B, N, T)`, one under each id, and texts `(B, N)`."""
        shape = tf.shape(token_ids)
        flat = tf.reshape(token_ids, [-1, shape[2]])
        rows = self.target_codec.ids_to_tokens(flat)
        if source_words is None and prefix_tokens is None:
            texts = self.target_codec.decode(flat)
        else:
            dense = rows.to_tensor("", shape=[None, None])
            width = tf.shape(dense)[1]
            unknown = tf.equal(flat, self.target_codec.unk_id)[:, :width]
            if prefix_tokens is not None:
                given = _beginning(prefix_tokens, shape)[:, :width]
                given = tf.where(unknown, given, "")
                unknown &= tf.equal(given, "")
                dense = tf.where(tf.equal(given, ""), dense, given)
            if source_words is not None:
                instead = self._looked_at(weights, source_words)[:, :width]
                dense = self._replaced(dense, unknown, instead)
            rows = tf.RaggedTensor.from_tensor(dense, lengths=rows.row_lengths())
            texts = self.target_codec.detokenize(rows)
        tokens = rows.to_tensor("")
        missing = shape[2] - tf.shape(tokens)[1]
        tokens = tf.pad(tokens, [[0, 0], [0, missing]], constant_values="")
        return tf.reshape(tokens, shape), tf.reshape(texts, shape[:2])

    def _replaced(self, tokens, unknown, instead):
        """The tokens `(B N, T)`, the unknown ones as the words that there are."""
        unknown &= tf.not_equal(instead, "")
        tokens = tf.where(unknown, instead, tokens)
        before = tf.pad(tokens, [[0, 0], [1, 0]])[:, : tf.shape(tokens)[1]]
        instead = self.target_codec.as_tokens(tokens, before)
        return tf.where(unknown, instead, tokens)

    def _looked_at(self, weights, source_words):
        """For each target token what to put for the source token of most weight.

        `(B N, T)`; the empty string where there is nothing to put.
        """
        words = self._translated(padded(source_words, "", 1))
        # Never the end token, padding, nor a forbidden word.
        real = tf.not_equal(words, "")
        among = tf.where(real[:, None, None], weights[..., : tf.shape(real)[1]], -1.0)
        place = tf.argmax(among, axis=-1, output_type=tf.int32)
        batch_size, count, length = tf.unstack(tf.shape(place))
        place = tf.reshape(place, [batch_size, count * length])
        words = tf.gather(words, place, axis=1, batch_dims=1)
        return tf.reshape(words, [batch_size * count, length])

    def _translated(self, words):
        """What to put for each word of the source; `""` for a forbidden word."""
        if self.dictionary is not None:
            bare = surface(words)
            known = self.dictionary.lookup(bare)
            lower = self.dictionary.lookup(tf.strings.lower(bare, "utf-8"))
            known = tf.where(tf.equal(known, ""), lower, known)
            words = tf.where(tf.equal(known, ""), words, known)
        if self._never:
            bare = _folded(surface(words), self.target_codec)
            banned = tf.equal(bare[..., None], tf.constant(self._never, tf.string))
            words = tf.where(tf.reduce_any(banned, axis=-1), "", words)
        return words


def _beginning(prefix_tokens, shape):
    """The tokens `(B N, T)` of each beginning in their places."""
    prefix = prefix_tokens.to_tensor("", shape=[None, None])
    length = tf.shape(prefix)[1]
    prefix = tf.pad(prefix, [[0, 0], [0, tf.maximum(shape[2] - length, 0)]])
    return tf.repeat(prefix[:, : shape[2]], shape[1], axis=0)


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


def _folded(strings, codec):
    """Strings in the case in which the codec has them."""
    return tf.strings.lower(strings, "utf-8") if codec.lowercase else strings


def _surfaces(words, codec):
    """The forbidden words as a reader sees them, in the case of the codec."""
    if isinstance(words, (str, bytes)):
        raise ValueError(
            "`forbidden_words` must be a list of words. Received one string. Wrap it "
            "in a list."
        )
    if not words:
        return []
    return _folded(normalize(list(words)), codec).numpy().tolist()


def _table(dictionary, forbidden):
    if not dictionary:
        return None
    words, values = (
        normalize(list(side)) for side in (dictionary, dictionary.values())
    )
    entries = dict(zip(words.numpy().tolist(), values.numpy().tolist()))
    for word, tokens in zip(entries, surface(tokenize(list(entries.values()))).numpy()):
        banned = sorted(set(tokens) & set(forbidden))
        # What has a forbidden word in it is as forbidden.
        entries[word] = banned[0] if banned else entries[word]
    pairs = tf.lookup.KeyValueTensorInitializer(
        list(entries), list(entries.values()), tf.string, tf.string
    )
    return tf.lookup.StaticHashTable(pairs, default_value="")


def _check(settings, model, attends):
    for name, kind, least in (
        ("max_length", numbers.Integral, 1),
        ("max_length_factor", numbers.Real, 0),
        ("max_length_offset", numbers.Integral, 1),
        ("num_beams", numbers.Integral, 1),
        ("num_results", numbers.Integral, 1),
        ("min_length", numbers.Integral, 1),
        ("min_length_factor", numbers.Real, 0),
        ("no_repeat_ngram", numbers.Integral, 0),
    ):
        value = getattr(settings, name)
        if not isinstance(value, kind) or not least <= value < float("inf"):
            noun = "a number" if kind is numbers.Real else "an integer"
            raise ValueError(
                f"`{name}` must be {noun}, {least} or more, and finite. "
                f"Received: {value!r}."
            )
    if settings.min_length > settings.max_length:
        raise ValueError(
            "`min_length` must be `max_length` at most. Received: "
            f"min_length={settings.min_length}, max_length={settings.max_length}."
        )
    if settings.num_results > settings.num_beams:
        raise ValueError(
            "`num_results` must be `num_beams` at most. Received: "
            f"num_results={settings.num_results}, num_beams={settings.num_beams}."
        )
    penalised = settings.length_penalty != "none" or settings.coverage_penalty
    if settings.num_beams == 1 and (penalised or settings.alpha is not None):
        raise ValueError(
            "Penalties are for beams. Received: "
            f"length_penalty={settings.length_penalty!r}, alpha={settings.alpha}, "
            f"coverage_penalty={settings.coverage_penalty} with num_beams=1. Pass "
            "num_beams=5, say."
        )
    check_penalties(settings.length_penalty, settings.alpha, settings.coverage_penalty)
    _check_model(settings, model, attends)
    _check_dictionary(settings.dictionary, settings.replace_unknown)


def _check_model(settings, model, attends):
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


def _check_dictionary(dictionary, replace_unknown):
    if dictionary is None:
        return
    if not isinstance(dictionary, collections.abc.Mapping) or not all(
        isinstance(word, str) for pair in dictionary.items() for word in pair
    ):
        raise ValueError(
            "`dictionary` must be a dictionary from strings to strings. Received: "
            f"{dictionary!r}."
        )
    if dictionary and not replace_unknown:
        raise ValueError(
            "`dictionary` has the words for unknown ones. Pass `replace_unknown=True`."
        )
