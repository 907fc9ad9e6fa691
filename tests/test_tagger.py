"""The tagger: what a sentence's tags depend on, its losses, and that it learns."""

import keras
import numpy as np
import pytest
from arrays import JIT, assert_close, numbers, scrambled
from keras import ops

import keras_bahdanau as kb
from keras_bahdanau.chains import chain_marginals

TAGS, WORDS, CHARACTERS, FEATURES = 5, 13, 11, (7, 17)
LENGTHS = (5, 3, 0)
KINDS = {
    "two_way": {},
    "one_way": {"bidirectional": False},
    "crf": {"output": "crf"},
    "cnn": {"character_encoder": "cnn", "character_units": 4, "num_layers": 2},
}
# On JAX a step that is not compiled compiles its loops each time.
each_kind = pytest.mark.parametrize("kind", KINDS)


def made(kind="two_way", **options):
    settings = {
        "character_vocabulary_size": CHARACTERS,
        "feature_sizes": FEATURES,
        "embedding_dim": 3,
        "character_embedding_dim": 2,
        "character_units": 2,
        "feature_dim": 2,
        "units": 7,
        "num_layers": 1,
        **KINDS[kind],
        **options,
    }
    model = kb.SequenceTagger(TAGS, WORDS, **settings)
    model.build()
    return scrambled(model, 0.7)


def plain(**options):
    """A tagger that reads nothing but words."""
    return made(character_vocabulary_size=None, feature_sizes=(), **options)


def sentences(lengths=LENGTHS, more_words=0, more_characters=0):
    """Inputs of sentences of given lengths, whose words have one to four characters."""
    rng = np.random.default_rng(5)
    shape = (len(lengths), max(lengths))
    inputs = {
        "word_ids": rng.integers(2, WORDS, shape, "int32"),
        "character_ids": rng.integers(1, CHARACTERS, (*shape, 4), "int32"),
        "feature_ids": rng.integers(1, 7, (*shape, 2), "int32"),
    }
    sizes = rng.integers(1, 5, shape)
    inputs["character_ids"][np.arange(4) >= sizes[..., None]] = 0
    for row, length in enumerate(lengths):
        for ids in inputs.values():
            ids[row, length:] = 0
    padding = [(0, 0), (0, more_words), (0, more_characters)]
    inputs["character_ids"] = np.pad(inputs["character_ids"], padding)
    for name in ("word_ids", "feature_ids"):
        ids = inputs[name]
        inputs[name] = np.pad(ids, [*padding[:2], (0, 0)][: ids.ndim])
    return inputs


def words_of(inputs):
    return {"word_ids": inputs["word_ids"]}


def labels_of(inputs):
    rng = np.random.default_rng(6)
    ids = inputs["word_ids"]
    return np.where(ids > 0, rng.integers(0, TAGS, ids.shape), -1)


def outputs_of(model, inputs, **options):
    found = model({k: ops.convert_to_tensor(v) for k, v in inputs.items()}, **options)
    return {name: numbers(value) for name, value in found.items()}


@each_kind
def test_a_sentence_does_not_depend_on_its_batch_nor_on_padding(kind):
    model = made(kind, num_frequencies=3)
    together = outputs_of(model, sentences())
    padded = outputs_of(model, sentences(more_words=2, more_characters=3))
    for row, length in enumerate(LENGTHS[:2]):
        one = {name: ids[row : row + 1, :length] for name, ids in sentences().items()}
        alone = outputs_of(model, one)
        for name, expected in alone.items():
            for found in (together[name], padded[name]):
                # Where a CRF is, the last word's potentials hold the end.
                assert_close(found[row : row + 1, :length], expected, 1e-5)
    for outputs, width in ((together, 5), (padded, 7)):
        masked = np.arange(width) >= np.array(LENGTHS)[:, None]
        assert ((outputs["tags"] == -1) == masked).all()
        assert np.isfinite(outputs["scores"]).all()


@pytest.mark.parametrize(("kind", "looks_ahead"), [("one_way", False), ("cnn", True)])
def test_only_a_two_way_tagger_knows_what_follows(kind, looks_ahead):
    model, inputs = made(kind), sentences((5, 5))
    before = outputs_of(model, inputs)["scores"]
    for ids in inputs.values():
        ids[:, 3:] = np.roll(ids, 1, axis=0)[:, 3:]
    after = outputs_of(model, inputs)["scores"]
    assert np.abs(after - before)[:, 3].max() > 1e-2
    assert (np.abs(after - before)[:, 2].max() > 1e-3) == looks_ahead
    if not looks_ahead:
        assert_close(after[:, :3], before[:, :3])


