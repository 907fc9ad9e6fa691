"""Tagged sentences: what is read from files, and what is refused, with its line."""

import collections
import sys

import pytest

from keras_bahdanau.tagged_text import (
    TaggedCorpus,
    TaggedSentence,
    check_tags,
    read_columns,
    read_conllu,
)

# The numbers of the README of the shared data: sentences and words.
TREEBANKS = {
    "ud-english-ewt/en_ewt-ud-train.conllu": (12_544, 204_577),
    "ud-english-ewt/en_ewt-ud-dev.conllu": (2_001, 25_147),
    "ud-english-ewt/en_ewt-ud-test.conllu": (2_077, 25_094),
    "ud-english-partut/en_partut-ud-train.conllu": (1_781, 43_504),
    "ud-english-partut/en_partut-ud-dev.conllu": (156, 2_722),
    "ud-english-partut/en_partut-ud-test.conllu": (153, 3_408),
    "ud-french-sequoia/fr_sequoia-ud-train.conllu": (2_231, 50_502),
    "ud-french-sequoia/fr_sequoia-ud-dev.conllu": (412, 9_999),
    "ud-french-sequoia/fr_sequoia-ud-test.conllu": (456, 10_044),
}
ENTITIES = {
    "train.conll": (3_394, 62_730),
    "dev.conll": (1_009, 15_733),
    "test.conll": (1_287, 23_394),
}
ROWS = [
    ("1-2", "vámonos", "_", "_"),
    ("1", "vamos", "VERB", "VMI"),
    ("2", "nos", "PRON", "PP"),
    ("2.1", "quickly", "ADV", "RG"),
    ("3", "20 000", "NUM", "Z"),
]


def row(number, form, upos, xpos):
    """A line with something in every column that is not read."""
    rest = ["Case=Acc|Odd", "0", "root", "0:root|4:x", "SpaceAfter=No  Odd=|"]
    return "\t".join([number, form, "lemma  of", upos, xpos, *rest])


def conllu(*rows):
    return "\n".join(row(*each) for each in rows) + "\n\n"


