"""Translation from strings to strings, in Python and as one SavedModel."""

import json
import pathlib

import keras
import tensorflow as tf

from keras_bahdanau.batching import UNK_ID
from keras_bahdanau.ensembles import RNNEnsemble
from keras_bahdanau.tf.codecs import SPECIAL_TOKENS, load_codec
from keras_bahdanau.tf.decoding import DecodingSettings, StringDecoder
from keras_bahdanau.tf.saved_folder import (
    MODEL,
    SETTINGS,
    SOURCE,
    TARGET,
    check_backend,
    check_not_saved,
    load_model,
    read_settings,
    replacing,
    settings_text,
)
from keras_bahdanau.tf.server import (
    ExportedTranslator,
    Server,
    Translation,
    as_list,
    batches,
    collect,
    first,
    unpack_nbest,
)

_SAVED_MODEL = "saved_model.pb"
_SIGNATURES = {
    "serve": "serving_default",
    "serve_nbest": "nbest",
    "serve_greedy": "greedy",
    "serve_constrained": "constrained",
}
_UNKNOWN = SPECIAL_TOKENS[UNK_ID]
# A letter without case that no vocabulary has, so that it is one unknown token.
_UNKNOWN_LETTER = "\U00010c00"
_STRINGS = tf.TensorSpec([None], tf.string, name="strings")
_PREFIXES = tf.TensorSpec([None], tf.string, name="prefixes")
_MAX_LENGTHS = tf.TensorSpec([None], tf.int32, name="max_lengths")
_IDS = tf.TensorSpec([None, None], tf.int32)