@pytest.mark.parametrize("name", ["word_ids", "character_ids", "feature_ids"])
def test_each_input_counts_at_its_own_word(name):
    model, inputs = made("one_way"), sentences((4,))
    before = outputs_of(model, inputs)["scores"]
    inputs[name][:, 2] = 1
    after = outputs_of(model, inputs)["scores"]
    assert_close(after[:, :2], before[:, :2])
    assert np.abs(after[:, 2] - before[:, 2]).max() > 1e-3


def test_words_alone_need_no_dictionary():
    model, ids = plain(), ops.convert_to_tensor(sentences()["word_ids"])
    for name, expected in model({"word_ids": ids}).items():
        assert_close(model(ids)[name], expected)


def test_tags_are_those_of_the_largest_scores():
    outputs = outputs_of(made(), sentences())
    for row, length in enumerate(LENGTHS):
        for place in range(length):
            expected = int(np.argmax(outputs["scores"][row, place]))
            assert outputs["tags"][row, place] == expected


# ---------------------------------------------------------------- dropout


def test_dropped_ids_are_unknown_by_the_stated_share_and_never_padding():
    layer = kb.TokenDropout(0.3, seed=1)
    ids = np.random.default_rng(1).integers(0, 7, (100, 200), "int32")
    found = numbers(layer(ops.convert_to_tensor(ids), training=True))
    assert found.dtype == ids.dtype
    changed = found != ids
    assert (found[changed] == 1).all() and (found[ids == 0] == 0).all()
    # Of more than ten thousand words: five standard deviations.
    assert changed[ids > 1].mean() == pytest.approx(0.3, abs=0.02)
    again = numbers(layer(ops.convert_to_tensor(ids), training=True))
    assert (again != found).any()


@pytest.mark.parametrize("training", [False, None])
def test_no_id_is_dropped_outside_training(training):
    ids = ops.convert_to_tensor(sentences()["word_ids"])
    assert_close(kb.TokenDropout(0.9)(ids, training=training), ids)
    assert_close(kb.TokenDropout(0.0)(ids, training=True), ids)


def test_a_dropped_word_is_read_as_the_unknown_word():
    """With nearly all words dropped, all of one length get the same tags."""
    options = {"word_dropout": 1 - 1e-9, "dropout": 0.0}
    model, inputs = plain(**options), words_of(sentences())
    unknown = {"word_ids": np.minimum(inputs["word_ids"], 1)}
    expected = outputs_of(model, unknown)["scores"]
    assert_close(outputs_of(model, inputs, training=True)["scores"], expected, 1e-6)
    assert np.abs(outputs_of(model, inputs)["scores"] - expected).max() > 1e-2


def test_dropped_characters_leave_the_words_alone():
    options = {"word_dropout": 0.0, "dropout": 0.0, "character_dropout": 1 - 1e-9}
    model, inputs = made(**options), sentences()
    unknown = {**inputs, "character_ids": np.minimum(inputs["character_ids"], 1)}
    expected = outputs_of(model, unknown)["scores"]
    assert_close(outputs_of(model, inputs, training=True)["scores"], expected, 1e-6)


def test_a_seed_settles_all_dropouts():
    options = {"word_dropout": 0.3, "character_dropout": 0.3, "seed": 3}
    first, second, third = (
        made(**options),
        made(**options),
        made(**{**options, "seed": 4}),
    )
    one, same, other = (
        outputs_of(model, sentences(), training=True)["scores"]
        for model in (first, second, third)
    )
    assert_close(one, same)
    assert np.abs(one - other).max() > 1e-3
    assert np.abs(one - outputs_of(first, sentences())["scores"]).max() > 1e-3


# ---------------------------------------------------------------- probabilities


def test_probabilities_are_the_softmax_or_the_marginals():
    inputs = sentences()
    real = inputs["word_ids"] > 0
    for kind in ("two_way", "crf"):
        model = made(kind)
        scores = ops.convert_to_tensor(outputs_of(model, inputs)["scores"])
        found = numbers(model.probabilities(scores))
        expected = chain_marginals(scores) if kind == "crf" else ops.softmax(scores)
        assert_close(found, expected)
        np.testing.assert_allclose(found.sum(-1)[real], 1.0, atol=1e-5)


def test_a_crf_never_breaks_what_is_allowed():
    start = np.array([True, True, True, False, False])
    moves = np.random.default_rng(8).random((TAGS, TAGS)) < 0.5
    np.fill_diagonal(moves, True)
    end = np.array([False, True, True, True, True])
    model = plain(kind="crf", allowed=(start, moves, end))
    ids = np.random.default_rng(9).integers(1, WORDS, (50, 7), "int32")
    tags = outputs_of(model, {"word_ids": ids})["tags"]
    free = outputs_of(plain(kind="crf"), {"word_ids": ids})["tags"]
    assert start[tags[:, 0]].all() and end[tags[:, -1]].all()
    assert moves[tags[:, :-1], tags[:, 1:]].all()
    assert not moves[free[:, :-1], free[:, 1:]].all()
    again = kb.SequenceTagger.from_config(model.get_config())
    assert again.get_config() == model.get_config()


