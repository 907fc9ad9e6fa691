"""Entities: read from tags as `seqeval` does, scored, converted, and well-formed.

The values of `SPANS` and `SCORES` were computed by seqeval 1.2.2 in its default mode
(`get_entities` and `precision_recall_fscore_support`), for random tags.
"""

import itertools

import numpy as np
import pytest

from keras_bahdanau.entities import (
    EntityScores,
    allowed_transitions,
    check_scheme,
    convert_scheme,
    entity_scores,
    entity_spans,
)
from keras_bahdanau.tagged_text import TaggedCorpus, TaggedSentence

SPANS = [
    ("BIO", "B-X I-X B-X B-X I-X B-X O", "X:0-1 X:2-2 X:3-4 X:5-5"),
    ("BIO", "B-X I-X B-X I-X", "X:0-1 X:2-3"),
    ("BIO", "O I-Y-z I-Y-z I-Y-z B-X", "Y-z:1-3 X:4-4"),
    ("BIO", "B-X I-Y-z I-Y-z", "X:0-0 Y-z:1-2"),
    ("BIO", "B-Y-z B-Y-z I-Y-z", "Y-z:0-0 Y-z:1-2"),
    ("BIO", "O I-X B-X B-X I-X", "X:1-1 X:2-2 X:3-4"),
    ("BIO", "B-Y-z B-Y-z B-Y-z", "Y-z:0-0 Y-z:1-1 Y-z:2-2"),
    ("BIO", "B-X B-X I-X O B-Y-z I-X I-X I-X", "X:0-0 X:1-2 Y-z:4-4 X:5-7"),
    ("BIO", "B-X I-X B-X B-X B-X B-X", "X:0-1 X:2-2 X:3-3 X:4-4 X:5-5"),
    ("BIO", "B-Y-z B-Y-z B-X B-X B-X B-X", "Y-z:0-0 Y-z:1-1 X:2-2 X:3-3 X:4-4 X:5-5"),
    ("BIO", "B-X I-X B-X I-X B-X I-X", "X:0-1 X:2-3 X:4-5"),
    ("BIO", "I-Y-z I-Y-z I-Y-z I-Y-z O I-X B-Y-z", "Y-z:0-3 X:5-5 Y-z:6-6"),
    ("IOB1", "I-X B-Y-z O B-X", "X:0-0 Y-z:1-1 X:3-3"),
    ("IOB1", "I-X B-X B-X B-X I-X B-X I-Y-z", "X:0-0 X:1-1 X:2-2 X:3-4 X:5-5 Y-z:6-6"),
    ("IOB1", "O I-X B-X B-X I-Y-z I-Y-z", "X:1-1 X:2-2 X:3-3 Y-z:4-5"),
    ("IOB1", "I-Y-z B-X I-Y-z I-X I-Y-z", "Y-z:0-0 X:1-1 Y-z:2-2 X:3-3 Y-z:4-4"),
    ("IOB1", "B-Y-z B-Y-z B-Y-z O", "Y-z:0-0 Y-z:1-1 Y-z:2-2"),
    ("IOB1", "B-Y-z O I-X I-Y-z I-X I-X", "Y-z:0-0 X:2-2 Y-z:3-3 X:4-5"),
    ("IOB1", "I-Y-z I-Y-z B-Y-z I-Y-z I-Y-z B-Y-z", "Y-z:0-1 Y-z:2-4 Y-z:5-5"),
    ("IOB1", "B-X B-X I-X O", "X:0-0 X:1-2"),
    ("BIOES", "E-Y-z I-Y-z I-Y-z B-X I-X S-Y-z", "Y-z:0-0 Y-z:1-2 X:3-4 Y-z:5-5"),
    ("BIOES", "S-X S-X B-X B-X I-X S-X", "X:0-0 X:1-1 X:2-2 X:3-4 X:5-5"),
    ("BIOES", "E-X I-Y-z E-Y-z E-X O", "X:0-0 Y-z:1-2 X:3-3"),
    ("BIOES", "O S-Y-z I-Y-z S-X", "Y-z:1-1 Y-z:2-2 X:3-3"),
    ("BIOES", "E-X S-X S-X I-X S-X S-X", "X:0-0 X:1-1 X:2-2 X:3-3 X:4-4 X:5-5"),
    ("BIOES", "B-Y-z S-Y-z E-Y-z B-X B-X E-X", "Y-z:0-0 Y-z:1-1 Y-z:2-2 X:3-3 X:4-5"),
    (
        "BIOES",
        "E-X I-Y-z E-X I-Y-z E-Y-z S-Y-z B-Y-z S-Y-z",
        "X:0-0 Y-z:1-1 X:2-2 Y-z:3-4 Y-z:5-5 Y-z:6-6 Y-z:7-7",
    ),
    ("BIOES", "B-Y-z I-Y-z B-X O S-X", "Y-z:0-1 X:2-2 X:4-4"),
    ("BIOES", "E-X I-X E-X B-Y-z S-X", "X:0-0 X:1-2 Y-z:3-3 X:4-4"),
    ("BIOES", "O E-X S-X S-X", "X:1-1 X:2-2 X:3-3"),
    ("BIOES", "I-X I-X E-X", "X:0-2"),
    ("BIOES", "O B-Y-z O B-Y-z I-Y-z B-Y-z", "Y-z:1-1 Y-z:3-4 Y-z:5-5"),
    ("BIOES", "S-Y-z E-X S-X O E-Y-z", "Y-z:0-0 X:1-1 X:2-2 Y-z:4-4"),
    (
        "BIOES",
        "B-Y-z S-Y-z O E-X E-X B-Y-z E-Y-z",
        "Y-z:0-0 Y-z:1-1 X:3-3 X:4-4 Y-z:5-6",
    ),
    ("BIOES", "I-Y-z S-Y-z S-Y-z", "Y-z:0-0 Y-z:1-1 Y-z:2-2"),
    ("BIOES", "E-Y-z B-Y-z E-Y-z", "Y-z:0-0 Y-z:1-2"),
    (
        "BIOES",
        "S-Y-z B-Y-z S-X S-X E-Y-z S-Y-z",
        "Y-z:0-0 Y-z:1-1 X:2-2 X:3-3 Y-z:4-4 Y-z:5-5",
    ),
    (
        "BIOES",
        "E-Y-z E-Y-z E-Y-z I-Y-z I-Y-z I-X I-X",
        "Y-z:0-0 Y-z:1-1 Y-z:2-2 Y-z:3-4 X:5-6",
    ),
    ("BIOES", "E-X S-Y-z S-Y-z S-X I-X", "X:0-0 Y-z:1-1 Y-z:2-2 X:3-3 X:4-4"),
    ("BIOES", "E-X E-X O B-X E-X B-X S-X", "X:0-0 X:1-1 X:3-4 X:5-5 X:6-6"),
    ("BIO", "B I O I", "_:0-1 _:3-3"),
    ("BIO", "I-X I B-X", "X:0-0 _:1-1 X:2-2"),
    ("BIOES", "S E B E I-X", "_:0-0 _:1-1 _:2-3 X:4-4"),
]
SCORES = [
    (
        "BIO",
        "I-X I-X B-X I-X B-X I-X | O O B-Y-z B-Y-z | I-Y-z I-Y-z I-X I-X O | "
        "I-X I-X B-Y-z I-X B-X | I-Y-z B-X B-X B-Y-z B-Y-z",
        "I-X I-X B-X I-X B-X I-X | O O B-Y-z B-Y-z | I-Y-z I-Y-z I-X I-X O | "
        "I-X I-X B-Y-z I-X B-X | I-Y-z B-X B-X B-X B-Y-z",
        {
            "all": (0.937500, 0.937500, 0.937500, 16),
            "X": (0.900000, 1.000000, 0.947368, 9),
            "Y-z": (1.000000, 0.857143, 0.923077, 7),
        },
    ),
    (
        "IOB1",
        "I-Y-z O I-Y-z B-Y-z B-Y-z I-Y-z | B-X B-X | B-X B-Y-z I-Y-z I-Y-z I-X "
        "O | B-X I-X B-X B-X I-Y-z B-Y-z | I-X I-X B-X I-Y-z I-Y-z O B-X",
        "I-Y-z I-X I-Y-z B-Y-z B-Y-z I-Y-z | O B-X | I-Y-z B-Y-z I-Y-z I-Y-z "
        "I-X O | B-X I-X B-X B-Y-z I-Y-z B-Y-z | I-X I-X B-X I-Y-z I-Y-z O B-X",
        {
            "all": (0.823529, 0.777778, 0.800000, 18),
            "X": (0.875000, 0.700000, 0.777778, 10),
            "Y-z": (0.777778, 0.875000, 0.823529, 8),
        },
    ),
    (
        "BIOES",
        "O B-X E-X I-Y-z E-X | B-Y-z S-X | B-X S-X E-X | E-X B-X E-X E-X | I-X "
        "S-X I-X B-X",
        "O B-X B-Y-z S-Y-z E-X | B-Y-z S-X | B-X S-X E-X | E-X B-X E-X E-X | "
        "B-X S-Y-z I-X B-X",
        {
            "all": (0.812500, 0.866667, 0.838710, 15),
            "X": (0.916667, 0.846154, 0.880000, 13),
            "Y-z": (0.500000, 1.000000, 0.666667, 2),
        },
    ),
    (
        "BIO",
        "B-X B-X I-X I-X I-X | I-Y-z B-Y-z I-Y-z B-Y-z B-Y-z O | O B-X I-X | "
        "B-Y-z O O O I-X | B-Y-z B-Y-z B-Y-z I-X",
        "B-X B-X I-X I-X I-X | I-Y-z B-Y-z B-Y-z B-Y-z B-Y-z O | O B-X I-X | "
        "B-X O O O I-X | B-Y-z B-Y-z B-Y-z I-X",
        {
            "all": (0.785714, 0.846154, 0.814815, 13),
            "X": (0.833333, 1.000000, 0.909091, 5),
            "Y-z": (0.750000, 0.750000, 0.750000, 8),
        },
    ),
]


