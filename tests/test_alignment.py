"""Links as text and out of weights, and the alignment error rate."""

import numpy as np
import pytest

from keras_bahdanau import alignment

# ------------------------------------------------------------------ text


def test_pharaoh_and_talp_lines_are_read():
    sure, possible = alignment.parse_alignment("0-0 1-2 10p7 2p2\n")
    assert sure == {(0, 0), (1, 2)}
    assert possible == {(0, 0), (1, 2), (10, 7), (2, 2)}
    assert alignment.parse_alignment(" \n") == (set(), set())


def test_lines_with_the_target_first_can_be_reversed():
    assert alignment.parse_alignment("3-1 0p5", reverse=True) == (
        {(1, 3)},
        {(1, 3), (5, 0)},
    )


@pytest.mark.parametrize(
    "word", ["1", "1-", "a-b", "1--2", "1:2", "1-2p", "-1-2", "²-1"]
)
def test_what_is_no_link_is_refused(word):
    with pytest.raises(ValueError, match="A link must read `source-target`.*Received"):
        alignment.parse_alignment(f"0-0 {word}")


def test_links_are_written_in_order_and_read_again():
    sure, possible = {(10, 0), (2, 3)}, {(2, 1), (2, 3)}
    line = alignment.format_alignment(sure, possible)
    assert line == "2p1 2-3 10-0"
    assert alignment.parse_alignment(line) == (sure, sure | possible)
    assert alignment.format_alignment([]) == ""
    assert alignment.format_alignment(np.array([[1, 0]])) == "1-0"


@pytest.mark.shared
def test_a_real_gold_file_reads_and_writes_the_same(shared_dir):
    folder = shared_dir / "data" / "align-alibi-fr-en"
    path = folder / "ChatBotte_MasterCat.fr-en.talp"
    lines = path.read_text("utf-8").splitlines()
    french = (folder / "ChatBotte_MasterCat.fr").read_text("utf-8").splitlines()
    english = (folder / "ChatBotte_MasterCat.en").read_text("utf-8").splitlines()
    for line, source, target in zip(lines, french, english, strict=True):
        sure, possible = alignment.parse_alignment(line)
        assert set(alignment.format_alignment(sure, possible).split()) == set(
            line.split()
        )
        assert all(
            i < len(source.split()) and j < len(target.split()) for i, j in possible
        )


# ------------------------------------------------------------------ weights

WEIGHTS = np.array(
    [
        # two words, then the end token and padding
        [0.6, 0.3, 0.1, 0.0, 0.0],
        [0.1, 0.3, 0.6, 0.0, 0.0],
        [0.4, 0.4, 0.2, 0.0, 0.0],
    ]
)


def test_each_target_word_goes_to_its_heaviest_source_word():
    assert alignment.hard_alignment(WEIGHTS, 2) == {(0, 0), (1, 1), (0, 2)}


def test_rows_after_the_last_target_word_get_no_link():
    assert alignment.hard_alignment(WEIGHTS, 2, 1) == {(0, 0)}


def test_the_end_token_can_compete_but_is_never_linked():
    found = alignment.hard_alignment(WEIGHTS, 2, allow_end=True)
    assert found == {(0, 0), (0, 2)}


def test_a_threshold_gives_none_one_or_several_links():
    found = alignment.hard_alignment(WEIGHTS, 2, threshold=0.4)
    assert found == {(0, 0), (0, 2), (1, 2)}
    assert alignment.hard_alignment(WEIGHTS, 2, threshold=1.0) == set()


def test_a_row_without_weight_and_an_empty_source_give_no_link():
    assert alignment.hard_alignment([[0.0, 0.0], [0.0, 1.0]]) == {(1, 1)}
    assert alignment.hard_alignment(WEIGHTS, 0) == set()
    assert alignment.hard_alignment(np.zeros((0, 3))) == set()


def test_links_are_plain_integers():
    [(i, j)] = alignment.hard_alignment(np.ones((1, 1), "float32"))
    assert type(i) is int and type(j) is int


