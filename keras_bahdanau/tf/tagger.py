"""Tags of words, from strings to strings, in Python and as one SavedModel."""

import dataclasses
import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_bahdanau.tag_reports import tag_report
from keras_bahdanau.tagging_batches import EncodedSentences
from keras_bahdanau.tf.saved_folder import (
    MODEL,
    TAG_CODEC,
    TAGGER,
    TAGGER_SETTINGS,
    check_backend,
    check_not_saved,
    load_model,
    read_settings,
    replacing,
    settings_text,
)
from keras_bahdanau.tf.server import batches
from keras_bahdanau.tf.tag_codec import TagCodec
from keras_bahdanau.tf.tokenization import surface, tokenize

_STRINGS = tf.TensorSpec([None], tf.string, name="strings")
_TOKENS = tf.TensorSpec([None, None], tf.string, name="tokens")
_OUTPUTS = {"words", "tags", "probabilities", "lengths"}
_CHUNK = 4096


@dataclasses.dataclass(frozen=True)
class TaggedText:
    """The words of a sentence with their tags.

    Attributes:
        words: Tuple of `str`.
        tags: Tuple of `str`, as many.
        probabilities: NumPy array, the probability of each tag.
    """

    words: tuple
    tags: tuple
    probabilities: np.ndarray


class _TaggingServer:
    """What a tagger does by `serve` and `serve_tokens` alone."""

    def __call__(self, sentences, batch_size=64, verbose=0):
        """Tags sentences.

        Sentences of similar length are tagged together; which ones share a batch
        changes nothing.

        Args:
            sentences: List of `str`, which are split into words here, or of lists of
                words, which are taken as they are.
            batch_size: Number of sentences in a batch.
            verbose: 1 for a progress bar.

        Returns:
            List of `TaggedText`, in the order of `sentences`.

        Raises:
            ValueError: If `batch_size` is less than 1, `sentences` is one string, or
                a word is empty.
        """
        if isinstance(sentences, str | bytes):
            raise ValueError(
                "`sentences` must be a list. Received one string. Wrap it in a list."
            )
        sentences = list(sentences)
        split = [not isinstance(sentence, str) for sentence in sentences]
        if any(split) and not all(split):
            raise ValueError(
                "`sentences` must be all strings or all lists of words. Received both."
            )
        if any(split):
            for sentence in sentences:
                _check_words(sentence)
        results = [None] * len(sentences)
        bar = keras.utils.Progbar(len(sentences), verbose=verbose)
        for rows in batches([len(one) for one in sentences], batch_size):
            some = [sentences[row] for row in rows]
            outputs = (
                self.serve_tokens(_padded(some))
                if any(split)
                else self.serve(tf.constant(some, tf.string))
            )
            outputs = {name: value.numpy() for name, value in outputs.items()}
            for row, result in zip(rows, _unpack(outputs)):
                results[row] = result
            bar.add(len(rows))
        return results

    def evaluate(self, corpus, known_words=None, batch_size=64):
        """Compares the tags with those of a corpus.

        Args:
            corpus: A `TaggedCorpus`.
            known_words: The words seen in training, for the accuracy on others;
                `None` for none.
            batch_size: Number of sentences in a batch.

        Returns:
            A `keras_bahdanau.tag_reports.TagReport`.
        """
        return self.tag_corpus(corpus, known_words, batch_size)[1]

    def tag_corpus(self, corpus, known_words=None, batch_size=64):
        """Tags the words of a corpus, and compares.

        Args:
            corpus, known_words, batch_size: As for `evaluate`.

        Returns:
            The tags of each sentence, and what `evaluate` returns.
        """
        words = [list(sentence.words) for sentence in corpus]
        tags = [one.tags for one in self(words, batch_size)]
        gold = [sentence.tags for sentence in corpus]
        known = () if known_words is None else (words, known_words)
        return tags, tag_report(gold, tags, *known)