SCHEMES = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES"}


def names(scheme, kinds=("X", "Y")):
    """All tags of a scheme."""
    return ["O", *(f"{each}-{kind}" for kind in kinds for each in SCHEMES[scheme])]


def segmentations(length):
    """Every way to lay entities of the types X and Y over a sentence."""
    if length == 0:
        yield []
        return
    for rest in segmentations(length - 1):
        yield rest
    for size in range(1, length + 1):
        for rest in segmentations(length - size):
            for kind in "XY":
                yield [*rest, (kind, length - size, length - 1)]


def write(spans, length, scheme):
    """Tags in a scheme, by its definition, word by word."""
    tags = []
    for word in range(length):
        tag = "O"
        for kind, first, last in spans:
            if first <= word <= last:
                right_behind = any(
                    (other, end) == (kind, first - 1) for other, _, end in spans
                )
                if scheme == "IOB1":
                    prefix = "B" if word == first and right_behind else "I"
                elif word == first:
                    prefix = "S" if scheme == "BIOES" and word == last else "B"
                else:
                    prefix = "E" if scheme == "BIOES" and word == last else "I"
                tag = f"{prefix}-{kind}"
        tags.append(tag)
    return tags


# ------------------------------------------------------------------ spans


@pytest.mark.parametrize(("scheme", "tags", "expected"), SPANS)
def test_entities_are_those_of_seqeval(scheme, tags, expected):
    spans = entity_spans(tags.split(), scheme)
    assert " ".join(f"{kind}:{first}-{last}" for kind, first, last in spans) == expected


