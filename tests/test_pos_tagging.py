"""The example of tagging, run as a user runs it, at a tiny size."""

import csv
import importlib
import io
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.tf_only

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "pos_tagging"
TINY = ["--limit", "60", "--epochs", "1", "--units", "8", "--embedding", "5"]
TINY += ["--character-units", "3", "--batch-size", "20"]
SENTENCES = {
    "train": "The/DET dog/NOUN barks/VERB|A/DET cat/NOUN sleeps/VERB|Go/VERB",
    "dev": "The/DET cat/NOUN barks/VERB|Sleep/VERB",
    "test": "A/DET dog/NOUN sees/VERB the/DET cat/NOUN|Go/VERB",
}
ENTITIES = {
    "train": "Peter/B-PER Pan/I-PER sleeps/O|in/O London/B-LOC",
    "dev": "Peter/B-PER sleeps/O in/O London/B-LOC",
    "test": "in/O Old/B-LOC London/I-LOC",
}
LIMIT_S = 600


def pairs_of(text):
    return [[pair.split("/") for pair in one.split()] for one in text.split("|")]


def write_conllu(folder, sentences):
    """A treebank with comments and a multi-word token, as those of UD are named."""
    for split, text in sentences.items():
        lines = ["# newdoc"]
        for sentence in pairs_of(text):
            lines.append("1-2\tsome" + "\t_" * 8)
            for number, (word, tag) in enumerate(sentence, 1):
                lines.append(f"{number}\t{word}\t_\t{tag}" + "\t_" * 6)
            lines.append("")
        path = folder / f"xx_tiny-ud-{split}.conllu"
        path.write_text("\n".join(lines) + "\n")
    return folder


