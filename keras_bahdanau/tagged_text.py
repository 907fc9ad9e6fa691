"""Sentences with a tag for each word, and the files that they are read from.

`read_conllu` reads treebanks in CoNLL-U, `read_columns` files with a word and its tag
on each line, as those of CoNLL-2003. What is wrong with a file is said with the number
of the line. Everything here is plain Python; nothing needs a backend.
"""

import collections
import dataclasses
import os
import re
import sys

_COLUMNS = {"upos": 3, "xpos": 4}
_NUM_CONLLU_COLUMNS = 10
_BLANKS = re.compile("[ \t]+")
_DOCUMENT = "-DOCSTART-"


@dataclasses.dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence and a tag for each.

    Args:
        words: Sequence of `str`; a word may hold blanks, as `20 000`.
        tags: Sequence of `str`, as many.
        path: File that the sentence comes from, if any; for messages.
        lines: Number of the line of each word in it, counted from 1.

    Raises:
        ValueError: If words and tags differ in length, or there are none.

    Example:

    >>> sentence = TaggedSentence(["dogs", "bark"], ["NOUN", "VERB"])
    >>> len(sentence), sentence.words
    (2, ('dogs', 'bark'))
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    path: str | None = dataclasses.field(default=None, compare=False, repr=False)
    lines: tuple[int, ...] = dataclasses.field(default=(), compare=False, repr=False)

    def __post_init__(self):
        for name in ("words", "tags"):
            value = getattr(self, name)
            if isinstance(value, str | bytes):
                raise ValueError(
                    f"`{name}` must be a sequence of strings. Received one string: "
                    f"{value!r}. Split it into words first."
                )
            object.__setattr__(self, name, tuple(value))
        object.__setattr__(self, "lines", tuple(self.lines))
        if len(self.words) != len(self.tags) or not self.words:
            raise ValueError(
                "A sentence must have a word or more, and a tag for each. Received "
                f"{len(self.words)} words and {len(self.tags)} tags: "
                f"{self.words} and {self.tags}."
            )
        if self.lines and len(self.lines) != len(self.words):
            raise ValueError(
                "`lines` must give a number for each word, or be empty. Received "
                f"{len(self.lines)} lines for {len(self.words)} words."
            )

    def __len__(self):
        return len(self.words)


class TaggedCorpus(collections.abc.Sequence):
    """Tagged sentences, in a fixed order.

    A slice of a corpus is a corpus.

    Args:
        sentences: Iterable of `TaggedSentence`, or of pairs (words, tags).
        name: What messages call the corpus.

    Raises:
        ValueError: If there is no sentence.

    Example:

    >>> pairs = [(["dogs", "bark"], ["NOUN", "VERB"]), (["Go"], ["VERB"])]
    >>> corpus = TaggedCorpus(pairs)
    >>> corpus
    <TaggedCorpus sentences: 2 sentences, 3 words>
    >>> corpus.tag_names(), corpus.words()["dogs"], corpus.take(1)[0].tags
    (['NOUN', 'VERB'], 1, ('NOUN', 'VERB'))
    """

    def __init__(self, sentences, name="sentences"):
        self.name = name
        self._sentences = [
            sentence
            if isinstance(sentence, TaggedSentence)
            else TaggedSentence(*sentence)
            for sentence in sentences
        ]
        if not self._sentences:
            raise ValueError(f"A corpus must hold a sentence. Received none in {name}.")

    def __len__(self):
        return len(self._sentences)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return TaggedCorpus(self._sentences[index], self.name)
        return self._sentences[index]

    def __iter__(self):
        return iter(self._sentences)

    def __repr__(self):
        return (
            f"<TaggedCorpus {self.name}: {len(self)} sentences, {self.num_words} words>"
        )

    @property
    def num_words(self):
        """Number of words of all sentences together."""
        return sum(map(len, self._sentences))

    def take(self, count):
        """Gives a corpus of the first `count` sentences.

        Args:
            count: Number of sentences; all are taken if there are no more.

        Returns:
            A `TaggedCorpus`.

        Raises:
            ValueError: If `count` is less than 1.
        """
        if count < 1:
            raise ValueError(f"`count` must be 1 or more. Received: {count}.")
        return self[:count]

    def words(self):
        """Counts the forms.

        Returns:
            A `collections.Counter` from each form, as it is written, to how often it
            occurs.
        """
        return collections.Counter(
            word for sentence in self._sentences for word in sentence.words
        )

    def tag_names(self):
        """Lists the tags that occur.

        Returns:
            Sorted list of `str`.
        """
        return sorted({tag for sentence in self._sentences for tag in sentence.tags})


