"""The loss against its closed form, plain loops, Keras' own loss, and in training."""

import subprocess
import sys

import gradients
import keras
import numpy as np
import oracle
import pytest
from arrays import numbers
from keras import ops

from keras_bahdanau.losses import TokenCrossentropy

B, T, V = 3, 5, 7
rng = np.random.default_rng(41)
LOGITS = (3 * rng.normal(size=(B, T, V))).astype("float32")
LABELS = rng.integers(1, V, (B, T)).astype("int32")
LABELS[1, 3:] = 0
LABELS[2, 1:] = 0
WEIGHTS = rng.uniform(0.5, 2.0, (B, T)).astype("float32")


def loss(logits=LOGITS, labels=LABELS, sample_weight=None, **options):
    value = TokenCrossentropy(**options)(
        ops.convert_to_tensor(labels), ops.convert_to_tensor(logits), sample_weight
    )
    return numbers(value)


def test_uniform_logits_cost_the_logarithm_of_the_vocabulary():
    for smoothing in (0.0, 0.3):
        value = loss(np.zeros((B, T, V), "float32"), label_smoothing=smoothing)
        np.testing.assert_allclose(value, np.log(V), rtol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_it_equals_plain_loops(smoothing, weights):
    expected = oracle.crossentropy(
        LOGITS.astype("float64"), LABELS, smoothing, weights=weights
    )
    value = loss(sample_weight=weights, label_smoothing=smoothing)
    np.testing.assert_allclose(value, expected, rtol=1e-6)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "mean"])
@pytest.mark.parametrize("weights", [None, WEIGHTS, WEIGHTS[:, 0]])
def test_an_average_over_sequences_has_the_sum_of_each(weights, reduction):
    labels = np.concatenate([LABELS, np.zeros((2, T), "int32")])  # two of padding
    logits = np.concatenate([LOGITS, LOGITS[:2]])
    total = 0.0
    for b in range(B):
        for t in range(T):
            if LABELS[b, t]:
                row = LOGITS[b, t].astype("float64")
                weight = 1.0 if weights is None else np.reshape(weights, (B, -1))[b]
                weight = np.broadcast_to(weight, T)[t]
                total += weight * (np.log(np.exp(row).sum()) - row[LABELS[b, t]])
    if weights is not None:
        weights = np.concatenate([weights, weights[:2]])
    options = {"average_over": "sequences", "reduction": reduction}
    value = loss(logits, labels, weights, **options)
    np.testing.assert_allclose(value, total / B, rtol=1e-6)
    assert loss(logits, 0 * labels, **options) == 0


def test_it_equals_keras_crossentropy_with_smoothing_on_one_hot_labels():
    keras_loss = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=0.1
    )
    real = LABELS != 0
    expected = keras_loss(np.eye(V, dtype="float32")[LABELS[real]], LOGITS[real])
    value = loss(label_smoothing=0.1)
    np.testing.assert_allclose(value, numbers(expected), rtol=1e-6)


def test_the_mask_of_the_logits_counts_as_padding():
    source = np.where(LABELS == LABELS[0, 1], 0, 3)
    embedding = keras.layers.Embedding(11, V, mask_zero=True)
    masked = embedding(ops.convert_to_tensor(source))
    labels = np.where(source == 0, 0, LABELS)
    plain = numbers(embedding(ops.convert_to_tensor(source)))
    value = numbers(TokenCrossentropy()(ops.convert_to_tensor(LABELS), masked))
    np.testing.assert_allclose(value, loss(plain, labels), rtol=1e-6)


def test_padding_and_its_logits_change_nothing():
    logits = np.pad(LOGITS, ((0, 1), (0, 2), (0, 0)), constant_values=50.0)
    logits[:, :T][np.pad(LABELS, ((0, 1), (0, 0))) == 0] = 1e30
    labels = np.pad(LABELS, ((0, 1), (0, 2)))
    np.testing.assert_allclose(loss(logits, labels), loss(), rtol=1e-6)


def test_another_padding_label_or_none_may_be_chosen():
    labels = np.where(LABELS == 0, -1, LABELS - 1)
    with_minus = loss(np.roll(LOGITS, -1, axis=-1), labels, pad_id=-1)
    np.testing.assert_allclose(with_minus, loss(), rtol=1e-6)
    expected = oracle.crossentropy(LOGITS.astype("float64"), LABELS, pad_id=None)
    np.testing.assert_allclose(loss(pad_id=None), expected, rtol=1e-6)


def test_padding_may_be_no_word_at_all():
    """-100 is the label that torch and Hugging Face leave out."""
    for pad_id in (-100, V, 10**6):
        labels = np.where(LABELS == 0, pad_id, LABELS)
        for smoothing in (0.0, 0.1):
            options = {"label_smoothing": smoothing, "sample_weight": WEIGHTS}
            value = loss(labels=labels, pad_id=pad_id, **options)
            np.testing.assert_allclose(value, loss(**options), rtol=1e-6)


