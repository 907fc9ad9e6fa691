"""The experiment in examples/paper, at a tiny size, and the numbers of its report."""

import json
import math
import pathlib
import types

import keras
import numpy as np
import oracle
import pytest

pytestmark = pytest.mark.tf_only

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "paper"
TINY = {
    "model": "RNNsearch",
    "preset": "library",
    "options": {"embedding_dim": 5, "units": 7, "readout_units": 3, "dropout": 0.0},
    "max_length": 16,
    "vocabulary": 400,
    "optimizer": "adam",
    "learning_rate": 0.01,
    "batch_size": 11,
    "pool_batches": 3,
    "pad_to_multiple": 1,
    "updates": 4,
    "validate_every": 2,
    "beams": 2,
}


@pytest.fixture
def module(import_from):
    """Imports a module of the example, as the program does."""
    return import_from(FOLDER)


@pytest.fixture
def configs(tmp_path):
    """Writes configuration files; gives their names."""

    def configs(**changes):
        paths = []
        for name, change in changes.items():
            paths.append(tmp_path / f"{name}.json")
            paths[-1].write_text(json.dumps({**TINY, **change}))
        return paths

    return configs


@pytest.fixture
def pairs():
    from keras_bahdanau.tf import PairCorpus

    sources = ["a dog sleeps", "a cat", "the dog", "a cat sleeps", "the fish sees"]
    targets = ["un chien dort", "un chat", "le chien", "un chat dort", "le pois voit"]
    return PairCorpus(sources, targets)


# ---------------------------------------------------------------- configurations


def test_the_systems_of_a_scale_differ_in_attention_and_length_only(module):
    settings = module("settings")
    for scale in module("corpora").SCALES:
        systems, curves = settings.read_systems(scale)
        settings.check_comparable(systems)
        assert [one.model for one in systems] == ["RNNencdec", "RNNsearch"] * 2
        for one in systems:
            assert one.name == f"{one.model}-{one.max_length}"
        for without, attending in (systems[:2], systems[2:]):
            assert without.max_length == attending.max_length
            assert attending.options.items() >= without.options.items()
            assert set(attending.options) - set(without.options) == {"attention_units"}
            for name in ("batch_size", "learning_rate", "optimizer", "pad_to_multiple"):
                assert getattr(without, name) == getattr(attending, name)
        if scale == "grammar":
            first, second = curves
            assert {first.optimizer, second.optimizer} == {"adam", "adadelta"}
            assert first.preset == second.preset == "paper"
            assert (first.options, first.updates) == (second.options, second.updates)


def test_each_scale_has_its_configurations(module):
    folders = {path.name for path in (FOLDER / "configs").iterdir() if path.is_dir()}
    assert folders == set(module("corpora").SCALES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "LSTM"}, "`model` must be one of RNNsearch, RNNencdec. Rec.*'LSTM'"),
        ({"preset": None}, "`preset` must be one of library, paper. Received: None"),
        ({"optimizer": "sgd"}, "`optimizer` must be one of adam, adadelta"),
        ({"beams": 0}, "`beams` must be a whole number of 1 or more. Received: 0"),
        ({"vocabulary": "9"}, "`vocabulary` must be a whole number .* Received: '9'"),
        ({"updates": True}, "`updates` must be a whole number .* Received: True"),
        ({"learning_rate": 0}, "`learning_rate` must be a number above 0"),
        ({"validate_every": 3}, "must divide `updates`.*validate_every=3, updates=4"),
        ({"options": {"width": 3}}, "`options` must be .* some of embedding_dim, .*"),
        ({"options": {"units": 0}}, "`units` must be"),
        (
            {"model": "RNNencdec", "options": {"attention_units": 3}},
            "RNNencdec has no attention. Received: attention_units=3. Leave it out",
        ),
        ({"seed": 1}, r"must have the keys model, .* Received none of \[\].*'seed'"),
    ],
)
def test_a_wrong_configuration_is_named_with_its_file(module, configs, change, message):
    (path,) = configs(wrong=change)
    with pytest.raises(ValueError, match=f"wrong.json: .*{message}"):
        module("settings").read_settings(path)