def place_of_word(corpus, number, sentence, index):
    """Says where a word stands, by file and line if the sentence has them.

    Args:
        corpus: A `TaggedCorpus`.
        number: Number of the sentence in it, from 1.
        sentence: The sentence.
        index: Index of the word in it.

    Returns:
        Text such as `at dev.conll, line 3`, or `in sentence 2 of dev`.

    Example:

    >>> corpus = TaggedCorpus([(["Ouch"], ["INTJ"])], "test")
    >>> place_of_word(corpus, 1, corpus[0], 0)
    'in sentence 1 of test'
    """
    if sentence.path is not None and sentence.lines:
        return f"at {sentence.path}, line {sentence.lines[index]}"
    return f"in sentence {number} of {corpus.name}"


def check_tags(corpus, known_tags):
    """Refuses a corpus with a tag that a model does not know.

    Args:
        corpus: A `TaggedCorpus`.
        known_tags: Collection of `str`, such as `training.tag_names()`.

    Raises:
        ValueError: At the first word with another tag. The message says where it
            stands, by file and line if the sentence has them.

    Example:

    >>> corpus = TaggedCorpus([(["Ouch"], ["INTJ"])], "test")
    >>> check_tags(corpus, ["INTJ", "NOUN"])
    >>> check_tags(corpus, ["NOUN"])
    Traceback (most recent call last):
    ...
    ValueError: Every tag must be known from training. Received 'INTJ' for the word
    'Ouch' in sentence 1 of test; 1 word has a tag that is none of ['NOUN']. Add
    sentences with it to the training data, or leave these words out.
    """
    known = set(known_tags)
    first, count = None, 0
    for number, sentence in enumerate(corpus, 1):
        for index, tag in enumerate(sentence.tags):
            if tag not in known:
                first = first or (number, sentence, index)
                count += 1
    if first is None:
        return
    number, sentence, index = first
    place = place_of_word(corpus, number, sentence, index)
    have = "word has" if count == 1 else "words have"
    raise ValueError(
        f"Every tag must be known from training. Received {sentence.tags[index]!r} "
        f"for the word {sentence.words[index]!r} {place}; {count} {have} a tag that is "
        f"none of {sorted(known)}. Add sentences with it to the training data, or "
        "leave these words out."
    )


# ---------------------------------------------------------------- CoNLL-U


def read_conllu(path, column="upos", missing=None):
    """Reads a treebank in CoNLL-U.

    Only words are kept: multi-word tokens (an id such as `3-4`, whose parts are words
    by themselves) and empty nodes (`8.1`) are dropped.

    Args:
        path: Name of the file, UTF-8.
        column: The column of the tags: `"upos"`, universal parts of speech, or
            `"xpos"`, those of the language.
        missing: Tag for words that have none (`_` in the column); `None` refuses them.

    Returns:
        A `TaggedCorpus`, named after the file.

    Raises:
        ImportError: If `conllu` is not installed.
        ValueError: If the file is not UTF-8, holds no sentence, a line is broken, or
            a word has no tag; with the number of the line. A column without any tag
            is refused whatever `missing` says.

    Example:

    >>> from pathlib import Path
    >>> line = "{}\\t{}\\t_\\t{}" + "\\t_" * 6 + "\\n"
    >>> rows = ("1-2", "don't", "_"), (1, "do", "AUX"), (2, "n't", "PART")
    >>> text = "".join(line.format(*row) for row in rows)
    >>> _ = Path("a.conllu").write_text(text + "\\n")
    >>> read_conllu("a.conllu")[0].words
    ('do', "n't")

    Reference:
        https://universaldependencies.org/format.html
    """
    if column not in _COLUMNS:
        raise ValueError(
            f"`column` must be one of {list(_COLUMNS)}. Received: column={column!r}."
        )
    parse = _conllu_parser(column)
    sentences, first_without, any_tag = [], None, False
    for block in _blocks(path):
        rows = _conllu_rows(block, parse, path)
        for number, word in rows:
            if word[column] != "_":
                any_tag = True
            elif first_without is None:
                first_without = number
        if any_tag and first_without is not None and missing is None:
            break
        if rows:
            tags = [
                (missing or "_") if word[column] == "_" else word[column]
                for _, word in rows
            ]
            sentences.append(_sentence(rows, "form", tags, path))
    if first_without is not None and (missing is None or not any_tag):
        raise ValueError(_without_tag(path, first_without, column, any_tag))
    return TaggedCorpus(sentences, str(path))


