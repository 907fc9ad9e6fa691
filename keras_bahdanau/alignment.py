"""Word alignments: out of attention weights, as text, and measured against gold.

A link is a pair (source position, target position), both counted from 0. Everything
here is NumPy; nothing needs a backend.
"""

import re

import numpy as np

_LINK = re.compile(r"(\d+)([-p])(\d+)", re.ASCII)
_METHODS = (
    "intersection",
    "union",
    "grow-diag",
    "grow-diag-strict",
    "grow-diag-final-and",
)
# The order of Moses: what is added may depend on it.
_STEPS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def parse_alignment(text, reverse=False):
    """Reads the links of one sentence pair from a line of text.

    `0-0 1-2` is the Pharaoh format. A `p` in place of the hyphen (`3p4`), as in the
    TALP format of gold alignments, marks a link as possible, not sure.

    Args:
        text: The line.
        reverse: Whether the target position comes first in it.

    Returns:
        Pair of sets of links: the sure ones, and all of them (sure and possible).

    Raises:
        ValueError: If a word of the line is not a link.

    Example:

    >>> sure, possible = parse_alignment("0-0 1p2")
    >>> sorted(sure), sorted(possible)
    ([(0, 0)], [(0, 0), (1, 2)])
    """
    sure, possible = set(), set()
    for word in text.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise ValueError(
                "A link must read `source-target`, such as 0-2, or `0p2` if it is "
                f"only possible. Received: {word!r} in the line {text.strip()!r}."
            )
        link = int(match[1]), int(match[3])
        link = link[::-1] if reverse else link
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return sure, possible


def format_alignment(sure, possible=()):
    """Writes links as text, in the order of the source words.

    Args:
        sure: Links, written `0-0`.
        possible: Further links, written `0p0` unless they are sure as well.

    Returns:
        String that `parse_alignment` reads.

    Example:

    >>> format_alignment([(1, 2), (0, 0)], possible=[(0, 0), (0, 1)])
    '0-0 0p1 1-2'
    """
    sure, possible = link_set(sure, "sure"), link_set(possible, "possible")
    return " ".join(
        f"{i}{'-' if (i, j) in sure else 'p'}{j}" for i, j in sorted(sure | possible)
    )


def hard_alignment(
    weights, source_length=None, target_length=None, *, threshold=None, allow_end=False
):
    """Turns attention weights into links.

    Each target word is linked to the source word with the largest weight, the first of
    them if several share it; a target word without any weight stays unlinked.

        link(j) = argmax_i weights[j, i],    i < source_length

    Lengths count the words; the weights may have more rows and columns, for the end
    token and padding. Those never get a link.

    Args:
        weights: Array of shape `(T, S)`, one row per target word.
        source_length: Number of source words; by default `S`.
        target_length: Number of target words; by default `T`.
        threshold: If given, a target word is linked to every source word whose weight
            is at least this instead: to none, one or several.
        allow_end: Whether the column after the last source word, the end token's, also
            competes: a target word that attends there most stays unlinked.

    Returns:
        Set of links.

    Raises:
        ValueError: If the weights are not a finite matrix without negative entries, a
            length exceeds it, or `allow_end` comes with a threshold.

    Example:

    >>> weights = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]
    >>> sorted(hard_alignment(weights))
    [(0, 0), (2, 1)]
    >>> sorted(hard_alignment(weights, source_length=2))
    [(0, 0), (1, 1)]
    >>> sorted(hard_alignment(weights, source_length=2, allow_end=True))
    [(0, 0)]
    """
    if allow_end and threshold is not None:
        raise ValueError(
            "`allow_end` must not come with a threshold, for which no column competes "
            f"with another. Received: threshold={threshold}, allow_end={allow_end}. "
            "Leave out one of the two."
        )
    weights = weight_matrix(weights)
    source_length = _length(source_length, weights.shape[1], "source_length", "columns")
    target_length = _length(target_length, weights.shape[0], "target_length", "rows")
    rows = weights[:target_length, : source_length + bool(allow_end)]
    if rows.shape[1] == 0:
        return set()
    if threshold is not None:
        if not 0 < threshold <= 1:
            raise ValueError(
                "`threshold` must be above 0 and at most 1. "
                f"Received: threshold={threshold}."
            )
        chosen = np.argwhere(rows[:, :source_length] >= threshold)
        return {(int(i), int(j)) for j, i in chosen}
    best = rows.argmax(axis=1)
    return {
        (int(i), j) for j, i in enumerate(best) if i < source_length and rows[j, i] > 0
    }


