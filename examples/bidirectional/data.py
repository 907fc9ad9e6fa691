"""What the studies learn from: sequences drawn at random, sentences with their tags."""

from typing import NamedTuple

import numpy as np

from keras_bahdanau.grammar import sample_splits

KINDS = ("no run", "first", "inside", "last", "alone")


def draw_runs(rng, count, length, goes_on):
    """Sequences of 0 and 1, `(count, length)`, in which runs of 1s go on.

    A 1 follows a 1 with the probability `goes_on`, and a 0 with 0.4: the next symbol
    depends on this one, not on what was before.
    """
    bits = np.zeros((count, length), int)
    for position in range(length):
        before = bits[:, position - 1] if position else 0
        bits[:, position] = rng.random(count) < np.where(before, goes_on, 0.4)
    return bits


def kinds_of_position(bits):
    """The kind of each position, an index into `KINDS`; around the bits are 0s."""
    around = np.pad(bits, ((0, 0), (1, 1)))
    before, after = around[:, :-2] == 1, around[:, 2:] == 1
    kinds = np.select(
        [~before & after, before & after, before & ~after],
        [KINDS.index("first"), KINDS.index("inside"), KINDS.index("last")],
        KINDS.index("alone"),
    )
    return np.where(bits == 1, kinds, KINDS.index("no run"))


def run_lengths(bits):
    """The length of the run that each 1 belongs to; 0 at 0."""
    lengths = np.zeros_like(bits)
    for row, found in zip(bits, lengths):
        start = 0
        for position in range(len(row) + 1):
            if position == len(row) or row[position] == 0:
                found[start:position] = position - start
                start = position + 1
    return lengths


def in_longest_run(bits):
    """0 at 0; at 1, whether its run is among the longest (2) or not (1)."""
    lengths = run_lengths(bits)
    longest = lengths.max(axis=1, keepdims=True)
    return np.where(bits == 1, 1 + (lengths == longest), 0)


def draw_symbols(rng, count, length, size):
    """Sequences of the symbols 0 to `size - 1`, each as probable as any other."""
    return rng.integers(0, size, (count, length))


def neighbours(symbols):
    """The symbols to the left and to the right of each position, 0 outside."""
    around = np.pad(symbols, ((0, 0), (1, 1)))
    return around[:, :-2], around[:, 2:]


def draw_marked(rng, count, length, size):
    """Sequences with one mark, the symbol 0; their class is the symbol behind it.

    Returns:
        Symbols `(count, length)` from 0 to `size`, classes `(count,)` from 0 to
        `size - 1`, and the positions of the symbols behind the mark.
    """
    symbols = rng.integers(1, size + 1, (count, length))
    rows, marks = np.arange(count), rng.integers(0, length - 1, count)
    symbols[rows, marks] = 0
    return symbols, symbols[rows, marks + 1] - 1, marks + 1


class Tagged(NamedTuple):
    """Sentences with a tag for each word, as text and as numbers from 1, 0 behind."""

    words: list
    tags: list
    word_ids: np.ndarray
    tag_ids: np.ndarray


class Tags:
    """The words and tags of some sentences, with their numbers."""

    def __init__(self, sentences):
        pairs = [pair for sentence in sentences for pair in sentence]
        self.words = sorted({word for word, _ in pairs})
        self.tags = sorted({tag for _, tag in pairs})
        self.num_words, self.num_tags = len(self.words) + 1, len(self.tags) + 1

    def encode(self, sentences):
        """`Tagged` of sentences, which are lists of pairs (word, tag)."""
        words, tags = zip(*[zip(*sentence) for sentence in sentences])
        return Tagged(
            [list(row) for row in words],
            [list(row) for row in tags],
            _numbers(words, self.words),
            _numbers(tags, self.tags),
        )

    def tag(self, name):
        """The number of a tag."""
        return self.tags.index(name) + 1


def _numbers(rows, names):
    number = {name: index + 1 for index, name in enumerate(names)}
    found = np.zeros((len(rows), max(map(len, rows))), int)
    for row, target in zip(rows, found):
        target[: len(row)] = [number[name] for name in row]
    return found


