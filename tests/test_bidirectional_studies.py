"""The studies in examples/bidirectional, at a tiny size, and what they claim."""

import functools
import pathlib
import re
import sys

import keras
import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "bidirectional"
MODULES = {path.stem for path in FOLDER.glob("*.py")}
STUDIES = sorted(MODULES - {"data", "studies"})
TINY = ["--examples", "64", "--tests", "48", "--epochs", "1", "--units", "3"]
SENTENCES = [*TINY, "--embedding", "5"]
SEQUENCES = [*TINY, "--length", "7"]


@pytest.fixture
def study(import_from):
    """Imports a module of the example, as the programs do."""
    return import_from(FOLDER)


@pytest.fixture
def run(study, tmp_path, capsys):
    """Runs a study; gives its lines, split where there are two spaces or more."""

    def run(name, *arguments):
        output = tmp_path / "new" / "folder"
        study(name).main([*arguments, "--output", str(output)])
        picture = output / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        *lines, last = capsys.readouterr().out.splitlines()
        assert last == f"Drawn in {picture}"
        return [re.split(" {2,}", line) for line in lines]

    return run


@pytest.fixture
def run_untraced(run, monkeypatch):
    """The same for one step of training, which takes less time than its tracing."""
    compile_eagerly = functools.partialmethod(keras.Model.compile, run_eagerly=True)
    monkeypatch.setattr(keras.Model, "compile", compile_eagerly)
    return run


@pytest.fixture
def refused(study, tmp_path, capsys):
    """What a study says before it ends, given arguments that make no sense."""

    def refused(name, *arguments):
        with pytest.raises(SystemExit) as ended:
            study(name).main(["--output", str(tmp_path / "none"), *arguments])
        assert ended.value.code not in (0, None)
        assert not (tmp_path / "none").exists()
        return f"{ended.value.code} {capsys.readouterr().err}"

    return refused


def test_the_list_of_studies_is_that_of_the_readme():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^python examples/bidirectional/(\w+)\.py$", text, re.MULTILINE)
    assert sorted(set(named)) == STUDIES


def test_a_changed_input_changes_forward_states_from_there_and_backward_to_there(run):
    lines = run("directions", "--length", "5", "--units", "3")
    for changed, (position, forward, backward) in enumerate(lines[2:-1]):
        assert int(position) == changed + 1
        assert forward == "." * changed + "#" * (5 - changed)
        assert backward == "#" * (changed + 1) + "." * (4 - changed)
    assert len(lines[2:-1]) == 5
    assert lines[-1][0].startswith("50 of 50 halves as the definition says")


def test_one_way_every_end_of_a_run_is_wrong_and_nothing_else(run):
    size = ["--examples", "192", "--tests", "64", "--length", "12", "--units", "8"]
    lines = run("runs_of_ones", *size, "--epochs", "12", "--learning-rate", "0.05")
    table = {kind: list(map(int, numbers)) for kind, *numbers in lines[2:7]}
    assert list(table) == ["no run", "first", "inside", "last", "alone"]
    assert sum(positions for positions, _, _ in table.values()) == 64 * 11
    for kind, (positions, one_way, two_ways) in table.items():
        assert positions > 20
        assert one_way == (positions if kind in ("last", "alone") else 0)
        assert two_ways == 0


def test_merging_compares_widths_and_parameters(run_untraced):
    lines = run_untraced("merge", *SEQUENCES)
    rows = {row[0]: row[1:] for row in lines[2:6]}
    # 5 symbols, vectors of 8, classes 25; GRUs of 3 units see 8 + 3 and a bias.
    recurrent, wide = 2 * 3 * 3 * (8 + 3 + 1), 2 * 3 * 6 * (8 + 6 + 1)
    for name, width, parameters in (
        ("concat", 6, recurrent),
        ("concat, summed later", 3, recurrent),
        ("sum", 3, recurrent),
        ("sum, twice the units", 6, wide),
    ):
        assert rows[name][0] == str(width)
        assert rows[name][1] == f"{5 * 8 + parameters + 25 * (width + 1):,}"