def test_a_real_label_that_is_no_word_gives_nan_and_spoils_no_gradient():
    labels = LABELS.copy()
    labels[0, :4] = -100, -1, V, V + 1
    words = labels == LABELS
    each = loss(labels=labels, reduction=None)
    np.testing.assert_array_equal(np.isnan(each), ~words)
    for reduction in ("sum_over_batch_size", "mean_with_sample_weight", "sum"):
        assert np.isnan(loss(labels=labels, reduction=reduction))
    logits, crossentropy = keras.Variable(LOGITS), TokenCrossentropy(0.1, None, "sum")
    found = [
        gradients.gradients(
            lambda given=given: crossentropy(given, ops.convert_to_tensor(logits)),
            [logits],
        )[0]
        for given in (labels, LABELS)
    ]
    assert np.isfinite(found[0]).all()
    np.testing.assert_allclose(found[0][words], found[1][words], atol=1e-6)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_every_reduction_says_what_it_does(weights):
    real = LABELS != 0
    factors = np.ones((B, T)) if weights is None else weights
    each = loss(sample_weight=weights, reduction=None)
    assert each.shape == (B, T) and (each[~real] == 0).all()
    total = loss(sample_weight=weights, reduction="sum")
    np.testing.assert_allclose(total, each.sum(), rtol=1e-6)
    for reduction in ("sum_over_batch_size", "mean"):
        mean = loss(sample_weight=weights, reduction=reduction)
        np.testing.assert_allclose(mean, each.sum() / real.sum(), rtol=1e-6)
    weighted = loss(sample_weight=weights, reduction="mean_with_sample_weight")
    expected = each.sum() / (factors * real).sum()
    np.testing.assert_allclose(weighted, expected, rtol=1e-6)


def test_a_weight_per_sequence_weighs_all_its_tokens():
    one, three = loss(sample_weight=WEIGHTS[:, 0]), loss(sample_weight=WEIGHTS[:, :1])
    expected = loss(sample_weight=np.repeat(WEIGHTS[:, :1], T, axis=1))
    np.testing.assert_allclose([one, three], [expected] * 2, rtol=1e-6)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", None])
def test_a_batch_of_padding_costs_nothing_and_has_no_gradient(reduction):
    logits = keras.Variable(LOGITS)
    crossentropy = TokenCrossentropy(0.1, reduction=reduction)
    labels = ops.zeros((B, T), "int32")

    def value():
        return ops.sum(crossentropy(labels, ops.convert_to_tensor(logits)))

    assert numbers(value()) == 0
    (gradient,) = gradients.gradients(value, [logits])
    np.testing.assert_array_equal(gradient, np.zeros((B, T, V)))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_is_the_difference_of_the_distributions(smoothing):
    logits = keras.Variable(LOGITS)
    crossentropy = TokenCrossentropy(smoothing)
    labels = ops.convert_to_tensor(LABELS)
    (gradient,) = gradients.gradients(
        lambda: crossentropy(labels, ops.convert_to_tensor(logits)), [logits]
    )
    target = (1 - smoothing) * np.eye(V)[LABELS] + smoothing / V
    powers = np.exp(LOGITS.astype("float64"))
    expected = powers / powers.sum(-1, keepdims=True) - target
    expected = np.where((LABELS != 0)[..., None], expected, 0) / (LABELS != 0).sum()
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_logits_are_summed_in_float32(dtype):
    logits = ops.cast(ops.convert_to_tensor(LOGITS), dtype)
    value = TokenCrossentropy(0.1)(ops.convert_to_tensor(LABELS), logits)
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    rounded = numbers(ops.cast(logits, "float32"))
    expected = loss(rounded, label_smoothing=0.1)
    np.testing.assert_allclose(numbers(value), expected, rtol=1e-6)


def test_labels_keep_their_values_where_floats_are_short():
    keras.config.set_floatx("bfloat16")
    labels, logits = np.array([[257]]), np.zeros((1, 1, 263), "float32")
    logits[0, 0, 257] = 50.0
    np.testing.assert_allclose(loss(logits, labels), 0.0, atol=1e-6)


