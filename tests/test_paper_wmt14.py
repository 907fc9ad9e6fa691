"""`--scale wmt14` of examples/paper: a stream, its selection, checkpoints, replicas."""

import json
import math
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

pytestmark = pytest.mark.tf_only

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "paper"
TINY = {
    "model": "RNNsearch",
    "preset": "paper",
    "options": {
        "embedding_dim": 5,
        "units": 7,
        "attention_units": 7,
        "readout_units": 3,
    },
    "max_length": 30,
    "vocabulary": 400,
    "optimizer": "adadelta",
    "learning_rate": 1.0,
    "batch_size": 6,
    "pool_batches": 3,
    "pad_to_multiple": 5,
    "updates": 6,
    "validate_every": 3,
    "beams": 2,
}
SIZES = {"train": 150, "validation": 20, "test": 30}


@pytest.fixture
def module(import_from):
    """Imports a module of the example, as the program does."""
    return import_from(FOLDER)


@pytest.fixture
def wmt14():
    """The set of TensorFlow Datasets, with sentences of the grammar in it."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    from keras_bahdanau.grammar import sample_splits

    splits = sample_splits(**SIZES, seed=3, max_length=40)

    def examples(self, split, **options):
        columns = {
            "en": [pair.source for pair in splits[split]],
            "fr": [pair.target for pair in splits[split]],
        }
        return tf.data.Dataset.from_tensor_slices(columns)

    with tfds.testing.mock_data(num_examples=1, as_dataset_fn=examples):
        yield splits


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "RNNsearch-30.json"
    path.write_text(json.dumps(TINY))
    return path


def arguments(**changes):
    given = {"source": "en", "target": "fr", "data_dir": None, "limit": None}
    return types.SimpleNamespace(**{**given, "download": False, **changes})


def encoded(*pairs):
    from keras_bahdanau.batching import EncodedPairs

    sides = []
    for rows in zip(*pairs):
        sides += [sum(rows, []), [len(row) for row in rows]]
    return EncodedPairs(*sides)


# ---------------------------------------------------------------- selection


def test_a_score_is_the_difference_of_the_cross_entropies_of_both_sides(module):
    inside = encoded(([4, 4, 3], [5, 3]))
    sample = encoded(([4, 5, 3], [4, 3]), ([5, 3], [5, 5, 3]))
    found = module("selection").Selection(inside, sample, sample, (6, 7), share=1)
    # Counts and one more: of 3 + 6 inside and 5 + 6 in all on the source side, of
    # 2 + 7 and 5 + 7 on the target side.
    source = {3: (2 / 9, 3 / 11), 4: (3 / 9, 2 / 11), 5: (1 / 9, 3 / 11)}
    target = {3: (2 / 9, 3 / 12), 4: (1 / 9, 2 / 12), 5: (2 / 9, 3 / 12)}

    def difference(ids, table):
        logs = [math.log(table[i][1]) - math.log(table[i][0]) for i in ids]
        return sum(logs) / len(ids)

    expected = [
        difference([4, 5, 3], source) + difference([4, 3], target),
        difference([5, 3], source) + difference([5, 5, 3], target),
    ]
    np.testing.assert_allclose(found.scores(sample), expected, rtol=1e-12)
    assert found(sample).tolist() == [True, True]


def test_the_limit_takes_the_best_pairs_that_the_share_of_words_holds(module):
    inside = encoded(([4, 3], [4, 3]))
    # From like to unlike: 2, 4 and 4 of 10 words.
    sample = encoded(
        ([5, 5, 5, 3], [5, 3]), ([4, 3], [4, 3]), ([4, 5, 5, 3], [4, 5, 3])
    )
    selection = module("selection").Selection
    for share, expected in (
        (0.01, [False, True, False]),
        (0.2, [False, True, False]),
        (0.59, [False, True, False]),
        (0.6, [False, True, True]),
        (1, [True, True, True]),
    ):
        chosen = selection(inside, sample, sample, (6, 6), share)
        assert chosen(sample).tolist() == expected, share
    with pytest.raises(ValueError, match="`share` must be above 0. Received: 0"):
        selection(inside, sample, sample, (6, 6), 0)


def test_the_words_of_other_pairs_meet_the_share_and_are_those_that_are_wanted(module):
    from keras_bahdanau.batching import EncodedPairs

    rng = np.random.default_rng(7)

    def draw(count, wanted):
        """Ids of 10 words for those that are wanted, mostly, and of 100 for others."""
        lengths = rng.integers(3, 19, count)
        share = np.where(rng.random(lengths.sum()) < 0.7, 10, 100)
        top = np.where(np.repeat(wanted, lengths), share, 100)
        ids = 4 + (rng.random(lengths.sum()) * top).astype(int)
        return EncodedPairs(ids, lengths, ids, lengths)

    inside = draw(100, np.ones(100, bool))
    wanted = rng.random(3000) < 0.3
    general, sample, rest = (draw(1000, wanted[n::3]) for n in range(3))
    chosen = module("selection").Selection(inside, general, sample, (104, 104), 0.3)
    keep = chosen(rest)
    words = rest.source_lengths[keep].sum() / rest.source_lengths.sum()
    assert words == pytest.approx(0.3, abs=0.04)
    assert np.mean(wanted[2::3][keep]) > 0.9


def test_the_stream_is_cut_to_a_number_of_words(module, wmt14):
    corpora = module("corpora")
    corpus = corpora.wmt14(arguments())
    codecs = corpora.make_codecs(corpus, 400)
    every = corpora.read_stream(corpus, codecs, 30)
    lengths = corpora.lengths([pair.source for pair in wmt14["train"]], codecs[0])
    both = zip(lengths, corpora.lengths([x.target for x in wmt14["train"]], codecs[1]))
    assert len(every.train) == sum(max(pair) <= 30 for pair in both) < 150
    words = len(every.train.sources) - len(every.train)
    # Of so few pairs the sample says little; with fewer words there are fewer pairs.
    half, fifth = (
        len(corpora.read_stream(corpus, codecs, 30, words // part).train)
        for part in (2, 5)
    )
    assert 0 < fifth < half < len(every.train)
    # More than there is: all of it.
    chosen = corpora.read_stream(corpus, codecs, 30, words * 2).train
    assert len(chosen) == len(every.train)


def test_the_ids_of_a_limit_are_those_of_the_text_under_it(module, wmt14):
    from keras_bahdanau.tf import PairCorpus, encode_pairs

    corpora = module("corpora")
    corpus = corpora.wmt14(arguments())
    codecs = corpora.make_codecs(corpus, 400)
    whole = corpora.read_stream(corpus, codecs, 30)
    short = corpora.training_pairs(whole, codecs, 12)
    pairs = wmt14["train"]
    held = PairCorpus([x.source for x in pairs], [x.target for x in pairs])
    expected = encode_pairs(held, *codecs, 12, 12)
    for name in ("sources", "source_lengths", "targets", "target_lengths"):
        np.testing.assert_array_equal(getattr(short, name), getattr(expected, name))


# ---------------------------------------------------------------- the program


def test_the_program_goes_from_the_set_to_the_report(module, wmt14, config, capsys):
    output = config.parent / "out"
    without = config.with_name("RNNencdec-30.json")
    options = {name: x for name, x in TINY["options"].items() if "att" not in name}
    without.write_text(json.dumps({**TINY, "model": "RNNencdec", "options": options}))
    module("study").main(
        ["--scale", "wmt14", "--words", "900", "--no-jit", "--seeds", "1"]
        + ["--config", str(without), str(config), "--output", str(output)]
    )
    lines = capsys.readouterr().out.splitlines()
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    found = report["corpus"]
    assert (found["name"], found["languages"]) == ("wmt14", ["en", "fr"])
    assert (found["validation"], found["test"]) == (20, 30)
    assert 0 < found["train"] < 120
    assert [one["name"] for one in report["systems"]] == [
        "RNNencdec-30",
        "RNNsearch-30",
    ]
    assert lines[-1] == f"Report: {output / 'report.html'}"
    assert "wmt14" in (output / "report.html").read_text(encoding="utf-8")
    # Hours are those of what is left of the system: none behind its last update.
    assert any("update 3 of 6" in line and " 0.0 h left" in line for line in lines)
    assert not any("update 6 of 6" in line and "h left" in line for line in lines)


@pytest.mark.shared
def test_a_sample_of_real_text_goes_from_its_prepared_files_to_the_report(
    module, config, shared_dir, tmp_path
):
    import tensorflow as tf
    import tensorflow_datasets as tfds

    def lines(language, split, count):
        path = shared_dir / "data" / "tatoeba-en-fr" / f"{language}.{split}.txt"
        return path.read_text(encoding="utf-8").splitlines()[:count]

    def texts(split, count):
        columns = {name: lines(name, split, count) for name in ("en", "fr")}
        return tf.data.Dataset.from_tensor_slices(columns)

    # On the disk it is what `tfds.load` prepares, under the set's own name.
    tfds.dataset_builders.store_as_tfds_dataset(
        "wmt14_translate",
        version="1.0.0",
        features=tfds.features.Translation(["en", "fr"]),
        split_datasets={
            "train": texts("train", 3000),
            "validation": texts("val", 30),
            "test": texts("test", 30),
        },
        config="fr-en",
        data_dir=tmp_path,
    )
    output = tmp_path / "out"
    module("study").main(
        ["--scale", "wmt14", "--data-dir", str(tmp_path), "--words", "5000"]
        + ["--no-jit", "--seeds", "1", "--config", str(config)]
        + ["--output", str(output)]
    )
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    found = report["corpus"]
    assert (found["name"], found["validation"], found["test"]) == ("wmt14", 30, 30)
    # About 7 words and marks a sentence: a quarter of the text is asked for.
    assert 300 < found["train"] < 1500
    log = (output / "RNNsearch-30" / "seed-1" / "log.csv").read_text(encoding="utf-8")
    assert len(log.splitlines()) == 3


def test_hours_left_follow_from_the_seconds_of_an_update(module, config, monkeypatch):
    training, settings = module("training"), module("settings").read_settings(config)
    settings = settings.with_updates(9000)
    lines, clock = [], iter([100.0, 106.0])
    seconds = types.SimpleNamespace(time=lambda: next(clock))
    monkeypatch.setattr(training, "time", seconds)
    progress = training.Progress(settings, None, lines.append)
    # Two of the three updates, the first one was before a stop.
    progress.set_params({"steps": 2})
    progress.on_epoch_begin(0)
    progress.on_epoch_end(0, {"loss": 2.0})
    # 8,997 updates of 3 seconds.
    assert lines == ["update 3 of 9000, loss 2.000, 6 s, 7.5 h left"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--scale", "wmt14", "--data", "."], "--data: not with the grammar or wmt14"),
        (["--words", "9"], "--data-dir, --download, --words: with wmt14 only"),
        (["--download"], "--data-dir, --download, --words: with wmt14 only"),
        (["--checkpoint-minutes", "0"], "--checkpoint-minutes: must be 1 or more"),
    ],
)
def test_a_wrong_argument_ends_with_one_line(module, wrong, message, capsys):
    with pytest.raises(SystemExit):
        module("study").main(wrong)
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_set_that_is_not_there_ends_with_one_line(module, tmp_path):
    with pytest.raises(SystemExit) as ended:
        module("study").main(["--scale", "wmt14", "--data-dir", str(tmp_path)])
    assert "study.py: wmt14_translate/fr-en must have been" in str(ended.value)


# ---------------------------------------------------------------- training


class Stopped(Exception):
    pass


# As after a kill, nobody closes the log.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stop_between_validations_goes_on_to_the_same_losses(
    module, wmt14, config, tmp_path, monkeypatch
):
    corpora, training = module("corpora"), module("training")
    settings = module("settings").read_settings(config)
    corpus = corpora.wmt14(arguments(limit=60))
    codecs = corpora.make_codecs(corpus, settings.vocabulary)
    corpus = corpora.read_stream(corpus, codecs, 30)

    def train(name):
        said = []
        training.train(
            settings,
            corpus,
            codecs,
            tmp_path / name,
            seed=1,
            jit=False,
            say=said.append,
            validate=False,
            minutes=1e-9,
        )
        return said

    class StopWithin(training.AtomicBackup):
        """Stops the process, so to say, at the second update after a validation."""

        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if (self.finished_epochs, batch) == (1, 1):
                raise Stopped

    train("whole")
    with monkeypatch.context() as patch:
        patch.setattr(training, "AtomicBackup", StopWithin)
        with pytest.raises(Stopped):
            train("stopped")
    names = [path.name for path in (tmp_path / "stopped" / "backup").iterdir()]
    assert names == ["epoch-0001-batch-2"]
    said = train("stopped")
    assert len(said) == 2 and said[1].startswith("update 6 of 6")
    logs = [training.read_log(tmp_path / x / "log.csv") for x in ("whole", "stopped")]
    assert [len(log) for log in logs] == [2, 2]
    for name in ("loss", "perplexity", "accuracy"):
        whole, stopped = ([row[name] for row in log] for log in logs)
        np.testing.assert_allclose(stopped, whole, rtol=1e-5, err_msg=name)


REPLICAS = """
import json, pathlib, sys
import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
from settings import read_settings
from training import make_trainer, read_log, train
from corpora import Corpus
from keras_bahdanau.grammar import sample_splits
from keras_bahdanau.tf import PairCorpus, WordCodec

