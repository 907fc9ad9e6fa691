"""Corpora drawn from the grammar: sentence pairs with links and tags."""

import random
from typing import NamedTuple

from keras_bahdanau.grammar.phrases import settle
from keras_bahdanau.grammar.sentences import draw_sentence


class SentencePair(NamedTuple):
    """An English sentence and its French translation, word by word.

    Attributes:
        source, target: The sentences as text.
        source_tokens, target_tokens: Their words and punctuation marks, as the words
            of `keras_bahdanau.tf.tokenize` read without their spacing marks.
        source_tags, target_tags: The universal part of speech (UPOS) of each.
        links: Sure links, sorted pairs (source position, target position).
        possible_links: Further links that an aligner is free to make or to leave out;
            none of them is in `links`.
    """

    source: str
    target: str
    source_tokens: tuple
    target_tokens: tuple
    source_tags: tuple
    target_tags: tuple
    links: tuple
    possible_links: tuple


def sample_corpus(size, seed=0, *, min_length=4, max_length=16):
    """Draws distinct sentence pairs.

    No two pairs share their English or their French sentence, and each English
    sentence has one translation only. The same arguments give the same pairs, in the
    same order, on every machine; a larger `size` continues a smaller one.

    Args:
        size: Number of pairs.
        seed: Integer.
        min_length: Words and marks in the shorter sentence of a pair, at least.
        max_length: Words and marks in the longer sentence of a pair, at most. Lengths
            spread over the whole range: beyond some 16 words, sentences grow by
            coordination, subordination and relative clauses.

    Returns:
        List of `SentencePair`.

    Raises:
        ValueError: If an argument is out of range, or so few sentences are that short
            that `size` of them are not found.

    Example:

    >>> pairs = sample_corpus(3, seed=1)
    >>> [len(pair.source_tokens) == len(pair.source_tags) for pair in pairs]
    [True, True, True]
    """
    if size < 1:
        raise ValueError(f"`size` must be at least 1. Received: size={size}.")
    return _take(_distinct_pairs(seed, min_length, max_length), size)


def sample_splits(
    train=24_000, validation=1_000, test=1_000, seed=0, *, min_length=4, max_length=16
):
    """Draws distinct sentence pairs for training, validation and test.

    No sentence of one part is in another, in either language. Every word of the
    validation and test parts, in each of its readings (word and tag), is also in the
    training part: what is new there is how words combine. (After a few hundred
    training pairs only, that leaves shorter sentences than usual.) The training part
    is `sample_corpus(train, seed)`; each seed gives other parts.

    Args:
        train, validation, test: Numbers of pairs; `train` at least 1.
        seed: Integer.
        min_length, max_length: As for `sample_corpus`.

    Returns:
        Dictionary of the three lists: "train", "validation", "test".

    Raises:
        ValueError: As for `sample_corpus`.

    Example:

    >>> parts = sample_splits(50, 4, 6, seed=1)
    >>> {name: len(part) for name, part in parts.items()}
    {'train': 50, 'validation': 4, 'test': 6}
    """
    if train < 1 or validation < 0 or test < 0:
        raise ValueError(
            "`train` must be at least 1, `validation` and `test` at least 0. Received: "
            f"train={train}, validation={validation}, test={test}."
        )
    pairs = _distinct_pairs(seed, min_length, max_length)
    parts = {"train": _take(pairs, train)}
    known = set().union(*map(_readings, parts["train"]))
    familiar = (pair if pair and _readings(pair) <= known else None for pair in pairs)
    parts["validation"] = _take(familiar, validation)
    parts["test"] = _take(familiar, test)
    return parts


def _distinct_pairs(seed, min_length, max_length):
    """Yields pairs that share no sentence, without end; None for each miss."""
    if not 4 <= min_length <= max_length - 4:
        raise ValueError(
            "`min_length` must be 4 or more and `max_length` at least 4 above it. "
            f"Received: min_length={min_length}, max_length={max_length}."
        )
    generator = random.Random(int(seed))
    seen = set()
    while True:
        pair = draw_pair(generator, min_length, max_length)
        if pair is None or pair.source in seen or pair.target in seen:
            yield None
        else:
            seen.update((pair.source, pair.target))
            yield pair


def _take(pairs, size):
    """The next `size` pairs; an error if they are too rare."""
    taken, misses = [], 0
    while len(taken) < size:
        pair = next(pairs)
        if pair is not None:
            taken.append(pair)
            misses = 0
        else:
            misses += 1
        if misses == _PATIENCE:
            raise ValueError(
                f"There must be {size} sentences of the lengths asked for. Received "
                f"none that is new in {misses} tries, after {len(taken)}. Ask for "
                "fewer or longer ones, or for more to train on."
            )
    return taken


_PATIENCE = 20_000


def draw_pair(generator, min_length=4, max_length=16):
    """Draws one sentence pair, or None if it came out too long or too short.

    Args:
        generator: A `random.Random`.
        min_length, max_length: As for `sample_corpus`.

    Returns:
        A `SentencePair` or None.
    """
    length = min_length + int(generator.random() * (max_length - min_length + 1))
    richness = 1.0 if length <= 16 else 1.6
    phrase = draw_sentence(generator, length, richness)
    if phrase is None:
        return None
    source, groups = settle(phrase)
    lengths = (len(source), len(groups))
    if min(lengths) < min_length or max(lengths) > max_length:
        return None
    return finish(source, groups)


def finish(source, groups):
    """Numbers the words and turns the links between them into positions.

    Args:
        source: List of English words, as from `settle`.
        groups: List of groups of French words, as from `settle`.

    Returns:
        A `SentencePair`.
    """
    place = {id(word): j for j, group in enumerate(groups) for word in group}
    sure, possible = set(), set()
    for i, word in enumerate(source):
        sure.update((i, place[id(target)]) for target in word.links)
        possible.update((i, place[id(target)]) for target in word.possible)
    source_tokens = _capitalize([word.text for word in source])
    target_tokens = _capitalize([group[0].text for group in groups])
    return SentencePair(
        _english_text(source_tokens),
        _french_text(target_tokens),
        tuple(source_tokens),
        tuple(target_tokens),
        tuple(word.tag for word in source),
        tuple(group[0].tag for group in groups),
        tuple(sorted(sure)),
        tuple(sorted(possible - sure)),
    )


def _capitalize(tokens):
    return [tokens[0][0].upper() + tokens[0][1:]] + tokens[1:]


def _english_text(tokens):
    text = " ".join(tokens)
    for mark in (".", ",", "?", "'s"):
        text = text.replace(f" {mark}", mark)
    return text


def _french_text(tokens):
    text = " ".join(tokens).replace("' ", "'")
    for mark in (".", ","):
        text = text.replace(f" {mark}", mark)
    return text


def _readings(pair):
    """Words with their tags, marked by language, each once."""
    return {
        (language, *reading)
        for language, tokens, tags in (
            ("source", pair.source_tokens, pair.source_tags),
            ("target", pair.target_tokens, pair.target_tags),
        )
        for reading in zip(tokens, tags)
    }
