"""BLEU of words, as the paper measured, and sacrebleu's paired bootstrap."""

from typing import NamedTuple

import tensorflow as tf
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from keras_bahdanau.tf import corpus_bleu, surface, tokenize

RESAMPLES = 1000


class Resampled(NamedTuple):
    """A system on resampled test sentences.

    Args:
        score: BLEU of the sentences as they are.
        interval: Half of the 95 % interval of BLEU around its mean.
        p_value: Of the difference from the baseline; `None` of the baseline.
    """

    score: float
    interval: float
    p_value: float | None


def bleu(texts, references):
    """BLEU of words in their case; an unknown word is one word that is wrong."""
    return corpus_bleu(texts, references, tokenized=True).score


def signature(texts, references):
    """How sacrebleu describes that measure."""
    return corpus_bleu(texts, references, tokenized=True).signature


def compare(systems, references, resamples=RESAMPLES):
    """Resamples the test sentences for several systems at once.

    Args:
        systems: Dictionary from the name of each system to its translations, that of
            the baseline first.
        references: List of the right translations.
        resamples: How often to draw as many sentences as there are, with repeats.

    Returns:
        Dictionary from each name to a `Resampled`.
    """
    test = PairedTest(
        [(name, _lines(texts)) for name, texts in systems.items()],
        {"BLEU": BLEU(tokenize="none", force=True)},
        [_lines(references)],
        test_type="bs",
        n_samples=resamples,
    )
    _, found = test()
    return {
        name: Resampled(
            float(one.score),
            float(one.ci),
            None if one.p_value is None else float(one.p_value),
        )
        for name, one in zip(found["System"], found["BLEU"])
    }


def _lines(texts):
    """The words of each text with blanks between, as `corpus_bleu` counts them."""
    # The mark of an unknown word would be three.
    texts = [text.replace("<unk>", "\u2047") for text in texts]
    rows = surface(tokenize(tf.constant(texts, tf.string)))
    lines = tf.strings.reduce_join(rows, separator=" ", axis=-1)
    return [line.decode() for line in lines.numpy()]
