"""The programs in examples/, run as a user runs them, at a tiny size."""

import csv
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import types

import pytest
from parallel import parallel_text

pytestmark = pytest.mark.tf_only

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "translation"
EPOCHS = 2
TINY = ["--limit", "60", "--units", "7", "--embedding", "5", "--batch-size", "20"]
TINY += ["--epochs", str(EPOCHS), "--dropout", "0"]
LIMIT_S = 600


def command(program, *arguments):
    return [sys.executable, str(FOLDER / program), *map(str, arguments)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """No run leaves anything in the home of who runs the tests."""
    cache = str(tmp_path_factory.mktemp("cache"))
    return {**os.environ, "KERAS_BACKEND": "tensorflow", "XDG_CACHE_HOME": cache}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, environment):
    """What train.py printed, and the folder it wrote."""
    output = tmp_path_factory.mktemp("trained")
    done = subprocess.run(
        command("train.py", *TINY, "--tensorboard", "--output", output),
        capture_output=True,
        text=True,
        env=environment,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, output


def validation_losses(output):
    with open(output / "log.csv") as file:
        return {
            int(row["epoch"]): float(row["val_loss"]) for row in csv.DictReader(file)
        }


def test_training_prints_what_it_found(trained):
    printed, _ = trained
    for expected in (
        "60 training pairs",
        "val_bleu",
        "tok:13a",
        "tok:none",
        "Alignment error rate 0.",
        "3 of 3 translations are the same",
    ):
        assert expected in printed


def test_training_writes_model_drawing_and_export(trained):
    _, output = trained
    assert (output / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert (output / "translator" / "model.keras").is_file()
    assert (output / "saved_model" / "saved_model.pb").is_file()
    assert sorted(validation_losses(output)) == list(range(EPOCHS))


def test_training_writes_events_for_tensorboard(trained):
    import tensorflow as tf

    _, output = trained
    tags = {"train": set(), "validation": set()}
    for part, found in tags.items():
        (path,) = (output / "tensorboard" / part).glob("events.out.tfevents.*")
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            found |= {(value.tag, event.step) for value in event.summary.value}
    for epoch in range(EPOCHS):
        assert ("epoch_loss", epoch) in tags["train"] & tags["validation"]
        assert ("epoch_bleu", epoch) in tags["validation"]


def test_translate_lists_the_best(trained, environment):
    _, output = trained

    def translate(*arguments):
        program = command("translate.py", *arguments, "The dog sleeps.", "")
        done = subprocess.run(
            program, capture_output=True, text=True, env=environment, timeout=LIMIT_S
        )
        return done.stdout.splitlines(), done.stderr

    lines, _ = translate(output / "translator", "--nbest", 3, "--beams", 4)
    numbers, (*scores, empty), texts = zip(*(line.split("\t") for line in lines))
    assert numbers == ("0", "0", "0", "1")
    assert len(scores) == 3 and empty == "0.0000" and texts[-1] == ""
    assert sorted(map(float, scores), reverse=True) == list(map(float, scores))
    _, error = translate(output / "saved_model", "--beams", 4)
    assert "is settled" in error and "Traceback" not in error


def test_evaluate_compares_the_searches(trained, environment, tmp_path):
    _, output = trained
    for language, text in (("en", "The dog sleeps."), ("fr", "Le chien dort.")):
        (tmp_path / f"{language}.test.txt").write_text(f"{text}\n" * 3)
    page = tmp_path / "page.html"
    arguments = ["--data", tmp_path, "--beams", 2, "--page", page, "--int8"]
    done = subprocess.run(
        command("evaluate.py", output / "translator", *arguments),
        capture_output=True,
        text=True,
        env=environment,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    *rows, last = done.stdout.splitlines()[2:]
    assert last.startswith(str(page))
    check_page(
        page, pairs=3, search="2 beams, unknown replaced", bleu=rows[-1].split()[0]
    )
    assert [re.split(r" {2,}", row.strip())[-1] for row in rows] == [
        "greedy",
        "2 beams",
        "greedy, int8",
        "2 beams, int8",
        "2 beams, no unknown word",
        "2 beams, unknown replaced",
    ]


def check_page(path, pairs, search, bleu):
    text = path.read_text(encoding="utf-8")
    assert "<title>en to fr, test</title>" in text
    assert f">{search}: BLEU {bleu}</p>" in text
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', text)[1])
    assert len(data) == pairs
    for pair in data:
        assert pair["source"] == ["The", "dog", "sleeps", "."]
        assert len(pair["weights"]) == len(pair["target"])
        assert pair["score"] < 0 and pair["reference"] == "Le chien dort."


def test_evaluate_names_a_missing_folder_before_it_searches(
    example, monkeypatch, capsys, tmp_path
):
    page = str(tmp_path / "no" / "page.html")
    arguments = ["evaluate.py", "x", "--data", "y", "--page", page]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit):
        example("evaluate").main()
    assert "--page: no such folder" in capsys.readouterr().err


def test_translate_reads_arguments_or_lines_and_either_kind_of_model(
    trained, environment
):
    _, output = trained
    texts = ["The dog sleeps.", "", "A cat sees them."]

    def translate(folder, *arguments, **options):
        done = subprocess.run(
            command("translate.py", output / folder, *arguments, "--alignments"),
            capture_output=True,
            text=True,
            env=environment,
            timeout=LIMIT_S,
            **options,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    lines = translate("translator", *texts)
    assert len(lines) == 3 and lines[1] == "\t"
    assert all(line.count("\t") == 1 for line in lines)
    assert translate("saved_model", input="\n".join(texts) + "\n") == lines


@pytest.fixture
def run(environment):
    """Runs a program of the example; gives its lines, or what it said of an error."""

    def run(program, *arguments, fails=False):
        done = subprocess.run(
            command(program, *arguments),
            capture_output=True,
            text=True,
            env=environment,
            timeout=LIMIT_S,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout.splitlines()

    return run


def test_translate_draws_begins_and_asks_several_models(trained, run):
    folder = trained[1] / "translator"
    text = "The dog sleeps."
    drawn = run("translate.py", folder, text, "--sample", 5, "--seed", 1)
    assert len(drawn) == 5 and all("\t" in line for line in drawn)
    assert run("translate.py", folder, text, "--sample", 5, "--seed", 1) == drawn
    (begun,) = run("translate.py", folder, text, "--prefix", "Le chat")
    assert begun.startswith("Le chat")
    options = ["--beams", 2, "--min-length", 3, "--forbid", "chien", "--no-unknown"]
    one = run("translate.py", folder, text, *options)
    assert run("translate.py", folder, text, *options, "--ensemble", folder) == one


@pytest.mark.parametrize(
    "wrong, message",
    [
        (["--top-k", "3"], "--top-k: goes with --sample"),
        (["--temperature", "2"], "--temperature: goes with --sample"),
        (["--sample", "2", "--beams", "2"], "--beams: not with --sample"),
        (["--sample", "2", "--min-length", "2"], "--min-length: not with --sample"),
        (["--sample", "2", "--prefix", "Le"], "--prefix: not with --sample"),
        (["--sample", "2", "--nbest", "2"], "not allowed with"),
    ],
)
def test_translate_puts_no_argument_aside(wrong, message, example, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["translate.py", "folder", "A text.", *wrong])
    with pytest.raises(SystemExit) as ended:
        example("translate").main()
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_export_checks_what_it_wrote_in_another_process(trained, run, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("The dog sleeps.\n\nA zebra sees the cat.\n")
    folder, exported = trained[1] / "translator", tmp_path / "exported"
    options = ["--beams", 3, "--nbest", 2, "--replace-unknown", "--int8"]
    options += ["--check", lines]
    printed = run("export.py", folder, exported, *options)
    assert printed[-1] == (
        "3 of 3 translations are the same in a process without keras_bahdanau and keras"
    )
    error = run("export.py", exported, tmp_path / "again", fails=True)
    assert "Traceback" not in error and "exported" in error


def test_align_compares_with_gold_links(trained, run, tmp_path):
    folder = trained[1] / "translator"
    for name, text in (("en", "The dog sleeps .\n"), ("fr", "Le chien dort .\n")):
        (tmp_path / f"story.{name}").write_text(text * 2)
    # Everything is possible, nothing sure: each link is right.
    links = " ".join(f"{i}p{j}" for i in range(4) for j in range(4))
    (tmp_path / "story.fr-en.talp").write_text(f"{links}\n" * 2)
    found = tmp_path / "links"
    printed = run("align.py", folder, "--gold", tmp_path, "--output", found)
    assert printed[1].split() == ["0.0000", "1.0000", "1.0000", "2", "story"]
    assert printed[-1].split() == ["0.0000", "1.0000", "1.0000", "2", "all"]
    first, second = found.read_text().splitlines()
    assert first == second
    assert sorted(int(link.split("-")[1]) for link in first.split()) == [0, 1, 2, 3]
    (tmp_path / "story.en").write_text("The dog sleeps .\n")
    error = run("align.py", folder, "--gold", tmp_path, fails=True)
    assert "They have 1, 2 and 2." in error and "Traceback" not in error
    error = run("align.py", folder, "--gold", tmp_path, "--target", "de", fails=True)
    assert "no links of en and de" in error


def test_a_killed_run_that_resumes_ends_where_another_did(
    trained, tmp_path, environment
):
    _, output = trained
    arguments = command("train.py", *TINY, "--resume", "--output", tmp_path)
    first = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment)
    backup = tmp_path / "backup" / "epoch-0001"
    deadline = time.time() + LIMIT_S
    while not backup.exists() and first.poll() is None and time.time() < deadline:
        time.sleep(0.02)
    assert first.poll() is None and backup.exists()
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = subprocess.run(
        arguments, capture_output=True, text=True, env=environment, timeout=LIMIT_S
    )
    assert second.returncode == 0, second.stderr
    assert "Going on after epoch" in second.stdout
    expected, found = validation_losses(output), validation_losses(tmp_path)
    assert found[EPOCHS - 1] == pytest.approx(expected[EPOCHS - 1], abs=1e-4)


@pytest.fixture
def parse(example):
    module = example("arguments")
    return lambda *arguments: module.parse_arguments("", [*map(str, arguments)])


def test_the_defaults_of_the_command_line_are_those_of_the_grammar(parse, tmp_path):
    args = parse()
    assert (args.source, args.target) == ("en", "fr")
    assert (args.data, args.tfds, args.splits, args.limit) == (None,) * 4
    assert (args.max_vocabulary, args.min_frequency) == (30_000, 1)
    args = parse("--data", tmp_path, "--source", "de", "--splits", "a", "b", "c")
    assert (args.source, args.target, args.splits) == ("de", "fr", ["a", "b", "c"])
    args = parse("--tfds", "x/y", "--download", "--limit", 1, "--ema", 0, "--seed", 0)
    assert (args.tfds, args.download, args.limit) == ("x/y", True, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "de"], "--source: goes with --data or --tfds only"),
        (["--target", "fr"], "--target: goes with --data or --tfds only"),
        (["--splits", "a", "b", "c"], "--splits: goes with --data or --tfds only"),
        (["--download"], "--download: goes with --tfds only"),
        (["--data", FOLDER, "--download"], "--download: goes with --tfds only"),
        (["--data", FOLDER, "--tfds", "x"], "--tfds: not allowed with .*--data"),
        (["--data", "no/such"], "--data: no such folder: no/such"),
        (["--subwords", 90, "--min-frequency", 2], "--min-frequency: is about words"),
        (["--subwords", 90, "--max-vocabulary", 9], "--max-vocabulary: is about words"),
        (["--output", __file__], "--output: is a file"),
    ],
)
def test_an_argument_without_effect_is_refused(parse, arguments, message, capsys):
    check_refused(parse, arguments, message, capsys)


WHOLE = "limit subwords max-vocabulary min-frequency max-length units embedding"
WHOLE = [*WHOLE.split(), "encoder-layers", "epochs", "batch-size"]


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [(name, value, "be 1 or more") for name in WHOLE for value in (0, -1)]
    + [(name, "many", "invalid positive") for name in WHOLE]
    + [("seed", -1, "be 0 or more"), ("seed", 2**32, "below 2")]
    + [("learning-rate", value, "be more than 0") for value in (0, -1, "nan", "inf")]
    + [
        (name, value, "be 0 or more, below 1")
        for name in ("dropout", "label-smoothing", "ema")
        for value in (-0.1, 1, "nan")
    ],
)
def test_a_number_out_of_range_is_refused(parse, name, value, rule, capsys):
    check_refused(parse, [f"--{name}={value}"], f"--{name}: .*{rule}", capsys)