def test_a_file_that_is_no_configuration_is_named(module, tmp_path):
    read = module("settings").read_settings
    for text, message in (
        ("[]", "must hold an object"),
        ("{", "Expecting property name"),
        ('{"model": "RNNsearch"}', r"Received none of \['batch_size'"),
    ):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(ValueError, match=f"x.json: .*{message}"):
            read(tmp_path / "x.json")
    with pytest.raises(ValueError, match="y.json.*No such file"):
        read(tmp_path / "y.json")


def test_another_budget_is_validated_no_less_often(module, configs):
    (path,) = configs(a={"updates": 1000, "validate_every": 200})
    settings = module("settings").read_settings(path)
    for updates, every in ((400, 200), (300, 100), (2, 2)):
        changed = settings.with_updates(updates)
        assert (changed.updates, changed.validate_every) == (updates, every)


def test_the_preset_of_the_paper_has_its_start_and_its_optimizer(module, configs):
    options = {**TINY["options"], "attention_units": 7, "units": 50}
    (path,) = configs(
        a={
            "preset": "paper",
            "optimizer": "adadelta",
            "learning_rate": 0.5,
            "options": options,
        }
    )
    settings = module("settings").read_settings(path)
    model = settings.make_model(31, 37, seed=1)
    model.build()
    assert model.step_order == "look_generate_update"
    assert not np.any(model.decoder.cell.attention.score_kernel)
    assert np.std(model.decoder.cell.kernel) == pytest.approx(0.01, rel=0.15)
    optimizer = settings.make_optimizer()
    assert type(optimizer).__name__ == "Adadelta" and optimizer.global_clipnorm == 1
    assert float(optimizer.learning_rate) == 0.5 and optimizer.epsilon == 1e-6


# ---------------------------------------------------------------- corpora


def arguments(**changes):
    return types.SimpleNamespace(**{"limit": None, "data": None, **changes})


def test_the_grammar_has_sentences_of_up_to_60_words(module):
    corpus = module("corpora").grammar(arguments(limit=300))
    assert [len(part) for part in corpus[2:5]] == [300, 30, 30]
    (codec, _) = module("corpora").make_codecs(corpus, 500)
    found = module("corpora").lengths(corpus.train.sources, codec)
    assert 50 < max(found) <= 60 and min(found) < 10


def test_a_folder_is_read_by_its_splits(module, tmp_path):
    for split in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            lines = f"{language} {split}\n" * 3
            (tmp_path / f"{language}.{split}.txt").write_text(lines)
    args = arguments(scale="multi30k", data=tmp_path, source="de", target="en", limit=2)
    corpus = module("corpora").multi30k(args)
    assert corpus.test.sources == ["de test_2016_flickr"] * 2
    assert corpus.train.targets == ["en train"] * 2 and len(corpus.validation) == 2


def test_a_pair_is_known_if_both_sides_are(module, pairs):
    from keras_bahdanau.tf import WordCodec

    known = module("corpora").known_rows
    codecs = [WordCodec.train(side) for side in (pairs.sources, pairs.targets)]
    assert known(pairs, codecs) == [0, 1, 2, 3, 4]
    source = WordCodec(["a", "dog", "cat", "sleeps", "the", "fish", "sees"])
    target = WordCodec(["un", "chien", "chat", "le", "pois", "voit"])
    assert known(pairs, [source, target]) == [1, 2, 4]
    source = WordCodec(["a", "dog", "cat", "sleeps"])
    assert known(pairs, [source, codecs[1]]) == [0, 1, 3]


