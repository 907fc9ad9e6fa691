"""Reports on tags, against counts by hand and by plain loops."""

import numpy as np
import pytest

from keras_bahdanau.tag_reports import TagReport, tag_report

# By hand: 4 of 7 words are right. Of the three unknown words (dog twice, Rex), one is.
WORDS = [["the", "dog", "barks"], ["a", "dog", "Rex", "runs"]]
GOLD = [["DET", "NOUN", "VERB"], ["DET", "NOUN", "PROPN", "VERB"]]
PREDICTED = [["DET", "NOUN", "NOUN"], ["DET", "VERB", "NOUN", "VERB"]]
KNOWN = {"the", "a", "barks", "runs", "rex", "Dog"}


def random_tags(seed, names="ABCDE"):
    """Sentences of 1 to 12 words, two thirds of them right."""
    random = np.random.default_rng(seed)
    gold = [random.choice([*names], random.integers(1, 13)) for _ in range(31)]
    predicted = [
        [tag if random.random() < 2 / 3 else random.choice([*names]) for tag in row]
        for row in gold
    ]
    words = [[f"w{number}" for number in random.integers(0, 19, len(g))] for g in gold]
    return [[str(tag) for tag in row] for row in gold], predicted, words


def test_a_report_counts_what_a_person_counts():
    report = tag_report(GOLD, PREDICTED, WORDS, KNOWN)
    assert report.tag_names == ("DET", "NOUN", "PROPN", "VERB")
    assert report.confusion.tolist() == [
        [2, 0, 0, 0],
        [0, 1, 0, 1],
        [0, 1, 0, 0],
        [0, 1, 0, 1],
    ]
    assert report.confusion.dtype == np.int64
    assert (report.num_words, report.accuracy) == (7, 4 / 7)
    assert (report.num_unknown, report.unknown_accuracy) == (3, 1 / 3)
    assert report.support.tolist() == [2, 2, 1, 2]
    assert report.precision.tolist() == [1, 1 / 3, 0, 1 / 2]
    assert report.recall.tolist() == [1, 1 / 2, 0, 1 / 2]
    assert report.f1.tolist() == [1, 2 / 5, 0, 1 / 2]
    assert report.macro_f1 == pytest.approx((1 + 2 / 5 + 0 + 1 / 2) / 4)
    assert report.confusions() == [
        ("NOUN", "VERB", 1),
        ("PROPN", "NOUN", 1),
        ("VERB", "NOUN", 1),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_report_is_that_of_plain_loops(seed):
    gold, predicted, words = random_tags(seed)
    known = {f"w{number}" for number in range(11)}
    report = tag_report(gold, predicted, words, known)
    triples = [triple for rows in zip(gold, predicted, words) for triple in zip(*rows)]
    right = sum(g == p for g, p, _ in triples)
    assert report.accuracy == pytest.approx(right / len(triples), abs=1e-15)
    unknown = [(g, p) for g, p, word in triples if word not in known]
    assert report.num_unknown == len(unknown)
    assert report.unknown_accuracy == sum(g == p for g, p in unknown) / len(unknown)
    values = []
    for index, name in enumerate("ABCDE"):
        both = sum(g == p == name for g, p, _ in triples)
        given = sum(p == name for _, p, _ in triples)
        have = sum(g == name for g, _, _ in triples)
        precision, recall = both / given, both / have
        values.append(2 * precision * recall / (precision + recall))
        assert report.support[index] == have
        assert report.precision[index] == precision
        assert report.recall[index] == recall
        assert report.f1[index] == pytest.approx(values[-1], abs=1e-12)
        for column, other in enumerate("ABCDE"):
            count = sum((g, p) == (name, other) for g, p, _ in triples)
            assert report.confusion[index, column] == count
    assert report.macro_f1 == pytest.approx(sum(values) / 5, abs=1e-12)


def test_mistakes_come_by_frequency_and_then_by_tag():
    gold = [["A"] * 5 + ["B"] * 4 + ["C"] * 3]
    predicted = [list("ABBCC") + list("AABC") + list("BBB")]
    report = tag_report(gold, predicted)
    expected = [("C", "B", 3), ("A", "B", 2), ("A", "C", 2), ("B", "A", 2)]
    assert report.confusions(4) == expected
    assert report.confusions() == [*expected, ("B", "C", 1)]
    assert report.confusions(0) == []
    assert tag_report(gold, gold).confusions() == []


def test_tags_that_occur_nowhere_do_not_lower_the_macro_f1():
    report = tag_report([["B"]], [["B"]], tag_names=["C", "B", "A"])
    assert report.tag_names == ("C", "B", "A")
    assert report.confusion.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert report.f1.tolist() == [0, 1, 0]
    assert report.macro_f1 == report.accuracy == 1.0


def test_unknown_words_are_not_scored_unless_asked_for():
    report = tag_report(GOLD, PREDICTED)
    assert report.num_unknown is None and report.unknown_accuracy is None
    assert "unknown" not in str(report)
    report = tag_report(GOLD, PREDICTED, WORDS, {word for row in WORDS for word in row})
    assert report.num_unknown == 0 and report.unknown_accuracy is None
    assert "unknown words: none" in str(report)


def test_the_text_is_a_table():
    report = tag_report(GOLD, PREDICTED, WORDS, KNOWN)
    assert str(report) == report.format() == TABLE
    assert report.format(num_confusions=1) == TABLE.rsplit("\n", 2)[0]
    assert report.format(num_confusions=0) == TABLE.split("\n\nmost")[0]


TABLE = """\
accuracy 57.14 % of 7 words, macro F1 47.50
unknown words 33.33 % of 3

tag   precision  recall      F1 support
DET      100.00  100.00  100.00       2
NOUN      33.33   50.00   40.00       2
PROPN      0.00    0.00    0.00       1
VERB      50.00   50.00   50.00       2

most frequent mistakes (gold -> predicted)
     1  NOUN -> VERB
     1  PROPN -> NOUN
     1  VERB -> NOUN"""


def test_empty_sentences_and_arrays_are_fine():
    report = tag_report([[], np.array(["A", "B"])], [(), ("A", "A")])
    assert isinstance(report, TagReport) and report.accuracy == 0.5
    assert report.tag_names == ("A", "B") and type(report.tag_names[0]) is str


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([["A"]], []), "as many sentences. Received 1, 0 and 1"),
        (([["A"]], [["A"]], [["a"], ["b"]], {"a"}), "Received 1, 1 and 2"),
        (([["A"], ["A"]], [["A"], []]), "Received 1, 0, 1 in sentence 2"),
        (([["A"]], [["A"]], [["a", "b"]], {"a"}), "Received 1, 1, 2 in sentence 1"),
        ((["A"], ["A"]), "a string as sentence 1. Wrap"),
        (([], []), "must be a word to score"),
        (([["A"]], [["A"]], [["a"]]), "together.*known_words=None"),
        (([["A"]], [["A"]], None, {"a"}), "together.*Received words=None"),
        (([["A"]], [["B"]], None, None, ["A"]), r"missing are \['B'\]"),
        (([["A"]], [["A"]], None, None, ["A", "A"]), "and once"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tag_report(*arguments)
