"""From strings to the best translations, as one TensorFlow graph."""

from typing import NamedTuple

import tensorflow as tf

from keras_bahdanau.beam import check_penalties
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

    def __call__(self, strings):
        """Returns the outputs of `Translator.serve_nbest`, a dictionary."""
        ids = self.source_codec.encode(strings)
        source_tokens = self.source_codec.tokenize(strings)
        limits = self._limits(tf.cast(ids.row_lengths(), tf.int32) - 1)
        found = self._search(padded(ids, 0), limits)
        longest = tf.reduce_max(tf.concat([tf.reshape(found.lengths, [-1]), [1]], 0))
        token_ids = found.token_ids[:, :, :longest]
        weights = found.attention_weights
        if weights is None or not self.attends:
            weights = tf.zeros([*tf.unstack(tf.shape(token_ids)), 0])
        weights = weights[:, :, :longest]
        tokens, texts = self._words(token_ids, weights, source_tokens)
        # Nothing is an exact translation of nothing.
        best = tf.range(tf.shape(found.scores)[1]) < 1
        empty = tf.equal(limits, 0)[:, None] & best
        return {
            "translations": texts,
            "scores": tf.where(empty, 0.0, found.scores),
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

    def _search(self, source_ids, limits):
        """A `SearchResult` with an axis of hypotheses."""
        settings = self.settings
        longest = tf.reduce_max(tf.concat([limits, [1]], axis=0))
        forbidden = () if settings.allow_unknown else (self.target_codec.unk_id,)
        if settings.num_beams > 1:
            return self.model.beam_search(
                source_ids,
                settings.num_beams,
                longest,
                num_results=settings.num_results,
                forbidden_ids=forbidden,
                length_limits=limits,
                length_penalty=settings.length_penalty,
                alpha=settings.alpha,
                coverage_penalty=settings.coverage_penalty,
            )
        found = self.model.generate(source_ids, longest, forbidden_ids=forbidden)
        # The batch's limit is that of its longest source; each row has its own.
        kept = tf.range(longest) < limits[:, None]
        log_probs = tf.where(kept, found.log_probs, 0.0)
        weights = found.attention_weights
        if weights is not None:
            weights = tf.where(kept[:, :, None], weights, 0.0)[:, None]
        return found._replace(
            token_ids=tf.where(kept, found.token_ids, 0)[:, None],
            lengths=tf.minimum(found.lengths, limits)[:, None],
            scores=tf.reduce_sum(log_probs, axis=-1)[:, None],
            log_probs=log_probs[:, None],
            attention_weights=weights,
        )

    def _words(self, token_ids, weights, source_tokens):
        """Target tokens `(B, N, T)`, one under each id, and texts `(B, N)`."""
        shape = tf.shape(token_ids)
        flat = tf.reshape(token_ids, [-1, shape[2]])
        rows = self.target_codec.ids_to_tokens(flat)
        if self.settings.replace_unknown:
            unknown = tf.equal(flat, self.target_codec.unk_id)
            instead = self._looked_at(weights, source_tokens)
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


def _check(settings, model, attends):
    for name, least in (
        ("max_length", 1),
        ("max_length_factor", 0),
        ("max_length_offset", 1),
        ("num_beams", 1),
        ("num_results", 1),
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
    if settings.num_beams > 1 and not hasattr(model, "beam_search"):
        raise ValueError(
            f"Beams need a model with `beam_search`. Received a {type(model).__name__}."
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