class Translator(Server, tf.Module):
    """A model with the codecs of both sides: it translates strings.

    `serve` is a `tf.function` of strings `(B,)`, of any `B`, that is traced
    once. It does all of the work, tokenisation and search included, and is
    what `export` writes. It returns a dictionary:

    - `translations`: strings `(B,)`;
    - `scores`: floats `(B,)`, the sums of the log-probabilities; with beams
      the scores of `beam_search`, penalties and all;
    - `source_tokens`, `target_tokens`: strings `(B, S)` and `(B, T)`, `""`
      for the end token and behind it;
    - `attention_weights`: floats `(B, T, S)`; `(B, T, 0)` for a model without
      attention, such as `RNNEncoderDecoder`;
    - `lengths`: integers `(B,)`, number of target tokens, the end token counted;
    - `log_probs`: floats `(B, T)`, the log-probability of each.

    `serve_nbest` returns the same of the `N = num_results` best translations:
    all but `source_tokens` have an axis `N` behind the batch. Those that end
    come first, each kind by falling score; where there are fewer, the rest are
    empty and have score `-inf`. `serve_constrained(strings, prefixes,
    max_lengths)` is that with a beginning and a limit for each translation, and
    `serve_greedy(strings)` is `serve` by greedy search, without least lengths and
    n-grams.

    The tokens carry the spacing marks of the codec; `surface` takes them off.

    Masking: padding is the translator's own affair. A text without a token
    has an empty translation with score 0. Which texts share a batch changes
    nothing.

    Args:
        model: an `RNNSearch`, or any model with `generate` and `align`.
        source_codec: codec of the source, as a `WordCodec`.
        target_codec: codec of the target.
        max_length: largest number of target tokens, the end token counted.
        max_length_factor: a translation of a source of `n` tokens has no more
            than `max_length_factor * n + max_length_offset` tokens.
        max_length_offset: see there.
        allow_unknown: whether the unknown token may be part of a translation.
        replace_unknown: whether an unknown token is given as the word of the
            source that it looked at most, as that is spelled there; the whole word
            also with subwords. Where that is a forbidden word it is the one that
            it looked at next, and if all are forbidden it stays unknown.
        dictionary: words of the source, as they are spelled or in lower case, and
            what to put in their place then.
        num_beams: 1 for `greedy_search`, more for `beam_search`.
        num_results: how many translations `serve_nbest` returns of each text.
        length_penalty, alpha, coverage_penalty: arguments of `beam_search`.
        min_length: least number of target tokens, the end token counted.
        min_length_factor: a translation of a source of `n` tokens has no fewer
            than `min_length_factor * n` tokens either.
        no_repeat_ngram: `n > 0`: no `n` tokens occur twice in a translation.
        forbidden_words: words that no translation has, each one token of the
            target codec, whatever spacing marks it bears. With subwords these are
            the pieces of that spelling, at the beginning of a word and inside of
            one, so that no longer word is made with them either; out of other
            pieces a word can still be put together.

    Call arguments:
        texts: list of `str`.
        batch_size: number of texts in a batch.

    Returns:
        List of `str`; `translate` tells more.

    Raises:
        ValueError: if the Keras backend is not TensorFlow, if the model cannot
            generate, if the vocabulary sizes of model and codecs differ, if a
            length is not positive or the factor is negative, or if an argument
            of the search is out of its range.

    Example:

    >>> from keras_bahdanau import RNNSearch
    >>> from keras_bahdanau.tf import WordCodec
    >>> source = WordCodec.train(["a dog sleeps", "a cat"])
    >>> target = WordCodec.train(["un chien dort", "un chat"])
    >>> model = RNNSearch(
    ...     source.vocabulary_size, target.vocabulary_size, embedding_dim=5, units=7
    ... )
    >>> translator = Translator(model, source, target)
    >>> texts = translator(["a dog", "", "a cat sleeps"])
    >>> len(texts), texts[1]
    (3, '')
    >>> translator.translate(["a dog"])[0].source_tokens
    ['a', 'dog']
    """

    def __init__(
        self,
        model,
        source_codec,
        target_codec,
        max_length=500,
        max_length_factor=2.0,
        max_length_offset=10,
        allow_unknown=True,
        replace_unknown=False,
        dictionary=None,
        num_beams=1,
        num_results=1,
        length_penalty="none",
        alpha=None,
        coverage_penalty=0.0,
        min_length=1,
        min_length_factor=0.0,
        no_repeat_ngram=0,
        forbidden_words=(),
    ):
        super().__init__(name="translator")
        check_backend()
        _check_sizes(model, source_codec, target_codec)
        if not model.built:
            model.build()
        self.model = model
        self.source_codec, self.target_codec = source_codec, target_codec
        settings = DecodingSettings(
            max_length,
            max_length_factor,
            max_length_offset,
            allow_unknown,
            replace_unknown,
            dictionary,
            num_beams,
            num_results,
            length_penalty,
            alpha,
            coverage_penalty,
            min_length,
            min_length_factor,
            no_repeat_ngram,
            forbidden_words
            if isinstance(forbidden_words, str)
            else tuple(forbidden_words),
        )
        self._decoder = StringDecoder(
            model, source_codec, target_codec, self._attends, settings
        )
        self.serve_nbest = tf.function(
            self._decoder, input_signature=[_STRINGS], autograph=False
        )
        # Calls the other, so that both are one graph in what is exported.
        self.serve = tf.function(
            lambda strings: first(self.serve_nbest(strings)),
            input_signature=[_STRINGS],
            autograph=False,
        )
        self.serve_greedy = self.serve
        if settings.needs_beams:
            self.serve_greedy = tf.function(
                lambda strings: first(self._decoder.greedy(strings)),
                input_signature=[_STRINGS],
                autograph=False,
            )
        self.serve_constrained = None
        if hasattr(model, "beam_search"):
            self.serve_constrained = tf.function(
                self._decoder.constrained,
                input_signature=[_STRINGS, _PREFIXES, _MAX_LENGTHS],
                autograph=False,
            )
        self._score_of = tf.function(
            lambda *ids: model.score(*ids)[2:],
            input_signature=[_IDS, _IDS],
            autograph=False,
        )

    def sample(
        self,
        texts,
        num_samples=1,
        temperature=1.0,
        top_k=None,
        top_p=None,
        seed=None,
        batch_size=64,
    ):
        """Draws translations at random, with `RNNSearch.sample`.

        Forbidden words, largest lengths and the replacement of unknown words hold
        here too; beams, penalties, least lengths and n-grams belong to searches.

        Args:
            texts: list of `str`.
            num_samples: number of translations of each.
            temperature, top_k, top_p: as `keras_bahdanau.sample`.
            seed: an integer, for the same translations of the same texts in
                batches of the same size, or `None`.
            batch_size: number of texts in a batch.

        Returns:
            List of a list of `num_samples` `Translation`s for each text, in the
            order in which they were drawn. Their scores are log-probabilities
            of the model, whatever the temperature.

        Raises:
            ValueError: as `keras_bahdanau.sample`, or if `batch_size` is less
                than 1 or `texts` is one string.
        """
        serve = tf.function(
            self._decoder.sampler(
                num_samples=num_samples,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                seed=keras.random.SeedGenerator(seed),
            ),
            input_signature=[_STRINGS],
            autograph=False,
        )
        return collect(serve, unpack_nbest, [as_list(texts, "texts")], batch_size)

    def score(self, sources, targets, batch_size=64):
        """Scores and aligns given translations (forced decoding).

        `<unk>` in a translation is the unknown token, as in what a search gives.
        (A `SubwordCodec` with `byte_fallback` has none.)

        Args:
            sources: list of `str`.
            targets: list of `str`, their translations.
            batch_size: number of pairs in a batch.

        Returns:
            List of `Translation`: the targets, as if a search had found them.
            Their scores are log-probabilities, the end token counted.

        Raises:
            ValueError: if the lists differ in length, or `batch_size` is less
                than 1.
        """
        sources, targets = as_list(sources, "sources"), as_list(targets, "targets")
        if len(sources) != len(targets):
            raise ValueError(
                "`sources` and `targets` must have the same length. Received "
                f"{len(sources)} and {len(targets)}."
            )
        results = [None] * len(sources)
        for rows in batches([len(text) for text in sources], batch_size):
            given = tf.constant([targets[row] for row in rows], tf.string)
            given = tf.strings.regex_replace(given, _UNKNOWN, _UNKNOWN_LETTER)
            pairs = [sources[row] for row in rows], given
            codecs = self.source_codec, self.target_codec
            both = [codec.encode(side) for codec, side in zip(codecs, pairs)]
            found = self._score_of(*(ids.to_tensor() for ids in both))
            scores, log_probs, weights = (part.numpy() for part in found)
            widths, lengths = (ids.row_lengths().numpy() for ids in both)
            tokens = [codec.tokenize(side) for codec, side in zip(codecs, pairs)]
            values = tokens[1].flat_values
            values = tf.strings.regex_replace(values, _UNKNOWN_LETTER, _UNKNOWN)
            tokens = tokens[0].to_list(), tokens[1].with_flat_values(values).to_list()
            for index, row in enumerate(rows):
                length = lengths[index]
                results[row] = Translation(
                    targets[row],
                    float(scores[index]),
                    *([token.decode() for token in side[index]] for side in tokens),
                    weights[index, :length, : widths[index]] if self._attends else None,
                    log_probs[index, :length],
                )
        return results

    def align(self, sources, targets, batch_size=64):
        """Aligns given translations with their sources (forced decoding).

        Args:
            sources: list of `str`.
            targets: list of `str`, their translations.
            batch_size: number of pairs in a batch.

        Returns:
            List of arrays `(T, S)`: the attention weights of each pair, the
            end tokens counted.

        Raises:
            ValueError: as `score`, or if the model has no attention.
        """
        if not self._attends:
            raise ValueError(
                "`align` gives attention weights, and the model must have attention. "
                f"Received a translator of a {type(self.model).__name__}. Translate "
                "with an RNNSearch."
            )
        found = self.score(sources, targets, batch_size)
        return [one.attention_weights for one in found]

    def export(self, path):
        """Writes one SavedModel that needs nothing but TensorFlow.

        `tf.saved_model.load(path).serve(strings)` does what `serve` does; so
        does the signature `serving_default`. The signatures `nbest`, `greedy` and
        `constrained` are `serve_nbest`, `serve_greedy` and `serve_constrained`.
        With a `SubwordCodec`, `import tensorflow_text` has to go before.

        Args:
            path: name of the folder; a SavedModel that is there is overwritten.

        Raises:
            ValueError: if there is a translator of `save`.
        """
        check_not_saved(path)
        exported = tf.Module(name="translator")
        # Seeds too: the graph may name them, though nothing is drawn.
        exported.state = [variable.value for variable in self.model.variables]
        exported.source_codec = self.source_codec
        exported.target_codec = self.target_codec
        exported.dictionary = self._decoder.dictionary
        functions = {
            "serve": self.serve,
            "serve_nbest": self.serve_nbest,
            "serve_greedy": self.serve_greedy,
            "serve_constrained": self.serve_constrained,
        }
        signatures = {}
        for name, function in functions.items():
            if function is not None:
                # What was traced already; the function itself would be traced anew.
                traced = function.get_concrete_function()
                setattr(exported, name, traced)
                signatures[_SIGNATURES[name]] = traced
        tf.saved_model.save(exported, str(path), signatures=signatures)

    def save(self, folder, notes=None):
        """Writes the model and the codecs, for `load_translator`.

        Args:
            folder: name of the folder: new, empty, or a translator saved there
                before, which is replaced once the new one is complete.
            notes: what else to remember, for JSON; `load_notes` reads it.

        Raises:
            ValueError: if `folder` holds other files, or `notes` are not for
                JSON; nothing is written or deleted then.
        """
        text = settings_text(self.settings._asdict(), notes)
        with replacing(folder) as new:
            self.model.save(new / MODEL)
            self.source_codec.save(new / SOURCE)
            self.target_codec.save(new / TARGET)
            (new / SETTINGS).write_text(text, encoding="utf-8")

    @property
    def _attends(self):
        return getattr(self.model, "has_attention", True)

    @property
    def settings(self):
        """The `DecodingSettings`: the arguments that say how to search."""
        return self._decoder.settings