def test_sentences_are_put_together_from_the_same_text(module, pairs):
    from keras_bahdanau.tf import WordCodec

    joined = module("corpora").joined
    codec = WordCodec.train(pairs.sources)
    cuts = joined(pairs, [0, 1, 3, 4], codec, (1, 2), longest=3)
    assert cuts[1].sources == ["a dog sleeps", "a cat", "a cat sleeps", "the fish sees"]
    assert cuts[2].sources == ["a dog sleeps a cat", "a cat sleeps the fish sees"]
    assert cuts[2].targets == ["un chien dort un chat", "un chat dort le pois voit"]
    # Two of three words or less are as many as six sentences can be cut into.
    assert len(joined(pairs, range(5), codec, (1, 2), longest=3)[1]) == 4
    assert joined(pairs, [1, 2], codec, (1, 2), longest=2)[2].sources == [
        "a cat the dog"
    ]
    assert joined(pairs, range(5), codec, (4, 3)) == {}


# ---------------------------------------------------------------- length


def test_buckets_hold_each_sentence_once(module):
    buckets = module("buckets").buckets
    lengths = [1, 10, 11, 25, 30, 21, 5]
    found = [tuple(one) for one in buckets(lengths, width=10, least=1)]
    assert found == [(1, 10, [0, 1, 6]), (11, 20, [2]), (21, 30, [3, 4, 5])]


def test_a_small_bucket_is_joined_with_the_next_and_the_last_with_the_one_before(
    module,
):
    buckets = module("buckets").buckets
    found = [tuple(one) for one in buckets([3, 13, 14, 25, 26, 36], 10, least=2)]
    assert found == [(1, 20, [0, 1, 2]), (21, 40, [3, 4, 5])]
    assert [tuple(one) for one in buckets([3, 35], 10, least=9)] == [(1, 40, [0, 1])]


def test_what_depends_on_length_is_counted_in_each_bucket_alone(module):
    buckets = module("buckets")
    groups = buckets.buckets([2, 12, 3, 13], 10, least=1)
    references = ["un chien dort bien", "un chat dort là", "le chat est là", "a b c d"]
    texts = [references[0], "x", references[2], "y"]
    first, second = buckets.bleu_by_length(groups, texts, references)
    assert first == pytest.approx(100) and second < 1
    assert buckets.mean_by_length(groups, [1.0, 5.0, 2.0, 7.0]) == [1.5, 6.0]


# ---------------------------------------------------------------- scores


REFERENCES = ["Le chien dort dans le jardin.", "L'ami voit un chat noir ici."] * 20


def test_the_resampled_score_is_that_of_the_library(module):
    from keras_bahdanau.tf import corpus_bleu

    scores = module("scores")
    worse = [text.replace("jardin", "<unk>") for text in REFERENCES]
    worst = ["Le chien ne dort pas."] * len(REFERENCES)
    found = scores.compare({"a": worst, "b": worse}, REFERENCES, resamples=100)
    for name, texts in (("a", worst), ("b", worse)):
        expected = corpus_bleu(texts, REFERENCES, tokenized=True).score
        assert found[name].score == pytest.approx(expected)
        assert scores.bleu(texts, REFERENCES) == pytest.approx(expected)
        assert 0 < found[name].interval < 15
    assert found["a"].p_value is None and found["b"].p_value < 0.02


def test_an_unknown_word_is_one_word_that_is_wrong(module):
    bleu = module("scores").bleu
    # Of 16, 14, 12 and 10 groups of 1 to 4 words, those with the word are wrong.
    reference = ["a b c d e f g h", "i j k l m n o p"]
    text = ["a b c d e f g h", "i j k <unk> m n o p"]
    expected = 100 * (15 / 16 * 12 / 14 * 9 / 12 * 6 / 10) ** 0.25
    assert bleu(text, reference) == pytest.approx(expected)


# ---------------------------------------------------------------- inside


IDS = np.array([[5, 9, 4, 3], [7, 3, 0, 0], [6, 8, 3, 0]])
WRITTEN = np.array([[2, 5, 8, 6, 4], [2, 9, 0, 0, 0], [2, 4, 7, 0, 0]])


