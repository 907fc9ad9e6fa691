"""Translation from strings to strings, in Python and as one SavedModel."""

import itertools
import json
import pathlib
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bahdanau.models import RNNEncoderDecoder
from keras_bahdanau.tf.codecs import import_text, load_codec
from keras_bahdanau.tf.decoding import DecodingSettings, StringDecoder
from keras_bahdanau.tf.saved_folder import (
    FORMAT,
    MODEL,
    SETTINGS,
    SOURCE,
    TARGET,
    read_settings,
    replacing,
)

_SAVED_MODEL = "saved_model.pb"
_OUTPUTS = {
    "translations",
    "scores",
    "source_tokens",
    "target_tokens",
    "attention_weights",
}
_STRINGS = tf.TensorSpec([None], tf.string, name="strings")
_IDS = tf.TensorSpec([None, None], tf.int32)


class Translation(NamedTuple):
    """The translation of one sentence.

    Args:
        text: `str`, the translation.
        score: float, the sum of the log-probabilities of its tokens; with beams
            the score of `beam_search`, penalties and all.
        source_tokens: list of `str`, as the codec splits the source.
        target_tokens: list of `str`, as the model gave them.
        attention_weights: array `(T, S)`, a row for each target token and a
            column for each source token. Where it has one row or column more,
            that is the end token. `None` for a model without attention.
    """

    text: str
    score: float
    source_tokens: list
    target_tokens: list
    attention_weights: np.ndarray | None


class _Server:
    """What translates lists of any length with a function `serve` of one batch."""

    def __call__(self, texts, batch_size=64):
        """Translates texts.

        Args:
            texts: list of `str`.
            batch_size: number of texts in a batch.

        Returns:
            List of `str`, the translations.
        """
        return [one.text for one in self.translate(texts, batch_size)]

    def translate(self, texts, batch_size=64, verbose=0):
        """Translates texts, and tells what was attended to.

        Texts of similar length are translated together; the results come in
        the order of `texts`. Which texts share a batch changes nothing.

        Args:
            texts: list of `str`.
            batch_size: number of texts in a batch.
            verbose: 1 for a progress bar.

        Returns:
            List of `Translation`.

        Raises:
            ValueError: if `batch_size` is less than 1, or `texts` is one string.
        """
        return self._run(self.serve, _unpack, texts, batch_size, verbose)

    def translate_nbest(self, texts, batch_size=64, verbose=0):
        """Gives the best translations of each text.

        Those that end come first, then those that were cut at their largest
        length; each kind by falling score.

        Args:
            texts: list of `str`.
            batch_size: number of texts in a batch.
            verbose: 1 for a progress bar.

        Returns:
            List of a list of `Translation` for each text, with `num_results`
            of them, or fewer where the search found fewer.

        Raises:
            ValueError: if `batch_size` is less than 1, or `texts` is one string.
        """
        return self._run(self.serve_nbest, _unpack_nbest, texts, batch_size, verbose)

    def stream(self, texts, batch_size=64, chunk_size=4096, nbest=False):
        """Translates texts that need not fit into memory, in their order.

        Args:
            texts: iterable of `str`, such as the lines of a file.
            batch_size: number of texts in a batch.
            chunk_size: number of texts that are read before the first of them is
                given back; texts of similar length are looked for among them.
            nbest: whether to give lists as `translate_nbest` does.

        Yields:
            What `translate` or `translate_nbest` returns, one by one.

        Raises:
            ValueError: if a size is less than 1, or `texts` is one string.
        """
        _check_texts(texts, "texts")
        if chunk_size < 1:
            raise ValueError(f"`chunk_size` must be 1 or more. Received: {chunk_size}.")
        translate = self.translate_nbest if nbest else self.translate
        texts = iter(texts)
        while chunk := list(itertools.islice(texts, chunk_size)):
            yield from translate(chunk, batch_size)

    def _run(self, serve, unpack, texts, batch_size, verbose):
        texts = _as_list(texts, "texts")
        results = [None] * len(texts)
        batches = _batches([len(text) for text in texts], batch_size)
        bar = keras.utils.Progbar(len(texts), verbose=verbose)
        for rows in batches:
            outputs = serve(tf.constant([texts[row] for row in rows], tf.string))
            outputs = {name: value.numpy() for name, value in outputs.items()}
            for row, result in zip(rows, unpack(outputs)):
                results[row] = result
            bar.add(len(rows))
        return results


