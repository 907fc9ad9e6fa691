"""How good predicted tags are: on all words, on unknown ones, and tag by tag.

Everything here is NumPy; nothing needs a backend.
"""

import dataclasses
import itertools

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class TagReport:
    """Counts of predicted tags against gold ones, and what follows from them.

    `str` gives it as text, see `format`. `N` is the number of tags.

    Args:
        tag_names: The `N` tags, in the order of rows and columns.
        confusion: Integer array `(N, N)`: how many words of gold tag `i` (row) were
            given tag `j` (column).
        num_unknown: Number of words not seen in training; `None` if nobody said which
            those are.
        num_unknown_correct: How many of these have the right tag.

    Example:

    >>> report = tag_report([["DET", "NOUN"]], [["DET", "VERB"]])
    >>> report.accuracy, report.confusion.tolist()
    (0.5, [[1, 0, 0], [0, 0, 1], [0, 0, 0]])
    """

    tag_names: tuple[str, ...]
    confusion: np.ndarray
    num_unknown: int | None = None
    num_unknown_correct: int | None = None

    @property
    def num_words(self):
        """Number of words of all sentences together."""
        return int(self.confusion.sum())

    @property
    def accuracy(self):
        """The share of the words that have the right tag."""
        return float(np.trace(self.confusion) / self.confusion.sum())

    @property
    def unknown_accuracy(self):
        """The same over words not seen in training; `None` without any."""
        if not self.num_unknown:
            return None
        return self.num_unknown_correct / self.num_unknown

    @property
    def support(self):
        """How many words have each gold tag: integer array `(N,)`."""
        return self.confusion.sum(axis=1)

    @property
    def precision(self):
        """The share of words given a tag that have it, `(N,)`; 0 if none was given."""
        return _shares(np.diag(self.confusion), self.confusion.sum(axis=0))

    @property
    def recall(self):
        """The share of words of a tag that were given it, `(N,)`; 0 without any."""
        return _shares(np.diag(self.confusion), self.support)

    @property
    def f1(self):
        """The harmonic mean of precision and recall of each tag, `(N,)`."""
        both = self.confusion.sum(axis=0) + self.support
        return _shares(2 * np.diag(self.confusion), both)

    @property
    def macro_f1(self):
        """The mean F1 of the tags that occur, as gold ones or as predicted."""
        occur = (self.confusion.sum(axis=0) + self.support) > 0
        return float(self.f1[occur].mean())

    def confusions(self, count=10):
        """Lists the most frequent mistakes.

        Args:
            count: How many to list at most.

        Returns:
            List of triples (gold tag, predicted tag, number of words), the most
            frequent first; equal ones in the order of the tags.

        Example:

        >>> tag_report([["A", "A", "B"]], [["B", "B", "A"]]).confusions(1)
        [('A', 'B', 2)]
        """
        mistakes = self.confusion * (1 - np.eye(len(self.tag_names), dtype=int))
        order = np.argsort(-mistakes, axis=None, kind="stable")[: max(count, 0)]
        return [
            (self.tag_names[i], self.tag_names[j], int(mistakes[i, j]))
            for i, j in zip(*np.unravel_index(order, mistakes.shape))
            if mistakes[i, j]
        ]

    def format(self, num_confusions=5):
        """Writes the report as text: accuracies, a line for each tag, mistakes.

        Args:
            num_confusions: How many mistakes to list at most.

        Returns:
            String of several lines.

        Example:

        >>> print(tag_report([["DET", "NOUN"]], [["DET", "VERB"]]).format())
        accuracy 50.00 % of 2 words, macro F1 33.33
        <BLANKLINE>
        tag  precision  recall      F1 support
        DET     100.00  100.00  100.00       1
        NOUN      0.00    0.00    0.00       1
        VERB      0.00    0.00    0.00       0
        <BLANKLINE>
        most frequent mistakes (gold -> predicted)
             1  NOUN -> VERB
        """
        lines = [
            f"accuracy {100 * self.accuracy:.2f} % of {self.num_words} words, "
            f"macro F1 {100 * self.macro_f1:.2f}"
        ]
        if self.num_unknown:
            lines.append(
                f"unknown words {100 * self.unknown_accuracy:.2f} % of "
                f"{self.num_unknown}"
            )
        elif self.num_unknown is not None:
            lines.append("unknown words: none")
        width = max(map(len, ["tag", *self.tag_names]))
        lines += ["", f"{'tag':{width}} precision  recall      F1 support"]
        columns = self.tag_names, self.precision, self.recall, self.f1, self.support
        for name, precision, recall, f1, support in zip(*columns):
            lines.append(
                f"{name:{width}} {100 * precision:9.2f} {100 * recall:7.2f} "
                f"{100 * f1:7.2f} {support:7d}"
            )
        mistakes = self.confusions(num_confusions)
        if mistakes:
            lines += ["", "most frequent mistakes (gold -> predicted)"]
        for gold, predicted, number in mistakes:
            lines.append(f"{number:6d}  {gold} -> {predicted}")
        return "\n".join(lines)

    def __str__(self):
        return self.format()