def _without_tag(path, line, column, any_tag):
    """What to say of words without a tag, and whether the whole column has none."""
    [other] = set(_COLUMNS) - {column}
    if any_tag:
        return (
            f"Every word must have a tag. Received {path}, line {line}, with `_` in "
            f"the column {column}. Correct it, pass `missing='X'` to give such words "
            f"that tag, or read another column with `column={other!r}`."
        )
    return (
        f"The column {column} must hold tags. Received {path}, in which it is empty "
        f"(`_`) from line {line} on to the end. Read the other one, with "
        f"`column={other!r}`."
    )


def _conllu_parser(column):
    """A function from the lines of a sentence to its tokens, by the library.

    Only the id, the form and the tag are handed over: the library would take the other
    columns apart, and splits at two blanks as at a tab.
    """
    try:
        import conllu
        from conllu.exceptions import ParseException
    except ImportError as error:
        raise ImportError(
            "This needs the package `conllu`, which does not import here: install it "
            'with `pip install "keras-bahdanau[conllu]"`.'
        ) from error
    fields = ("id", "form", column)
    keep = {column: lambda columns, index: columns[index]}

    def parse(lines, path):
        texts = [
            "\t".join((columns[0], columns[1], columns[_COLUMNS[column]]))
            for _, columns in lines
        ]
        try:
            return conllu.parse_token_and_metadata("\n".join(texts), fields, keep)
        except ParseException:
            for (number, _), text in zip(lines, texts):
                try:
                    conllu.parse_token_and_metadata(text, fields, keep)
                except ParseException as error:
                    raise ValueError(
                        f"A line must be CoNLL-U. Received {path}, line {number}, "
                        f"which is not: {error}"
                    ) from error
            raise

    return parse


def _conllu_rows(block, parse, path):
    """Pairs (line number, token) of the words of a sentence."""
    lines = [
        (number, _conllu_columns(line, path, number))
        for number, line in block
        if not line.startswith("#")
    ]
    if not lines:
        return []
    rows = []
    for (number, columns), token in zip(lines, parse(lines, path), strict=True):
        if isinstance(token["id"], tuple):
            continue
        if token["id"] != len(rows) + 1:
            raise ValueError(
                "The words of a sentence must be numbered 1, 2, 3, and a blank line "
                f"must end it. Received {path}, line {number}, with the id "
                f"{columns[0]} instead of {len(rows) + 1}."
            )
        rows.append((number, token))
    return rows


def _conllu_columns(line, path, number):
    """The columns of a line, of which none may be empty."""
    columns = line.split("\t")
    if len(columns) != _NUM_CONLLU_COLUMNS:
        raise ValueError(
            f"A line must have {_NUM_CONLLU_COLUMNS} columns, split by tabs. "
            f"Received {path}, line {number}, with {len(columns)}: {line!r}."
        )
    if not all(column.strip() for column in columns) or "  " in columns[1]:
        raise ValueError(
            "A column must not be empty, nor a word hold two blanks in a row. "
            f"Received {path}, line {number}: {line!r}. Write `_` for nothing."
        )
    return columns


# ---------------------------------------------------------------- columns