def write(folder, content, name="a.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# ------------------------------------------------------------------ sentences


def test_a_sentence_holds_as_many_tags_as_words():
    sentence = TaggedSentence(["dogs", "bark"], iter(["NOUN", "VERB"]))
    assert sentence.words == ("dogs", "bark") and sentence.tags == ("NOUN", "VERB")
    assert len(sentence) == 2
    with pytest.raises(ValueError, match="Received 2 words and 1 tags"):
        TaggedSentence(["dogs", "bark"], ["NOUN"])
    with pytest.raises(ValueError, match="a word or more.*Received 0 words"):
        TaggedSentence([], [])
    with pytest.raises(ValueError, match="`tags` must be a sequence.*'NV'"):
        TaggedSentence(["dogs", "bark"], "NV")
    with pytest.raises(ValueError, match="1 lines for 2 words"):
        TaggedSentence(["dogs", "bark"], ["NOUN", "VERB"], "a.txt", [1])


def test_a_sentence_is_the_same_wherever_it_stands():
    here = TaggedSentence(["a"], ["DET"], "a.txt", [1])
    assert here == TaggedSentence(["a"], ["DET"], "b.txt", [7])
    assert hash(here) == hash(TaggedSentence(["a"], ["DET"]))
    assert here != TaggedSentence(["a"], ["X"])
    assert "a.txt" not in repr(here)
    with pytest.raises(AttributeError):
        here.words = ()


def test_a_corpus_is_a_sequence_of_sentences():
    pairs = [(["a", "dog"], ["DET", "NOUN"]), (["go"], ["VERB"]), (["a"], ["DET"])]
    corpus = TaggedCorpus(iter(pairs), "three")
    assert len(corpus) == 3 and corpus.num_words == 4
    assert [(list(each.words), list(each.tags)) for each in corpus] == pairs
    assert corpus[-1] is corpus[2] and corpus[1] == TaggedSentence(*pairs[1])
    assert corpus.words() == collections.Counter({"a": 2, "dog": 1, "go": 1})
    assert corpus.tag_names() == ["DET", "NOUN", "VERB"]
    for part in (corpus.take(2), corpus[:2]):
        assert list(part) == list(corpus)[:2] and part.name == "three"
    assert list(corpus.take(5)) == list(corpus)
    assert repr(corpus) == "<TaggedCorpus three: 3 sentences, 4 words>"
    for count in (0, -1):
        with pytest.raises(ValueError, match=f"`count` must be 1 .*: {count}"):
            corpus.take(count)
    for empty in (lambda: TaggedCorpus([], "three"), lambda: corpus[3:]):
        with pytest.raises(ValueError, match="must hold a sentence. .*none in three"):
            empty()


def test_an_unknown_tag_is_named_with_its_line(tmp_path):
    path = write(tmp_path, "a DET\n\ndog NOUN\nruns VERB\nfast ADV\n")
    corpus = read_columns(path)
    check_tags(corpus, corpus.tag_names())
    with pytest.raises(ValueError) as error:
        check_tags(corpus, {"NOUN", "DET"})
    assert f"'VERB' for the word 'runs' at {path}, line 4; 2 words" in str(error.value)
    assert "none of ['DET', 'NOUN']" in str(error.value)
    nowhere = TaggedCorpus([(["a"], ["DET"]), (["b", "c"], ["DET", "X"])], "mine")
    with pytest.raises(ValueError, match="'c' in sentence 2 of mine; 1 word has"):
        check_tags(nowhere, ["DET"])


# ------------------------------------------------------------------ CoNLL-U


def test_multi_word_tokens_and_empty_nodes_are_no_words(tmp_path):
    text = "# text = ¡ Vámonos\n# odd\n" + conllu(*ROWS)
    corpus = read_conllu(write(tmp_path, text))
    [sentence] = corpus
    assert sentence.words == ("vamos", "nos", "20 000")
    assert sentence.tags == ("VERB", "PRON", "NUM")
    assert sentence.lines == (4, 5, 7)
    assert sentence.path == corpus.name == str(tmp_path / "a.txt")
    [sentence] = read_conllu(tmp_path / "a.txt", "xpos")
    assert sentence.tags == ("VMI", "PP", "Z")


def test_line_ends_and_blank_lines_of_any_kind_are_read(tmp_path):
    first, second = conllu(("1", "a", "X", "_")), conllu(("1", "\u2028b", "X", "_"))
    text = "\ufeff\n# c\n\n" + first + " \n\t\n" + second.strip("\n")
    expected = [("a",), ("\u2028b",)]
    for content in (text, text.replace("\n", "\r\n")):
        corpus = read_conllu(write(tmp_path, content))
        assert [sentence.words for sentence in corpus] == expected
        assert corpus[1].lines == (8,)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2\tb\tb\tX", r"10 columns, split by tabs. .*line 3, with 4: '2\\tb"),
        (row("2", "b", "X", "_") + "\t_", "line 3, with 11"),
        ("b X", "line 3, with 1: 'b X'"),
        (row("2", "", "X", "_"), "must not be empty.*line 3.*Write `_`"),
        (row("2", "b", " ", "_"), "must not be empty.*line 3"),
        (row("2", "b  c", "X", "_"), "two blanks in a row.*line 3"),
        (row("two", "b", "X", "_"), "line 3, which is not: .*'two' is not a valid ID"),
        (row("3-2", "b", "X", "_"), "line 3, which is not: .*'3-2'"),
        (row("_", "b", "X", "_"), "line 3, with the id _ instead of 2"),
        (row("1", "b", "X", "_"), "a blank line must end it.*line 3, .*1 instead of 2"),
        (row("3", "b", "X", "_"), "line 3, with the id 3 instead of 2"),
    ],
)
def test_a_broken_line_of_a_treebank_is_named(tmp_path, line, message):
    path = write(tmp_path, f"# c\n{row('1', 'a', 'X', '_')}\n{line}\n\n")
    with pytest.raises(ValueError, match=message) as error:
        read_conllu(path)
    assert str(path) in str(error.value)


def test_a_word_without_a_tag_is_refused_or_given_one(tmp_path):
    rows = [("1", "a", "X", "FW"), ("2", "_", "_", "SYM")]
    path = write(tmp_path, conllu(*rows) + conllu(("1", "b", "_", "FW")))
    with pytest.raises(
        ValueError, match="line 2, with `_` in the column upos"
    ) as error:
        read_conllu(path)
    assert "`missing='X'`" in str(error.value) and "column='xpos'" in str(error.value)
    tags = [sentence.tags for sentence in read_conllu(path, missing="NONE")]
    assert tags == [("X", "NONE"), ("NONE",)]
    assert read_conllu(path, "xpos")[0].words == ("a", "_")
    # The first word without one, if words with a tag only follow.
    path = write(tmp_path, conllu(("1", "b", "_", "FW")) + conllu(*rows))
    with pytest.raises(ValueError, match="line 1, with `_` in the column upos"):
        read_conllu(path)


@pytest.mark.parametrize("missing", [None, "X"])
def test_a_column_that_is_empty_throughout_names_the_other(tmp_path, missing):
    path = write(tmp_path, "# c\n" + conllu(("1", "a", "X", "_"), ("2", "b", "X", "_")))
    with pytest.raises(ValueError, match="column xpos.*from line 2.*column='upos'"):
        read_conllu(path, "xpos", missing)
    path = write(tmp_path, conllu(("1", "a", "_", "FW")))
    with pytest.raises(ValueError, match="column upos.*from line 1.*column='xpos'"):
        read_conllu(path, missing=missing)


def test_other_columns_are_not_to_be_had(tmp_path):
    with pytest.raises(ValueError, match=r"\['upos', 'xpos'\]. .*column='lemma'"):
        read_conllu(write(tmp_path, conllu(*ROWS)), "lemma")


def test_a_missing_conllu_is_named_with_its_extra(tmp_path, monkeypatch):
    path = write(tmp_path, conllu(*ROWS))
    monkeypatch.setitem(sys.modules, "conllu", None)
    with pytest.raises(ImportError, match=r'pip install "keras-bahdanau\[conllu\]"'):
        read_conllu(path)