class Tagger(_TaggingServer, tf.Module):
    """A `SequenceTagger` with its codec: it tags strings.

    `serve` takes sentences `(B,)` and splits them into words by
    `keras_bahdanau.tf.tokenize`; `serve_tokens` takes words `(B, T)`, with `""` as
    padding on the right. Both are `tf.function`s that are traced once, for any `B` and
    `T`, and are what `export_tagger` writes. They return a dictionary:

    - `words`, `tags`: strings `(B, T)`, `""` at padding;
    - `probabilities`: floats `(B, T)`, that of each tag: by the softmax, or the
      marginal of a CRF; 0 at padding;
    - `lengths`: integers `(B,)`, the number of words.

    Masking: neither padding nor the other sentences of a batch change a sentence. An
    empty sentence has no words.

    Args:
        model: A `SequenceTagger`, on the TensorFlow backend.
        codec: Its `TagCodec`.

    Call arguments:
        sentences: List of `str` or of lists of words.
        batch_size: Number of sentences in a batch.
        verbose: 1 for a progress bar.

    Returns:
        List of `TaggedText`.

    Raises:
        ValueError: If the Keras backend is not TensorFlow, or model and codec do not
            fit.

    Example:

    >>> from keras_bahdanau import SequenceTagger
    >>> from keras_bahdanau.tagged_text import TaggedCorpus
    >>> corpus = TaggedCorpus([(["A", "dog"], ["DET", "NOUN"])] * 3)
    >>> codec = TagCodec.train(corpus)
    >>> tagger = Tagger(SequenceTagger(**codec.model_sizes(), units=8), codec)
    >>> tagger(["A dog, a dog."])[0].words
    ('A', 'dog', ',', 'a', 'dog', '.')
    """

    def __init__(self, model, codec):
        super().__init__(name="tagger")
        check_backend(TAGGER)
        _check_sizes(model, codec)
        if not model.built:
            model.build()
        self.model, self.codec = model, codec
        self.serve = tf.function(self._serve, input_signature=[_STRINGS])
        self.serve_tokens = tf.function(self._tag, input_signature=[_TOKENS])

    def _serve(self, strings):
        return self._tag(surface(tokenize(strings)).to_tensor(""))

    def _tag(self, words):
        # The loops over time want one step at least.
        words = tf.pad(words, [[0, 0], [0, tf.maximum(1 - tf.shape(words)[1], 0)]])
        outputs = self.model(self.codec.encode(words), training=False)
        tags = outputs["tags"]
        every = self.model.probabilities(outputs["scores"])
        chosen = tf.gather(every, tf.maximum(tags, 0), axis=2, batch_dims=2)
        real = tags >= 0
        return {
            "words": words,
            "tags": self.codec.decode(tags),
            "probabilities": tf.where(real, chosen, 0.0),
            "lengths": tf.reduce_sum(tf.cast(real, tf.int32), axis=1),
        }

    def save(self, folder, notes=None):
        """Writes the model and the codec, for `load_tagger`.

        Args:
            folder: Name of the folder: new, empty, or a tagger saved there before,
                which is replaced once the new one is complete.
            notes: What else to remember, for JSON.

        Raises:
            ValueError: If `folder` holds other files, or `notes` are not for JSON.
        """
        text = settings_text({}, notes, TAGGER)
        with replacing(folder, TAGGER) as new:
            self.model.save(new / MODEL)
            self.codec.save(new / TAG_CODEC)
            (new / TAGGER_SETTINGS).write_text(text, encoding="utf-8")


class ExportedTagger(_TaggingServer):
    """A tagger read from the SavedModel that `export_tagger` wrote.

    It gives what the `Tagger` gave; it cannot be trained.

    Masking: as `Tagger`.

    Args:
        path: Name of the folder.

    Call arguments:
        sentences: List of `str` or of lists of words.
        batch_size: Number of sentences in a batch.
        verbose: 1 for a progress bar.

    Returns:
        List of `TaggedText`.

    Raises:
        ValueError: If the folder holds no such SavedModel.

    Example:

    >>> import tempfile
    >>> from keras_bahdanau import SequenceTagger
    >>> from keras_bahdanau.tagged_text import TaggedCorpus
    >>> corpus = TaggedCorpus([(["A", "dog"], ["DET", "NOUN"])] * 3)
    >>> codec = TagCodec.train(corpus)
    >>> tagger = Tagger(SequenceTagger(**codec.model_sizes(), units=8), codec)
    >>> folder = tempfile.mkdtemp()
    >>> export_tagger(tagger, folder)
    >>> ExportedTagger(folder)(["A dog."])[0].tags == tagger(["A dog."])[0].tags
    True
    """

    def __init__(self, path):
        try:
            self._loaded = tf.saved_model.load(str(path))
            outputs = self._loaded.signatures["serving_default"].structured_outputs
            if not _OUTPUTS <= set(outputs):
                raise ValueError(f"it returns {sorted(outputs)}")
            self.serve, self.serve_tokens = (
                self._loaded.serve,
                self._loaded.serve_tokens,
            )
        except Exception as error:
            # Of many kinds, most of which do not name the folder.
            raise ValueError(
                "`path` must hold a SavedModel that `export_tagger` wrote. Received "
                f"{path}, which does not: {error}"
            ) from error


