"""The links of a translation, between what a reader can count."""

import tensorflow as tf

from keras_bahdanau.alignment import format_alignment, hard_alignment, merge_weights
from keras_bahdanau.tf import surface
from keras_bahdanau.tf.tokenization import SPACER


def words(result):
    """The source words and the target words of a `Translation`.

    Those of a model of words are its tokens, without their spacing marks; those of a
    model of subwords are what stands between blanks.
    """
    sides = result.source_tokens, result.target_tokens
    if _has_pieces(result):
        return [_joined(side) for side in sides]
    return [
        [word.decode() for word in surface(tf.constant(side, tf.string)).numpy()]
        for side in sides
    ]


def links(result):
    """The links between those words, in the Pharaoh format."""
    weights = result.attention_weights
    if weights is None:
        raise SystemExit("--alignments: this model has no attention.")
    sides = result.source_tokens, result.target_tokens
    lengths = [len(side) for side in sides]
    if _has_pieces(result) and all(lengths):
        # Without the end tokens.
        weights = weights[: lengths[1], : lengths[0]]
        weights = merge_weights(weights, *map(_word_of_each, sides))
        lengths = [len(side) for side in words(result)]
    return format_alignment(hard_alignment(weights, *lengths))


def _has_pieces(result):
    """Whether the tokens are those of SentencePiece, which marks the first one too."""
    return bool(result.source_tokens) and result.source_tokens[0].startswith(SPACER)


def _joined(pieces):
    """The words that the pieces make; blanks alone make none."""
    found = {}
    for number, piece in zip(_word_of_each(pieces), pieces):
        found[number] = found.get(number, "") + piece.strip(SPACER)
    return [word for word in found.values() if word]


def _word_of_each(pieces):
    """For each piece the number of its word; a blank alone goes with the word after."""
    numbers, blanks, begins = [], 0, False
    current = -1
    for piece in pieces:
        begins = begins or piece.startswith(SPACER)
        if not piece.strip(SPACER):
            blanks += 1
            continue
        current += begins or current < 0
        numbers += [current] * (blanks + 1)
        blanks, begins = 0, False
    return numbers + [max(current, 0)] * blanks