def symmetrize(forward, backward, method="grow-diag"):
    """Joins the links of both directions of one sentence pair.

    A model that writes the target links each target word to one source word, and a
    model of the other direction each source word to one target word. What both say is
    mostly right, but little; the methods differ in what they add to it:

    - `"intersection"`: nothing.
    - `"union"`: everything that one of them says.
    - `"grow-diag"`: as Moses does it, links of the union that touch a link found so
      far, at a side or a corner, and of whose two words EITHER has no link yet. This
      goes on until there is none.
    - `"grow-diag-strict"`: the same, but BOTH words must have no link yet.
    - `"grow-diag-final-and"`: `"grow-diag"`, and then, of the forward and after that
      of the backward links, those of whose two words both still have no link.

    Growing visits links in the order of their source words, then of their target
    words, and the neighbours of each above, left, below, right, then the corners; a
    link counts from when it is added.

    Args:
        forward: Links of one direction.
        backward: Links of the other direction, these too as pairs (source position,
            target position) of the forward one.
        method: One of the five above.

    Returns:
        Set of links.

    Raises:
        ValueError: If the method is not known, or something else than links is given.

    Example:

    >>> forward, backward = {(0, 0), (1, 1), (2, 1)}, {(0, 0), (1, 1), (1, 2), (3, 4)}
    >>> for method in ("intersection", "grow-diag", "grow-diag-final-and"):
    ...     print(format_alignment(symmetrize(forward, backward, method)))
    0-0 1-1
    0-0 1-1 1-2 2-1
    0-0 1-1 1-2 2-1 3-4

    Reference:
        Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation", section
        4.2; Koehn et al. 2005, "Edinburgh System Description for the 2005 IWSLT
        Speech Translation Evaluation".
    """
    forward = link_set(forward, "forward")
    backward = link_set(backward, "backward")
    if method not in _METHODS:
        raise ValueError(
            f"`method` must be one of {_METHODS}. Received: method={method!r}."
        )
    both, either = forward & backward, forward | backward
    if method == "intersection":
        return both
    if method == "union":
        return either
    found = _grow(both, either, all if method == "grow-diag-strict" else any)
    if method == "grow-diag-final-and":
        for link in (*sorted(forward), *sorted(backward)):
            if all(_free(link, found)):
                found.add(link)
    return found


def _grow(found, either, enough):
    """The links, and those of `either` that touch them one after another."""
    found, before = set(found), None
    while len(found) != before:
        before = len(found)
        for link in sorted(either):
            if link in found:
                for step in _STEPS:
                    new = link[0] + step[0], link[1] + step[1]
                    if new in either and new not in found:
                        if enough(_free(new, found)):
                            found.add(new)
    return found


def _free(link, found):
    """Whether the source word has no link yet, and whether the target word has."""
    return [all(link[side] != other[side] for other in found) for side in (0, 1)]


