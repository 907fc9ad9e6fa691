"""Named entities as tags: read, scored, converted, and what may follow what.

An entity is a triple (type, first word, last word), its words counted from 0. Tags name
it by a prefix and its type, such as `B-PER`, and `O` is outside of any. The schemes:

    BIO (IOB2)     B- begins an entity, I- goes on with it
    IOB1           I- does both; B- only begins one right behind another of its type
    BIOES (IOBES)  as BIO, but E- ends an entity, and S- is one of a single word

Reading is lenient, as in the CoNLL evaluation and in `seqeval`: an `I-` with nothing to
go on with begins an entity. Everything here is NumPy; nothing needs a backend.
"""

import collections
import dataclasses
import itertools

import numpy as np

from keras_bahdanau.tagged_text import place_of_word

_PREFIXES = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES"}
_OTHER_NAMES = {"IOB2": "BIO", "IOBES": "BIOES"}
_NO_TYPE = "_"
# What stands before and after a sentence.
_OUTSIDE = "O", None


def entity_spans(tags, scheme="BIO"):
    """Reads the entities from the tags of a sentence.

    An entity ends before `O`, before another type, and before `B-` or `S-`; and after
    `E-` or `S-`. Whatever else is not `O` begins one or goes on with it: no sequence of
    tags is refused for its order. A tag that is a prefix only, as `B`, has type `_`.

    Args:
        tags: Sequence of `str`.
        scheme: `"BIO"`, `"IOB1"` or `"BIOES"` (or `"IOB2"`, `"IOBES"`). It settles the
            prefixes that there are; they mean the same in all schemes.

    Returns:
        List of triples (type, index of the first word, index of the last word), in
        their order.

    Raises:
        ValueError: If a tag does not belong to the scheme.

    Example:

    >>> entity_spans(["B-PER", "I-PER", "O", "I-LOC"])
    [('PER', 0, 1), ('LOC', 3, 3)]

    Reference:
        `get_entities` of https://github.com/chakki-works/seqeval, after
        `conlleval.pl` of the CoNLL-2000 shared task.
    """
    spans, start, last, last_type = [], None, "O", None
    for index, (prefix, kind) in enumerate(_parse(tags, scheme)):
        goes_on = (
            start is not None
            and prefix in ("I", "E")
            and last in ("B", "I")
            and kind == last_type
        )
        if start is not None and not goes_on:
            spans.append((last_type, start, index - 1))
            start = None
        if prefix != "O" and start is None:
            start = index
        last, last_type = prefix, kind
    if start is not None:
        spans.append((last_type, start, len(tags) - 1))
    return spans


def convert_scheme(tags, source, target):
    """Writes the entities of a sentence in another scheme.

    The tags are read as by `entity_spans`, so converting to the same scheme mends
    sequences that break its rules.

    Args:
        tags: Sequence of `str`.
        source: Scheme of the tags: `"BIO"`, `"IOB1"` or `"BIOES"`.
        target: Scheme of the result.

    Returns:
        List of `str`, one for each tag.

    Raises:
        ValueError: If a tag does not belong to the source scheme.

    Example:

    >>> convert_scheme(["I-PER", "I-PER", "O", "I-LOC", "B-LOC"], "IOB1", "BIOES")
    ['B-PER', 'E-PER', 'O', 'S-LOC', 'S-LOC']
    """
    target = _scheme(target)
    result = ["O"] * len(tags)
    before = (None, None, None)
    for kind, first, last in entity_spans(tags, source):
        prefixes = ["B"] + ["I"] * (last - first)
        if target == "IOB1" and (kind, first - 1) != (before[0], before[2]):
            prefixes[0] = "I"
        if target == "BIOES":
            prefixes[-1] = "S" if first == last else "E"
        ending = "" if kind == _NO_TYPE else f"-{kind}"
        result[first : last + 1] = [prefix + ending for prefix in prefixes]
        before = (kind, first, last)
    return result