# ---------------------------------------------------------------- losses


def compiled(model, **options):
    recipe = kb.tagging_recipe(model.output_kind, **options)
    recipe["optimizer"] = keras.optimizers.SGD(0.1)
    model.compile(**recipe, jit_compile=JIT)
    return model


def test_the_loss_is_the_mean_over_the_words():
    inputs = sentences()
    labels = labels_of(inputs)
    # A word without a label counts no more than padding.
    labels[0, 1] = -1
    model, inputs = compiled(plain()), words_of(inputs)
    scores = outputs_of(model, inputs)["scores"].astype("float64")
    losses, hits = [], []
    for row, place in zip(*np.nonzero(labels >= 0)):
        logits, label = scores[row, place], labels[row, place]
        losses.append(np.log(np.exp(logits).sum()) - logits[label])
        hits.append(logits.argmax() == label)
    loss, accuracy = model.evaluate(inputs, labels, verbose=0)
    assert loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert accuracy == pytest.approx(np.mean(hits), abs=1e-6)


@pytest.mark.parametrize("kind", ["two_way", "crf"])
def test_labels_by_themselves_are_those_of_tags_and_scores(kind):
    inputs = sentences()
    labels = labels_of(inputs)
    model, inputs = compiled(plain(kind=kind)), words_of(inputs)
    expected = model.evaluate(inputs, labels, verbose=0)
    given = {"tags": labels, "scores": labels}
    assert model.evaluate(inputs, given, verbose=0) == pytest.approx(expected)
    padded = words_of(sentences(more_words=2))
    more = np.pad(labels, ((0, 0), (0, 2)), constant_values=-1)
    found = model.evaluate(padded, more, verbose=0)
    assert found == pytest.approx(expected, rel=1e-4)


def test_words_are_weighed_by_sample_weight_and_not_by_class():
    inputs = sentences()
    labels, model = labels_of(inputs), compiled(plain())
    inputs = words_of(inputs)
    weights = np.where(labels == 2, 9.0, 1.0)
    with pytest.raises(ValueError, match="`class_weight` is not for sequences"):
        model.fit(inputs, labels, class_weight={2: 9.0}, verbose=0)
    with pytest.raises(ValueError, match="`class_weight` is not for sequences"):
        model.train_on_batch(inputs, labels, class_weight={2: 9.0})
    twice = [
        model.evaluate(inputs, labels, sample_weight=scale * weights, verbose=0)
        for scale in (1, 2)
    ]
    assert twice[1][0] == pytest.approx(2 * twice[0][0], rel=1e-5)
    model.fit(inputs, labels, sample_weight=weights, verbose=0)


def test_the_auxiliary_loss_asks_for_its_own_labels():
    inputs = sentences()
    labels = labels_of(inputs)
    model = compiled(plain(num_frequencies=3), frequency_weight=0.5)
    with pytest.raises(ValueError, match="a dictionary of `tags`, `scores` and"):
        model.fit(words_of(inputs), labels, verbose=0)


def test_the_auxiliary_loss_counts_by_its_weight():
    inputs = sentences()
    labels = labels_of(inputs)
    classes = np.where(labels >= 0, labels % 3, -1)
    targets = {"tags": labels, "scores": labels, "frequencies": classes}
    inputs, totals = words_of(inputs), []
    for weight in (0.0, 2.0):
        model = compiled(plain(num_frequencies=3), frequency_weight=weight)
        found = model.evaluate(inputs, targets, verbose=0, return_dict=True)
        totals.append(found["loss"])
    logits = outputs_of(model, inputs)["frequencies"]
    alone = float(
        numbers(kb.TokenCrossentropy(pad_id=-1)(classes, ops.convert_to_tensor(logits)))
    )
    assert totals[1] - totals[0] == pytest.approx(2.0 * alone, rel=1e-4)


# ---------------------------------------------------------------- learning


def parities(count=48):
    """The tag says whether the next word has an even number; 0 for the last word."""
    rng = np.random.default_rng(2)
    ids = rng.integers(2, 6, (count, 5), "int32")
    ids[::3, 4:] = 0
    following = np.pad(ids[:, 1:], ((0, 0), (0, 1)))
    return {"word_ids": ids}, np.where(ids > 0, following % 2, -1)


def learned(epochs, **options):
    """The accuracy of a small tagger on the sentences that it was fitted to."""
    inputs, labels = parities()
    model = kb.SequenceTagger(
        2, 6, embedding_dim=5, units=11, num_layers=1, dropout=0.0, **options
    )
    recipe = kb.tagging_recipe(model.output_kind, learning_rate=0.03)
    model.compile(**recipe, jit_compile=JIT)
    model.fit(inputs, labels, batch_size=16, epochs=epochs, verbose=0)
    return model, model.evaluate(inputs, labels, verbose=0, return_dict=True)


