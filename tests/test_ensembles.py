"""Several models as one."""

import keras
import numpy as np
import pytest
from arrays import assert_close, numbers

import keras_bahdanau as kb

SIZES = {"embedding_dim": 5, "units": 7}
SOURCE = np.array([[5, 4, 9, 3, 0], [4, 5, 6, 7, 3]])
LABELS = np.array([[4, 7, 3, 0], [5, 12, 8, 3]])
INPUTS = {
    "source_ids": SOURCE,
    "target_ids": np.pad(LABELS[:, :-1], ((0, 0), (1, 0)), constant_values=2),
}


def member(start, model_class=kb.RNNSearch, **options):
    keras.utils.set_random_seed(start)
    spread = keras.initializers.RandomNormal(stddev=1.0)
    options = {"kernel_initializer": spread, **SIZES, **options}
    model = model_class(11, 13, **options)
    model.build()
    return model


@pytest.fixture(scope="module")
def models():
    # Of different sizes: only the vocabularies are shared.
    return [member(1), member(2, units=8, attention_units=3)]


def softmax(logits):
    chances = np.exp(numbers(logits).astype("float64"))
    return chances / chances.sum(axis=-1, keepdims=True)


def test_its_probabilities_and_weights_are_the_means(models):
    both = kb.RNNEnsemble(models)
    expected = np.mean([softmax(model(INPUTS)) for model in models], axis=0)
    assert_close(both(INPUTS), np.log(expected), atol=1e-5)
    arrays = INPUTS["source_ids"], INPUTS["target_ids"]
    weights = np.mean([numbers(model.align(*arrays)) for model in models], axis=0)
    assert_close(both.align(*arrays), weights, atol=1e-6)


def test_what_a_search_finds_has_the_score_of_forced_decoding(models):
    both = kb.RNNEnsemble(models)
    found = both.generate(SOURCE, 6)
    forced = both.score(SOURCE, found.token_ids)
    assert_close(found.log_probs, forced.log_probs, atol=1e-4)
    assert_close(found.attention_weights, forced.attention_weights, atol=1e-5)
    # And it is not what one of them finds alone.
    assert (
        abs(
            numbers(models[0].score(SOURCE, found.token_ids).scores)
            - numbers(found.scores)
        ).max()
        > 0.01
    )


@pytest.mark.parametrize("model_class", [kb.RNNSearch, kb.RNNEncoderDecoder])
def test_an_ensemble_of_one_model_twice_is_that_model(model_class):
    model = member(3, model_class)
    both = kb.RNNEnsemble([model, model])
    assert both.has_attention == model.has_attention
    for one, other in zip(both.generate(SOURCE, 4), model.generate(SOURCE, 4)):
        assert_close(one, other, atol=1e-5)


def test_an_ensemble_is_saved_with_its_models(models, tmp_path):
    both = kb.RNNEnsemble(models)
    both(INPUTS)
    both.save(tmp_path / "both.keras")
    loaded = keras.saving.load_model(tmp_path / "both.keras")
    assert_close(loaded(INPUTS), both(INPUTS), atol=1e-6)
    assert [model.units for model in loaded.models] == [7, 8]


@pytest.mark.parametrize(
    "make, message",
    [
        (list, "must hold a model"),
        (lambda: [member(1), kb.RNNSearch(11, 17, **SIZES)], r"\[13, 17\]"),
        (lambda: [member(1), member(1, kb.RNNEncoderDecoder)], r"\[True, False\]"),
        (lambda: [member(1), keras.Sequential()], "source_vocabulary_size"),
    ],
)
def test_models_that_do_not_fit_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        kb.RNNEnsemble(make())


@pytest.mark.parametrize("files", [False, True], ids=["models", "files"])
def test_the_weights_of_an_average_are_the_means(files, tmp_path):
    models = [member(seed) for seed in (1, 2, 3)]
    before = [numbers(weight) for weight in models[0].weights]
    given = models
    if files:
        given = [tmp_path / f"{index}.keras" for index in range(3)]
        for model, path in zip(models, given):
            model.save(path)
    mean = kb.average_models(given)
    for parts in zip(mean.weights, *(model.weights for model in models)):
        found, *all_of_them = map(numbers, parts)
        assert_close(found, np.mean(all_of_them, axis=0), atol=1e-6)
    for weight, value in zip(models[0].weights, before):
        assert_close(weight, value, atol=0)


def test_whole_numbers_are_those_of_the_first_model():
    def counter(count):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Normalization()])
        model.weights[2].assign(count)
        return model

    mean = kb.average_models([counter(2), counter(4)])
    (number,) = [x for x in mean.weights if "int" in x.dtype]
    assert int(number) == 2


def test_the_average_is_compiled_like_the_first_model():
    models = [member(seed) for seed in (1, 2)]
    models[0].compile(**kb.modern_recipe())
    mean = kb.average_models(models)
    assert np.isfinite(mean.evaluate(INPUTS, LABELS, verbose=0)[0])


@pytest.mark.parametrize(
    "make, message",
    [
        (list, "must hold a model"),
        (lambda: [member(1), member(1, units=8)], "the same weights"),
        (lambda: [member(1), member(1, kb.RNNEncoderDecoder)], "the same weights"),
    ],
)
def test_models_of_other_weights_have_no_average(make, message):
    with pytest.raises(ValueError, match=message):
        kb.average_models(make())