def allowed_transitions(tag_names, scheme="BIO"):
    """Which tags may begin a sentence, follow each other, and end it.

    For decoding that gives well-formed entities only. `N` is the number of tags.

    Args:
        tag_names: Sequence of `N` different `str`.
        scheme: `"BIO"`, `"IOB1"` or `"BIOES"`.

    Returns:
        Triple of boolean arrays: `start (N,)`, `transitions (N, N)`, of which
        `transitions[i, j]` says whether tag `j` may follow tag `i`, and `end (N,)`.

    Raises:
        ValueError: If a name does not belong to the scheme, or stands there twice.

    Example:

    >>> start, transitions, end = allowed_transitions(["O", "B-PER", "I-PER"])
    >>> start
    array([ True,  True, False])
    >>> transitions
    array([[ True,  True, False],
           [ True,  True,  True],
           [ True,  True,  True]])
    >>> end
    array([ True,  True,  True])
    """
    scheme = _scheme(scheme)
    tag_names = list(tag_names)
    twice = sorted(name for name, n in collections.Counter(tag_names).items() if n > 1)
    if twice or not tag_names:
        raise ValueError(
            "`tag_names` must be one or more names that differ. Received "
            f"{tag_names}, with {twice} more than once."
        )
    tags = _parse(tag_names, scheme)
    follows = [[_may_follow(one, other, scheme) for other in tags] for one in tags]
    return (
        np.array([_may_follow(_OUTSIDE, tag, scheme) for tag in tags]),
        np.array(follows),
        np.array([_may_follow(tag, _OUTSIDE, scheme) for tag in tags]),
    )


def check_scheme(corpus, scheme="BIO", strict=False):
    """Refuses a corpus whose tags are not those of a scheme.

    Args:
        corpus: A `keras_bahdanau.tagged_text.TaggedCorpus`.
        scheme: `"BIO"`, `"IOB1"` or `"BIOES"`.
        strict: Whether every tag must also be allowed behind the one before it, and at
            the end, as `allowed_transitions` says: a CRF with these constraints cannot
            learn others.

    Raises:
        ValueError: At the first word that breaks the rule. The message says where it
            stands, by file and line if the sentence has them.

    Example:

    >>> from keras_bahdanau.tagged_text import TaggedCorpus
    >>> corpus = TaggedCorpus([(["in", "Rome"], ["O", "I-LOC"])], "test")
    >>> check_scheme(corpus)
    >>> check_scheme(corpus, strict=True)
    Traceback (most recent call last):
    ...
    ValueError: In the scheme BIO, O must not be followed by I-LOC. Choose the scheme of
    the corpus, or convert it by `convert_scheme`. Received it for the word 'Rome' in
    sentence 1 of test.
    """
    scheme = _scheme(scheme)
    for number, sentence in enumerate(corpus, 1):
        tags = []
        for index, tag in enumerate(sentence.tags):
            try:
                tags.append(_parse_tag(tag, scheme))
            except ValueError as error:
                raise ValueError(f"{error} {_word(corpus, number, index)}") from error
        moves = itertools.pairwise([_OUTSIDE, *tags, _OUTSIDE])
        wrong = [k for k, move in enumerate(moves) if not _may_follow(*move, scheme)]
        if strict and wrong:
            names = ["the beginning", *sentence.tags, "the end"]
            raise ValueError(
                f"In the scheme {scheme}, {names[wrong[0]]} must not be followed by "
                f"{names[wrong[0] + 1]}. Choose the scheme of the corpus, or convert "
                "it by `convert_scheme`. "
                + _word(corpus, number, min(wrong[0], len(tags) - 1))
            )


def _word(corpus, number, index):
    """Names a word of a corpus, for messages."""
    sentence = corpus[number - 1]
    place = place_of_word(corpus, number, sentence, index)
    return f"Received it for the word {sentence.words[index]!r} {place}."


def _may_follow(tag, following, scheme):
    """Whether a pair (prefix, type) may come next; `O` stands for either end."""
    prefix, kind = tag
    next_prefix, next_kind = following
    same = kind == next_kind
    if scheme == "IOB1":
        return next_prefix != "B" or (prefix != "O" and same)
    if scheme == "BIO":
        return next_prefix != "I" or (prefix != "O" and same)
    if prefix in ("B", "I"):
        return next_prefix in ("I", "E") and same
    return next_prefix not in ("I", "E")


# ---------------------------------------------------------------- scores


