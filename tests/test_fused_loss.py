"""The loss without logits: the numbers of the plain one, part by part."""

import keras
import numpy as np
import pytest
from arrays import assert_close, numbers, values
from gradients import gradients
from keras import ops
from traces import made_by_the_loop

import keras_bahdanau as kb
from keras_bahdanau import fused_loss
from keras_bahdanau.fused_loss import output_losses, sampled_losses

N, L, V = 11, 5, 13
LABELS = np.array([1, 2, 0, 12, 7, 7, 3, 0, 5, 11, 4], "int32")
WEIGHTS = np.array([1, 2, 0, 0.5, 1, 1, 1, 0, 3, 1, 1], "float32")
IDS = {
    "source_ids": np.array([[5, 6, 3, 0], [7, 8, 9, 3], [4, 3, 0, 0]], "int32"),
    "target_ids": np.array([[2, 4, 5], [2, 6, 0], [2, 7, 8]], "int32"),
}
TARGETS = np.array([[4, 5, 3], [6, 3, 0], [7, 8, 3]], "int32")


def plain(hidden, kernel, bias, smoothing):
    logits = hidden.astype("float64") @ kernel + bias
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    own = -log_probs[np.arange(N), LABELS]
    return (1 - smoothing) * own - smoothing * log_probs.mean(-1), own, log_probs


@pytest.mark.parametrize("chunks", [1, 3, 4, 11, 20, None])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_losses_and_gradients_are_those_of_all_logits(chunks, smoothing, monkeypatch):
    # So that the number of parts that is chosen is not one.
    monkeypatch.setattr(fused_loss, "LOGITS_OF_A_PART", 4 * V)
    hidden, kernel, bias = values(N, L), values(L, V, seed=2), values(V, seed=3)
    variables = [keras.Variable(part) for part in (hidden, kernel, bias)]

    def parts():
        rows, *weights = (ops.convert_to_tensor(one) for one in variables)
        return output_losses(
            rows,
            LABELS,
            WEIGHTS,
            *weights,
            label_smoothing=smoothing,
            num_chunks=chunks,
        )

    losses, own, log_probs = plain(hidden, kernel, bias, smoothing)
    total, found, behind = (numbers(part) for part in parts())
    assert_close(total, (losses * WEIGHTS).sum())
    assert_close(found, own)
    assert_close(behind, log_probs.max(-1) - log_probs[np.arange(N), LABELS])
    wanted = np.exp(log_probs) - smoothing / V
    wanted[np.arange(N), LABELS] -= 1 - smoothing
    wanted = wanted * WEIGHTS[:, None] * 3.0
    gradient = gradients(lambda: 3.0 * parts()[0], variables)
    expected = [wanted @ kernel.T, hidden.T @ wanted, wanted.sum(0)]
    for one, other in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)


def test_no_tensor_has_the_size_of_all_logits():
    """Read from graphs; with torch, which has none, from what is made."""
    backend = keras.backend.backend()
    sizes = set()
    arrays = values(24, L), values(L, V, seed=2), values(V, seed=3)

    def total(*tensors):
        rows, *weights = tensors
        labels, ones = np.ones(24, "int32"), np.ones(24, "float32")
        return output_losses(rows, labels, ones, *weights, num_chunks=4)[0]

    if backend == "jax":
        import jax

        text = jax.jit(jax.grad(total, (0, 1, 2))).lower(*arrays).as_text()
        assert f"{6}x{V}x" in text and f"{24}x{V}x" not in text
    elif backend == "tensorflow":
        import tensorflow as tf

        @tf.function
        def gradient(*tensors):
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                value = total(*tensors)
            return tape.gradient(value, tensors)

        graph = gradient.get_concrete_function(*map(tf.constant, arrays)).graph
        for one in [graph, *(f.graph for f in graph._functions.values())]:
            for node in one.get_operations():
                sizes |= {tuple(out.shape) for out in node.outputs if out.shape.rank}
        assert (6, V) in sizes and (24, V) not in sizes
    else:
        tensors = list(map(ops.convert_to_tensor, arrays))
        assert made_by_the_loop(lambda: total(*tensors), (6, V))
        assert not made_by_the_loop(lambda: total(*tensors), (24, V))


@pytest.mark.parametrize("rows, parts", [(0, 1), (1, 1), (3, 1), (4, 2), (11, 3)])
def test_parts_are_no_larger_than_they_may_be(rows, parts, monkeypatch):
    monkeypatch.setattr(fused_loss, "LOGITS_OF_A_PART", 4 * V + 1)
    chunks, count = fused_loss._in_chunks(ops.zeros((rows, L)), None, V)
    assert int(count) == rows
    assert chunks.shape[1] == parts and chunks.shape[0] <= 4
    # A vocabulary that is larger than a part by itself: one token at a time.
    chunks, _ = fused_loss._in_chunks(ops.zeros((rows, L)), None, 5 * V)
    assert chunks.shape[0] <= 1