@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_what_follows_is_learned_reading_both_ways(output):
    _, found = learned(25, output=output, word_dropout=0.0)
    assert found["tags_accuracy"] == 1.0 and found["loss"] < 0.3


def test_what_follows_cannot_be_learned_reading_one_way():
    """Two thirds of the words but the last ones are guessed, as often right as not."""
    _, found = learned(10, bidirectional=False, word_dropout=0.0)
    assert 0.4 < found["tags_accuracy"] < 0.85


def test_a_fitted_tagger_saves_loads_and_goes_on(tmp_path):
    inputs, labels = parities()
    model, expected = learned(2, output="crf", allowed=(None, None, [True, True]))
    model.save(tmp_path / "tagger.keras")
    loaded = keras.saving.load_model(tmp_path / "tagger.keras")
    assert loaded.get_config() == model.get_config()
    again, tags = (one.predict(inputs, verbose=0)["tags"] for one in (loaded, model))
    np.testing.assert_array_equal(again, tags)
    found = loaded.evaluate(inputs, labels, verbose=0, return_dict=True)
    assert found == pytest.approx(expected, rel=1e-5)
    steps = int(loaded.optimizer.iterations)
    loaded.fit(inputs, labels, batch_size=16, verbose=0)
    assert int(loaded.optimizer.iterations) == steps + 3 == 9


@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_it_fits_in_mixed_precision(output):
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = compiled(made(output=output, num_frequencies=3), frequency_weight=0.1)
    inputs = sentences()
    labels = labels_of(inputs)
    targets = {"tags": labels, "scores": labels, "frequencies": labels % 3}
    before = [numbers(weight).copy() for weight in model.trainable_weights]
    history = model.fit(inputs, targets, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    for weight, old in zip(model.trainable_weights, before):
        assert (numbers(weight) != old).any(), weight.path


def test_ids_are_not_rounded_in_half_precision():
    options = {"embedding_dim": 3, "units": 7, "dtype": "mixed_bfloat16"}
    model = kb.SequenceTagger(TAGS, 3001, **options)
    model.build()
    one, other = (
        outputs_of(model, {"word_ids": np.array([[number]])})["scores"]
        for number in (2999, 3000)
    )
    assert np.abs(one - other).max() > 0


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("word_ids", r"must be a dictionary with.*Add \['word_ids'\]"),
        ("character_ids", r"Received: \['feature_ids', 'word_ids'\]"),
        ("feature_ids", r"Add \['feature_ids'\]"),
    ],
)
def test_a_missing_input_is_named(left_out, message):
    inputs = sentences()
    del inputs[left_out]
    with pytest.raises(ValueError, match=message):
        outputs_of(made(), inputs)


def test_another_number_of_features_is_refused():
    inputs = sentences()
    inputs["feature_ids"] = inputs["feature_ids"][:, :, :1]
    with pytest.raises(ValueError, match="must have 2 features.*Received: 1"):
        outputs_of(made(), inputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_tags": 0}, "`num_tags`"),
        ({"num_tags": 1, "output": "crf"}, "`num_tags` must be 2"),
        ({"vocabulary_size": 2.5}, "`vocabulary_size`"),
        ({"units": -1}, "`units`"),
        ({"embedding_dim": 0}, "`embedding_dim`"),
        ({"num_layers": 0}, "`num_layers`"),
        ({"output": "argmax"}, r"`output` must be one of \('softmax', 'crf'\)"),
        ({"dropout": 1.0}, "`dropout`"),
        ({"word_dropout": -0.1}, "`word_dropout`"),
        ({"character_dropout": 1.5}, "`character_dropout`"),
        ({"allowed": (None, None, None)}, "`allowed` goes with output='crf'"),
        ({"character_vocabulary_size": 9, "character_encoder": "lstm"}, "'lstm'"),
        ({"num_frequencies": -1}, "`num_frequencies`"),
        ({"feature_sizes": (7, 0)}, "`feature_sizes`"),
        ({"feature_sizes": (7,), "feature_dim": 0}, "`feature_dim`"),
    ],
)
def test_wrong_options_are_refused_by_their_name(options, message):
    with pytest.raises(ValueError, match=message):
        kb.SequenceTagger(**{"num_tags": TAGS, "vocabulary_size": WORDS, **options})


@pytest.mark.parametrize("rate", [1.0, -0.1, 2])
def test_a_rate_out_of_its_range_is_refused(rate):
    with pytest.raises(ValueError, match="`rate`"):
        kb.TokenDropout(rate)