def test_every_prefix_means_the_same_in_all_schemes():
    for tags in itertools.product(names("BIO"), repeat=4):
        expected = entity_spans(tags, "BIO")
        for scheme in ("IOB1", "IOB2", "BIOES", "IOBES"):
            assert entity_spans(tags, scheme) == expected


def test_no_tags_and_no_entities_are_fine():
    assert entity_spans([]) == entity_spans(("O", "O")) == []
    assert convert_scheme([], "BIO", "BIOES") == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("length", [1, 2, 5])
def test_what_is_written_by_definition_is_read_as_it_was(scheme, length):
    for spans in segmentations(length):
        assert entity_spans(write(spans, length, scheme), scheme) == spans


# ------------------------------------------------------------------ conversion


@pytest.mark.parametrize("source", SCHEMES)
@pytest.mark.parametrize("target", SCHEMES)
def test_conversion_writes_the_same_entities_by_the_definition(source, target):
    for spans in segmentations(5):
        tags = write(spans, 5, source)
        assert convert_scheme(tags, source, target) == write(spans, 5, target)


def test_conversion_mends_what_breaks_the_rules():
    tags = ["I-X", "I-Y", "O", "I-Y"]
    assert convert_scheme(tags, "BIO", "BIO") == ["B-X", "B-Y", "O", "B-Y"]
    assert convert_scheme(["E", "B"], "IOBES", "IOB2") == ["B", "B"]
    assert convert_scheme(["B", "I", "B"], "IOB2", "IOBES") == ["B", "E", "S"]


