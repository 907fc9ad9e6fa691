"""Word vectors that others trained, from text files, as the rows of an embedding.

Everything here is NumPy; nothing needs a backend.
"""

import collections
import contextlib
import gzip
import re
import zlib

import numpy as np

_GZIP = b"\x1f\x8b"
_HEADER = re.compile(rb"\d+ \d+\s*")
# An entry of a vector as all tools write it; a word of digits has no point.
_ENTRY = re.compile(rb"-?\d*\.\d+(e[-+]?\d+)?", re.IGNORECASE)


class WordVectors(collections.abc.Mapping):
    """A mapping from words to vectors, all rows of one array.

    `D` is the size of the vectors.

    Args:
        words: Sequence of different `str`.
        matrix: Array of shape `(words, D)`.

    Raises:
        ValueError: If these do not fit.

    Example:

    >>> vectors = WordVectors(["a", "dog"], [[0.5, 1.0], [2.0, -1.0]])
    >>> vectors["dog"], "cat" in vectors, vectors.size
    (array([ 2., -1.]), False, 2)
    """

    def __init__(self, words, matrix):
        self.matrix = np.asarray(matrix)
        self._rows = {word: row for row, word in enumerate(words)}
        if self.matrix.ndim != 2 or len(self.matrix) != len(self._rows):
            raise ValueError(
                "`matrix` must have a row for each word, and no word may stand there "
                f"twice. Received shape {self.matrix.shape} and {len(self._rows)} "
                "different words."
            )

    @property
    def size(self):
        """The number of entries of a vector, `D`."""
        return self.matrix.shape[1]

    def __getitem__(self, word):
        return self.matrix[self._rows[word]]

    def __contains__(self, word):
        return word in self._rows

    def __iter__(self):
        return iter(self._rows)

    def __len__(self):
        return len(self._rows)

    def __repr__(self):
        return f"<WordVectors: {len(self)} words, size {self.size}>"


