"""What depends on the length of the source: BLEU (the paper's Figure 2) and means."""

from typing import NamedTuple

import numpy as np
from scores import bleu

LEAST = 20


class Bucket(NamedTuple):
    """Sentences of similar length.

    Args:
        first, last: The shortest and the longest length that belong here.
        rows: Numbers of the sentences.
    """

    first: int
    last: int
    rows: list


def buckets(lengths, width, least=LEAST):
    """Puts sentences into buckets by their length.

    Args:
        lengths: The length of each sentence.
        width: Lengths in a bucket: 1 to `width`, and so on.
        least: Number of sentences that a bucket must have, or else it is joined with
            the one after it, the last with the one before.

    Returns:
        List of `Bucket`, short ones first.

    Example:

    >>> [tuple(one) for one in buckets([3, 12, 9, 11], width=10, least=2)]
    [(1, 10, [0, 2]), (11, 20, [1, 3])]
    """
    found = []
    for last in range(width, max(lengths) + width, width):
        rows = [n for n, length in enumerate(lengths) if last - width < length <= last]
        one = Bucket(last - width + 1, last, rows)
        if found and len(found[-1].rows) < least:
            one = _joined(found.pop(), one)
        found.append(one)
    if len(found) > 1 and len(found[-1].rows) < least:
        last = found.pop()
        found.append(_joined(found.pop(), last))
    return found


def _joined(one, other):
    return Bucket(one.first, other.last, sorted(one.rows + other.rows))


def bleu_by_length(groups, texts, references):
    """BLEU of each bucket.

    Args:
        groups: List of `Bucket`.
        texts: List of the translations of all sentences.
        references: List of the references.

    Returns:
        List of floats.
    """
    return [
        bleu([texts[row] for row in one.rows], [references[row] for row in one.rows])
        for one in groups
    ]


def mean_by_length(groups, values):
    """Mean of a number of each sentence, by bucket; a list of floats."""
    values = np.asarray(values)
    return [float(np.mean(values[one.rows])) for one in groups]