def merge_weights(weights, source_words=None, target_words=None):
    """Adds up the weights of subword pieces to weights of words.

    A word's weight is the sum over its pieces on the source side, and the mean over its
    pieces on the target side; a row that added up to 1 still does.

        merged[t, s] = mean over pieces j of t, sum over pieces i of s: weights[j, i]

    Args:
        weights: Array of shape `(T, S)` over pieces.
        source_words: For each source piece, the index of its word: `S` integers
            counting up from 0 without gaps. None leaves the source side as it is.
        target_words: The same for the `T` target pieces.

    Returns:
        Array of shape (target words, source words).

    Raises:
        ValueError: If the words do not fit the weights.

    Example:

    >>> merge_weights([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]], source_words=[0, 0, 1])
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    weights = weight_matrix(weights)
    if source_words is not None:
        words = _words(source_words, weights.shape[1], "source_words", "columns")
        weights = weights @ words
    if target_words is not None:
        words = _words(target_words, weights.shape[0], "target_words", "rows")
        weights = (words / words.sum(axis=0)).T @ weights
    return weights


def replace_unknown(target_tokens, unknown, weights, source_words, dictionary=None):
    """Puts a word of the source in the place of each unknown target token.

        word(j) = source_words[argmax_i weights[j, i]],     i < len(source_words)

    or what the dictionary has for that word, else for it in lower case. For what a
    search found on any backend, one sentence at a time; a
    `keras_bahdanau.tf.Translator` does it by itself. With subwords, add up the
    weights of each word first, with `merge_weights`.

    Masking: rows and columns behind the tokens and words, for the end token and
    padding, count for nothing.

    Args:
        target_tokens: `T` strings.
        unknown: `T` booleans, or more: which of the tokens are unknown.
        weights: Array with a row for each target token and a column for each source
            word, or more.
        source_words: `S` strings, as they are spelled in the text.
        dictionary: What to put for words of the source, or None.

    Returns:
        List of `T` strings. Where there is no source word, or none has any weight,
        the token stays.

    Raises:
        ValueError: If the weights are not a finite matrix without negative entries,
            or there are fewer rows, columns or marks than tokens and words.

    Example:

    >>> from keras import ops
    >>> token_ids = ops.array([[5, 1, 3, 0]])  # 1 is unknown, 3 the end token
    >>> weights = ops.array([[[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.0, 0.0]]])
    >>> unknown = ops.convert_to_numpy(token_ids)[0] == 1
    >>> weights = ops.convert_to_numpy(weights)[0]
    >>> replace_unknown(["in", "<unk>"], unknown, weights, ["in", "Kyiv"])
    ['in', 'Kyiv']
    >>> words = {"kyiv": "Kiew"}
    >>> replace_unknown(["in", "<unk>"], unknown, weights, ["in", "Kyiv"], words)
    ['in', 'Kiew']

    Reference: Luong et al. 2015 (arXiv 1410.8206); Jean et al. 2015
    (arXiv 1412.2007), section 4.1.
    """
    target_tokens, source_words = list(target_tokens), list(source_words)
    unknown = np.asarray(unknown)
    count = len(target_tokens)
    if unknown.dtype.kind != "b" or unknown.ndim != 1 or len(unknown) < count:
        raise ValueError(
            f"`unknown` must be a boolean for each of the {count} target tokens. "
            f"Received shape {unknown.shape} and dtype {unknown.dtype}. Pass "
            "`token_ids == 1` of one sentence, say."
        )
    dictionary = dictionary or {}
    replaced = list(target_tokens)
    for i, j in hard_alignment(weights, len(source_words), count):
        if unknown[j]:
            word = source_words[i]
            replaced[j] = dictionary.get(word) or dictionary.get(word.lower()) or word
    return replaced


def project_weights(weights, source_tokens, source_words, target_tokens, target_words):
    """Turns weights over the tokens of a model into weights over given words.

    For text that stands tokenised in another way than the model's, such as gold
    alignments: both are laid over each other, character by character, blanks aside.
    A token that covers several words is shared out by characters; a word's row is
    the mean over its characters. A row that added up to 1 still does.

        projected[t, s] = sum over j, i: B[t, j] weights[j, i] A[i, s]
        A[i, s] = share of the characters of source token i that lie in word s
        B[t, j] = share of the characters of target word t that lie in token j

    Args:
        weights: Array of shape `(T, S)` over tokens, without end tokens.
        source_tokens: `S` strings, the tokens without spacing marks.
        source_words: Strings of the same text, split in another way.
        target_tokens: `T` strings.
        target_words: Strings of the same text.

    Returns:
        Array of shape (target words, source words). A word without a character has
        no weight.

    Raises:
        ValueError: If tokens and words have not as many characters, or the weights do
            not fit the tokens.

    Example:

    >>> weights = [[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]]
    >>> target = ["reste", "là"]
    >>> project_weights(weights, ["do", "n't", "go"], ["don't", "go"], target, target)
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    weights = weight_matrix(weights)
    for name, tokens, size, axis in (
        ("source_tokens", source_tokens, weights.shape[1], "columns"),
        ("target_tokens", target_tokens, weights.shape[0], "rows"),
    ):
        if len(tokens) != size:
            raise ValueError(
                f"`{name}` must be one for each of the {size} {axis} of the weights. "
                f"Received {len(tokens)}. Cut off the end token and padding."
            )
    columns = _shared(source_tokens, source_words, "source")
    rows = _shared(target_words, target_tokens, "target")
    return rows @ weights @ columns


def _shared(ones, others, side):
    """The share of each of `ones` that lies in each of `others`, laid over them."""
    starts = [np.cumsum([0, *map(_count, texts)]) for texts in (ones, others)]
    if starts[0][-1] != starts[1][-1]:
        raise ValueError(
            f"The {side} tokens and words must be the same text. Received "
            f"{list(ones)} and {list(others)}, of {starts[0][-1]} and "
            f"{starts[1][-1]} characters."
        )
    left = np.maximum(starts[0][:-1, None], starts[1][:-1])
    right = np.minimum(starts[0][1:, None], starts[1][1:])
    shared = np.maximum(right - left, 0).astype("float64")
    return shared / np.maximum(shared.sum(axis=1, keepdims=True), 1)


def _count(text):
    """Number of characters that are not blank."""
    return len("".join(text.split()))


def alignment_error_rate(hypotheses, sure, possible=None):
    """The alignment error rate (AER) of a corpus.

        AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

    for the hypothesis' links A, the sure links S and all gold links P; S is part of P.
    The counts are summed over all sentences before the division. 0 is perfect.

    Args:
        hypotheses: List of sets of links, one per sentence pair.
        sure: List of sets of sure gold links.
        possible: List of sets of possible gold links; sure ones are added to them. By
            default there are none but the sure ones.

    Returns:
        Float between 0 and 1; 0 if there is no link on either side.

    Raises:
        ValueError: If the lists differ in length, or hold something else than links.

    Example:

    >>> alignment_error_rate([{(0, 0), (1, 2)}], sure=[{(0, 0), (1, 1)}])
    0.5

    Reference:
        Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment
        Models", section 2.3.
    """
    counts = _counts(hypotheses, sure, possible)
    links = counts["hypothesis"] + counts["sure"]
    if links == 0:
        return 0.0
    return 1.0 - (counts["hits_sure"] + counts["hits_possible"]) / links


