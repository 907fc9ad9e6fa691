"""What translate.py, evaluate.py, align.py and export.py do with their arguments."""

import io
import pathlib
import sys

import pytest
from parallel import parallel_text

pytestmark = pytest.mark.tf_only

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "translation"
EPOCHS = 2
TINY = ["--limit", "60", "--units", "7", "--embedding", "5", "--batch-size", "20"]
TINY += ["--epochs", str(EPOCHS), "--dropout", "0"]
LIMIT_S = 600


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """Folders of translators that say something else for each source.

    Of words and of subwords as they were saved, and the first as it was exported.
    """
    import keras

    from keras_bahdanau import RNNSearch
    from keras_bahdanau.tf import SubwordCodec, Translator, WordCodec

    keras.utils.set_random_seed(1)
    texts = ["the dog sees the cat, the dog!", "is a cat asleep?"] * 3
    large = keras.initializers.RandomNormal(stddev=2.0)
    folder = tmp_path_factory.mktemp("untrained")
    pieces = SubwordCodec.train(texts, 31, model_type="bpe")
    codecs = {"words": WordCodec.train(texts), "pieces": pieces}
    for name, codec in codecs.items():
        size = codec.vocabulary_size
        options = {"kernel_initializer": large, "embedding_initializer": large}
        model = RNNSearch(size, size, embedding_dim=5, units=7, **options)
        translator = Translator(model, codec, codec, max_length=11)
        translator.save(folder / name)
        if name == "words":
            translator.export(folder / "words-exported")
    return folder