@gradients.needs_float64
def test_float64_logits_are_summed_in_float64():
    logits = LOGITS.astype("float64")
    expected = oracle.crossentropy(logits, LABELS, 0.1)
    np.testing.assert_allclose(loss(logits, label_smoothing=0.1), expected, rtol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_fit_and_evaluate_report_the_same_number(masked, weights):
    embedding = keras.layers.Embedding(V, V, mask_zero=masked)
    model = keras.Sequential([keras.Input((None,), dtype="int32"), embedding])
    embedding.embeddings.assign(rng.normal(size=(V, V)))
    crossentropy = TokenCrossentropy(0.1)
    model.compile(keras.optimizers.SGD(0.0), loss=crossentropy)
    logits = numbers(embedding(LABELS))
    expected = loss(logits, sample_weight=weights, label_smoothing=0.1)
    history = model.fit(LABELS, LABELS, batch_size=B, sample_weight=weights, verbose=0)
    value = model.evaluate(
        LABELS, LABELS, batch_size=B, sample_weight=weights, verbose=0
    )
    np.testing.assert_allclose([history.history["loss"][0], value], expected, rtol=1e-5)


def test_the_mask_alone_counts_in_fit_and_evaluate():
    """Keras keeps masks elsewhere for a traced tensor of JAX than for any other."""
    source, labels = LABELS, np.where(LABELS == 0, 3, LABELS)
    embedding = keras.layers.Embedding(V, V, mask_zero=True)
    model = keras.Sequential([keras.Input((None,), dtype="int32"), embedding])
    embedding.embeddings.assign(np.eye(V))
    model.compile(keras.optimizers.SGD(0.0), loss=TokenCrossentropy())
    logits = numbers(embedding(source))
    expected = loss(logits, np.where(source == 0, 0, labels))
    assert abs(expected - loss(logits, labels)) > 0.1
    value = model.evaluate(source, labels, batch_size=B, verbose=0)
    history = model.fit(source, labels, batch_size=B, verbose=0).history
    np.testing.assert_allclose([history["loss"][0], value], expected, rtol=1e-5)


@pytest.mark.parametrize("order", [1, -1])
def test_weights_may_change_their_rank_between_calls(order):
    model = keras.Sequential(
        [keras.Input((None,), dtype="int32"), keras.layers.Embedding(V, V)]
    )
    model.compile(loss=TokenCrossentropy())
    logits = model.predict(LABELS, verbose=0)
    for weights in (WEIGHTS[:, 0], WEIGHTS, WEIGHTS[:, :1], None)[::order]:
        value = model.evaluate(LABELS, LABELS, sample_weight=weights, verbose=0)
        expected = loss(logits, sample_weight=weights)
        np.testing.assert_allclose(value, expected, rtol=1e-5)


REPLICAS = """
import numpy as np, tensorflow as tf, keras_bahdanau as kb
device = tf.config.list_physical_devices("CPU")[0]
logical = [tf.config.LogicalDeviceConfiguration() for _ in range(2)]
tf.config.set_logical_device_configuration(device, logical)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
labels, logits = tf.constant([[1, 0]]), tf.constant([[[1.0, 2.0], [0.0, 0.0]]])
for reduction in ("sum_over_batch_size", "mean", "mean_with_sample_weight", "sum"):
    loss = kb.TokenCrossentropy(reduction=reduction)
    alone = float(loss(labels, logits))
    for value in strategy.run(loss, (labels, logits)).values:
        print(reduction, round(alone / float(value), 4))
"""


@pytest.mark.tf_only
def test_under_a_strategy_each_replica_gives_its_share_of_the_mean():
    done = subprocess.run(
        [sys.executable, "-c", REPLICAS], capture_output=True, text=True, check=True
    )
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) == 8
    for reduction, ratio in found:
        assert float(ratio) == (1.0 if reduction == "sum" else 2.0)


def test_training_lowers_it():
    model = keras.Sequential(
        [keras.Input((None,), dtype="int32"), keras.layers.Embedding(V, V)]
    )
    model.compile(keras.optimizers.Adam(0.1), loss=TokenCrossentropy())
    history = model.fit(LABELS, LABELS, epochs=5, verbose=0).history["loss"]
    assert sorted(history, reverse=True) == history and history[-1] < 0.8 * history[0]


def test_it_survives_its_config_and_a_saved_model(tmp_path):
    sequences = TokenCrossentropy(average_over="sequences")
    copy = TokenCrossentropy.from_config(sequences.get_config())
    assert copy.average_over == "sequences"
    crossentropy = TokenCrossentropy(0.2, pad_id=3, reduction="sum", name="nll")
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(crossentropy)
    )
    assert copy.get_config() == crossentropy.get_config()
    assert (copy.label_smoothing, copy.pad_id) == (0.2, 3)
    assert (copy.reduction, copy.name) == ("sum", "nll")
    model = keras.Sequential([keras.Input((T,)), keras.layers.Dense(V)])
    model.compile("sgd", crossentropy)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.loss.get_config() == crossentropy.get_config()


def test_wrong_arguments_and_inputs_are_refused():
    with pytest.raises(ValueError, match="`label_smoothing` must lie in"):
        TokenCrossentropy(1.0)
    with pytest.raises(ValueError, match="`average_over` must be one of"):
        TokenCrossentropy(average_over="words")
    for reduction in (None, "sum", "mean_with_sample_weight"):
        with pytest.raises(ValueError, match="over sequences is a mean"):
            TokenCrossentropy(average_over="sequences", reduction=reduction)
    with pytest.raises(ValueError, match="one axis less than the logits"):
        loss(labels=np.eye(V)[LABELS])
    with pytest.raises(ValueError, match="one axis less than the logits"):
        loss(labels=LABELS[..., None])
    with pytest.raises(ValueError, match="one weight per sequence"):
        loss(sample_weight=np.ones((B, T, V)))