@dataclasses.dataclass(frozen=True)
class EntityScores:
    """How well predicted entities agree with gold ones; `str` gives a table.

    Args:
        correct: Number of entities that are in both, with type and both ends.
        predicted: Number of predicted entities.
        support: Number of gold entities.
        by_type: Dictionary from each type that occurs to its `EntityScores`, sorted.

    Example:

    >>> scores = EntityScores(correct=1, predicted=2, support=4)
    >>> scores.precision, scores.recall, round(scores.f1, 3)
    (0.5, 0.25, 0.333)
    """

    correct: int
    predicted: int
    support: int
    by_type: dict = dataclasses.field(default_factory=dict)

    @property
    def precision(self):
        """The share of the predicted entities that are correct; 0 without any."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self):
        """The share of the gold entities that were predicted; 0 without any."""
        return self.correct / self.support if self.support else 0.0

    @property
    def f1(self):
        """The harmonic mean of precision and recall; 0 if both are."""
        both = self.predicted + self.support
        return 2 * self.correct / both if both else 0.0

    def __str__(self):
        width = max(map(len, ["all types", *self.by_type]))
        rows = [f"{'':{width}} precision  recall      F1 support"]
        for name, scores in [*self.by_type.items(), ("all types", self)]:
            rows.append(
                f"{name:{width}} {100 * scores.precision:9.2f} "
                f"{100 * scores.recall:7.2f} {100 * scores.f1:7.2f} "
                f"{scores.support:7d}"
            )
        return "\n".join(rows)


def entity_scores(gold, predicted, scheme="BIO"):
    """Precision, recall and F1 of entities, over all sentences and for each type.

    An entity counts if its type and both its ends are right. The counts are summed over
    all sentences and types (the micro average of `seqeval`), and a share of nothing is
    0.

    Args:
        gold: Sequence of sequences of tags, one for each sentence.
        predicted: The same for what was predicted.
        scheme: `"BIO"`, `"IOB1"` or `"BIOES"`, see `entity_spans`.

    Returns:
        An `EntityScores`.

    Raises:
        ValueError: If the sentences differ in number or length, or a tag does not
            belong to the scheme.

    Example:

    >>> gold = [["B-PER", "I-PER", "O"], ["B-LOC", "O"]]
    >>> predicted = [["B-PER", "I-PER", "B-PER"], ["O", "O"]]
    >>> scores = entity_scores(gold, predicted)
    >>> scores.precision, scores.recall, scores.f1, scores.support
    (0.5, 0.5, 0.5, 2)
    >>> print(scores)
              precision  recall      F1 support
    LOC            0.00    0.00    0.00       1
    PER           50.00  100.00   66.67       1
    all types     50.00   50.00   50.00       2
    """
    correct, found, support = (collections.Counter() for _ in range(3))
    pairs = itertools.zip_longest(gold, predicted)
    for number, (gold_tags, predicted_tags) in enumerate(pairs, 1):
        _check_pair(gold_tags, predicted_tags, number)
        gold_spans = set(entity_spans(gold_tags, scheme))
        predicted_spans = set(entity_spans(predicted_tags, scheme))
        for counts, spans in (
            (correct, gold_spans & predicted_spans),
            (found, predicted_spans),
            (support, gold_spans),
        ):
            counts.update(kind for kind, _, _ in spans)
    by_type = {
        kind: EntityScores(correct[kind], found[kind], support[kind])
        for kind in sorted({*found, *support})
    }
    return EntityScores(correct.total(), found.total(), support.total(), by_type)


def _check_pair(gold, predicted, number):
    if gold is None or predicted is None:
        missing = "`gold`" if gold is None else "`predicted`"
        raise ValueError(
            "`gold` and `predicted` must have as many sentences. Received no sentence "
            f"{number} in {missing}. Wrap the tags of a single sentence in a list."
        )
    if isinstance(gold, str) or isinstance(predicted, str):
        raise ValueError(
            "Each sentence must be a sequence of tags. Received a string as sentence "
            f"{number}: {gold!r} and {predicted!r}. Wrap the tags of a single sentence "
            "in a list."
        )
    if len(gold) != len(predicted):
        raise ValueError(
            "Each sentence must have as many predicted tags as gold ones. Received "
            f"{len(predicted)} for {len(gold)} in sentence {number}."
        )


# ---------------------------------------------------------------- names


def _scheme(scheme):
    """The name of a scheme, one of three."""
    name = _OTHER_NAMES.get(scheme, scheme)
    if name not in _PREFIXES:
        known = [*_PREFIXES, *_OTHER_NAMES]
        raise ValueError(f"A scheme must be one of {known}. Received: {scheme!r}.")
    return name


def _parse(tags, scheme):
    """Pairs (prefix, type) of tags; the type of `O` is None."""
    scheme = _scheme(scheme)
    return [_parse_tag(tag, scheme) for tag in tags]


def _parse_tag(tag, scheme):
    if tag == "O":
        return "O", None
    prefix, dash, kind = tag[:1], tag[1:2], tag[2:]
    if (
        prefix
        and prefix in _PREFIXES[scheme]
        and (kind if dash == "-" else tag[1:] == "")
    ):
        return prefix, kind or _NO_TYPE
    prefixes = " or ".join(f"`{prefix}-`" for prefix in _PREFIXES[scheme])
    raise ValueError(
        f"A tag of the scheme {scheme} must be `O`, or {prefixes} and a type, such as "
        f"B-PER. Received: {tag!r}. Choose the scheme, or map names to it first."
    )