@pytest.mark.parametrize(
    "weights, arguments, message",
    [
        (np.ones((2, 3, 5)), {}, r"must be a matrix.*Received shape \(2, 3, 5\)"),
        ([["a"]], {}, "must be a matrix of numbers"),
        ([[np.nan]], {}, "must be finite and not negative"),
        ([[-1.0, 2.0]], {}, "Pass the weights after the softmax"),
        (WEIGHTS, {"source_length": 7}, "`source_length` must lie between 0"),
        (WEIGHTS, {"target_length": -1}, "`target_length` must lie between 0"),
        (WEIGHTS, {"threshold": 0.0}, "`threshold` must be above 0"),
        (WEIGHTS, {"threshold": 1.5}, "`threshold` must be above 0"),
        (
            WEIGHTS,
            {"threshold": 0.1, "allow_end": True},
            "Received: threshold=0.1, allow_end=True",
        ),
    ],
)
def test_bad_weights_are_refused(weights, arguments, message):
    with pytest.raises(ValueError, match=message):
        alignment.hard_alignment(weights, **arguments)


def test_pieces_add_up_on_the_source_side_and_average_on_the_target_side():
    weights = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.0, 0.5, 0.5]])
    merged = alignment.merge_weights(weights, [0, 0, 1], [0, 1, 1])
    np.testing.assert_allclose(merged, [[0.75, 0.25], [0.4, 0.6]])
    np.testing.assert_allclose(merged.sum(axis=1), 1.0)