def grammar_sentences(train, test, seed):
    """Sentences of the library's grammar: `Tags`, and `Tagged` of both parts."""
    try:
        parts = sample_splits(train, 0, test, seed)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    texts = [
        [
            list(zip(map(str.lower, pair.source_tokens), pair.source_tags))
            for pair in parts[part]
        ]
        for part in ("train", "test")
    ]
    tags = Tags(texts[0])
    return tags, *map(tags.encode, texts)


READINGS = ("VERB", "NOUN", "ADJ")
_BEFORE = (
    "",
    "today/ADV ,/PUNCT ",
    "every/DET day/NOUN ,/PUNCT ",
    "in/ADP the/DET evening/NOUN ,/PUNCT ",
)
_LEAD = {
    "VERB": (
        "lead/VERB the/DET {those} to/ADP the/DET {place} ./PUNCT",
        "lead/VERB and/CCONJ the/DET {other} {they} ./PUNCT",
    ),
    "NOUN": (
        "lead/NOUN is/AUX {where} the/DET {place} ./PUNCT",
        "lead/NOUN and/CCONJ the/DET {other} {thing} are/AUX {where} the/DET {place} "
        "./PUNCT",
    ),
    "ADJ": (
        "lead/ADJ {artist} {does} {where} the/DET {place} ./PUNCT",
        "lead/ADJ {artist} and/CCONJ the/DET {other} {thing} are/AUX {where} the/DET "
        "{place} ./PUNCT",
    ),
}
_SLOTS = {
    "adjective": "old/ADJ good/ADJ strong/ADJ poor/ADJ",
    "other": "young/ADJ weak/ADJ rich/ADJ new/ADJ",
    "those": "dogs/NOUN horses/NOUN children/NOUN sailors/NOUN",
    "place": "park/NOUN river/NOUN station/NOUN garden/NOUN",
    "they": "follow/VERB wait/VERB help/VERB sleep/VERB",
    "where": "near/ADP in/ADP behind/ADP",
    "thing": "dog/NOUN key/NOUN horse/NOUN hat/NOUN",
    "artist": "singer/NOUN actress/NOUN dancer/NOUN",
    "does": "sings/VERB sleeps/VERB waits/VERB",
}
BEGINNINGS = tuple(
    f"{before}the/DET {adjective} "
    for before in _BEFORE
    for adjective in _SLOTS["adjective"].split()
)
SHOWN = (
    "the/DET old/ADJ lead/VERB the/DET dogs/NOUN to/ADP the/DET park/NOUN ./PUNCT",
    "the/DET old/ADJ lead/NOUN is/AUX in/ADP the/DET garden/NOUN ./PUNCT",
    "the/DET old/ADJ lead/ADJ singer/NOUN waits/VERB near/ADP the/DET park/NOUN "
    "./PUNCT",
    "the/DET old/ADJ lead/VERB and/CCONJ the/DET young/ADJ follow/VERB ./PUNCT",
    "the/DET old/ADJ lead/NOUN and/CCONJ the/DET young/ADJ dog/NOUN are/AUX in/ADP "
    "the/DET garden/NOUN ./PUNCT",
)


def lead_sentences(rng, train, test):
    """Sentences with one *lead*, whose reading only the words behind it tell.

    What is before *lead* is there as often with each of the three readings, in the
    training part and in the test part. No sentence is in both, and none of `SHOWN` in
    either.

    Args:
        rng: `numpy.random.Generator`.
        train, test: Sentences for each of `BEGINNINGS` and each reading.

    Returns:
        Two lists of sentences, lists of pairs (word, tag).
    """
    parts, seen = ([], []), set(SHOWN)
    for beginning in BEGINNINGS:
        for reading in READINGS:
            for part, size in zip(parts, (train, test)):
                part += _new_sentences(rng, beginning, _LEAD[reading], size, seen)
    return tuple([split_tags(text) for text in part] for part in parts)


def _new_sentences(rng, beginning, templates, size, seen):
    """`size` sentences not seen so far, the templates in turn."""
    found, misses = [], 0
    while len(found) < size:
        slots = {name: rng.choice(words.split()) for name, words in _SLOTS.items()}
        text = beginning + templates[len(found) % len(templates)].format(**slots)
        misses += text in seen
        if misses > 1000:
            raise SystemExit(
                "The templates have no more different sentences: ask for fewer with "
                "--examples and --tests."
            )
        if text not in seen:
            seen.add(text)
            found.append(text)
    return found


def split_tags(text):
    return [tuple(word.split("/")) for word in text.split()]