# ------------------------------------------------------------------ columns


def test_a_file_in_the_manner_of_conll_2003_is_read(tmp_path):
    text = (
        "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n"
        "Peter NNP B-NP B-PER\n-DOCSTART- -X- -X- O\nBRUSSELS NNP B-NP B-LOC\n"
    )
    for content in (text, text.replace("\n", "\r\n"), text.replace(" ", "  ")):
        corpus = read_columns(write(tmp_path, content))
        assert [(each.words, each.tags, each.lines) for each in corpus] == [
            (("EU", "rejects"), ("B-ORG", "O"), (3, 4)),
            (("Peter",), ("B-PER",), (6,)),
            (("BRUSSELS",), ("B-LOC",), (8,)),
        ]
    corpus = read_columns(tmp_path / "a.txt", tag_column=1)
    assert corpus[0].tags == ("NNP", "VBZ")
    corpus = read_columns(tmp_path / "a.txt", word_column=-1, tag_column=0)
    assert corpus[0].tags == ("EU", "rejects")


def test_words_may_hold_blanks_where_tabs_stand_between_columns(tmp_path):
    path = write(tmp_path, "New York\tB-LOC\n#\tO\n\t\n\u00a0x\t O \n")
    corpus = read_columns(path)
    assert [sentence.words for sentence in corpus] == [("New York", "#"), ("\u00a0x",)]
    assert corpus[1].tags == ("O",)
    path = write(tmp_path, "New York|B-LOC\na\tb|O\n")
    assert read_columns(path, separator="|")[0].words == ("New York", "a\tb")


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ("b", {}, r"line 2, with 1, where the first line has 2: \['b'\]"),
        ("b c O", {}, "line 2, with 3, where .* `separator` if words hold blanks"),
        ("b\t", {}, r"must not be empty. .*line 2: \['b', ''\]"),
        ("\tO", {}, r"must not be empty. .*line 2: \['', 'O'\]"),
        ("b O", {"tag_column": 2}, "line 1, with 2 of them, .*tag_column=2"),
        ("b O", {"word_column": -3}, "line 1, .*word_column=-3 and tag_column=-1"),
        ("b O", {"tag_column": 0}, "line 1, where both are column 0 of 2"),
        ("b O", {"separator": ";"}, r"line 1, where both .*: \['a O'\]"),
    ],
)
def test_a_broken_line_of_columns_is_named(tmp_path, line, options, message):
    path = write(tmp_path, f"a O\n{line}\n\n")
    with pytest.raises(ValueError, match=message) as error:
        read_columns(path, **options)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("read", [read_conllu, read_columns])
def test_empty_and_undecodable_files_are_named(tmp_path, read):
    for content in ("", "\n \n\t\r\n", "-DOCSTART- O\n" * (read is read_columns)):
        with pytest.raises(ValueError, match="must hold a sentence. .*a.txt"):
            read(write(tmp_path, content))
    with pytest.raises(ValueError, match="a.txt, .* line 3: byte 0xe9.*iconv"):
        read(write(tmp_path, b"\n\n" + "café O".encode("latin-1")))
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nowhere")


# ------------------------------------------------------------------ real data


@pytest.mark.shared
@pytest.mark.parametrize("name", TREEBANKS)
def test_a_real_treebank_has_as_many_words_as_its_readme_says(shared_dir, name):
    corpus = read_conllu(shared_dir / "data" / name)
    assert (len(corpus), corpus.num_words) == TREEBANKS[name]
    assert set(corpus.tag_names()) <= set(
        "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB "
        "X".split()
    )


@pytest.mark.shared
def test_real_treebanks_are_what_their_readme_says(shared_dir):
    folder = shared_dir / "data"
    path = folder / "ud-french-sequoia" / "fr_sequoia-ud-train.conllu"
    forms = read_conllu(path).words().elements()
    assert sum(" " in form for form in forms) == 41
    with pytest.raises(ValueError, match="sequoia.*is empty .*column='upos'"):
        read_conllu(path, "xpos")
    folder = folder / "ud-english-ewt"
    train, test = (
        read_conllu(folder / f"en_ewt-ud-{split}.conllu", "xpos")
        for split in ("train", "test")
    )
    assert len(train.tag_names()) == 49
    check_tags(test, train.tag_names())
    known = train.words()
    unknown = sum(word not in known for word in test.words().elements())
    assert round(100 * unknown / test.num_words, 1) == 9.1


@pytest.mark.shared
@pytest.mark.parametrize("name", ENTITIES)
def test_real_entities_have_as_many_words_as_their_readme_says(shared_dir, name):
    corpus = read_columns(shared_dir / "data" / "wnut17-ner" / name)
    assert (len(corpus), corpus.num_words) == ENTITIES[name]
    kinds = "person location group corporation product creative-work".split()
    assert set(corpus.tag_names()) == {
        "O",
        *(f"{prefix}-{kind}" for prefix in "BI" for kind in kinds),
    }