splits = sample_splits(train=90, validation=9, test=9, seed=3, max_length=30).values()
parts = [PairCorpus([x.source for x in s], [x.target for x in s]) for s in splits]
corpus = Corpus("x", ("en", "fr"), *parts, bucket_width=10)
codecs = [WordCodec.train(x, 99) for x in (parts[0].sources, parts[0].targets)]
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
found = {"replicas": strategy.num_replicas_in_sync}
for path in sys.argv[1:]:
    settings = read_settings(path)
    for name, used in (("one", None), ("two", strategy)):
        folder = pathlib.Path(path).with_suffix("") / name
        train(settings, corpus, codecs, folder, 1, False, print, strategy=used)
        found.setdefault(name, {})[settings.preset] = read_log(folder / "log.csv")
# What was stopped goes on with replicas.
longer = settings.with_updates(9)
train(longer, corpus, codecs, folder, 1, False, print, strategy=strategy, minutes=1e-9)
found["went_on"] = len(read_log(folder / "log.csv"))
print(json.dumps(found))
"""


def test_two_replicas_come_to_the_losses_of_one_device(tmp_path):
    # At this rate a gradient that is clipped or weighed another way is seen.
    values = {**TINY, "optimizer": "adam", "learning_rate": 0.05}
    values["options"] = {**TINY["options"], "dropout": 0.0}
    # One has the loss of words, one that of sentences.
    paths = [tmp_path / f"{preset}.json" for preset in ("library", "paper")]
    for path in paths:
        path.write_text(json.dumps({**values, "preset": path.stem}))
    run = subprocess.run(
        [sys.executable, "-c", REPLICAS, *map(str, paths)],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not run.returncode, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["replicas"] == 2 and found["went_on"] == 3
    for preset, log in found["one"].items():
        for name in ("loss", "perplexity", "accuracy"):
            one, two = ([row[name] for row in x] for x in (log, found["two"][preset]))
            np.testing.assert_allclose(two, one, rtol=1e-4, err_msg=name)
    log = found["one"]["library"]
    assert log[-1]["loss"] < log[0]["loss"]
    # About 8 words and marks a sentence.
    words, sentences = (found["one"][x][0]["loss"] for x in ("library", "paper"))
    assert 4 < sentences / words < 40
