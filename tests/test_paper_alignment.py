"""examples/paper/alignment.py: its figures by hand, and a run at a tiny size."""

import importlib
import json
import pathlib
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.tf_only

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "paper"
ENGLISH, FRENCH = ["the dog sleeps .", "a cat"], ["le chien dort .", "un chat"]


@pytest.fixture
def program(monkeypatch):
    """The program as a module."""
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("alignment")
    del sys.modules["alignment"]


@pytest.fixture(scope="module")
def translators(tmp_path_factory):
    """The folders of two untrained translators, one for each direction."""
    import keras

    from keras_bahdanau import RNNSearch
    from keras_bahdanau.tf import Translator, WordCodec

    keras.utils.set_random_seed(1)
    folder = tmp_path_factory.mktemp("translators")
    codecs = {"en": WordCodec.train(ENGLISH), "fr": WordCodec.train(FRENCH)}
    for source, target in (("en", "fr"), ("fr", "en")):
        sizes = [codecs[side].vocabulary_size for side in (source, target)]
        model = RNNSearch(*sizes, embedding_dim=5, units=7)
        translator = Translator(model, codecs[source], codecs[target])
        translator.save(folder / f"{source}-{target}")
    translator.export(folder / "exported")
    return folder


@pytest.fixture
def texts(tmp_path):
    """Folders of gold links and of a training text."""
    gold, training = tmp_path / "gold", tmp_path / "training"
    gold.mkdir()
    training.mkdir()
    for language, lines in (("en", ENGLISH), ("fr", FRENCH)):
        text = "".join(f"{line}\n" for line in lines)
        for name in ("one", "two"):
            (gold / f"{name}.{language}").write_text(text)
        (training / f"{language}.train.txt").write_text(text)
    # Every link is right in the one story, none in the other.
    every = "\n".join(
        " ".join(f"{i}p{j}" for i in range(size) for j in range(size))
        for size in (4, 2)
    )
    (gold / "one.fr-en.talp").write_text(f"{every}\n")
    (gold / "two.fr-en.talp").write_text("\n\n")
    return ["--gold", str(gold), "--training", str(training)]


def test_a_run_prints_and_writes_the_rates_of_all_settings(
    program, translators, texts, tmp_path, capsys
):
    output = tmp_path / "new" / "alignment.json"
    folders = [str(translators / name) for name in ("en-fr", "fr-en")]
    program.main([*folders, *texts, "--output", str(output)])
    report = json.loads(output.read_text())
    assert list(report["aer"]) == [
        "attention",
        "attention, next row",
        "attention, mean of both rows",
        "posterior",
        "posterior by power",
        "chain",
        "attention, end may win",
        "posterior by power, both directions",
        "chain, both directions",
    ]
    for name, found in report["aer"].items():
        assert list(found) == ["all", "one", "two"]
        assert set(found["one"].values()) == {0.0}, name
        for direction in ("forward", "backward"):
            expected = {0.0, 1.0} if name == "attention, end may win" else {1.0}
            assert found["two"][direction] in expected
    offsets = report["offsets"]["chain"]["forward"]
    assert offsets == {str(off): float(off == 0) for off in range(-3, 4)}
    for direction in ("forward", "backward"):
        assert len(report["jumps"][direction]) == 11
        assert max(report["jumps"][direction]) == 1.0
    printed = capsys.readouterr().out
    assert "fast_align, stories unseen" in printed
    assert printed.splitlines()[-1] == f"Written to {output}"


def test_a_translator_that_was_exported_is_refused(program, translators, texts, capsys):
    with pytest.raises(SystemExit) as ended:
        program.main(
            [str(translators / "en-fr"), str(translators / "exported"), *texts]
        )
    assert ended.value.code == 2
    assert "Name the folder `translator` instead." in capsys.readouterr().err


# Two English words, three French ones; the backward weights, for each English word.
FORWARD = np.array([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.1, 0.3, 0.6]])
BACKWARD = np.array([[0.9, 0.1, 0.0, 0.0], [0.1, 0.8, 0.1, 0.0]])


def test_the_links_of_both_directions_have_the_source_word_first(program):
    [(forward, backward)] = program.links_of([FORWARD], [BACKWARD])
    assert forward == {(0, 0), (0, 1), (1, 2)} and backward == {(0, 0), (1, 1)}
    [(forward, _)] = program.links_of([FORWARD], [BACKWARD], allow_end=True)
    assert forward == {(0, 0), (0, 1)}


def test_both_directions_decide_together_by_their_geometric_mean(program):
    readings = [
        {name: [weights] for name in ("attention", "posterior by power", "chain")}
        for weights in (FORWARD, BACKWARD)
    ]
    [(forward, backward)] = program.settings_of(*readings)["chain, both directions"]
    # sqrt(0.2 * 0.8) > sqrt(0.8 * 0.1): the second French word goes over.
    assert forward == {(0, 0), (1, 1), (1, 2)} and backward == {(0, 0), (1, 1)}


def test_the_rates_are_those_of_the_chosen_pairs_alone(program):
    links = [({(0, 0), (0, 1)}, {(0, 0), (1, 1)}), ({(5, 5)}, set())]
    gold = [{(0, 0)}, {(5, 5)}], [{(0, 0), (1, 1)}, {(5, 5)}]
    found = program.rates(links, gold, [True, False])
    # AER = 1 - (hits of sure + hits of possible) / (links + sure)
    assert found == pytest.approx(
        {
            "forward": 1 - (1 + 1) / (2 + 1),
            "backward": 1 - (1 + 2) / (2 + 1),
            "intersection": 0.0,
            "grow-diag": 1 - (1 + 2) / (3 + 1),
            "grow-diag-strict": 1 - (1 + 2) / (2 + 1),
        }
    )


def test_offsets_are_counted_from_the_nearest_right_word(program):
    links = [({(3, 0), (1, 1), (9, 2), (4, 3)}, {(0, 0), (2, 7)})]
    possible = [{(1, 0), (2, 0), (3, 1), (0, 2), (2, 5)}]
    found = program.offsets(links, possible)
    # One behind 2, two before 3, far behind 0; the last has no gold link.
    assert found["forward"] == pytest.approx(
        {-3: 0, -2: 1 / 3, -1: 0, 0: 0, 1: 1 / 3, 2: 0, 3: 1 / 3}
    )
    # Source word 0 should stand at 2, and word 2 at 0 or 5.
    assert found["backward"] == pytest.approx(
        {-3: 0, -2: 1 / 2, -1: 0, 0: 0, 1: 0, 2: 1 / 2, 3: 0}
    )


def test_weights_of_any_power_come_out_of_those_of_the_words_alone(program):
    attention = np.array([[0.5, 0.5], [0.64, 0.36]])
    judged = np.array([[0.9, 0.1], [0.5, 0.5]])
    found = program.posterior(attention, judged, 0.5)
    np.testing.assert_allclose(found, [[0.9, 0.1], [0.8 / 1.4, 0.6 / 1.4]])