def write_columns(folder, sentences):
    for split, text in sentences.items():
        rows = ["\n".join(map(" ".join, one)) for one in pairs_of(text)]
        (folder / f"{split}.conll").write_text("\n\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What train.py printed of all models on the grammar, and its folder."""
    output = tmp_path_factory.mktemp("trained")
    models = ["--models", "one-way", "two-way", "crf"]
    done = subprocess.run(
        [sys.executable, FOLDER / "train.py", *TINY, *models, "--output", output],
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, output


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a program of the example in this process; gives what it printed."""
    monkeypatch.syspath_prepend(FOLDER)
    before = set(sys.modules)

    def run(program, *arguments, lines=b""):
        standard_input = io.TextIOWrapper(io.BytesIO(lines), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", standard_input)
        importlib.import_module(program).main([str(one) for one in arguments])
        return capsys.readouterr().out

    yield run
    for name in {path.stem for path in FOLDER.glob("*.py")} - before:
        sys.modules.pop(name, None)


def table_of(printed):
    """The rows of the table, by the name of the tagger."""
    lines = printed.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("tagger "))
    rows = {}
    for line in lines[start:]:
        if not line:
            break
        name, *cells = [cell for cell in line.split("  ") if cell.strip()]
        rows[name.strip()] = [cell.strip() for cell in cells]
    return rows


def test_training_compares_the_models_in_a_table(trained):
    printed, _ = trained
    rows = table_of(printed)
    assert list(rows) == ["tagger", "most frequent tag", "one-way", "two-way", "crf"]
    assert rows["tagger"][:2] == ["accuracy", "unknown words"]
    for name in ("one-way", "two-way", "crf"):
        assert 0 <= float(rows[name][0]) <= 100
    assert "60, 60 and 60 sentences" in printed
    assert "60 of 60 sentences have the same tags" in printed


def test_training_leaves_taggers_logs_picture_and_export(trained):
    _, output = trained
    for kind in ("one-way", "two-way", "crf"):
        names = sorted(path.name for path in (output / kind / "tagger").iterdir())
        assert names == ["model.keras", "tag_codec.json", "tagger.json"]
        with open(output / kind / "log.csv") as file:
            (row,) = csv.DictReader(file)
        assert 0 <= float(row["val_accuracy"]) <= 1 and "val_unknown_accuracy" in row
    assert (output / "confusion.png").read_bytes().startswith(b"\x89PNG")
    assert (output / "saved_model" / "saved_model.pb").is_file()


def test_tag_reads_arguments_or_lines_and_either_kind_of_tagger(trained, run):
    _, output = trained
    saved, exported = output / "crf" / "tagger", output / "saved_model"
    texts = ["The dog sleeps.", "", "A cat sees them."]
    printed = run("tag", saved, *texts)
    words = [line.split("\t")[0] for line in printed.splitlines()]
    assert words == [
        *"The dog sleeps .".split(),
        "",
        "",
        *"A cat sees them .".split(),
    ] + [""]
    assert run("tag", exported, *texts) == printed
    lines = "\n".join(texts).encode() + b"\r\n"
    assert run("tag", exported, lines=lines) == printed
    inline = run("tag", saved, "--inline", *texts).splitlines()
    assert len(inline) == 3 and inline[1] == ""
    assert [pair.split("/")[0] for pair in inline[0].split()] == words[:4]


def test_tag_takes_words_as_they_stand_and_bytes_that_are_no_text(trained, run):
    folder = trained[1] / "crf" / "tagger"
    printed = run("tag", folder, "--tokens", "dogs, cats", "")
    assert [line.split("\t")[0] for line in printed.splitlines()] == [
        "dogs,",
        "cats",
        "",
        "",
    ]
    printed = run("tag", folder, "--inline", lines=b"caf\xe9\n")
    assert printed.startswith("caf") and "\ufffd" in printed
    assert run("tag", folder, "--inline", os.fsdecode(b"caf\xe9")) == printed


def test_tag_says_in_one_line_what_is_no_tagger(run, tmp_path):
    with pytest.raises(SystemExit) as ended:
        run("tag", tmp_path, "A dog.")
    assert str(ended.value).startswith("tag.py: `path` must be a folder that")


def test_export_checks_what_it_wrote_in_another_process(trained, run, tmp_path):
    folder, data = trained[1] / "crf" / "tagger", write_conllu(tmp_path, SENTENCES)
    check = ["--check", data / "xx_tiny-ud-test.conllu"]
    printed = run("export", folder, tmp_path / "served", *check)
    assert printed.splitlines() == [
        f"Exported to {tmp_path}/served",
        f"SavedModel in {tmp_path}/served: 2 of 2 sentences have the same tags in a "
        "process without keras_bahdanau and keras",
    ]
    for wrong, message in (
        ([tmp_path / "served", tmp_path / "again"], "is exported already"),
        ([tmp_path, tmp_path / "again"], "`path` must be a folder that"),
        ([folder, tmp_path / "again", "--check", "no.conllu"], "No such file"),
    ):
        with pytest.raises(SystemExit) as ended:
            run("export", *wrong)
        assert str(ended.value).startswith("export.py: ")
        assert message in str(ended.value)
        assert not (tmp_path / "again").exists()


def test_the_perceptron_is_compared_with_the_most_frequent_tag(run, tmp_path):
    data = write_conllu(tmp_path, SENTENCES)
    rows = table_of(run("perceptron", "--data", data, "--iterations", 3))
    assert list(rows) == ["tagger", "most frequent tag", "NLTK's perceptron"]
    # "sees" and "Go" are where they differ; the first is not in the training text.
    assert 60 < float(rows["NLTK's perceptron"][0]) <= 100
    with pytest.raises(SystemExit, match=r"perceptron.py: The folder must hold one"):
        run("perceptron", "--data", FOLDER)


def test_a_check_that_fails_ends_the_program(trained, run, monkeypatch):
    run("tag", trained[1] / "crf" / "tagger", "A dog.")
    monkeypatch.syspath_prepend(FOLDER)
    check = importlib.import_module("export").check
    with pytest.raises(SystemExit, match="The exported tagger differs from the one in"):
        check(trained[1] / "saved_model", [["A", "dog"]], [("NOUN",)])


def test_a_treebank_is_learned_with_the_auxiliary_loss(run, tmp_path):
    data = write_conllu(tmp_path, SENTENCES)
    options = ["--models", "two-way", "--frequencies", "3", "--characters", "cnn"]
    options += ["--character-units", "4", "--label-smoothing", "0", "--ema", "0"]
    output = tmp_path / "new" / "output"
    printed = run("train", *TINY, *options, "--data", data, "--output", output)
    assert "3, 2 and 2 sentences" in printed and "3 tags" in printed
    assert list(table_of(printed)) == ["tagger", "most frequent tag", "two-way"]
    assert "2 of 2 sentences have the same tags" in printed


def test_the_tags_of_the_languages_own_are_learned_too(run, tmp_path):
    data = write_conllu(tmp_path, SENTENCES)
    for path in data.glob("*.conllu"):
        text = (
            path.read_text()
            .replace("NOUN\t_", "NOUN\tNN")
            .replace("VERB\t_", "VERB\tVB")
        )
        path.write_text(text.replace("DET\t_", "DET\tDT"))
    options = ["--column", "xpos", "--models", "two-way", "--data", data]
    printed = run("train", *TINY, *options, "--output", tmp_path / "output")
    tags = {line.split()[0] for line in printed.splitlines() if line[:3].isupper()}
    assert tags == {"DT", "NN", "VB"}


def test_a_set_of_tensorflow_datasets_is_learned(run, tmp_path, monkeypatch):
    import tensorflow as tf
    import tensorflow_datasets as tfds

    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    options = ["--tfds", "conll2003", "--tags", "ner", "--models", "two-way"]
    options += ["--output", tmp_path / "output"]
    with pytest.raises(SystemExit) as ended:
        run("train", *TINY, *options)
    message = str(ended.value)
    assert message.startswith("train.py: ") and "\n" not in message
    assert "conll2003" in message and "download" in message
    rows = {"tokens": [["Peter", "Pan", "sleeps"]] * 9, "ner": [[1, 2, 0]] * 9}
    every = tf.data.Dataset.from_tensor_slices(rows)
    with tfds.testing.mock_data(as_dataset_fn=lambda *args, **options: every):
        printed = run("train", *TINY, *options)
    assert "conll2003: 9, 9 and 9 sentences" in printed and "3 tags" in printed
    assert "B-PER" in printed


def test_given_word_vectors_are_what_the_embedding_starts_from(run, tmp_path):
    from keras_bahdanau.tf import load_tagger

    data = write_conllu(tmp_path, SENTENCES)
    lines = ["Dog 1.5 0.5 0.25", "dog 3.0 2.0 1.0", "Cat 0.5 0.5 0.5", "of 1.0 1.0 2.0"]
    (tmp_path / "vectors.txt").write_text("\n".join([*lines, "far 0.0 0.0 0.0"]))
    options = ["--vectors", tmp_path / "vectors.txt", "--vector-words", "4"]
    options += ["--models", "two-way", "--ema", "0", "--learning-rate", "1e-9"]
    options += ["--data", data, "--output", tmp_path / "output"]
    printed = run("train", *TINY[:6], *TINY[8:], *options)
    tagger = load_tagger(tmp_path / "output" / "two-way" / "tagger")
    words = ["<padding>", "<unknown>", *tagger.codec.words]
    (rows,) = tagger.model.word_embedding.get_weights()
    assert rows.shape == (len(words), 3)
    # Those in lower case go before others; the fifth of the file is left out.
    for word, row in (("dog", [3, 2, 1]), ("cat", [0.5] * 3), ("of", [1, 1, 2])):
        np.testing.assert_allclose(rows[words.index(word)], row, atol=1e-6)
    assert "far" not in words
    share = 100 * 3 / len(words)
    assert f"{share:.1f} % of the known words start from a given vector" in printed
    (tmp_path / "vectors.txt").write_text("dog 1.0\ncat\n")
    with pytest.raises(SystemExit, match=r"train.py: A line .* of size 1.*line 2"):
        run("train", *TINY[:6], *TINY[8:], *options)


def test_entities_are_learned_by_their_scheme(run, tmp_path):
    data = write_columns(
        tmp_path, {**ENTITIES, "train": ENTITIES["train"] + "|" + ENTITIES["test"]}
    )
    options = ["--models", "crf", "--scheme", "BIO", "--data", data]
    printed = run("train", *TINY, *options, "--output", tmp_path / "output")
    rows = table_of(printed)
    assert rows["tagger"][3] == "entity F1"
    assert "val_f1" in printed
    assert (tmp_path / "output" / "crf" / "tagger" / "model.keras").is_file()


def test_a_tag_that_training_does_not_have_is_named_by_file_and_line(run, tmp_path):
    data = write_columns(tmp_path, ENTITIES)
    # With --limit such sentences are left out; here none remains.
    with pytest.raises(SystemExit, match="must hold a sentence.*test.conll"):
        run("train", *TINY, "--data", data, "--output", tmp_path / "output")
    with pytest.raises(SystemExit) as ended:
        run("train", *TINY[2:], "--data", data, "--output", tmp_path / "output")
    message = str(ended.value)
    assert message.startswith("train.py: Every tag must be known from training.")
    assert f"'I-LOC' for the word 'London' at {data}/test.conll, line 3;" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("first", "models", "message"),
    [
        ("Peter/I-PER", ["crf"], "the beginning must not be followed by I-PER"),
        ("Peter/S-PER", ["two-way"], "A tag of the scheme BIO must be `O`, or `B-`"),
    ],
)
def test_tags_that_break_their_scheme_are_named(run, tmp_path, first, models, message):
    data = write_columns(
        tmp_path, {**ENTITIES, "train": first + "|" + ENTITIES["test"]}
    )
    options = ["--models", *models, "--scheme", "BIO", "--data", data]
    with pytest.raises(SystemExit) as ended:
        run("train", *TINY[2:], *options, "--output", tmp_path / "output")
    assert message in str(ended.value) and "\n" not in str(ended.value)
    assert str(ended.value).endswith(f"'Peter' at {data}/train.conll, line 1.")


def test_a_broken_file_or_folder_ends_in_one_line(run, tmp_path):
    output = ["--output", tmp_path / "output"]
    (tmp_path / "empty").mkdir()
    data = write_conllu(tmp_path, SENTENCES)
    broken = data / "xx_tiny-ud-dev.conllu"
    broken.write_text("1\tThe\n\n")
    for folder, message in (
        (tmp_path / "empty", "must hold one file for train"),
        (data, f"Received {broken}, line 1"),
    ):
        with pytest.raises(SystemExit) as ended:
            run("train", *TINY, "--data", folder, *output)
        assert message in str(ended.value) and "\n" not in str(ended.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--data", "no/such"], "--data must name a folder; no/such is none"),
        (["--data", ".", "--tfds", "x"], "are two sources; give one"),
        (["--tags", "upos"], "--tags goes with --tfds only"),
        (["--dev-split", "dev"], "--dev-split goes with --tfds only"),
        (["--download"], "--download goes with --tfds only"),
        (["--scheme", "BIO"], "the grammar has no entities"),
        (["--scheme", "BIOX", "--data", "."], "invalid choice: 'BIOX'"),
        (["--column", "xpos"], "--column goes with --data only"),
        (["--vectors", "x", "--embedding", "3"], "have their own size"),
        (["--vector-words", "3"], "--vector-words goes with --vectors only"),
        (["--models", "three-way"], "invalid choice: 'three-way'"),
        (["--units", "0"], "--units: must be 1 or more, not 0"),
        (["--units", "x"], "--units: invalid positive value: 'x'"),
        (["--dropout", "1"], "--dropout: must be 0 or more, below 1"),
        (["--learning-rate", "0"], "--learning-rate: must be more than 0"),
        (["--learning-rate", "nan"], "--learning-rate: must be more than 0, not nan"),
        (["--frequencies", "-1"], "--frequencies: must be 0 or more"),
        (["--epochs", "1.5"], "--epochs: invalid positive value"),
    ],
)
def test_a_wrong_argument_ends_with_one_line(wrong, message, run, capsys):
    with pytest.raises(SystemExit) as ended:
        run("train", *wrong)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