@pytest.fixture
def main(example, monkeypatch, capsys):
    """Runs a program in this process; gives the lines that it printed."""

    def main(program, *arguments, lines=b""):
        standard_input = io.TextIOWrapper(io.BytesIO(lines), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", standard_input)
        monkeypatch.setattr(sys, "argv", [f"{program}.py", *map(str, arguments)])
        example(program).main()
        return capsys.readouterr().out.splitlines()

    return main


@pytest.fixture
def refused(main, capsys):
    """Runs a program that ends at once; gives the last line of what it said."""

    def refused(program, *arguments):
        with pytest.raises(SystemExit) as ended:
            main(program, *arguments)
        assert ended.value.code == 2
        found = capsys.readouterr()
        assert not found.out
        return found.err.splitlines()[-1]

    return refused


@pytest.mark.parametrize("name", ["words", "words-exported"])
def test_translate_replaces_what_is_no_utf8(untrained, main, name):
    import tensorflow as tf

    texts = [b"the \xff dog", b"\xed\xa0\x80", b"caf\xc3", b"a cat", b""]
    graph = tf.saved_model.load(str(untrained / "words-exported"))
    outputs = graph.serve(tf.constant(texts))
    expected = [text.decode() for text in outputs["translations"].numpy()]
    folder = untrained / name
    assert main("translate", folder, lines=b"\n".join(texts)) == expected[:-1]
    arguments = [text.decode("utf-8", "surrogateescape") for text in texts]
    assert main("translate", folder, *arguments) == expected
    assert main("translate", folder, "the \ud800 dog", "a cat")[1] == expected[3]


def described(line):
    """Text, links, source words and target words of a line of translate.py."""
    text, links, *sides = line.split("\t")
    found = [tuple(map(int, link.split("-"))) for link in links.split()]
    source, target = (side.split() for side in sides)
    for i, j in found:
        assert i < len(source) and j < len(target)
    # Each target word looks at one source word.
    assert sorted(j for _, j in found) == list(range(len(target)))
    return text, found, source, target


def test_links_of_subwords_are_between_the_words_of_both_texts(untrained, main):
    texts = ["the dog sees  the cat, the dog!", "is the zebra asleep?", "a", ""]
    options = ["--alignments", "--tokens"]
    *lines, empty = main("translate", untrained / "pieces", *texts, *options)
    assert empty == "\t\t\t"
    for line, text in zip(lines, texts):
        translation, _, source, target = described(line)
        assert source == text.split() and target == translation.split()


def test_links_of_words_count_the_tokens(untrained, main):
    from keras_bahdanau.tf import surface, tokenize

    texts = ["the dog sees the cat, the dog!", "is the zebra asleep?"]
    options = ["--alignments", "--tokens"]
    for folder in ("words", "words-exported"):
        lines = main("translate", untrained / folder, *texts, *options)
        for line, text in zip(lines, texts):
            source = surface(tokenize([text]))[0].numpy().tolist()
            assert described(line)[2] == [word.decode() for word in source]


def test_the_weights_of_pieces_are_merged_by_words(example):
    """Of `a bc` and `x yz`; the last row and column are those of the end."""
    import numpy as np

    from keras_bahdanau.tf import Translation

    source = ["\u2581a", "\u2581", "b", "c"]
    target = ["\u2581x", "\u2581y", "z", "\u2581"]
    # Each piece of `bc` has less than `a`, all of them more.
    of_x, of_y, of_z = [4, 2, 3, 0, 1], [6, 1, 1, 1, 1], [0, 3, 2, 3, 2]
    weights = np.array([of_x, of_y, of_z, [0, 0, 0, 0, 10], [0, 0, 0, 0, 10]]) / 10
    result = Translation("x yz", -1.0, source, target, weights)
    module = example("links")
    assert module.words(result) == [["a", "bc"], ["x", "yz"]]
    assert module.links(result) == "1-0 1-1"
    nothing = Translation("", -1.0, source, ["\u2581"], weights[:2])
    assert module.words(nothing)[1] == [] and module.links(nothing) == ""


def test_several_sentences_are_numbered_and_one_is_not(untrained, main):
    """So that they can be told apart where fewer than N are found."""
    command = ["translate", untrained / "words", "--nbest", 3]
    found = [line.split("\t") for line in main(*command, "a cat", "", "a cat")]
    count = len(found) // 2
    assert 1 < count <= 3
    numbers = ["0"] * count + ["1"] + ["2"] * count
    assert [fields[0] for fields in found] == numbers
    alone = [line.split("\t") for line in main(*command, lines=b"a cat\n")]
    assert [fields[1:] for fields in found[:count]] == alone


def test_what_is_drawn_for_several_sentences_is_numbered(untrained, main):
    command = ["translate", untrained / "words", "--sample", 2, "--seed", 1]
    found = [line.split("\t") for line in main(*command, lines=b"a cat\nthe dog\n")]
    assert [fields[0] for fields in found] == ["0", "0", "1", "1"]
    assert [fields[1:] for fields in found[:2]] != [fields[1:] for fields in found[2:]]


def test_a_bar_on_standard_error_counts_a_file(
    untrained, example, monkeypatch, tmp_path, capsys
):
    path = tmp_path / "lines"
    path.write_text("a cat\n\nthe dog\n" * 3)
    translate = example("translate")
    bars = []
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_it=is_terminal: is_it)
        arguments = ["translate.py", str(untrained / "words-exported")]
        monkeypatch.setattr(sys, "argv", [*arguments, "--batch-size", "2"])
        with open(path, encoding="utf-8") as file:
            monkeypatch.setattr(sys, "stdin", file)
            translate.main()
        printed = capsys.readouterr()
        assert len(printed.out.splitlines()) == 9 and "9/9" not in printed.out
        bars.append(printed.err)
    assert "/9" not in bars[0] and "0/9" in bars[1] and "9/9" in bars[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--alpha", 1, "--beams", 2],
            "Received: alpha=1.0, length_penalty='none'. Leave it out, or pass",
        ),
        (
            ["--min-length", 5, "--max-length", 3],
            "Received: min_length=5, max_length=3.",
        ),
        (["--min-length", 12], "Received: min_length=12, max_length=11."),
        (["--length-penalty", "gnmt"], "Pass num_beams=5, say."),
        (["--forbid", "a cat"], "Forbid its first token."),
    ],
)
def test_options_of_the_search_without_effect_are_refused(
    untrained, refused, options, message, tmp_path
):
    folder, output = untrained / "words", tmp_path / "exported"
    for said in (
        refused("translate", folder, "a cat", *options),
        refused("export", folder, output, *options),
    ):
        assert message in said and "files" not in said
    assert not output.exists()


def test_what_was_exported_is_refused_where_it_does_not_do(
    untrained, refused, tmp_path
):
    exported, message = untrained / "words-exported", "needs the folder `translator`"
    parallel_text(tmp_path, "test")
    assert message in refused("evaluate", exported, "--data", tmp_path)
    (tmp_path / "story.en-fr.talp").write_text("0-0\n")
    for language in ("en", "fr"):
        (tmp_path / f"story.{language}").write_text("cat\n")
    assert message in refused("align", exported, "--gold", tmp_path)
    assert message in refused("export", exported, tmp_path / "again")
    assert "is settled" in refused("translate", exported, "a cat", "--beams", 2)


def test_evaluate_and_export_name_what_is_missing(untrained, refused, tmp_path):
    folder, output = untrained / "words", tmp_path / "exported"
    missing = tmp_path / "no"
    for data in (missing, tmp_path):
        assert str(data) in refused("evaluate", folder, "--data", data)
    parallel_text(tmp_path, "test")
    options = ["--data", tmp_path, "--length-penalty", "none", "--alpha", 1]
    assert "`alpha` is the exponent" in refused("evaluate", folder, *options)
    assert str(missing) in refused("evaluate", missing, "--data", tmp_path)
    assert str(missing) in refused("export", folder, output, "--check", missing)
    assert not output.exists()