def export_tagger(tagger, path):
    """Writes a tagger as one SavedModel that needs nothing but TensorFlow.

    `tf.saved_model.load(path).serve(strings)` and `.serve_tokens(tokens)` do what those
    of the `Tagger` do; so do the signatures `serving_default` and `tokens`.

    Args:
        tagger: A `Tagger`.
        path: Name of the folder; a SavedModel that is there is overwritten.

    Raises:
        ValueError: If there is a tagger of `save`.
    """
    check_not_saved(path, TAGGER)
    exported = tf.Module(name="tagger")
    # Seeds too: the graph may name them, though nothing is drawn.
    exported.state = [variable.value for variable in tagger.model.variables]
    exported.codec = tagger.codec
    # What was traced already; the functions themselves would be traced anew.
    exported.serve = tagger.serve.get_concrete_function()
    exported.serve_tokens = tagger.serve_tokens.get_concrete_function()
    signatures = {"serving_default": exported.serve, "tokens": exported.serve_tokens}
    tf.saved_model.save(exported, str(path), signatures=signatures)


def load_tagger(path):
    """Reads a tagger that `Tagger.save` or `export_tagger` wrote.

    Args:
        path: Name of the folder.

    Returns:
        A `Tagger`, or an `ExportedTagger`, which can only tag.

    Raises:
        ValueError: If the folder holds neither, or a file in it is missing or broken.
    """
    path = pathlib.Path(path)
    if (path / "saved_model.pb").is_file():
        return ExportedTagger(path)
    if not (path / TAGGER_SETTINGS).is_file():
        raise ValueError(
            "`path` must be a folder that `Tagger.save` or `export_tagger` wrote. "
            f"Received {path}, without {TAGGER_SETTINGS} or saved_model.pb."
        )
    check_backend(TAGGER)
    read_settings(path, TAGGER)
    codec = TagCodec.load(path / TAG_CODEC)
    return Tagger(load_model(path / MODEL, TAGGER), codec)


def encode_sentences(corpus, codec, frequencies=None, num_frequencies=0):
    """Turns a tagged corpus into ids, for `keras_bahdanau.tagging_batches`.

    Args:
        corpus: A `TaggedCorpus`. Tags that the codec does not know become -1; see
            `keras_bahdanau.tagged_text.check_tags`.
        codec: A `TagCodec`.
        frequencies: How often each word occurs in training, such as
            `corpus.words()`; with `num_frequencies`.
        num_frequencies: Number of classes of the frequency: the class of a word that
            occurs `n` times is the whole part of `log n`, at most this less one.

    Returns:
        An `EncodedSentences`.

    Raises:
        ValueError: If only one of the last two is given.
    """
    if (frequencies is None) != (not num_frequencies):
        raise ValueError(
            "`frequencies` and `num_frequencies` go together. Received one of them."
        )
    parts = []
    words = [word for sentence in corpus for word in sentence.words]
    for start in range(0, len(words), _CHUNK):
        # Each word for itself: (W, 1).
        encoded = codec.encode(tf.constant(words[start : start + _CHUNK])[:, None])
        parts.append({name: ids.numpy()[:, 0] for name, ids in encoded.items()})
    size = max(part["character_ids"].shape[1] for part in parts)
    for part in parts:
        ids = part["character_ids"]
        part["character_ids"] = np.pad(ids, ((0, 0), (0, size - ids.shape[1])))
    columns = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    tags = [tag for sentence in corpus for tag in sentence.tags]
    if num_frequencies:
        lower = {}
        for word, count in frequencies.items():
            lower[word.lower()] = lower.get(word.lower(), 0) + count
        counts = np.array([lower.get(word.lower(), 1) for word in words])
        classes = np.log(np.maximum(counts, 1)).astype("int32")
        columns["frequencies"] = np.minimum(classes, num_frequencies - 1)
    return EncodedSentences(
        [len(sentence) for sentence in corpus],
        labels=codec.encode_tags(tags).numpy(),
        **columns,
    )


def _check_words(sentence):
    if not all(isinstance(word, str) and word for word in sentence):
        raise ValueError(
            "A sentence must be a list of words, none of them empty. Received: "
            f"{sentence!r}."
        )


def _padded(sentences):
    """Lists of words as a dense tensor `(B, T)`."""
    length = max((len(sentence) for sentence in sentences), default=0)
    rows = [[*one, *[""] * (length - len(one))] for one in sentences]
    return tf.reshape(tf.constant(rows, tf.string), (len(rows), length))


def _unpack(outputs):
    """The `TaggedText` of each row, of outputs in NumPy."""
    for row, length in enumerate(outputs["lengths"]):
        words, tags = (
            tuple(text.decode() for text in outputs[name][row, :length])
            for name in ("words", "tags")
        )
        yield TaggedText(words, tags, outputs["probabilities"][row, :length])


def _check_sizes(model, codec):
    for name, size in codec.model_sizes().items():
        received = getattr(model, name, None)
        if received is not None and received != size:
            raise ValueError(
                f"`model` and `codec` must agree. Received {name}={received} of the "
                f"model and {size} of the codec. Make the model with "
                "`SequenceTagger(**codec.model_sizes())`."
            )
    if not hasattr(model, "probabilities"):
        raise ValueError(
            "`model` must be a SequenceTagger, or have what one has. Received a "
            f"{type(model).__name__}."
        )
