"""The programs in examples/, run as a user runs them, at a tiny size."""

import csv
import os
import pathlib
import signal
import subprocess
import sys
import time

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
        command("train.py", *TINY, "--output", output),
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


def test_a_killed_run_that_resumes_ends_where_another_did(
    trained, tmp_path, environment
):
    _, output = trained
    arguments = command("train.py", *TINY, "--resume", "--output", tmp_path)
    first = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment)
    backup = tmp_path / "backup" / "training_metadata.json"
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
