"""Chooses the part of a large corpus that is most like another one.

Reference: Axelrod, He and Gao 2011, "Domain Adaptation via Pseudo In-Domain Data
Selection", with models of single words on both sides.
"""

import numpy as np


class Selection:
    """The pairs with the least difference of cross-entropies, up to a number of words.

        score = sum over both sides of  H_inside(sentence) - H_general(sentence)
        H(sentence) = -mean over its ids of log p(id),  p(id) = (count + 1) / (N + V)

    Low scores are more like the text that is wanted. The pairs come one after another
    and are never all at hand, so the limit of the score is that of a sample. It must
    not be what the general text is counted in: sentences look more general than others
    where their own words are counted.

    Args:
        inside: `EncodedPairs` of the text that is wanted.
        general: `EncodedPairs` of the text to choose from, every n-th pair of it.
        sample: The same of other pairs.
        sizes: Number of ids of each side.
        share: Share of the source words to take, above 0; 1 or more takes all.

    Raises:
        ValueError: If `share` is not above 0.

    Example:

    >>> from keras_bahdanau.batching import EncodedPairs
    >>> inside = EncodedPairs([4, 3], [2], [4, 3], [2])
    >>> general = EncodedPairs([4, 3, 5, 3], [2, 2], [4, 3, 5, 3], [2, 2])
    >>> selection = Selection(inside, general, general, sizes=(6, 6), share=0.5)
    >>> selection(general).tolist()
    [True, False]
    """

    def __init__(self, inside, general, sample, sizes, share):
        if not share > 0:
            raise ValueError(f"`share` must be above 0. Received: {share}.")
        self._tables = [
            _logarithms(other[0], size) - _logarithms(one[0], size)
            for one, other, size in zip(_sides(inside), _sides(general), sizes)
        ]
        self.limit = np.inf
        if share < 1:
            scores = self.scores(sample)
            order = np.argsort(scores, kind="stable")
            words = np.cumsum(sample.source_lengths[order])
            last = np.searchsorted(words, share * words[-1], side="right") - 1
            self.limit = scores[order[max(last, 0)]]

    def scores(self, pairs):
        """The score of each pair of an `EncodedPairs`: array `(N,)`."""
        return sum(
            np.add.reduceat(table[ids], np.cumsum(lengths) - lengths) / lengths
            for table, (ids, lengths) in zip(self._tables, _sides(pairs))
        )

    def __call__(self, pairs):
        """Which pairs to take, for `encode_pairs`."""
        return self.scores(pairs) <= self.limit


def _sides(pairs):
    return (
        (pairs.sources, pairs.source_lengths),
        (pairs.targets, pairs.target_lengths),
    )


def _logarithms(ids, size):
    """The logarithm of the probability of each id."""
    return np.log((np.bincount(ids, minlength=size) + 1) / (len(ids) + size))