def test_one_side_alone_can_be_merged():
    weights = np.array([[0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_allclose(
        alignment.merge_weights(weights, target_words=[0, 0]), [[0.75, 0.25]]
    )
    np.testing.assert_array_equal(alignment.merge_weights(weights), weights)


@pytest.mark.parametrize("words", [[0], [0, 2], [1, 1], [0, -1], [0.0, 1.0], [[0, 1]]])
def test_pieces_of_words_that_do_not_count_up_are_refused(words):
    with pytest.raises(ValueError, match="counting up from 0 without gaps"):
        alignment.merge_weights(np.ones((2, 2)) / 2, source_words=words)


@pytest.mark.parametrize(
    "tokens, words, expected",
    [
        # The same.
        (["a", "bc"], ["a", "bc"], [[0.6, 0.4]]),
        # Tokens that are parts of words add up.
        (["a", "bc"], ["abc"], [[1.0]]),
        # A token over two words is shared out by characters.
        (["a", "bcd"], ["ab", "cd"], [[0.6 + 0.4 / 3, 0.4 * 2 / 3]]),
        # Blanks within count for nothing, nor does a word without characters.
        (["a", "b c"], [" a", "bc", ""], [[0.6, 0.4, 0.0]]),
        # Across each other.
        (["ab", "cd"], ["a", "bc", "d"], [[0.3, 0.5, 0.2]]),
    ],
)
def test_weights_go_over_to_words_by_their_characters(tokens, words, expected):
    found = alignment.project_weights([[0.6, 0.4]], tokens, words, ["x"], ["x"])
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_row_of_a_word_is_the_mean_over_its_characters():
    weights = np.array([[0.8, 0.2], [0.4, 0.6], [0.0, 1.0]])
    found = alignment.project_weights(
        weights, ["u", "v"], ["u", "v"], ["ab", "c", "de"], ["abc", "", "d", "e"]
    )
    expected = [(2 * weights[0] + weights[1]) / 3, [0, 0], weights[2], weights[2]]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_what_is_not_the_same_text_is_refused():
    with pytest.raises(ValueError, match="source tokens .*of 2 and 3 characters"):
        alignment.project_weights([[1.0]], ["ab"], ["abc"], ["x"], ["x"])
    with pytest.raises(ValueError, match="target tokens .*of 2 and 1 characters"):
        alignment.project_weights([[1.0]], ["a"], ["a"], ["x"], ["xy"])
    with pytest.raises(ValueError, match="each of the 1 columns.*Received 2"):
        alignment.project_weights([[1.0]], ["a", "b"], ["ab"], ["x"], ["x"])
    with pytest.raises(ValueError, match="each of the 1 rows.*Received 0"):
        alignment.project_weights([[1.0]], ["a"], ["a"], [], ["x"])


UNKNOWN = np.array([True, False, True, False])


def test_unknown_tokens_become_the_words_they_looked_at():
    # The end token's column counts for nothing, nor do rows behind the tokens.
    weights = [[0.2, 0.3, 0.5], [1, 0, 0], [0.6, 0.3, 0.1], [0, 0, 1]]
    given = ["<unk>", "x", "<unk>"], UNKNOWN, np.array(weights), ["Ab", "cd"]
    assert alignment.replace_unknown(*given) == ["cd", "x", "Ab"]
    for words in ({"ab": "E"}, {"Ab": "E", "ab": "f"}, {"Ab": "", "ab": "E"}):
        assert alignment.replace_unknown(*given, words) == ["cd", "x", "E"]
    assert given[0] == ["<unk>", "x", "<unk>"]


def test_an_unknown_token_stays_where_nothing_was_looked_at():
    tokens = ["<unk>", "x"]
    for weights, words in ((np.ones((2, 1)), []), (np.zeros((2, 1)), ["a"])):
        assert alignment.replace_unknown(tokens, UNKNOWN, weights, words) == tokens
    assert alignment.replace_unknown([], UNKNOWN[:0], np.ones((0, 1)), ["a"]) == []


@pytest.mark.parametrize(
    "change, message",
    [
        ({"unknown": UNKNOWN[:1]}, "each of the 2 target tokens.*shape \\(1,\\)"),
        ({"unknown": [1, 0]}, "dtype int64"),
        ({"weights": np.ones((1, 2))}, "`target_length`.*target_length=2, rows=1"),
        ({"source_words": ["a"] * 3}, "`source_length`.*source_length=3, columns=2"),
        ({"weights": -np.ones((2, 2))}, "not negative"),
    ],
)
def test_what_does_not_fit_the_unknown_tokens_is_refused(change, message):
    given = {
        "target_tokens": ["a", "b"],
        "unknown": UNKNOWN,
        "weights": np.ones((2, 2)),
        "source_words": ["a", "b"],
    }
    with pytest.raises(ValueError, match=message):
        alignment.replace_unknown(**{**given, **change})


# ------------------------------------------------------------------ both directions

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def drawn(*rows):
    """Forward and backward links; `f` and `b` stand for one of them, `x` for both."""
    marks = [(i, j, mark) for i, row in enumerate(rows) for j, mark in enumerate(row)]
    return [{(i, j) for i, j, mark in marks if mark in kinds} for kinds in ("xf", "xb")]


@pytest.mark.parametrize(
    "rows, expected",
    [
        # One free word is enough to grow; what touches nothing waits for the end.
        (("xf..", "..b.", "....", "...b"), "0-0 | 0-0 0-1 1-2 | 0-0 | 3-3"),
        # Over the corners both words are free.
        (("x..", ".f.", "..b"), "0-0 | 0-0 1-1 2-2 | 0-0 1-1 2-2 |"),
        # No free word.
        (("xb", "fx"), "0-0 1-1 | 0-0 1-1 | 0-0 1-1 |"),
        # What was added is itself touched.
        (("x.", "f.", "f."), "0-0 | 0-0 1-0 2-0 | 0-0 |"),
        (("xb.", ".f.", "..."), "0-0 | 0-0 0-1 1-1 | 0-0 1-1 |"),
        # At the end the forward links go first.
        (("x...", "....", "..bf"), "0-0 | 0-0 | 0-0 | 2-3"),
        ((".f", "b."), "| | | 0-1 1-0"),
        ((), "| | |"),
    ],
)
def test_the_links_of_both_directions_are_joined(rows, expected):
    links = [alignment.parse_alignment(part)[0] for part in expected.split("|")]
    forward, backward = drawn(*rows)
    names = "intersection", "grow-diag", "grow-diag-strict"
    for name, found in zip(names, links):
        assert alignment.symmetrize(forward, backward, name) == found, name
    found = alignment.symmetrize(forward, backward, "grow-diag-final-and")
    assert found == links[1] | links[3]
    found = alignment.symmetrize(forward, backward, "union")
    assert found == forward | backward


def grown(forward, backward, strict):
    """The grow-diag of two boolean matrices, cell by cell."""
    either, found = forward | backward, forward & backward
    while True:
        before = found.sum()
        for i, j in np.ndindex(found.shape):
            for step in NEIGHBOURS if found[i, j] else ():
                y, x = i + step[0], j + step[1]
                if not (0 <= y < len(found) and 0 <= x < len(found[0])):
                    continue
                taken = found[y].any(), found[:, x].any()
                if either[y, x] and not (any(taken) if strict else all(taken)):
                    found[y, x] = True
        if found.sum() == before:
            return found


@pytest.mark.parametrize("method", ["grow-diag", "grow-diag-strict"])
def test_growing_is_that_of_plain_loops(method):
    random = np.random.default_rng(7)
    for _ in range(50):
        forward, backward = random.random((2, 7, 5)) < 0.3
        found = alignment.symmetrize(
            np.argwhere(forward), np.argwhere(backward), method
        )
        expected = grown(forward, backward, method == "grow-diag-strict")
        assert found == {(int(i), int(j)) for i, j in np.argwhere(expected)}


def test_other_methods_and_what_is_no_link_are_refused():
    with pytest.raises(ValueError, match="one of .*'union'.*method='refined'"):
        alignment.symmetrize([], [], "refined")
    with pytest.raises(ValueError, match="`backward` must hold links"):
        alignment.symmetrize([], ["0-0"])


# ------------------------------------------------------------------ error rate

# Two sentences: 2 + 1 hypothesis links, 2 + 2 sure ones; hits 1 + 1 and 2 + 1.
HYPOTHESES = [{(0, 0), (1, 1)}, {(0, 1)}]
SURE = [{(0, 0), (2, 2)}, {(0, 1), (1, 0)}]
POSSIBLE = [{(1, 1)}, set()]


def test_the_error_rate_is_that_of_the_formula_over_the_whole_corpus():
    found = alignment.alignment_error_rate(HYPOTHESES, SURE, POSSIBLE)
    assert found == pytest.approx(1 - (2 + 3) / (3 + 4))
    assert alignment.alignment_precision(HYPOTHESES, SURE, POSSIBLE) == 1.0
    assert alignment.alignment_recall(HYPOTHESES, SURE) == 0.5


def test_without_possible_links_it_is_one_minus_f1():
    found = alignment.alignment_error_rate(HYPOTHESES, SURE)
    assert found == pytest.approx(1 - 2 * 2 / (3 + 4))


def test_possible_links_may_or_may_not_repeat_the_sure_ones():
    repeated = [one | other for one, other in zip(SURE, POSSIBLE)]
    assert alignment.alignment_error_rate(
        HYPOTHESES, SURE, repeated
    ) == alignment.alignment_error_rate(HYPOTHESES, SURE, POSSIBLE)


def test_perfect_and_empty_alignments():
    assert alignment.alignment_error_rate(SURE, SURE) == 0.0
    assert alignment.alignment_error_rate([set()], [set()]) == 0.0
    assert alignment.alignment_error_rate([], []) == 0.0
    assert alignment.alignment_error_rate([set()], [{(0, 0)}]) == 1.0
    assert alignment.alignment_precision([set()], [{(0, 0)}]) == 1.0
    assert alignment.alignment_recall([{(0, 0)}], [set()]) == 1.0


def test_links_may_be_arrays_and_lists():
    found = alignment.alignment_error_rate([np.array([[0, 0], [1, 1]])], [[[0, 0]]])
    assert found == pytest.approx(1 - 2 / 3)
    assert alignment.alignment_error_rate([np.zeros((0, 2), int)], [[]]) == 0.0


@pytest.mark.parametrize(
    "hypotheses, sure, message",
    [
        ([set()], [], "Received lengths 1, 0 and 0"),
        (["0-0 1-1"], [set()], "goes through `parse_alignment` first"),
        ([{(0, 0)}], [{(0, -1)}], r"`sure` must hold links.*Received: \(0, -1\)"),
        ([[(0, 0, 1)]], [set()], "`hypotheses` must hold links"),
        ([[(0.5, 1)]], [set()], "`hypotheses` must hold links"),
        ({(0, 0)}, [set()], "`hypotheses` must hold links"),
    ],
)
def test_bad_links_are_refused(hypotheses, sure, message):
    with pytest.raises(ValueError, match=message):
        alignment.alignment_error_rate(hypotheses, sure)
