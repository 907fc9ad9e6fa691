"""The program of examples/paper, run as a user runs it, at a tiny size."""

import html
import importlib
import json
import pathlib
import re
import sys

import pytest

pytestmark = pytest.mark.tf_only

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "paper"
MODULES = {path.stem for path in FOLDER.glob("*.py")}
TINY = {
    "preset": "library",
    "options": {"embedding_dim": 5, "units": 7, "readout_units": 3, "dropout": 0.0},
    "max_length": 30,
    "vocabulary": 400,
    "optimizer": "adam",
    "learning_rate": 0.01,
    "batch_size": 11,
    "pool_batches": 3,
    "pad_to_multiple": 5,
    "updates": 4,
    "validate_every": 2,
    # Greedy search takes less time to trace.
    "beams": 1,
}
SYSTEMS = "RNNencdec-30", "RNNsearch-30"
OPTIONS = ["--no-jit", "--seeds", "1", "--limit", "250"]


@pytest.fixture(scope="module")
def study():
    """The program, imported as it imports its own modules."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("study")
    sys.path.remove(str(FOLDER))
    for name in MODULES - before:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def configs(study, tmp_path_factory):
    """Configurations of two systems and of a curve, in the place of the grammar's."""
    folder = tmp_path_factory.mktemp("configs")
    files = {name: {"model": name.split("-")[0]} for name in SYSTEMS}
    files["optimizers/Adadelta"] = {
        "model": "RNNsearch",
        "preset": "paper",
        "options": {**TINY["options"], "attention_units": 7},
        "optimizer": "adadelta",
    }
    (folder / "grammar" / "optimizers").mkdir(parents=True)
    for name, values in files.items():
        path = folder / "grammar" / f"{name}.json"
        path.write_text(json.dumps({**TINY, **values}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("settings"), "CONFIGS", folder)
        yield [str(folder / "grammar" / f"{name}.json") for name in SYSTEMS]


@pytest.fixture(scope="module")
def finished(study, configs, tmp_path_factory):
    """The folder of a whole run, in which the first system was trained by itself."""
    output = tmp_path_factory.mktemp("finished")
    common = [*OPTIONS, "--output", str(output)]
    study.main([*common, "--systems", SYSTEMS[0]])
    study.main(common)
    return output


@pytest.fixture
def report(finished):
    return json.loads((finished / "report.json").read_text(encoding="utf-8"))


def test_each_run_leaves_a_translator_and_its_results(finished):
    for name in SYSTEMS:
        folder = finished / name / "seed-1"
        assert (folder / "translator" / "model.keras").is_file()
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        assert len(results["all"]) == 25 and 0 < len(results["known"]) < 25
        assert not any("<unk>" in text for text in results["known"])
        page = folder / "alignments.html"
        assert page.is_file() == name.startswith("RNNsearch")


def test_the_report_has_the_numbers_of_both_systems(report):
    assert [one["name"] for one in report["systems"]] == list(SYSTEMS)
    pairs = [group["pairs"] for group in report["buckets"]]
    assert sum(pairs) == report["corpus"]["test"] == 25
    for one in report["systems"]:
        assert len(one["bleu"]["all"]) == len(one["bleu"]["known"]) == 1
        assert len(one["by_length"]) == len(pairs)
        assert one["log"]["updates"] == [2, 4] and len(one["log"]["loss"]) == 2
        assert ("entropy" in one["inside"]) == (one["model"] == "RNNsearch")
    for row in report["comparisons"]:
        assert (row["baseline"], row["system"]) == SYSTEMS and row["same_length"]
    assert [row["sentences"] for row in report["comparisons"]] == ["all", "known"]
    assert report["curves"]["Adadelta"]["updates"] == [2, 4]
    assert len(report["curves"]["Adadelta"]["loss"]) == 2


def test_the_page_stands_alone_and_marks_what_is_published(finished, report):
    page = (finished / "report.html").read_text(encoding="utf-8")
    pictures = re.findall(r'src="([^"]{0,30})', page)
    assert len(pictures) >= 5
    assert all(text.startswith("data:image/png;base64,") for text in pictures)
    assert "://" not in page
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    published = [row for row in rows if "<td>published</td>" in row]
    assert len(published) == 6
    (moses,) = [row for row in published if "<td>Moses</td>" in row]
    assert "<td>33.30</td><td>35.63</td>" in moses
    for one in report["systems"]:
        assert any(
            f"<td>{one['name']}</td><td>{one['bleu']['all'][0]:.2f} ±" in row
            for row in rows
        )
    assert html.escape(report["ordering"][0]) in page


def test_a_finished_study_is_reported_again_and_not_trained(
    study, configs, finished, capsys
):
    written = {path: path.stat().st_mtime_ns for path in finished.rglob("*.keras")}
    (finished / "report.html").unlink()
    study.main([*OPTIONS, "--output", str(finished)])
    printed = capsys.readouterr().out.splitlines()
    assert [re.sub(r" \(.*", "", line) for line in printed[:3]] == [
        "[1/3] RNNencdec-30, seed 1: finished",
        "[2/3] RNNsearch-30, seed 1: finished",
        "[3/3] Adadelta, seed 1: trained",
    ]
    assert printed[3] == f"Report: {finished / 'report.html'}"
    assert (finished / "report.html").is_file()
    assert written == {path: path.stat().st_mtime_ns for path in written}


def test_what_other_settings_began_is_not_gone_on_with(study, configs, finished):
    options = [*OPTIONS[:-1], "240", "--updates", "2", "--output", str(finished)]
    with pytest.raises(SystemExit) as ended:
        study.main(options)
    message = str(ended.value)
    assert message.startswith("study.py: ") and "\n" not in message
    assert "RNNencdec-30/seed-1 was made with other settings" in message
    assert "limit, updates" in message and "Choose another --output" in message


def test_a_stopped_training_goes_on_to_the_same_end(study, configs, tmp_path):
    import keras
    import numpy as np

    corpora, training = (importlib.import_module(x) for x in ("corpora", "training"))
    settings = importlib.import_module("settings").read_settings(configs[0])
    args = study.parse_arguments(["--limit", "50"])
    corpus = corpora.grammar(args)
    codecs = corpora.make_codecs(corpus, settings.vocabulary)
    trainers = []
    fit = keras.Model.fit

    def train(name, settings, say=lambda line: None):
        folder = tmp_path / name
        training.train(settings, corpus, codecs, folder, 1, False, say, validate=False)

    def fit_and_keep(self, *args, **options):
        trainers.append(self)
        return fit(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.Model, "fit", fit_and_keep)
        train("whole", settings)
        train("stopped", settings.with_updates(2))
        train("stopped", settings)
        train("stopped", settings, say=lambda line: pytest.fail("trained again"))
    whole, _, resumed = trainers
    for one, other in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    logs = [training.read_log(tmp_path / x / "log.csv") for x in ("whole", "stopped")]
    assert len(logs[0]) == len(logs[1]) == 2
    for one, other in zip(*logs):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-4)


