"""Word vectors: the formats that are read, and the weights made of them."""

import gzip
import tracemalloc

import numpy as np
import pytest

from keras_bahdanau.vectors import WordVectors, embedding_matrix, read_word_vectors

GLOVE = "the 0.5 -1.25 3\n. . . 1e-3 0.25 -2\nRex -0.5 0 1.0\n"
WORD2VEC = "3 3\n" + GLOVE
VALUES = {"the": [0.5, -1.25, 3], ". . .": [1e-3, 0.25, -2], "Rex": [-0.5, 0, 1]}


def write(folder, content, name="vectors.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def as_lists(vectors):
    return {word: vector.tolist() for word, vector in vectors.items()}


# ------------------------------------------------------------------ reading


@pytest.mark.parametrize("text", [GLOVE, WORD2VEC])
def test_both_formats_are_read_packed_or_not(tmp_path, text):
    for content in (
        text,
        text.replace("\n", "\r\n"),
        text.replace("\n", " \n"),  # as fastText writes it
        text.rstrip("\n"),
        gzip.compress(text.encode(), mtime=0),
    ):
        vectors = read_word_vectors(write(tmp_path, content), dtype="float64")
        assert as_lists(vectors) == VALUES
        assert list(vectors) == list(VALUES)
        assert (len(vectors), vectors.size) == (3, 3)
        assert vectors.matrix.dtype == "float64"
    default = read_word_vectors(tmp_path / "vectors.txt")
    assert default["Rex"].dtype == np.float32


def test_tabs_may_stand_between_word_and_entries(tmp_path):
    path = write(tmp_path, "a\t1.0 2.0\nb c\t3.0\t4.0\n")
    assert as_lists(read_word_vectors(path)) == {"a": [1, 2], "b c": [3, 4]}


def test_only_the_wanted_words_are_kept(tmp_path):
    path = write(tmp_path, GLOVE)
    vectors = read_word_vectors(path, words=["Rex", "rex", ". . .", "cat"])
    assert list(vectors) == [". . .", "Rex"]
    assert "the" not in vectors and "rex" not in vectors
    with pytest.raises(KeyError):
        vectors["the"]
    none = read_word_vectors(path, words=[])
    assert (len(none), none.size, none.matrix.shape) == (0, 3, (0, 3))
    assert repr(vectors) == "<WordVectors: 2 words, size 3>"


@pytest.mark.parametrize("header", ["", "3 3\n"])
def test_reading_stops_after_so_many_vectors(tmp_path, header):
    path = write(tmp_path, header + GLOVE.replace("Rex", "never looked at"))
    assert list(read_word_vectors(path, limit=2)) == ["the", ". . ."]
    assert list(read_word_vectors(path, words=[". . ."], limit=2)) == [". . ."]
    path = write(tmp_path, header + GLOVE)
    assert as_lists(read_word_vectors(path, limit=3, dtype="float64")) == VALUES
    assert len(read_word_vectors(path, limit=9)) == 3
    with pytest.raises(ValueError, match="`limit` must be 1 or more, or None.*: 0"):
        read_word_vectors(path, limit=0)


def test_memory_does_not_grow_with_the_file(tmp_path):
    row = " ".join(["0.125"] * 101)
    lines = "".join(f"w{number} {row}\n" for number in range(5003))
    path = write(tmp_path, gzip.compress(lines.encode(), 1, mtime=0))
    tracemalloc.start()
    vectors = read_word_vectors(path, words=["w7", "w5001"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(vectors) == 2 and peak < 400_000 < len(lines) / 7


def test_words_are_told_from_their_vectors_by_the_size(tmp_path):
    """Words of digits, words that begin with a blank sign, and non-breaking blanks."""
    text = "1 0.5 0.5\n2 3 0.5 0.5\n\u00a0 0.5 1.5\n2.5 1 2\nx\u2009y 0 1\n"
    vectors = read_word_vectors(write(tmp_path, text))
    assert list(vectors) == ["1", "2 3", "\u00a0", "2.5", "x\u2009y"]
    assert vectors["2.5"].tolist() == [1, 2]


def test_the_first_of_two_vectors_of_a_word_counts(tmp_path):
    vectors = read_word_vectors(write(tmp_path, "3 1\na 1\nb 2\na 3\n"))
    assert as_lists(vectors) == {"a": [1], "b": [2]}


def test_words_that_are_not_wanted_need_not_be_utf_8(tmp_path):
    path = write(tmp_path, b"a 1.0 2.0\ncaf\xe9 1.0 2.0\n")
    assert list(read_word_vectors(path, words=["a"])) == ["a"]
    with pytest.raises(ValueError, match="line 2, which is not: .*Pass `words`"):
        read_word_vectors(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("b 1.0", "here of size 2. Received .*line 2: 'b 1.0'"),
        ("b 1.0 2.0 3.0", "line 2: 'b 1.0 2.0 3.0'"),
        ("b  1.0", "line 2"),
        ("", "line 2: ''"),
        (" ", "line 2: ''"),
        ("1.0 2.0", "line 2: '1.0 2.0'"),
        (" 1.0 2.0", "line 2: ' 1.0 2.0'"),
        ("b x 2.0", "must be numbers. .*line 2: could not convert"),
        ("b 1.0 nan", "must be finite. .*line 2, with nan"),
        ("b -inf 1.0", "must be finite. .*line 2, with -inf"),
    ],
)
@pytest.mark.parametrize("header", ["", "2 2\n"])
def test_a_broken_line_is_named(tmp_path, header, line, message):
    path = write(tmp_path, f"{header}a 1.0 2.0\n{line}\n")
    if header:
        message = message.replace("line 2", "line 3")
    with pytest.raises(ValueError, match=message) as error:
        read_word_vectors(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must not be empty"),
        ("a\n", "`COUNT SIZE`, or a word and its vector. .*begins with 'a'"),
        ("a b c\n", "begins with 'a b c'"),
        (b"\x00\xff\x00" * 50, "Binary files are not read"),
        ("2 0\n", "size of 1 or more. .*says 0"),
        ("3 2\na 1 2\nb 3 4\n", "says 3 where 2 follow. .*cut off"),
        ("1 2\na 1 2\nb 3 4\n", "says 1 where 2 follow"),
        (
            gzip.compress(GLOVE.encode() * 99, mtime=0)[:-20],
            "does not unpack.*fetch it again",
        ),
        (gzip.compress(GLOVE.encode(), mtime=0)[:-8] + b"x" * 8, "does not unpack"),
    ],
)
def test_files_that_are_something_else_are_refused(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_word_vectors(write(tmp_path, content))


def test_other_bad_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="collection of words. Received: 'the'"):
        read_word_vectors(write(tmp_path, GLOVE), words="the")
    with pytest.raises(FileNotFoundError):
        read_word_vectors(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"shape \(2, 3\) and 1 different words"):
        WordVectors(["a", "a"], np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        WordVectors(["a", "b", "c"], np.zeros(3))


# ------------------------------------------------------------------ embedding


def test_each_word_has_its_vector_as_its_row():
    vectors = WordVectors(VALUES, list(VALUES.values()))
    vocabulary = ["<pad>", "Rex", "the", "cat"]
    matrix, share = embedding_matrix(vectors, vocabulary)
    assert matrix.shape == (4, 3) and matrix.dtype == np.float32
    assert matrix[1].tolist() == VALUES["Rex"] and matrix[2].tolist() == VALUES["the"]
    assert share == 0.5
    assert matrix[0].any() and (matrix[0] != matrix[3]).all()


def test_lower_case_forms_stand_in_for_words_without_a_vector():
    vectors = {"the": [1.0], "rex": [2.0], "Rex": [3.0]}
    vocabulary = ["The", "Rex", "REX", "Cat"]
    matrix, share = embedding_matrix(vectors, vocabulary, lowercase=True)
    assert matrix[:3, 0].tolist() == [1, 3, 2] and share == 3 / 4
    matrix, share = embedding_matrix(vectors, vocabulary)
    assert matrix[1, 0] == 3 and share == 1 / 4


def test_random_rows_are_as_wide_as_the_found_ones_and_settled_by_the_seed():
    random = np.random.default_rng(5)
    found = 0.37 * random.standard_normal((211, 53)) + 0.1
    vectors = WordVectors([f"w{row}" for row in range(211)], found)
    vocabulary = [*vectors, *(f"new{row}" for row in range(503))]
    matrix, share = embedding_matrix(vectors, vocabulary, seed=3)
    assert share == 211 / 714
    rows = matrix[211:].astype("float64")
    assert np.sqrt((rows**2).mean()) == pytest.approx(
        np.sqrt((found**2).mean()), rel=0.02
    )
    assert abs(rows.mean()) < 0.01
    np.testing.assert_array_equal(
        embedding_matrix(vectors, vocabulary, seed=3)[0], matrix
    )
    other = embedding_matrix(vectors, vocabulary, seed=4)[0]
    np.testing.assert_array_equal(other[:211], matrix[:211])
    assert (other[211:] != matrix[211:]).mean() > 0.99


def test_vectors_that_do_not_fit_the_vocabulary_are_refused():
    with pytest.raises(ValueError, match="1 vectors and 2 words, none in both.*lower"):
        embedding_matrix({"a": [1.0]}, ["b", "c"])
    with pytest.raises(ValueError, match="1 vectors and 0 words"):
        embedding_matrix({"a": [1.0]}, [])
    with pytest.raises(ValueError, match=r"shapes \[\(1,\), \(2,\)\]"):
        embedding_matrix({"a": [1.0], "b": [1.0, 2.0]}, ["a", "b"])
