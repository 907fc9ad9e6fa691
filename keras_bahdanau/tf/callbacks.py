"""What to see of a translation model while it trains, and BLEU."""

import pathlib
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_bahdanau.tf.saved_folder import check_replaceable
from keras_bahdanau.tf.tokenization import surface, tokenize
from keras_bahdanau.tf.translator import load_notes


class Bleu(NamedTuple):
    """A BLEU score and how it was computed.

    Args:
        score: float from 0 to 100.
        signature: `str`, sacrebleu's description of the measure.
    """

    score: float
    signature: str


def corpus_bleu(hypotheses, references, lowercase=False, tokenized=False):
    """Computes corpus BLEU with sacrebleu.

    Args:
        hypotheses: list of `str`, the translations.
        references: list of `str`, one for each of them.
        lowercase: whether case is put aside.
        tokenized: `False` for plain text, which sacrebleu tokenises itself (its
            `13a`): the measure to compare with others. `True` for the words of
            `keras_bahdanau.tf.tokenize` on both sides, for comparison with
            work on tokenised text.

    Returns:
        A `Bleu`.

    Raises:
        ImportError: if `sacrebleu` is not installed.
        ValueError: if the lists differ in length or are empty.

    Example:

    >>> bleu = corpus_bleu(["un chien dort bien ."], ["un chien dort bien ."])
    >>> round(bleu.score)
    100
    """
    hypotheses, references = list(hypotheses), list(references)
    if not hypotheses or len(hypotheses) != len(references):
        raise ValueError(
            "`hypotheses` and `references` must have the same length, 1 or more. "
            f"Received {len(hypotheses)} and {len(references)}."
        )
    bleu = _import_bleu()
    if tokenized:
        hypotheses, references = _words(hypotheses), _words(references)
    metric = bleu(
        lowercase=lowercase, tokenize="none" if tokenized else "13a", force=True
    )
    score = metric.corpus_score(hypotheses, [references]).score
    return Bleu(score, str(metric.get_signature()))