def make_model(attends, **options):
    from keras_bahdanau import RNNEncoderDecoder, RNNSearch

    large = keras.initializers.RandomNormal(stddev=0.7, seed=3)
    kind = RNNSearch if attends else RNNEncoderDecoder
    settings = {
        "embedding_dim": 5,
        "units": 7,
        "readout_units": 3,
        "kernel_initializer": large,
        "embedding_initializer": large,
        **options,
    }
    model = kind(11, 13, **settings)
    model.build()
    rng = np.random.default_rng(2)
    for weight in model.weights:
        if "bias" in weight.path:
            weight.assign(rng.normal(size=weight.shape))
    return model


def gates_of(gru, x, h, c=None):
    """The paper's update and reset gate of one step."""
    return [
        oracle.sigmoid(
            gru[f"W_{name}"] @ x
            + gru[f"U_{name}"] @ h
            + gru[f"b_{name}"]
            + (0 if c is None else gru[f"C_{name}"] @ c)
        )
        for name in "zr"
    ]


def paper_gru(cell, context_kernel=None):
    return oracle.from_keras(
        cell.kernel, cell.recurrent_kernel, cell.bias, context_kernel
    )


def loop(gru, steps, h):
    """States and gates of a GRU over vectors, one after another."""
    states, gates = [], []
    for x in steps:
        gates.append(gates_of(gru, x, h))
        h = oracle.gru_step(gru, x, h)
        states.append(h)
    return states, gates


@pytest.mark.parametrize("attends", [True, False])
def test_the_gates_of_the_encoder_are_those_of_plain_loops(module, attends):
    model = make_model(attends)
    found = module("inside").encoder_gates(model, IDS)
    assert list(found) == (["forward", "backward"] if attends else ["forward"])
    embedding = np.array(model.source_embedding.embeddings, float)
    for row, ids in enumerate(IDS):
        real = [embedding[i] for i in ids if i]
        if attends:
            both = model.encoder.layers[0]
            cells = both.forward_layer.cell, both.backward_layer.cell
        else:
            cells = (model.encoder.cell,)
        for (name, gates), cell, order in zip(found.items(), cells, (1, -1)):
            _, expected = loop(paper_gru(cell), real[::order], np.zeros(7))
            for kind in (0, 1):
                np.testing.assert_allclose(
                    gates[kind][row, : len(real)],
                    [step[kind] for step in expected][::order],
                    rtol=1e-4,
                    atol=1e-5,
                    err_msg=name,
                )


@pytest.mark.parametrize(
    ("attends", "step_order"),
    [
        (True, "look_update_generate"),
        (True, "look_generate_update"),
        (False, "look_update_generate"),
        (False, "look_generate_update"),
    ],
)
def test_the_gates_of_the_decoder_are_those_of_plain_loops(module, attends, step_order):
    model = make_model(attends, step_order=step_order)
    update, reset, weights = module("inside").decoder_gates(model, IDS, WRITTEN)
    embedding = np.array(model.target_embedding.embeddings, float)
    memory, states = model.encode(IDS)
    values, first = (np.array(x, float) for x in (memory["values"], states[0]))
    cell = model.decoder.cell
    gru = paper_gru(cell, cell.context_kernel)
    if attends:
        parts = cell.attention.query_kernel, cell.attention.key_kernel
        parts = [*(np.array(part, float).T for part in parts)]
        parts.append(np.ravel(np.array(cell.attention.score_kernel, float)))
    for row, ids in enumerate(WRITTEN):
        s, real = first[row], (IDS[row] > 0)
        for step, token in enumerate(ids[ids > 0]):
            y, c = embedding[token], values[row, 0]
            if attends:
                _, looked, c = oracle.attend(*parts, s, values[row], real)
                np.testing.assert_allclose(weights[row, step], looked, atol=1e-5)
            expected = gates_of(gru, y, s, c)
            for found, gate in zip((update, reset), expected):
                np.testing.assert_allclose(found[row, step], gate, rtol=1e-4, atol=1e-5)
            s = oracle.gru_step(gru, y, s, c)


