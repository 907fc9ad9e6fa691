"""Translation from strings to strings, in Python and as one SavedModel."""

import json
import pathlib
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bahdanau.models import RNNEncoderDecoder
from keras_bahdanau.tf.codecs import import_text, load_codec
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
        score: float, the sum of the log-probabilities of its tokens.
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
        texts = _as_list(texts, "texts")
        results = [None] * len(texts)
        batches = _batches([len(text) for text in texts], batch_size)
        bar = keras.utils.Progbar(len(texts), verbose=verbose)
        for rows in batches:
            outputs = self.serve(tf.constant([texts[row] for row in rows], tf.string))
            outputs = {name: value.numpy() for name, value in outputs.items()}
            for row, result in zip(rows, _unpack(outputs)):
                results[row] = result
            bar.add(len(rows))
        return results


class Translator(_Server, tf.Module):
    """A model with the codecs of both sides: it translates strings.

    `serve` is a `tf.function` of strings `(B,)`, of any `B`, that is traced
    once. It does all of the work, tokenisation and search included, and is
    what `export` writes. It returns a dictionary:

    - `translations`: strings `(B,)`;
    - `scores`: floats `(B,)`, the sums of the log-probabilities;
    - `source_tokens`, `target_tokens`: strings `(B, S)` and `(B, T)`, `""`
      for the end token and behind it;
    - `attention_weights`: floats `(B, T, S)`; `(B, T, 0)` for a model without
      attention, such as `RNNEncoderDecoder`.

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

    Call arguments:
        texts: list of `str`.
        batch_size: number of texts in a batch.

    Returns:
        List of `str`; `translate` tells more.

    Raises:
        ValueError: if the Keras backend is not TensorFlow, if the model cannot
            generate, if the vocabulary sizes of model and codecs differ, if a
            length is not positive or the factor is negative.

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
    ):
        super().__init__(name="translator")
        _check_backend()
        _check_sizes(model, source_codec, target_codec)
        for name, value, least in (
            ("max_length", max_length, 1),
            ("max_length_factor", max_length_factor, 0),
            ("max_length_offset", max_length_offset, 1),
        ):
            if not least <= value < float("inf"):
                raise ValueError(
                    f"`{name}` must be {least} or more, and finite. Received: {value}."
                )
        if not model.built:
            model.build()
        self.model = model
        self.source_codec, self.target_codec = source_codec, target_codec
        self.max_length = max_length
        self.max_length_factor = max_length_factor
        self.max_length_offset = max_length_offset
        self.allow_unknown = allow_unknown
        self.serve = tf.function(
            self._serve, input_signature=[_STRINGS], autograph=False
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
        exported.serve = self.serve
        tf.saved_model.save(
            exported, str(path), signatures=self.serve.get_concrete_function()
        )

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
        content = {"format": FORMAT, "settings": self._settings(), "notes": notes}
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

    def _settings(self):
        return {
            "max_length": self.max_length,
            "max_length_factor": self.max_length_factor,
            "max_length_offset": self.max_length_offset,
            "allow_unknown": self.allow_unknown,
        }

    def _serve(self, strings):
        ids = self.source_codec.encode(strings)
        lengths = tf.cast(ids.row_lengths(), tf.int32) - 1
        limits = self._limits(lengths)
        found = self.model.generate(
            _padded(ids, 0),
            max_length=tf.reduce_max(tf.concat([limits, [1]], axis=0)),
            forbidden_ids=() if self.allow_unknown else (self.target_codec.unk_id,),
        )
        longest = tf.reduce_max(tf.concat([found.lengths, [1]], axis=0))
        token_ids = found.token_ids[:, :longest]
        # The batch's limit is that of its longest source; each row has its own.
        kept = tf.range(longest) < limits[:, None]
        token_ids = tf.where(kept, token_ids, self.target_codec.pad_id)
        log_probs = tf.where(kept, found.log_probs[:, :longest], 0.0)
        weights = found.attention_weights
        if weights is None or not self._attends:
            weights = tf.zeros([tf.shape(token_ids)[0], longest, 0])
        return {
            "translations": self.target_codec.decode(token_ids),
            "scores": tf.reduce_sum(log_probs, axis=-1),
            "source_tokens": _padded(self.source_codec.tokenize(strings), "", 1),
            "target_tokens": self._token_rows(token_ids, longest),
            "attention_weights": tf.where(kept[:, :, None], weights[:, :longest], 0.0),
        }

    def _limits(self, lengths):
        """The largest number of target tokens of each source; 0 for an empty one."""
        limits = tf.cast(lengths, tf.float32) * self.max_length_factor
        # Cut first: a very large float has no integer.
        limits = tf.minimum(tf.math.ceil(limits), float(self.max_length))
        limits = tf.cast(limits, tf.int32) + self.max_length_offset
        limits = tf.minimum(limits, self.max_length)
        return tf.where(lengths > 0, limits, 0)

    def _token_rows(self, token_ids, width):
        """Target tokens `(B, T)`, one under each id."""
        rows = self.target_codec.ids_to_tokens(token_ids).to_tensor("")
        missing = width - tf.shape(rows)[1]
        return tf.pad(rows, [[0, 0], [0, missing]], constant_values="")


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


def load_translator(path):
    """Reads a translator that `Translator.save` or `Translator.export` wrote.

    Args:
        path: name of the folder.

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
    if exported:
        return ExportedTranslator(path)
    if not saved:
        raise ValueError(
            "`path` must be a folder that `Translator.save` or `Translator.export` "
            f"wrote. Received {path}, without {SETTINGS} or {_SAVED_MODEL}."
        )
    _check_backend()
    settings = read_settings(path)["settings"]
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


def _batches(lengths, batch_size):
    """Rows of similar length, batch by batch."""
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be 1 or more. Received: {batch_size}.")
    order = np.argsort(lengths, kind="stable").tolist()
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def _padded(rows, value, extra=0):
    """A dense tensor of ragged rows, with `extra` columns, and one at least."""
    dense = rows.to_tensor(value)
    missing = tf.maximum(extra, 1 - tf.shape(dense)[1])
    return tf.pad(dense, [[0, 0], [0, missing]], constant_values=value)


def _as_list(texts, name):
    if isinstance(texts, (str, bytes)):
        raise ValueError(
            f"`{name}` must be a list of strings. Received one string. Wrap it in a "
            "list."
        )
    return list(texts)


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