def two_models(**options):
    """The same model twice, one of them under the loss without logits."""
    models = [
        kb.RNNSearch(11, 13, embedding_dim=5, units=7, dropout=0.0, **options)
        for _ in range(2)
    ]
    for model in models:
        model.build()
    models[1].set_weights(models[0].get_weights())
    return models


@pytest.mark.parametrize("tie", [False, True], ids=["own", "tied"])
@pytest.mark.parametrize(
    ("weights", "average"),
    [(None, "tokens"), (np.array([1.0, 0.5, 2.0]), "tokens"), (None, "sequences")],
)
def test_fit_and_evaluate_give_what_the_plain_loss_gives(tie, weights, average):
    model, covered = two_models(tie_embeddings=tie)
    trainer = kb.FusedLossModel(covered, 0.1, num_chunks=4, average_over=average)
    model.compile(
        keras.optimizers.SGD(0.5),
        kb.TokenCrossentropy(0.1, average_over=average),
        metrics=[kb.Perplexity(name="perplexity"), kb.TokenAccuracy(name="accuracy")],
    )
    trainer.compile(keras.optimizers.SGD(0.5))
    histories = [
        one.fit(
            IDS, TARGETS, sample_weight=weights, epochs=3, batch_size=3, verbose=0
        ).history
        for one in (model, trainer)
    ]
    for name in ("loss", "perplexity", "accuracy"):
        np.testing.assert_allclose(*(one[name] for one in histories), rtol=1e-4)
    for one, other in zip(model.get_weights(), covered.get_weights(), strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-5)
    reports = [
        one.evaluate(IDS, TARGETS, batch_size=2, verbose=0, return_dict=True)
        for one in (model, trainer)
    ]
    for name in ("perplexity", "accuracy"):
        np.testing.assert_allclose(*(one[name] for one in reports), rtol=1e-4)


def test_a_sample_of_the_whole_vocabulary_is_near_to_all_of_it():
    """The mean over samples of the estimate comes near to the exact loss."""
    hidden, kernel, bias = values(N, L), values(L, V, seed=2), values(V, seed=3)
    exact = plain(hidden, kernel, bias, 0.0)[1]
    tensors = [ops.convert_to_tensor(part) for part in (hidden, kernel, bias)]
    losses = numbers(
        sampled_losses(tensors[0], ops.convert_to_tensor(LABELS), *tensors[1:], 4000, 1)
    )
    # The label stands for itself and is left out of the sample.
    np.testing.assert_allclose(losses, exact, rtol=0.1, atol=0.1)


def test_training_on_a_sample_learns_and_is_evaluated_exactly():
    model = two_models()[0]
    trainer = kb.FusedLossModel(model, num_sampled=8, seed=3)
    trainer.compile(keras.optimizers.Adam(0.02))
    before = trainer.evaluate(IDS, TARGETS, verbose=0, return_dict=True)
    trainer.fit(IDS, TARGETS, epochs=30, verbose=0)
    after = trainer.evaluate(IDS, TARGETS, verbose=0, return_dict=True)
    assert after["loss"] < 0.5 * before["loss"]
    np.testing.assert_allclose(np.log(after["perplexity"]), after["loss"], rtol=1e-4)


@pytest.mark.parametrize("num_sampled", [None, 5])
@pytest.mark.parametrize("label", [-1, 13])
def test_a_label_that_is_no_word_makes_the_loss_nan_and_changes_little(
    label, num_sampled
):
    trainer = kb.FusedLossModel(two_models()[0], num_sampled=num_sampled)
    trainer.compile(keras.optimizers.SGD(0.1))
    labels = TARGETS.copy()
    labels[0, 1] = label
    assert np.isnan(trainer.train_on_batch(IDS, labels)[0])
    assert all(np.isfinite(weight).all() for weight in trainer.get_weights())


def test_it_saves_with_the_model_in_it(tmp_path):
    trainer = kb.FusedLossModel(two_models()[0], 0.1, num_chunks=3)
    trainer.compile(keras.optimizers.Adam(0.01))
    trainer.fit(IDS, TARGETS, verbose=0)
    trainer.save(tmp_path / "trainer.keras")
    again = keras.saving.load_model(tmp_path / "trainer.keras")
    assert_close(numbers(again.model(IDS)), numbers(trainer.model(IDS)))
    assert again.get_config() == trainer.get_config()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_smoothing": 1.0}, "must lie in"),
        ({"num_chunks": 0}, "positive integer"),
        ({"num_sampled": -1}, "positive integer"),
        ({"num_sampled": 5, "label_smoothing": 0.1}, "no labels to smooth"),
    ],
)
def test_wrong_arguments_of_the_loss_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        kb.FusedLossModel(two_models()[0], **options)
    with pytest.raises(ValueError, match="RNNSearch or RNNEncoderDecoder"):
        kb.FusedLossModel(keras.layers.Dense(3))
