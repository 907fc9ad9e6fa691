"""Translates the test sentences with a trained system, and looks inside of it."""

import time

import numpy as np
import tensorflow as tf
from inside import look_inside
from training import TRANSLATOR

from keras_bahdanau.pages import AlignmentExample, write_alignment_page
from keras_bahdanau.tf import encode_pairs, load_translator, surface

PAGE = "alignments.html"
# Sentences of the page, and those in the picture of the report.
ON_PAGE, IN_PICTURE = 200, 4
PICTURE_LENGTHS = 8, 20


def evaluate(settings, corpus, known, joined, folder):
    """All that the report wants to know of one trained system.

    Args:
        settings: `Settings`.
        corpus: `Corpus`.
        known: Numbers of the test pairs without an unknown word.
        joined: Dictionary from the number of sentences that are put together to a
            `PairCorpus`.
        folder: Where `train` left the translator; the page of alignments goes there.

    Returns:
        Dictionary for JSON: `"all"`, the translations of the test sentences;
        `"known"`, those of the pairs without an unknown word, unknown words forbidden;
        `"joined"`, those of sentences that were put together; `"inside"`, as
        `look_inside`; `"examples"`, weights to draw; `"seconds"` of the search.
    """
    started = time.time()
    translator = load_translator(folder / TRANSLATOR, num_beams=settings.beams)
    codecs = translator.source_codec, translator.target_codec
    results = translator.translate(corpus.test.sources)
    found = {"all": [one.text for one in results], "examples": []}
    if settings.has_attention:
        examples = [_example(*both) for both in zip(results, corpus.test.targets)]
        write_page(settings, corpus, examples, folder / PAGE)
        found["examples"] = to_draw(examples)
    knowing = load_translator(
        folder / TRANSLATOR, num_beams=settings.beams, allow_unknown=False
    )
    found["known"] = knowing([corpus.test.sources[row] for row in known])
    found["joined"] = {
        str(count): knowing(pairs.sources) for count, pairs in joined.items()
    }
    pairs = encode_pairs(corpus.test, *codecs)
    found["inside"] = look_inside(translator.model, pairs)
    found["seconds"] = time.time() - started
    return found


def write_page(settings, corpus, examples, path):
    """The first translations with their weights, as a page of their own."""
    write_alignment_page(
        path,
        examples[:ON_PAGE],
        title=f"{settings.name}, {' to '.join(corpus.languages)}",
        summary=f"{corpus.name}, test: {settings.beams} beams, unknown words allowed",
    )


def to_draw(examples):
    """The first sentences of a length that a picture can show."""
    shortest, longest = PICTURE_LENGTHS
    fitting = [
        one
        for one in examples
        if shortest <= len(one.source_tokens) <= longest and one.target_tokens
    ]
    return [
        {
            "source": one.source_tokens,
            "target": one.target_tokens,
            "weights": _rounded(one),
        }
        for one in fitting[:IN_PICTURE]
    ]


def _rounded(example):
    """The weights between words, those of the end tokens left out."""
    height, width = len(example.target_tokens), len(example.source_tokens)
    return np.round(example.weights[:height, :width], 3).tolist()


def _example(result, reference):
    """What a page shows of a translation: its tokens without their spacing marks."""
    source, target = (
        [token.decode() for token in surface(tf.constant(side, tf.string)).numpy()]
        for side in (result.source_tokens, result.target_tokens)
    )
    return AlignmentExample(
        source, target, result.attention_weights, result.score, reference
    )