# ------------------------------------------------------------------ transitions


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_allowed_sequences_are_exactly_those_that_encode_entities(scheme, length):
    tags = names(scheme)
    start, transitions, end = allowed_transitions(tags, scheme)
    assert start.shape == end.shape == (len(tags),)
    assert transitions.shape == (len(tags), len(tags))
    assert start.dtype == transitions.dtype == end.dtype == bool
    allowed = set()
    for path in itertools.product(range(len(tags)), repeat=length):
        inner = all(transitions[i, j] for i, j in itertools.pairwise(path))
        if start[path[0]] and inner and end[path[-1]]:
            allowed.add(tuple(tags[i] for i in path))
    expected = {tuple(write(spans, length, scheme)) for spans in segmentations(length)}
    assert allowed == expected


def test_the_order_of_names_is_that_of_rows_and_columns():
    tags = names("BIOES")
    order = [7, 2, 0, 5, 8, 1, 3, 6, 4]
    some = allowed_transitions(tags, "BIOES")
    other = allowed_transitions([tags[i] for i in order], "BIOES")
    np.testing.assert_array_equal(other[0], some[0][order])
    np.testing.assert_array_equal(other[1], some[1][np.ix_(order, order)])
    np.testing.assert_array_equal(other[2], some[2][order])


# ------------------------------------------------------------------ scores


@pytest.mark.parametrize(("scheme", "gold", "predicted", "expected"), SCORES)
def test_scores_are_those_of_seqeval(scheme, gold, predicted, expected):
    gold, predicted = (
        [sentence.split() for sentence in text.split(" | ")]
        for text in (gold, predicted)
    )
    scores = entity_scores(gold, predicted, scheme)
    assert ["all", *scores.by_type] == list(expected)
    for name, found in [("all", scores), *scores.by_type.items()]:
        values = (found.precision, found.recall, found.f1, found.support)
        assert values == pytest.approx(expected[name], abs=1e-6)


def test_scores_of_a_case_that_a_person_can_count():
    """Type and both ends must be right: 1 of 3 predicted and of 4 gold entities."""
    gold = [["B-X", "I-X", "O", "B-Y"], ["B-X", "B-X"]]
    predicted = [["B-X", "I-X", "I-X", "B-X"], ["B-X", "O"]]
    scores = entity_scores(gold, predicted)
    assert (scores.correct, scores.predicted, scores.support) == (1, 3, 4)
    assert scores.precision == 1 / 3 and scores.recall == 1 / 4
    assert scores.f1 == pytest.approx(2 / 7)
    assert scores.by_type == {"X": EntityScores(1, 3, 3), "Y": EntityScores(0, 0, 1)}
    assert entity_scores(gold, gold).f1 == 1.0


