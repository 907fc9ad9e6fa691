"""The programs in examples/, run as a user runs them, at a tiny size."""

import csv
import importlib
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
    arguments = ["--data", tmp_path, "--beams", 2, "--page", page]
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
    options = ["--beams", 3, "--nbest", 2, "--replace-unknown", "--check", lines]
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
def example(monkeypatch):
    """Imports a module of the example, as the programs do."""
    monkeypatch.syspath_prepend(FOLDER)
    before = set(sys.modules)
    yield importlib.import_module
    programs = {path.stem for path in FOLDER.glob("*.py")}
    for name in programs - before:
        sys.modules.pop(name, None)


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
        (["--alpha", 1, "--beams", 2], "Add --length-penalty gnmt or average."),
        (["--min-length", 5, "--max-length", 3], "Received: 5 and 3. Change one"),
        (["--min-length", 12], "Received: 12 and 11. Change one of the two."),
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


def test_a_threshold_and_the_end_do_not_go_together():
    from keras_bahdanau.alignment import hard_alignment

    with pytest.raises(ValueError, match="Received: threshold=0.1, allow_end=True"):
        hard_alignment([[0.2, 0.8]], 1, threshold=0.1, allow_end=True)


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
    assert "--alpha is the exponent" in refused("evaluate", folder, *options)
    assert str(missing) in refused("evaluate", missing, "--data", tmp_path)
    assert str(missing) in refused("export", folder, output, "--check", missing)
    assert not output.exists()


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


def parallel_text(folder, *splits, languages=("en", "fr")):
    """A folder whose splits have one sentence each, their own name."""
    for split in splits:
        for language in languages:
            (folder / f"{language}.{split}.txt").write_text(f"{split}\n")


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