def alignment_precision(hypotheses, sure, possible=None):
    """The share of the hypothesis' links that are possible: |A ∩ P| / |A|.

    Args:
        hypotheses, sure, possible: As for `alignment_error_rate`.

    Returns:
        Float between 0 and 1; 1 if there are no hypothesis links.

    Example:

    >>> alignment_precision([{(0, 0), (1, 2)}], sure=[{(0, 0)}], possible=[{(1, 2)}])
    1.0
    """
    counts = _counts(hypotheses, sure, possible)
    if counts["hypothesis"] == 0:
        return 1.0
    return counts["hits_possible"] / counts["hypothesis"]


def alignment_recall(hypotheses, sure):
    """The share of the sure links that the hypothesis has: |A ∩ S| / |S|.

    Args:
        hypotheses, sure: As for `alignment_error_rate`.

    Returns:
        Float between 0 and 1; 1 if there are no sure links.

    Example:

    >>> alignment_recall([{(0, 0), (1, 2)}], sure=[{(0, 0), (1, 1)}])
    0.5
    """
    counts = _counts(hypotheses, sure, None)
    return counts["hits_sure"] / counts["sure"] if counts["sure"] else 1.0


def _counts(hypotheses, sure, possible):
    """Sums of link counts over the corpus."""
    hypotheses, sure = list(hypotheses), list(sure)
    possible = [()] * len(sure) if possible is None else list(possible)
    if not len(hypotheses) == len(sure) == len(possible):
        raise ValueError(
            "`hypotheses`, `sure` and `possible` must have one set of links per "
            f"sentence pair. Received lengths {len(hypotheses)}, {len(sure)} and "
            f"{len(possible)}. Wrap the links of a single pair in a list."
        )
    counts = dict.fromkeys(("hypothesis", "sure", "hits_sure", "hits_possible"), 0)
    for found, certain, maybe in zip(hypotheses, sure, possible):
        found = link_set(found, "hypotheses")
        certain = link_set(certain, "sure")
        counts["hypothesis"] += len(found)
        counts["sure"] += len(certain)
        counts["hits_sure"] += len(found & certain)
        counts["hits_possible"] += len(found & (certain | link_set(maybe, "possible")))
    return counts


def link_set(links, name):
    """A set of pairs of plain integers, or a `ValueError` that shows what is none."""
    result = set()
    for link in links:
        try:
            i, j = (int(position) for position in link)
            fits = i >= 0 and j >= 0 and (i, j) == tuple(link)
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise ValueError(
                f"`{name}` must hold links, pairs (source position, target position) "
                f"counted from 0. Received: {link!r}. Text such as '0-0 1-2' goes "
                "through `parse_alignment` first."
            )
        result.add((i, j))
    return result


def weight_matrix(weights):
    weights = np.asarray(weights)
    if weights.ndim != 2 or weights.dtype.kind not in "fiu":
        raise ValueError(
            "`weights` must be a matrix of numbers of shape (target, source), the "
            f"weights of one sentence pair. Received shape {weights.shape} and dtype "
            f"{weights.dtype}. Take one sentence of a batch at a time."
        )
    if weights.dtype.kind != "f":
        weights = weights.astype("float64")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            "`weights` must be finite and not negative. Received values between "
            f"{weights.min()} and {weights.max()}. Pass the weights after the softmax, "
            "not the scores before it."
        )
    return weights


def _length(length, size, name, axis):
    if length is None:
        return size
    if not 0 <= length <= size:
        raise ValueError(
            f"`{name}` must lie between 0 and the number of {axis} of the weights. "
            f"Received: {name}={length}, {axis}={size}."
        )
    return int(length)


def _words(words, size, name, axis):
    """A matrix (pieces, words) of ones where a piece belongs to a word."""
    words = np.asarray(words)
    steps = np.diff(words, prepend=-1) if words.ndim == 1 else None
    fits = words.shape == (size,) and words.dtype.kind in "iu"
    if not fits or (size and (words[0] != 0 or not np.isin(steps, (0, 1)).all())):
        raise ValueError(
            f"`{name}` must give each of the {size} {axis} of the weights the index of "
            "its word, counting up from 0 without gaps, such as [0, 0, 1]. Received: "
            f"{words.tolist()}."
        )
    count = int(words[-1]) + 1 if size else 0
    return (words[:, None] == np.arange(count)).astype("float64")