def test_entities_do_not_go_on_into_the_next_sentence():
    gold = [["B-X"], ["I-X"]]
    assert entity_scores(gold, gold).support == 2


def test_a_share_of_nothing_is_nought():
    for nothing in (entity_scores([], []), entity_scores([["O"]], [["O"]])):
        assert nothing.precision == nothing.recall == nothing.f1 == 0.0
        assert nothing.by_type == {}
    assert str(nothing).endswith("all types      0.00    0.00    0.00       0")


def test_the_table_has_a_line_for_each_type():
    scores = EntityScores(1, 2, 4, {"a-long-type": EntityScores(1, 2, 4)})
    head, row, total = str(scores).split("\n")
    assert head.split() == ["precision", "recall", "F1", "support"]
    assert row == "a-long-type     50.00   25.00   33.33       4"
    assert len(head) == len(row) == len(total)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("tag", "scheme"),
    [
        ("NOUN", "BIO"),
        ("PER", "BIO"),
        ("B-", "BIO"),
        ("B_PER", "BIO"),
        ("PER-B", "BIO"),
        ("S-PER", "BIO"),
        ("E-PER", "IOB1"),
        ("b-PER", "BIO"),
        ("o", "BIO"),
        ("", "BIO"),
        ("L-PER", "BIOES"),
        ("O-PER", "BIOES"),
        ("I PER", "BIO"),
    ],
)
def test_a_tag_that_is_none_of_the_scheme_is_refused(tag, scheme):
    for use in (
        lambda: entity_spans(["O", tag], scheme),
        lambda: convert_scheme([tag], scheme, "BIO"),
        lambda: allowed_transitions(["O", tag], scheme),
        lambda: entity_scores([["O"]], [[tag]], scheme),
    ):
        with pytest.raises(ValueError, match=f"scheme {scheme} must be .*: {tag!r}"):
            use()


def test_a_corpus_is_held_to_its_scheme_by_file_and_line():
    lines = TaggedSentence(["in", "Rome"], ["O", "I-LOC"], "a.conll", (4, 5))
    corpus = TaggedCorpus([(["Rome"], ["B-LOC"]), lines], "a.conll")
    check_scheme(corpus)
    check_scheme(corpus, "IOB1")
    place = "word 'Rome' at a.conll, line 5"
    with pytest.raises(ValueError, match=f"O must not be followed by I-LOC.*{place}"):
        check_scheme(corpus, strict=True)
    with pytest.raises(ValueError, match="the beginning must not be followed by B-LOC"):
        check_scheme(corpus, "IOB1", strict=True)
    ends = TaggedCorpus([(["Rome"], ["B-LOC"])], "b")
    message = "B-LOC must not be followed by the end.*'Rome' in sentence 1 of b"
    with pytest.raises(ValueError, match=message):
        check_scheme(ends, "BIOES", strict=True)
    other = TaggedCorpus([(["a", "b"], ["O", "NOUN"])], "c")
    with pytest.raises(ValueError, match="scheme BIO .*'NOUN'.*'b' in sentence 1 of c"):
        check_scheme(other)


def test_other_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="'IOBES'.. Received: 'BILOU'"):
        entity_spans(["O"], "BILOU")
    with pytest.raises(ValueError, match="Received: 'bio'"):
        convert_scheme(["O"], "BIO", "bio")
    with pytest.raises(ValueError, match=r"with \['B-X'\] more than once"):
        allowed_transitions(["B-X", "O", "B-X"])
    with pytest.raises(ValueError, match="one or more names"):
        allowed_transitions([])
    with pytest.raises(ValueError, match="no sentence 2 in `predicted`"):
        entity_scores([["O"], ["O"]], [["O"]])
    with pytest.raises(ValueError, match="no sentence 1 in `gold`"):
        entity_scores([], [["O"]])
    with pytest.raises(ValueError, match="1 for 2 in sentence 2"):
        entity_scores([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(ValueError, match="a string as sentence 1: 'O' and 'O'"):
        entity_scores(["O"], ["O"])
