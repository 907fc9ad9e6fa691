"""Lists of texts, translated with a function of one batch, as it was exported."""

import itertools
import numbers
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bahdanau.tf.codecs import import_text

_OUTPUTS = {
    "translations",
    "scores",
    "lengths",
    "log_probs",
    "source_tokens",
    "target_tokens",
    "attention_weights",
}


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
        log_probs: array `(T,)`, the log-probability of each target token; one
            more if the end token was reached.
    """

    text: str
    score: float
    source_tokens: list
    target_tokens: list
    attention_weights: np.ndarray | None
    log_probs: np.ndarray | None = None


class Server:
    """What translates lists of any length with functions of one batch.

    A subclass has `serve`, `serve_nbest` and `serve_constrained`, see `Translator`.
    """

    def __call__(self, texts, batch_size=64):
        """Translates texts.

        Args:
            texts: list of `str`.
            batch_size: number of texts in a batch.

        Returns:
            List of `str`, the translations.
        """
        return [one.text for one in self.translate(texts, batch_size)]

    def translate(
        self, texts, batch_size=64, verbose=0, prefixes=None, max_lengths=None
    ):
        """Translates texts, and tells what was attended to.

        Texts of similar length are translated together; the results come in
        the order of `texts`. Which texts share a batch changes nothing.

        Args:
            texts: list of `str`.
            batch_size: number of texts in a batch.
            verbose: 1 for a progress bar.
            prefixes: list of `str`, how each translation must begin, `""` for
                anyhow. They are tokenised by themselves, so each should end
                where a word ends.
            max_lengths: the largest number of target tokens, the end token
                counted: an integer or one for each text, 0 for no other than
                that of the translator. A prefix and the end token always fit.

        Returns:
            List of `Translation`. Where the constraints allow nothing, the text
            is empty and the score `-inf`.

        Raises:
            ValueError: if `batch_size` is less than 1, `texts` is one string,
                or there are not as many prefixes or lengths as texts.
        """
        return self._run(False, texts, batch_size, verbose, prefixes, max_lengths)

    def translate_nbest(
        self, texts, batch_size=64, verbose=0, prefixes=None, max_lengths=None
    ):
        """Gives the best translations of each text.

        Those that end come first, then those that were cut at their largest
        length; each kind by falling score.

        Args:
            texts, batch_size, verbose, prefixes, max_lengths: as `translate`.

        Returns:
            List of a list of `Translation` for each text, with `num_results`
            of them, or fewer where the search found fewer.

        Raises:
            ValueError: as `translate`.
        """
        return self._run(True, texts, batch_size, verbose, prefixes, max_lengths)

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

    def _run(self, nbest, texts, batch_size, verbose, prefixes, max_lengths):
        texts = as_list(texts, "texts")
        if prefixes is None and max_lengths is None:
            serve = self.serve_nbest if nbest else self.serve
            read = unpack_nbest if nbest else unpack
            return collect(serve, read, [texts], batch_size, verbose)
        columns = texts, *_constraints(len(texts), prefixes, max_lengths)

        def read_best(outputs):
            return unpack(first(outputs))

        read = unpack_nbest if nbest else read_best
        serve = self._serving_constrained()
        return collect(serve, read, columns, batch_size, verbose)

    def _serving_constrained(self):
        if self.serve_constrained is None:
            raise ValueError(
                "Prefixes and lengths need a model with `beam_search`, which this "
                "translator has not."
            )
        return self.serve_constrained


class ExportedTranslator(Server):
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
    >>> from keras_bahdanau.tf import Translator, WordCodec
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
        self.serve_constrained = getattr(self._loaded, "serve_constrained", None)


def unpack(outputs):
    """The `Translation` of each row of what `serve` returned, in NumPy."""
    for row, text in enumerate(outputs["translations"]):
        source = [token.decode() for token in outputs["source_tokens"][row] if token]
        target = [token.decode() for token in outputs["target_tokens"][row] if token]
        length = int(outputs["lengths"][row])
        weights = outputs["attention_weights"][row, :length, : len(source) + 1]
        yield Translation(
            text.decode(),
            float(outputs["scores"][row]),
            source,
            target,
            weights if outputs["attention_weights"].shape[-1] else None,
            outputs["log_probs"][row, :length],
        )


def unpack_nbest(outputs):
    """The `Translation`s of each row of what `serve_nbest` returned, in NumPy."""
    count = outputs["scores"].shape[1]
    for found in zip(*(unpack(first(outputs, rank)) for rank in range(count))):
        yield [one for one in found if one.score > -float("inf")]


def first(outputs, rank=0):
    """The outputs of one of the best, without their axis."""
    return {
        name: value if name == "source_tokens" else value[:, rank]
        for name, value in outputs.items()
    }


def collect(serve, read, columns, batch_size, verbose=0):
    """Runs `serve` on rows of similar length; `read` makes a result of each row."""
    texts = columns[0]
    results = [None] * len(texts)
    bar = keras.utils.Progbar(len(texts), verbose=verbose)
    for rows in batches([len(text) for text in texts], batch_size):
        outputs = serve(*(_column(column, rows) for column in columns))
        found = read({name: value.numpy() for name, value in outputs.items()})
        for row, result in zip(rows, found):
            results[row] = result
        bar.add(len(rows))
    return results


def _constraints(count, prefixes, max_lengths):
    prefixes = [""] * count if prefixes is None else as_list(prefixes, "prefixes")
    if max_lengths is None or np.ndim(max_lengths) == 0:
        max_lengths = [0 if max_lengths is None else max_lengths] * count
    max_lengths = list(max_lengths)
    for length in max_lengths:
        if not isinstance(length, numbers.Integral) or isinstance(length, bool):
            raise ValueError(
                f"`max_lengths` must be integers. Received: {length!r}. Pass 0 for no "
                "limit."
            )
    # More than a tensor holds is no limit.
    max_lengths = [min(int(length), 2**31 - 1) for length in max_lengths]
    for name, values in (("prefixes", prefixes), ("max_lengths", max_lengths)):
        if len(values) != count:
            raise ValueError(
                f"`{name}` must have one for each text. Received {len(values)} for "
                f"{count} texts."
            )
    if min(max_lengths, default=0) < 0:
        raise ValueError(
            f"`max_lengths` must be 0 or more. Received: {min(max_lengths)}."
        )
    return prefixes, max_lengths


def _column(column, rows):
    dtype = tf.int32 if isinstance(column[0], int) else tf.string
    return tf.constant([column[row] for row in rows], dtype)


def batches(lengths, batch_size):
    """Rows of similar length, batch by batch."""
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be 1 or more. Received: {batch_size}.")
    order = np.argsort(lengths, kind="stable").tolist()
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def as_list(texts, name):
    _check_texts(texts, name)
    return list(texts)


def _check_texts(texts, name):
    if isinstance(texts, (str, bytes)):
        raise ValueError(
            f"`{name}` must be a list of strings. Received one string. Wrap it in a "
            "list."
        )


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