def check_refused(parse, arguments, message, capsys):
    with pytest.raises(SystemExit) as error:
        parse(*arguments)
    assert error.value.code == 2
    assert re.search(f"error: argument {message}", capsys.readouterr().err)


def test_a_missing_tensorboard_is_named_before_the_training(parse, monkeypatch, capsys):
    assert parse("--tensorboard").tensorboard
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    message = "--tensorboard: needs `pip install tensorboard`"
    check_refused(parse, ["--tensorboard"], message, capsys)
    assert not parse().tensorboard


@pytest.mark.parametrize(
    "names",
    [
        ("train", "val", "test_2016_flickr"),
        ("train", "validation", "test"),
        ("train", "dev", "test"),
    ],
)
def test_the_usual_splits_are_found(parse, example, names, tmp_path):
    parallel_text(tmp_path, *names)
    # Which the target lacks.
    parallel_text(tmp_path, "val", languages=["en"])
    corpus = example("data").load_corpus(parse("--data", tmp_path))
    found = [part.sources for part in (corpus.train, corpus.validation, corpus.test)]
    assert found == [[name] for name in names]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train", "test"), "validation in en and fr: none of val, validation, dev"),
        (("train", "val"), "the test in en and fr: none of test_2016_flickr, test"),
        (("val", "test"), "training in en and fr: none of train"),
    ],
)
def test_no_split_is_taken_for_another(parse, example, names, message, tmp_path):
    """The test must not choose the model, nor what chose it be the test."""
    parallel_text(tmp_path, *names)
    load_corpus = example("data").load_corpus
    with pytest.raises(SystemExit, match=f"{message}. Name three with --splits"):
        load_corpus(parse("--data", tmp_path))
    splits = [names[0], names[1], names[1]]
    corpus = load_corpus(parse("--data", tmp_path, "--splits", *splits))
    assert corpus.validation.sources == corpus.test.sources == [names[1]]