class Translator(_Server, tf.Module):
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
      attention, such as `RNNEncoderDecoder`.

    `serve_nbest` returns the same of the `N = num_results` best translations:
    all but `source_tokens` have an axis `N` behind the batch. Those that end
    come first, each kind by falling score; where there are fewer, the rest are
    empty and have score `-inf`.

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
            source that it looked at most, as that is spelled there.
        dictionary: words of the source, as their surfaces, and what to put in
            their place then.
        num_beams: 1 for `greedy_search`, more for `beam_search`.
        num_results: how many translations `serve_nbest` returns of each text.
        length_penalty, alpha, coverage_penalty: arguments of `beam_search`.

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
    ):
        super().__init__(name="translator")
        _check_backend()
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
        )
        self._decoder = StringDecoder(
            model, source_codec, target_codec, self._attends, settings
        )
        self.serve = tf.function(
            self._serve, input_signature=[_STRINGS], autograph=False
        )
        self.serve_nbest = tf.function(
            self._decoder, input_signature=[_STRINGS], autograph=False
        )
        self._weights_of = tf.function(
            lambda *ids: tf.cast(model.align(*ids), tf.float32),
            input_signature=[_IDS, _IDS],
            autograph=False,
        )

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
            ValueError: if the lists differ in length, if `batch_size` is less
                than 1, or if the model has no attention.
        """
        if not self._attends:
            raise ValueError(
                "`align` gives attention weights, and the model must have attention. "
                f"Received a translator of a {type(self.model).__name__}. Translate "
                "with an RNNSearch."
            )
        sources, targets = _as_list(sources, "sources"), _as_list(targets, "targets")
        if len(sources) != len(targets):
            raise ValueError(
                "`sources` and `targets` must have the same length. Received "
                f"{len(sources)} and {len(targets)}."
            )
        results = [None] * len(sources)
        for rows in _batches([len(text) for text in sources], batch_size):
            source_ids = self.source_codec.encode([sources[row] for row in rows])
            target_ids = self.target_codec.encode([targets[row] for row in rows])
            starts = tf.fill([len(rows), 1], tf.constant(self.target_codec.start_id))
            shifted = tf.concat([starts, target_ids[:, :-1]], axis=1)
            weights = self._weights_of(source_ids.to_tensor(), shifted.to_tensor())
            weights = weights.numpy()
            source_lengths = source_ids.row_lengths().numpy()
            target_lengths = target_ids.row_lengths().numpy()
            for index, row in enumerate(rows):
                results[row] = weights[
                    index, : target_lengths[index], : source_lengths[index]
                ]
        return results

    def export(self, path):
        """Writes one SavedModel that needs nothing but TensorFlow.

        `tf.saved_model.load(path).serve(strings)` does what `serve` does; so
        does the signature `serving_default`. With a `SubwordCodec`,
        `import tensorflow_text` has to go before.

        Args:
            path: name of the folder; a SavedModel that is there is overwritten.

        Raises:
            ValueError: if there is a translator of `save`.
        """
        if (pathlib.Path(path) / SETTINGS).exists():
            raise ValueError(
                "`path` must not be a folder that `Translator.save` wrote. Received "
                f"{path}, which holds {SETTINGS}. Choose another name."
            )
        exported = tf.Module(name="translator")
        # Seeds too: the graph may name them, though nothing is drawn.
        exported.state = [variable.value for variable in self.model.variables]
        exported.source_codec = self.source_codec
        exported.target_codec = self.target_codec
        exported.dictionary = self._decoder.dictionary
        exported.serve = self.serve
        exported.serve_nbest = self.serve_nbest
        signatures = {
            "serving_default": self.serve.get_concrete_function(),
            "nbest": self.serve_nbest.get_concrete_function(),
        }
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
        content = {
            "format": FORMAT,
            "settings": self.settings._asdict(),
            "notes": notes,
        }
        try:
            text = json.dumps(content, indent=1) + "\n"
        except (TypeError, ValueError) as error:
            raise ValueError(
                "`notes` must hold numbers, strings, lists and dictionaries, for JSON. "
                f"Received {notes!r}: {error}."
            ) from error
        with replacing(folder) as new:
            self.model.save(new / MODEL)
            self.source_codec.save(new / SOURCE)
            self.target_codec.save(new / TARGET)
            (new / SETTINGS).write_text(text, encoding="utf-8")

    @property
    def _attends(self):
        return not isinstance(self.model, RNNEncoderDecoder)

    @property
    def settings(self):
        """The `DecodingSettings`: the arguments that say how to search."""
        return self._decoder.settings

    def _serve(self, strings):
        outputs = self._decoder(strings)
        return {
            name: value if name == "source_tokens" else value[:, 0]
            for name, value in outputs.items()
        }


class ExportedTranslator(_Server):
    """A translator read from the SavedModel that `Translator.export` wrote.

    It gives what the `Translator` gave; it cannot align or be trained.

    Masking: as `Translator`.

    Args:
        path: name of the folder.

    Call arguments:
        texts: list of `str`.
        batch_size: number of texts in a batch.

    Returns:
        List of `str`; `translate` tells more.

    Example:

    >>> import tempfile
    >>> from keras_bahdanau import RNNSearch
    >>> from keras_bahdanau.tf import WordCodec
    >>> codec = WordCodec.train(["a dog"])
    >>> size = codec.vocabulary_size
    >>> model = RNNSearch(size, size, embedding_dim=5, units=7)
    >>> translator = Translator(model, codec, codec)
    >>> folder = tempfile.mkdtemp()
    >>> translator.export(folder)
    >>> ExportedTranslator(folder)(["a dog", ""]) == translator(["a dog", ""])
    True
    """

    def __init__(self, path):
        self._loaded = _load_saved_model(path)
        signature = self._loaded.signatures.get("serving_default")
        received = sorted(getattr(signature, "structured_outputs", None) or ())
        if not hasattr(self._loaded, "serve") or not _OUTPUTS <= set(received):
            raise ValueError(
                "`path` must hold a SavedModel that `Translator.export` wrote, whose "
                f"`serve` returns {sorted(_OUTPUTS)}. Received {path}, which returns "
                f"{received}. Load that with `tf.saved_model.load`."
            )
        self.serve = self._loaded.serve
        self.serve_nbest = self._loaded.serve_nbest


def load_translator(path, **settings):
    """Reads a translator that `Translator.save` or `Translator.export` wrote.

    Args:
        path: name of the folder.
        **settings: arguments of `Translator` that replace those saved, such as
            `num_beams`; for a translator of `save` only.

    Returns:
        A `Translator`, or an `ExportedTranslator`, which can only translate.

    Raises:
        ImportError: if it was exported with a `SubwordCodec` and
            `tensorflow_text` is not installed.
        ValueError: if the folder holds neither or both, or if a file in it is
            missing or broken.
    """
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
    _check_backend()
    settings = {**read_settings(path)["settings"], **settings}
    codecs = [load_codec(path / name) for name in (SOURCE, TARGET)]
    model = _load_model(path / MODEL)
    try:
        return Translator(model, *codecs, **settings)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "The files of a translator must fit each other. Received those in "
            f"{path}, which do not: {error}"
        ) from error


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


def _load_model(path):
    try:
        return keras.saving.load_model(path)
    except Exception as error:
        # Of many kinds, most of which do not name the file.
        raise ValueError(
            f"A translator must hold a model. Received {path}, which does not load: "
            f"{error}"
        ) from error


def _load_saved_model(path):
    try:
        return tf.saved_model.load(str(path))
    except Exception as error:
        # Of many kinds; this is how TensorFlow says that it does not know subwords.
        if "SentencepieceOp" not in str(error):
            raise ValueError(
                "`path` must hold a SavedModel that `Translator.export` wrote. "
                f"Received {path}, which does not load: {error}"
            ) from error
    import_text("tensorflow_text", "tensorflow-text")
    return tf.saved_model.load(str(path))


def _unpack(outputs):
    """The `Translation` of each row of what `serve` returned, in NumPy."""
    weights = outputs["attention_weights"]
    for row, text in enumerate(outputs["translations"]):
        source = [token.decode() for token in outputs["source_tokens"][row] if token]
        target = [token.decode() for token in outputs["target_tokens"][row] if token]
        # A row without any weight is behind the end, or cut off.
        height = int(np.count_nonzero(weights[row].sum(axis=-1) > 0))
        attended = weights[row, :height, : len(source) + 1]
        yield Translation(
            text.decode(),
            float(outputs["scores"][row]),
            source,
            target,
            attended if weights.shape[-1] else None,
        )


def _unpack_nbest(outputs):
    """The `Translation`s of each row of what `serve_nbest` returned, in NumPy."""
    source = outputs.pop("source_tokens")
    ranks = [
        list(
            _unpack(
                {name: value[:, rank] for name, value in outputs.items()}
                | {"source_tokens": source}
            )
        )
        for rank in range(outputs["scores"].shape[1])
    ]
    for found in zip(*ranks):
        yield [one for one in found if one.score > -float("inf")]


def _batches(lengths, batch_size):
    """Rows of similar length, batch by batch."""
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be 1 or more. Received: {batch_size}.")
    order = np.argsort(lengths, kind="stable").tolist()
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def _as_list(texts, name):
    _check_texts(texts, name)
    return list(texts)


def _check_texts(texts, name):
    if isinstance(texts, (str, bytes)):
        raise ValueError(
            f"`{name}` must be a list of strings. Received one string. Wrap it in a "
            "list."
        )


def _check_backend():
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "A Translator is a TensorFlow graph and needs the TensorFlow backend. "
            f"Received: {keras.backend.backend()}. Set KERAS_BACKEND=tensorflow; a "
            ".keras file from another backend loads there."
        )


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