def load_translator(path, **settings):
    """Reads a translator that `Translator.save` or `Translator.export` wrote.

    Args:
        path: name of the folder; or a list of names of folders that `save` wrote,
            whose models then translate as one `RNNEnsemble`, with the codecs and
            settings of the first.
        **settings: arguments of `Translator` that replace those saved, such as
            `num_beams`; for a translator of `save` only.

    Returns:
        A `Translator`, or an `ExportedTranslator`, which can only translate.

    Raises:
        ImportError: if it was exported with a `SubwordCodec` and
            `tensorflow_text` is not installed.
        ValueError: if the folder holds neither or both, or if a file in it is
            missing or broken, or if the codecs of several translators differ.
    """
    if isinstance(path, (list, tuple)):
        return _load_ensemble(path, settings)
    path = pathlib.Path(path)
    exported, saved = ((path / name).is_file() for name in (_SAVED_MODEL, SETTINGS))
    if exported and saved:
        raise ValueError(
            f"`path` must hold one translator. Received {path} with {SETTINGS} and "
            f"{_SAVED_MODEL}. Move one of the two into a folder of its own."
        )
    if exported and settings:
        raise ValueError(
            "What `Translator.export` wrote is settled. Received "
            f"{sorted(settings)} for {path}. Export it anew."
        )
    if exported:
        return ExportedTranslator(path)
    if not saved:
        raise ValueError(
            "`path` must be a folder that `Translator.save` or `Translator.export` "
            f"wrote. Received {path}, without {SETTINGS} or {_SAVED_MODEL}."
        )
    check_backend()
    saved = read_settings(path)["settings"]
    codecs = [load_codec(path / name) for name in (SOURCE, TARGET)]
    model = load_model(path / MODEL)
    try:
        return Translator(model, *codecs, **{**saved, **settings})
    except (TypeError, ValueError) as error:
        given = f", and the given {sorted(settings)}," if settings else ""
        raise ValueError(
            f"The files of a translator{given} must fit each other. Received those in "
            f"{path}, which do not: {error}"
        ) from error