def test_a_new_run_erases_the_backup_and_nothing_else(example, tmp_path):
    train, backup = example("train"), tmp_path / "backup"
    (backup / "epoch-0003").mkdir(parents=True)
    (backup / "thesis.txt").write_text("years of work")
    args = types.SimpleNamespace(output=tmp_path, resume=True, epochs=5)
    assert train.make_backup(args).finished_epochs == 3
    args.resume = False
    assert train.make_backup(args).finished_epochs == 0
    assert [path.name for path in backup.iterdir()] == ["thesis.txt"]


def test_a_model_without_attention_translates_but_gives_no_alignments(
    example, tmp_path, monkeypatch, capsys
):
    from keras_bahdanau import RNNEncoderDecoder
    from keras_bahdanau.tf import Translator, WordCodec

    codec = WordCodec.train(["the dog sleeps."])
    size = codec.vocabulary_size
    model = RNNEncoderDecoder(size, size, embedding_dim=5, units=7)
    translator = Translator(model, codec, codec)
    translator.export(tmp_path / "exported")
    translator.save(tmp_path / "saved")
    texts = ["the dog", "", "sleeps."]
    main = example("translate").main
    for name in ("saved", "exported"):
        arguments = ["translate.py", str(tmp_path / name)]
        monkeypatch.setattr(sys, "argv", [*arguments, *texts])
        main()
        assert capsys.readouterr().out.splitlines() == translator(texts)
        monkeypatch.setattr(sys, "argv", [*arguments, "--alignments"])
        monkeypatch.setattr(sys, "stdin", io.StringIO("the dog\n"))
        with pytest.raises(SystemExit, match="--alignments: this model has no att"):
            main()
        assert capsys.readouterr().out == ""


def test_translate_refuses_a_batch_of_none(example, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["translate.py", "x", "--batch-size", "0"])
    with pytest.raises(SystemExit):
        example("translate").main()
    assert "--batch-size: must be 1 or more, not 0" in capsys.readouterr().err