def test_the_entropy_of_even_weights_is_the_logarithm_of_their_number(module):
    entropy = module("inside").entropy
    for size in (1, 2, 7):
        even = np.full((3, size), 1 / size)
        np.testing.assert_allclose(entropy(even), [math.log(size)] * 3, atol=1e-12)
    np.testing.assert_array_equal(entropy([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]), [0, 0])
    half = entropy([[0.5, 0.25, 0.25]])
    np.testing.assert_allclose(half, [1.5 * math.log(2)])


def test_without_scores_all_words_and_the_end_share_the_weight(module):
    from keras_bahdanau.batching import EncodedPairs

    lengths, targets = [5, 2, 3], [3, 4, 2]
    pairs = EncodedPairs(np.full(10, 4), lengths, np.full(9, 5), targets)
    model = make_model(True, score_initializer="zeros")
    for weight in model.encoder.weights + model.decoder.cell.weights:
        weight.assign(np.zeros(weight.shape))
    found = module("inside").look_inside(model, pairs, batch_size=2)
    np.testing.assert_allclose(found["entropy"], np.log(lengths), rtol=1e-6)
    for name in ("end_mass", "end_mass_at_end"):
        np.testing.assert_allclose(found[name], 1 / np.array(lengths), rtol=1e-6)
    assert found["pairs"] == {"source": [3, 3, 2, 1, 1], "target": [3, 3, 2, 1]}
    # Gates without weights are open by half.
    assert len(found["gates"]) == 6
    for name, means in found["gates"].items():
        size = 4 if name.startswith("decoder") else 5
        np.testing.assert_allclose(means, [0.5] * size, rtol=1e-6)


def test_a_model_without_attention_has_gates_and_nothing_else(module):
    from keras_bahdanau.batching import EncodedPairs

    pairs = EncodedPairs(np.full(5, 4), [3, 2], np.full(4, 5), [2, 2])
    found = module("inside").look_inside(make_model(False), pairs)
    assert set(found) == {"gates", "pairs"}
    assert len(found["gates"]) == 4
    assert all(np.isfinite(means).all() for means in found["gates"].values())


# ---------------------------------------------------------------- words


def comparison(system, baseline, scores, p_value, sentences="all"):
    return {
        "system": system,
        "baseline": baseline,
        "same_length": system[-2:] == baseline[-2:],
        "sentences": sentences,
        "scores": scores,
        "intervals": [1.5, 1.25],
        "p_value": p_value,
    }


def test_the_ordering_is_said_in_words(module):
    ordering = module("verdict").ordering
    rows = [
        comparison("RNNsearch-20", "RNNencdec-20", [20.0, 30.0], 0.001),
        comparison("RNNsearch-40", "RNNencdec-20", [20.0, 41.0], 0.001),
        comparison("RNNsearch-20", "RNNencdec-40", [25.0, 30.0], 0.02),
        comparison("RNNsearch-40", "RNNencdec-40", [25.0, 41.0], 0.001),
    ]
    first, *others = ordering({"comparisons": rows})
    assert first.startswith("The paper's ordering appears")
    assert others[0] == (
        "RNNsearch-20 is 10.00 BLEU above RNNencdec-20 on all test sentences: "
        "30.00 ± 1.25 and 20.00 ± 1.50, p = 0.001."
    )
    assert [line.split()[0] for line in others] == [
        "RNNsearch-20",
        "RNNsearch-40",
        "RNNsearch-20",
    ]
    assert "above RNNencdec-40" in others[2]
    for scores, p_value in (([41.0, 25.0], 0.001), ([25.0, 26.0], 0.3)):
        rows[3] = comparison("RNNsearch-40", "RNNencdec-40", scores, p_value)
        first, *_ = ordering({"comparisons": rows})
        assert "does not appear with p < 0.05 for RNNsearch-40 on all" in first
    rows = [comparison("RNNsearch-20", "RNNencdec-20", [0.0, 0.0], 0.001)]
    assert ordering({"comparisons": rows})[1].startswith(
        "RNNsearch-20 and RNNencdec-20 are level on all test sentences"
    )
    assert ordering({"comparisons": []})[0].startswith("No two systems of one limit")