def test_of_two_lines_about_one_update_the_later_counts(study, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("epoch,loss,val_loss\n0,3.0,NA\n1,2.5,NA\n1,2.0,NA\n2,1.0,NA\n")
    log = importlib.import_module("training").read_log(path)
    assert [row["loss"] for row in log] == [3, 2, 1]
    assert all("val_loss" not in row for row in log)


def test_the_order_goes_on_where_it_was(study, configs):
    import numpy as np

    from keras_bahdanau.batching import EncodedPairs

    training = importlib.import_module("training")
    settings = importlib.import_module("settings").read_settings(configs[0])
    ids = np.arange(4, 4 + 70)
    pairs = EncodedPairs(ids, np.ones(70, int), ids, np.ones(70, int))

    def batches(done, count):
        found = training.batches_from(pairs, settings, seed=1, done=done)
        return [labels.numpy()[:, 0].tolist() for _, labels in found.take(count)]

    # 6 whole batches of 11 in each pass.
    every = batches(0, 14)
    assert {len(batch) for batch in every} == {11}
    assert len(set(sum(every[:6], []))) == 66 and every[:6] != every[6:12]
    for done in (1, 6, 8):
        assert batches(done, 3) == every[done : done + 3]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--scale", "wmt"], "argument --scale: invalid choice: 'wmt'"),
        (["--scale", "tatoeba"], "argument --data: --scale tatoeba needs a folder"),
        (["--scale", "tatoeba", "--data", "no/such"], "tatoeba needs a folder"),
        (["--data", "."], "not with the grammar"),
        (["--target", "de"], "not with the grammar"),
        (["--seeds", "0"], "argument --seeds: must be 1 or more, not 0"),
        (["--updates", "x"], "argument --updates: invalid positive value: 'x'"),
    ],
)
def test_a_wrong_argument_ends_with_one_line(study, wrong, message, capsys):
    with pytest.raises(SystemExit) as ended:
        study.main(wrong)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_systems_that_cannot_be_compared_are_refused(study, configs, tmp_path):
    other = tmp_path / "RNNsearch-50.json"
    values = {**TINY, "model": "RNNsearch", "vocabulary": 300}
    other.write_text(json.dumps(values))
    for files, message in (
        ([configs[0], str(other)], "must have the same `vocabulary`.*300"),
        ([configs[0], configs[0]], "must not have one name"),
        ([str(tmp_path / "none.json")], "none.json: .*No such file"),
    ):
        with pytest.raises(SystemExit, match=f"study.py: .*{message}"):
            study.main(["--config", *files, "--output", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="--systems must be some of .*Received: Moses"):
        study.main(["--systems", "Moses", "--output", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