def tag_report(gold, predicted, words=None, known_words=None, tag_names=None):
    """Compares predicted tags with gold ones.

    Args:
        gold: Sequence of sequences of tags, one for each sentence.
        predicted: The same for what was predicted.
        words: Sequence of sequences of `str`, the words; with `known_words`.
        known_words: Collection of the forms seen in training, such as
            `training.words()`. Words that are not in it, as they are written, count as
            unknown.
        tag_names: Order of the tags; by default those that occur, sorted.

    Returns:
        A `TagReport`.

    Raises:
        ValueError: If there is no word, the sentences differ in number or length, or
            a tag is none of `tag_names`.

    Example:

    >>> gold, predicted = [["DET", "NOUN"], ["NOUN"]], [["DET", "NOUN"], ["DET"]]
    >>> report = tag_report(gold, predicted, [["the", "dog"], ["cats"]], {"the", "dog"})
    >>> round(report.accuracy, 3), report.num_unknown, report.unknown_accuracy
    (0.667, 1, 0.0)
    """
    if (words is None) != (known_words is None):
        missing = "words" if words is None else "known_words"
        raise ValueError(
            "`words` and `known_words` must be given together, or neither. Received "
            f"{missing}=None."
        )
    gold_tags, predicted_tags, forms = _flat(gold, predicted, words)
    if not gold_tags:
        raise ValueError("There must be a word to score. Received no tags.")
    names = _tag_names(tag_names, {*gold_tags, *predicted_tags})
    indices = {name: index for index, name in enumerate(names)}
    confusion = np.zeros((len(names), len(names)), np.int64)
    num_unknown = num_correct = 0
    for one, other, form in zip(gold_tags, predicted_tags, forms):
        confusion[indices[one], indices[other]] += 1
        if known_words is not None and form not in known_words:
            num_unknown += 1
            num_correct += one == other
    if known_words is None:
        return TagReport(names, confusion)
    return TagReport(names, confusion, num_unknown, num_correct)


def _shares(part, whole):
    """Quotients of counts; 0 where there is nothing to share."""
    return np.where(whole > 0, part / np.maximum(whole, 1), 0.0)


def _flat(gold, predicted, words):
    """Tags and words of all sentences in three lists of the same length."""
    gold, predicted = list(gold), list(predicted)
    words = gold if words is None else list(words)
    if not len(gold) == len(predicted) == len(words):
        raise ValueError(
            "`gold`, `predicted` and `words` must have as many sentences. Received "
            f"{len(gold)}, {len(predicted)} and {len(words)}."
        )
    for number, sentence in enumerate(zip(gold, predicted, words), 1):
        if any(isinstance(part, str) for part in sentence):
            raise ValueError(
                "Each sentence must be a sequence of tags or words. Received a string "
                f"as sentence {number}. Wrap a single sentence in a list."
            )
        if len(set(map(len, sentence))) > 1:
            raise ValueError(
                "Each sentence must have as many gold tags, predicted tags and words. "
                f"Received {', '.join(str(len(part)) for part in sentence)} in "
                f"sentence {number}."
            )
    chain = itertools.chain.from_iterable
    return tuple(
        [str(item) for item in chain(side)] for side in (gold, predicted, words)
    )


def _tag_names(tag_names, found):
    if tag_names is None:
        return tuple(sorted(found))
    tag_names = tuple(tag_names)
    missing = sorted(found - set(tag_names))
    if missing or len(set(tag_names)) < len(tag_names):
        raise ValueError(
            "`tag_names` must hold each tag that occurs, and once. Received "
            f"{list(tag_names)}; missing are {missing}."
        )
    return tag_names