def test_summing_later_leaves_the_states_and_learns_a_classifier(study):
    merge = study("merge")
    model = merge.make_model(3, "concat")
    later = merge.with_summed_states(model)
    assert [weight.shape for weight in later.trainable_weights] == [(3, 25), (25,)]
    symbols = np.array([[1, 4, 2, 0, 3]])
    states = keras.Model(model.input, model.get_layer("both_ways").output)(symbols)
    halves = np.split(keras.ops.convert_to_numpy(states), 2, axis=-1)
    kernel, bias = (keras.ops.convert_to_numpy(w) for w in later.trainable_weights)
    logits = sum(halves) @ kernel + bias
    expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    found = keras.ops.convert_to_numpy(later(symbols))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_cells_are_compared_at_equal_units_and_at_equal_parameters(
    run_untraced, study
):
    lines = run_untraced("cells", *SENTENCES)
    rows = [row[:3] for row in lines[2:5]]
    # Both directions: 3 or 4 blocks that see 5 inputs, the state and a bias.
    assert rows[0] == ["BiGRU", "3", str(2 * 3 * 3 * (5 + 3 + 1))]
    assert rows[1] == ["BiLSTM", "3", str(2 * 4 * 3 * (5 + 3 + 1))]
    cells = study("cells")
    assert cells.count("BiGRU", 64, 32) == 37_248
    units = cells.units_for("BiLSTM", 37_248, 32)
    assert cells.count("BiLSTM", units, 32) <= 37_248 * 1.03


def test_stacking_compares_one_layer_with_two_and_with_a_wider_one(run_untraced):
    lines = run_untraced("stacked", *SEQUENCES)
    assert [row[:3] for row in lines[2:5]] == [
        ["1 x 3", "6", str(6 * 3 * (1 + 3 + 1))],
        ["1 x 6", "12", str(6 * 6 * (1 + 6 + 1))],
        ["2 x 3", "6", str(6 * 3 * (1 + 3 + 1) + 6 * 3 * (6 + 3 + 1))],
    ]


def test_each_pooling_is_trained_and_the_attention_is_drawn(run_untraced):
    lines = run_untraced("pooling", *SEQUENCES)
    names = ["last position", "both ends", "mean", "max", "attention"]
    assert [row[0] for row in lines[2:7]] == names
    assert len({row[1] for row in lines[2:6]}) == 1
    assert "28.6 % if it looked everywhere alike" in lines[7][0]


def test_the_norms_are_those_of_the_halves(run_untraced, study):
    lines = run_untraced("norms", *SENTENCES, "--sentence", "2")
    assert lines[1] == ["word", "tag", "found", "forward", "backward"]
    norms = study("norms")
    states = np.array([[[3, 4, 0, 0], [0, 0, 5, 12], [8, 6, 0, 1]]], float)
    found = norms.norms_of(states, 2)
    assert found["forward"].tolist() == [[5, 0, 10]]
    assert found["backward"].tolist() == [[0, 13, 1]]
    means = norms.by_words_read(found, np.array([3]))
    assert means == {"forward": [5, 0, 10], "backward": [1, 13, 0]}
    means = norms.by_words_read(found, np.array([2]))
    assert means == {"forward": [5, 0], "backward": [13, 0]}


def table_of_leads(lines):
    """The rows about words, and those about sentences."""
    start = lines.index(["sentence", "gold", "one way", "two ways"])
    assert lines[start + 6][0].endswith("but for 0.000000.")
    return {row[0]: row[1:] for row in lines[2:7]}, lines[start + 1 : start + 6]


def test_one_way_no_more_than_a_third_of_lead_can_be_right(run_untraced):
    rows, examples = table_of_leads(run_untraced("ambiguity", *SENTENCES))
    # The same beginnings with each reading, so the same answer three times; less
    # than a third where it is no reading of the word at all.
    number, one_way, _ = rows["lead"]
    assert number == "48" and float(one_way.removesuffix(" %")) <= 33.4
    assert len({one_way for _, _, one_way, _ in examples}) == 1


@pytest.mark.tf_only  # It is the training that takes time, least there.
def test_two_ways_lead_is_right_always(run):
    size = ["--examples", "384", "--tests", "96", "--units", "8", "--embedding", "7"]
    lines = run("ambiguity", *size, "--learning-rate", "0.05", "--epochs", "8")
    rows, examples = table_of_leads(lines)
    for reading in ("VERB", "NOUN", "ADJ"):
        assert rows[f"lead, {reading}"][::2] == ["32", "100.0 %"]
    assert rows["lead"] == ["96", "33.3 %", "100.0 %"]
    for _, gold, _, two_ways in examples:
        best = np.argmax(list(map(float, two_ways.split())))
        assert ("VERB", "NOUN", "ADJ")[best] == gold