def _load_ensemble(paths, settings):
    members = [load_translator(path, **settings) for path in paths]
    if not members:
        raise ValueError("`path` must name a folder. Received an empty list.")
    for path, member in zip(paths, members):
        if not isinstance(member, Translator):
            raise ValueError(
                "An ensemble is made of what `Translator.save` wrote. Received "
                f"{path}, which was exported."
            )
        codecs = (
            (one.source_codec.get_config(), one.target_codec.get_config())
            for one in (members[0], member)
        )
        if len({json.dumps(configs) for configs in codecs}) > 1:
            raise ValueError(
                f"The translators of an ensemble must have the same codecs. Those of "
                f"{paths[0]} and {path} differ. Train on the same text."
            )
    first_one = members[0]
    return Translator(
        RNNEnsemble([member.model for member in members]),
        first_one.source_codec,
        first_one.target_codec,
        **first_one.settings._asdict(),
    )


def load_notes(folder):
    """Reads the notes that `Translator.save` was given.

    Args:
        folder: name of the folder.

    Returns:
        The notes; `None` if there are none or no translator was saved there.

    Raises:
        ValueError: if the file that holds them is broken.
    """
    folder = pathlib.Path(folder)
    return read_settings(folder)["notes"] if (folder / SETTINGS).is_file() else None


def _check_sizes(model, source_codec, target_codec):
    needed = "generate", "align", "source_vocabulary_size", "target_vocabulary_size"
    missing = [name for name in needed if not hasattr(model, name)]
    if missing:
        raise ValueError(
            "`model` must be an RNNSearch, or have what one has. Received a "
            f"{type(model).__name__} without `{missing[0]}`."
        )
    for side, codec in (("source", source_codec), ("target", target_codec)):
        size = getattr(model, f"{side}_vocabulary_size")
        if size != codec.vocabulary_size:
            raise ValueError(
                f"The model and `{side}_codec` must have vocabularies of one size. "
                f"Received {size} and {codec.vocabulary_size}. Make the model with "
                f"{side}_vocabulary_size={side}_codec.vocabulary_size."
            )