def read_word_vectors(path, words=None, dtype="float32", limit=None):
    """Reads word vectors from a text file.

    Both usual formats are known by their first line: that of word2vec and fastText says
    how many vectors follow and their size, that of GloVe is a vector already. Every
    other line is a word and its vector; a word may hold blanks, as `. . .` does in
    GloVe. Files may be packed by gzip.

    Args:
        path: Name of the file, UTF-8.
        words: The words that are wanted: only their vectors are kept, so that memory
            does not grow with the file, and only their entries are looked at. `None`
            keeps all.
        dtype: Type of the array.
        limit: Integer, the number of vectors after which to stop; they usually stand by
            falling frequency of the words. `None` reads to the end.

    Returns:
        A `WordVectors` of the words that the file has, in its order. A word that stands
        there twice has its first vector.

    Raises:
        ValueError: If a line is broken or has another size than the first, the header
            announces another number of vectors, or a word that is kept is not UTF-8;
            with the number of the line.

    Example:

    >>> from pathlib import Path
    >>> text = "the 0.5 1.25\\n. . . 0.25 -1.5\\ndog 1.0 0.0\\n"
    >>> _ = Path("vectors.txt").write_text(text)
    >>> vectors = read_word_vectors("vectors.txt", words=["dog", ". . ."])
    >>> vectors
    <WordVectors: 2 words, size 2>
    >>> vectors[". . ."]
    array([ 0.25, -1.5 ], dtype=float32)
    """
    if isinstance(words, str):
        raise ValueError(f"`words` must be a collection of words. Received: {words!r}.")
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` must be 1 or more, or None. Received: {limit}.")
    wanted = None if words is None else {word.encode("utf-8") for word in words}
    found, rows = {}, []
    with _lines(path) as lines:
        size, count = None, None
        for number, line in enumerate(lines, 1):
            if number == 1:
                size, count = _first_line(line, path)
                if count is not None:
                    continue
            if limit is not None and number - (count is not None) > limit:
                count = None
                break
            word, entries = _split(line, size, path, number)
            if (wanted is None or word in wanted) and word not in found:
                rows.append(_vector(entries, size, dtype, path, number))
                found[word] = _decode(word, path, number)
    if size is None:
        raise ValueError(f"A file of vectors must not be empty. Received {path}.")
    if count is not None and number - 1 != count:
        raise ValueError(
            "The first line must say how many vectors follow. Received "
            f"{path}, which says {count} where {number - 1} follow. It may have been "
            "cut off; fetch it again."
        )
    matrix = np.array(rows, dtype).reshape(len(rows), size)
    return WordVectors(found.values(), matrix)


def embedding_matrix(vectors, vocabulary, lowercase=False, seed=0):
    """Makes the weights of an embedding out of word vectors.

    A word without a vector gets a random one, its entries drawn from a normal
    distribution about 0 that is as wide as those of the words with one:

        std = sqrt(mean of the squares of the entries that were found)

    Args:
        vectors: A `WordVectors`, or another mapping from words to vectors of size `D`.
        vocabulary: Sequence of `V` words; word `i` is row `i`.
        lowercase: Whether a word without a vector takes that of its lower-case form.
            When reading vectors for this, want those forms as well.
        seed: Integer seed of the random rows.

    Returns:
        Pair of the float32 array `(V, D)` and the share of the vocabulary that has a
        vector.

    Raises:
        ValueError: If no word has a vector, or the vectors differ in size.

    Example:

    >>> matrix, share = embedding_matrix({"a": [1.0, 2.0, 3.0]}, ["<unk>", "a"])
    >>> matrix.shape, matrix[1], share
    ((2, 3), array([1., 2., 3.], dtype=float32), 0.5)
    """
    vocabulary = list(vocabulary)
    forms = [_form(word, vectors, lowercase) for word in vocabulary]
    rows = [row for row, form in enumerate(forms) if form is not None]
    if not rows:
        raise ValueError(
            "A word of the vocabulary must have a vector. Received "
            f"{len(vectors)} vectors and {len(vocabulary)} words, none in both, such "
            f"as {vocabulary[:3]}. Check the language of the file, and whether it is "
            "in lower case: `lowercase=True`."
        )
    found = [np.asarray(vectors[forms[row]], "float32") for row in rows]
    if len({vector.shape for vector in found}) > 1 or found[0].ndim != 1:
        shapes = sorted({vector.shape for vector in found})
        raise ValueError(
            f"All vectors must have one size. Received vectors of shapes {shapes}."
        )
    found = np.stack(found)
    spread = np.sqrt(np.mean(np.square(found, dtype="float64")))
    shape = len(vocabulary), found.shape[1]
    matrix = np.random.default_rng(seed).normal(0.0, spread, shape).astype("float32")
    matrix[rows] = found
    return matrix, len(rows) / len(vocabulary)


def _form(word, vectors, lowercase):
    """The form under which a word has a vector, or None."""
    if word in vectors:
        return word
    if lowercase and word.lower() in vectors:
        return word.lower()
    return None


# ---------------------------------------------------------------- files


@contextlib.contextmanager
def _lines(path):
    """The lines of a file, unpacked, as bytes."""
    with open(path, "rb") as file:
        packed = file.read(2) == _GZIP
    try:
        with gzip.open(path) if packed else open(path, "rb") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"The file must be whole. Received {path}, which does not unpack: {error}. "
            "It may have been cut off; fetch it again."
        ) from error


def _first_line(line, path):
    """The size of the vectors, and their number if this is a header, else None."""
    if _HEADER.fullmatch(line):
        count, size = map(int, line.split())
        if size < 1:
            raise ValueError(
                f"Vectors must have a size of 1 or more. Received {path}, whose first "
                f"line says {size}."
            )
        return size, count
    fields = line.split()
    size = 0
    while size < len(fields) - 1 and _is_number(fields[-1 - size]):
        size += 1
    if size == 0:
        raise ValueError(
            "The first line must be `COUNT SIZE`, or a word and its vector. Received "
            f"{path}, which begins with {_excerpt(line)}. Binary files are not read; "
            "convert it to text."
        )
    return size, None


def _is_number(field):
    try:
        float(field)
    except ValueError:
        return False
    return True


def _split(line, size, path, number):
    """The word of a line and the text of its vector."""
    line = line.rstrip()
    if line.count(b" ") == size and b"\t" not in line and line[0] != 32:
        # By far the most lines, and most of those are not wanted.
        word, _, entries = line.partition(b" ")
        return word, entries
    word, *entries = line.rsplit(None, size) or [b""]
    parts = word.split()
    if len(entries) != size or (len(parts) > 1 and _ENTRY.fullmatch(parts[-1])):
        raise _broken(line, size, path, number)
    return word, b" ".join(entries)


def _vector(entries, size, dtype, path, number):
    fields = entries.split()
    if len(fields) != size:
        raise _broken(entries, size, path, number)
    try:
        vector = np.array([float(field) for field in fields], dtype)
    except ValueError as error:
        raise ValueError(
            f"The entries of a vector must be numbers. Received {path}, line {number}: "
            f"{error}."
        ) from error
    if not np.isfinite(vector).all():
        raise ValueError(
            f"The entries of a vector must be finite. Received {path}, line {number}, "
            f"with {vector[~np.isfinite(vector)][0]}."
        )
    return vector


def _broken(line, size, path, number):
    return ValueError(
        f"A line must be a word and its vector, here of size {size}. Received {path}, "
        f"line {number}: {_excerpt(line)}."
    )


def _decode(word, path, number):
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"A word must be UTF-8. Received {path}, line {number}, which is not: "
            f"{error}. Pass `words`: others are then left out unread."
        ) from error


def _excerpt(line):
    text = line.rstrip().decode("utf-8", errors="replace")
    return repr(text if len(text) <= 60 else text[:59] + "…")