def test_the_kinds_of_position_and_the_longest_runs_by_hand(study):
    data = study("data")
    bits = np.array([[1, 0, 1, 1, 1, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0, 0, 0]])
    kinds = [[data.KINDS[kind] for kind in row] for row in data.kinds_of_position(bits)]
    none = "no run"
    assert kinds == [
        ["alone", none, "first", "inside", "last", none, none, "first", "last"],
        [none] * 9,
    ]
    assert data.run_lengths(bits)[0].tolist() == [1, 0, 3, 3, 3, 0, 0, 2, 2]
    assert data.in_longest_run(bits).tolist() == [[1, 0, 2, 2, 2, 0, 0, 1, 1], [0] * 9]


def test_neighbours_and_marks_are_where_the_labels_say(study):
    data = study("data")
    rng = np.random.default_rng(3)
    left, right = data.neighbours(np.array([[3, 1, 2]]))
    assert left.tolist() == [[0, 3, 1]] and right.tolist() == [[1, 2, 0]]
    symbols, classes, places = data.draw_marked(rng, 53, 7, 5)
    assert (np.sum(symbols == 0, axis=1) == 1).all()
    for row, label, place in zip(symbols, classes, places):
        assert row[place - 1] == 0 and row[place] == label + 1
    assert set(classes) == set(range(5))


def test_runs_go_on_as_often_as_they_should(study):
    bits = study("data").draw_runs(np.random.default_rng(5), 2000, 11, goes_on=0.7)
    before, after = bits[:, :-1], bits[:, 1:]
    assert np.mean(after[before == 1]) == pytest.approx(0.7, abs=0.02)
    assert np.mean(after[before == 0]) == pytest.approx(0.4, abs=0.02)


def test_each_beginning_of_lead_has_each_reading_as_often(study):
    data = study("data")
    parts = data.lead_sentences(np.random.default_rng(7), 3, 2)
    texts = [{tuple(sentence) for sentence in part} for part in parts]
    shown = {tuple(data.split_tags(text)) for text in data.SHOWN}
    assert [len(part) for part in texts] == [16 * 3 * 3, 16 * 3 * 2]
    assert not texts[0] & texts[1] and not shown & (texts[0] | texts[1])
    for part, size in zip(parts, (3, 2)):
        counts = {}
        for sentence in part:
            words = [word for word, _ in sentence]
            place = words.index("lead")
            key = tuple(words[:place]), sentence[place][1]
            counts[key] = counts.get(key, 0) + 1
        assert len(counts) == 16 * 3 and set(counts.values()) == {size}


def test_words_and_tags_are_numbered_from_one(study):
    data = study("data")
    tags, training, test = data.grammar_sentences(64, 7, seed=2)
    for part, size in ((training, 64), (test, 7)):
        assert part.word_ids.shape == part.tag_ids.shape
        assert ((part.word_ids > 0) == (part.tag_ids > 0)).all()
        for words, names, word_ids, tag_ids in zip(*part):
            assert [tags.words[i - 1] for i in word_ids if i] == words
            assert [tags.tags[i - 1] for i in tag_ids if i] == names
        assert len(part.words) == size
    assert training.tag_ids.max() == tags.num_tags - 1


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("cells", ["--epochs", "0"], "--epochs: must be 1 or more, not 0"),
        ("merge", ["--units", "many"], "--units: invalid positive value: 'many'"),
        ("norms", ["--seed", "-1"], "--seed: must be 0 or more"),
        ("pooling", ["--learning-rate", "0"], "--learning-rate: must be more than 0"),
        ("directions", ["--epochs", "3"], "unrecognized arguments: --epochs"),
        ("stacked", ["--output", __file__], "--output: is a file"),
        ("pooling", ["--length", "1"], "--length must be 2 or more"),
        ("runs_of_ones", ["--length", "1"], "--length must be 2 or more"),
        ("norms", ["--tests", "5", "--sentence", "6"], "--sentence must be 5 or less"),
        ("ambiguity", ["--tests", "47"], "--examples and --tests must be 48 or more"),
        ("ambiguity", ["--examples", "99999"], "The templates have no more different"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(refused, name, arguments, message):
    assert message in refused(name, *arguments)


def test_a_missing_matplotlib_is_named_before_the_training(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refused("merge")
    assert 'pip install "keras-bahdanau[plots]"' in message