def read_columns(path, word_column=0, tag_column=-1, separator=None):
    """Reads a file with a word and its tag on each line.

    A blank line ends a sentence; lines that start a document (`-DOCSTART-`) are
    skipped. So are written CoNLL-2003 (`EU NNP B-NP B-ORG`), WNUT17, and many more.

    Args:
        path: Name of the file, UTF-8.
        word_column: Number of the column of the word, from 0; negative ones count from
            the end.
        tag_column: The same for the tag; the last by default.
        separator: What stands between columns. By default tabs in a line that has one,
            and any number of blanks in others.

    Returns:
        A `TaggedCorpus`, named after the file.

    Raises:
        ValueError: If the file is not UTF-8, holds no sentence, or a line has no such
            column, nothing in it, or not as many columns as the first; with the number
            of the line.

    Example:

    >>> from pathlib import Path
    >>> text = "EU B-ORG\\nrejects O\\n\\nPeter B-PER\\n"
    >>> _ = Path("a.conll").write_text(text)
    >>> read_columns("a.conll")[0].tags
    ('B-ORG', 'O')
    """
    sentences, width, columns = [], None, (word_column, tag_column)
    for block in _blocks(path):
        rows = []
        for number, line in block:
            fields = _split(line, separator)
            if fields[0] == _DOCUMENT:
                # Some files have no blank line after it.
                if rows:
                    sentences.append(_pairs_sentence(rows, path))
                    rows = []
                continue
            width = width or len(fields)
            _check_fields(fields, width, columns, path, number)
            rows.append((number, fields[word_column], fields[tag_column]))
        if rows:
            sentences.append(_pairs_sentence(rows, path))
    return TaggedCorpus(sentences, str(path))


def _split(line, separator):
    if separator is not None:
        return line.split(separator)
    if "\t" in line:
        return [field.strip(" ") for field in line.split("\t")]
    return _BLANKS.split(line.strip(" "))


def _check_fields(fields, width, columns, path, number):
    place = f"Received {path}, line {number}"
    if len(fields) != width:
        raise ValueError(
            f"All lines must have the same number of columns. {place}, with "
            f"{len(fields)}, where the first line has {width}: {fields}. Pass "
            "`separator` if words hold blanks."
        )
    if not all(-width <= column < width for column in columns):
        raise ValueError(
            f"`word_column` and `tag_column` must be columns of the file. {place}, "
            f"with {width} of them, for word_column={columns[0]} and "
            f"tag_column={columns[1]}: {fields}."
        )
    if columns[0] % width == columns[1] % width:
        raise ValueError(
            f"A line must have a word and a tag. {place}, where both are column "
            f"{columns[0] % width} of {width}: {fields}."
        )
    if not all(fields[column].strip() for column in columns):
        raise ValueError(f"Word and tag must not be empty. {place}: {fields}.")


def _pairs_sentence(rows, path):
    rows = [(number, {"form": word, "tag": tag}) for number, word, tag in rows]
    return _sentence(rows, "form", [row["tag"] for _, row in rows], path)


# ---------------------------------------------------------------- lines


def _sentence(rows, form, tags, path):
    """A sentence of pairs (line number, dictionary); equal strings are kept once."""
    return TaggedSentence(
        tuple(sys.intern(str(row[form])) for _, row in rows),
        tuple(map(sys.intern, tags)),
        os.fspath(path),
        tuple(number for number, _ in rows),
    )


def _blocks(path):
    """Lists of (number, line), of the lines between blank ones, one list at a time."""
    block = []
    with open(path, "rb") as file:
        for number, data in enumerate(file, 1):
            line = _decode(data, path, number)
            if line.strip(" \t"):
                block.append((number, line))
            elif block:
                yield block
                block = []
    if block:
        yield block


def _decode(data, path, number):
    """The text of a line that ends with `\\n`, `\\r\\n`, or the file."""
    try:
        text = data.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"A text file must be UTF-8. Received {path}, which is not at line "
            f"{number}: byte 0x{data[error.start]:02x}, {error.reason}. Convert it, "
            "for example with `iconv -t UTF-8`."
        ) from error
    return text.removesuffix("\n").removesuffix("\r")