class TranslationCallback(keras.callbacks.Callback):
    """Translates validation text after each epoch: BLEU, samples, best model.

    The score goes into the logs as `val_bleu`, where `CSVLogger`,
    `TensorBoard` and `EarlyStopping(monitor="val_bleu", mode="max")` find it
    if they stand behind this callback in the list. With
    `SwapEMAWeights(swap_on_epoch=True)` before it, the averaged weights are
    what translates and what is kept.

    A training that goes on (`BackupAndRestore`, or `fit(initial_epoch=..)`)
    remembers the best score of its earlier part; one that starts with epoch 0
    forgets it.

    Args:
        translator: the `Translator` of the model that is fitted.
        sources: list of `str`, the validation sources.
        references: list of `str`, their translations.
        every: number of epochs between two scores; the last epoch of the `fit`
            always has one.
        num_samples: number of translations to print with each score.
        filepath: folder where the translator with the best score is saved, for
            `load_translator`; `None` to keep none.
        lowercase: whether BLEU puts case aside; by default if the target codec
            does.
        batch_size: number of sentences translated at once.
        print_fn: function that prints a line.

    Raises:
        ImportError: if `sacrebleu` is not installed.
        ValueError: if `sources` and `references` differ in length or are empty, if
            `every` or `batch_size` is less than 1, or if `filepath` holds other files
            than a translator.

    Example:

    >>> from keras_bahdanau import RNNSearch, modern_recipe
    >>> from keras_bahdanau.tf import (
    ...     PairCorpus, Translator, WordCodec, translation_batches
    ... )
    >>> pairs = PairCorpus(["a dog", "a cat"], ["un chien", "un chat"])
    >>> source, target = WordCodec.train(pairs.sources), WordCodec.train(pairs.targets)
    >>> sizes = source.vocabulary_size, target.vocabulary_size
    >>> model = RNNSearch(*sizes, embedding_dim=5, units=7, seed=1)
    >>> model.compile(**modern_recipe())
    >>> translator = Translator(model, source, target)
    >>> callback = TranslationCallback(
    ...     translator, pairs.sources, pairs.targets, print_fn=lambda line: None
    ... )
    >>> batches = translation_batches(pairs, source, target)
    >>> history = model.fit(batches, verbose=0, shuffle=False, callbacks=[callback])
    >>> "val_bleu" in history.history
    True
    """

    def __init__(
        self,
        translator,
        sources,
        references,
        every=1,
        num_samples=3,
        filepath=None,
        lowercase=None,
        batch_size=64,
        print_fn=print,
    ):
        super().__init__()
        self.translator = translator
        self.sources, self.references = list(sources), list(references)
        self.every = every
        self.num_samples = num_samples
        self.filepath = None if filepath is None else pathlib.Path(filepath)
        if lowercase is None:
            lowercase = translator.target_codec.lowercase
        self.lowercase = lowercase
        self.batch_size = batch_size
        self.print_fn = print_fn
        self.best, self.best_epoch = None, None
        for name, value in (("every", every), ("batch_size", batch_size)):
            if value < 1:
                raise ValueError(f"`{name}` must be 1 or more. Received: {value}.")
        # Better now than after an epoch.
        if self.filepath is not None:
            check_replaceable(self.filepath)
        corpus_bleu(self.references, self.references[: len(self.sources)])
        self._started = False

    def on_train_begin(self, logs=None):
        self._started = False

    def on_epoch_begin(self, epoch, logs=None):
        if not self._started:
            self._started = True
            self._recall(epoch)

    def on_epoch_end(self, epoch, logs=None):
        is_last = epoch + 1 == self.params.get("epochs")
        if (epoch + 1) % self.every and not is_last:
            return
        texts = self.translator(self.sources, self.batch_size)
        bleu = corpus_bleu(texts, self.references, self.lowercase).score
        if logs is not None:
            logs["val_bleu"] = bleu
        is_best = self.best is None or bleu > self.best
        self.print_fn(
            f"\nepoch {epoch + 1}: val_bleu {bleu:.2f}"
            + (", the best so far" if is_best else f" (best: {self.best:.2f})")
        )
        self._print_samples(texts)
        if is_best:
            self._keep(epoch, bleu)

    def _keep(self, epoch, bleu):
        self.best, self.best_epoch = bleu, epoch
        if self.filepath is not None:
            notes = {"epoch": epoch, "val_bleu": bleu}
            self.translator.save(self.filepath, notes)

    def _recall(self, epoch):
        """Takes up the best score of the epochs before the first one of this fit."""
        if epoch == 0:
            self.best, self.best_epoch = None, None
        elif self.best is None and self.filepath is not None:
            notes = load_notes(self.filepath) or {}
            if notes.get("epoch", epoch) < epoch:
                self.best, self.best_epoch = notes["val_bleu"], notes["epoch"]

    def _print_samples(self, texts):
        for row in range(min(self.num_samples, len(texts))):
            self.print_fn(f"  source:      {self.sources[row]}")
            self.print_fn(f"  reference:   {self.references[row]}")
            self.print_fn(f"  translation: {texts[row]}")


def _words(texts):
    """Lines of tokens with blanks between them."""
    # An unknown word is one token, and one that no reference has.
    texts = [text.replace("<unk>", "\u2047") for text in texts]
    rows = surface(tokenize(tf.constant(texts, tf.string)))
    lines = tf.strings.reduce_join(rows, separator=" ", axis=-1)
    return [line.decode() for line in lines.numpy()]


def _import_bleu():
    try:
        from sacrebleu.metrics import BLEU
    except ImportError as error:
        raise ImportError(
            "BLEU needs the package `sacrebleu`, which does not import here: install "
            'it with `pip install "keras-bahdanau[bleu]"`.'
        ) from error
    return BLEU
