"""Models with weights of 8 bits, against plain NumPy."""

import keras
import numpy as np
import pytest
from arrays import assert_close, numbers, scrambled
from keras import ops

import keras_bahdanau as kb

V, W, M, U = 23, 29, 11, 7
IDS = np.array([[4, 9, 17, 3, 0], [5, 3, 0, 0, 0]])
BATCH = {"source_ids": IDS, "target_ids": IDS}


def make_model(model_class=kb.RNNSearch, **options):
    model = model_class(V, W, embedding_dim=M, units=U, seed=3, **options)
    model.build()
    return scrambled(model, 0.3)


def rounded(matrix, axis):
    """A matrix of 8-bit integers, and what it stands for."""
    scale = np.abs(matrix).max(axis, keepdims=True) / 127
    return np.round(matrix / scale), np.round(matrix / scale) * scale


def test_the_readout_multiplies_by_the_rounded_output_matrix():
    layer = kb.MaxoutReadout(W, 5)
    inputs = [ops.ones((2, 3, size)) for size in (U, M, 2 * U)]
    layer.build([tuple(part.shape) for part in inputs])
    scrambled(layer, 0.3)
    hidden = layer.hidden(layer.project(*inputs[1:]), inputs[0])
    integers, kernel = rounded(numbers(layer.output_kernel), axis=0)
    expected = numbers(hidden) @ kernel + numbers(layer.output_bias)
    layer.quantize("int8")
    assert_close(layer(inputs), expected)
    assert keras.backend.standardize_dtype(layer.output_kernel.dtype) == "int8"
    np.testing.assert_array_equal(numbers(layer.output_kernel), integers)


@pytest.mark.parametrize("model_class", [kb.RNNSearch, kb.RNNEncoderDecoder])
@pytest.mark.parametrize("tied", [False, True], ids=["free", "tied"])
def test_a_quantised_model_computes_what_its_rounded_weights_do(model_class, tied):
    model, other = (make_model(model_class, tie_embeddings=tied) for _ in range(2))
    for weight, axis in (
        (other.source_embedding.embeddings, 1),
        (other.target_embedding.embeddings, 1),
        *([] if tied else [(other.readout.output_kernel, 0)]),
    ):
        weight.assign(rounded(numbers(weight), axis)[1].astype("float32"))
    model.quantize("int8")
    assert_close(model(BATCH), numbers(other(BATCH)), 1e-4)
    found, expected = (one.beam_search(IDS, 3, 6) for one in (model, other))
    np.testing.assert_array_equal(
        ops.convert_to_numpy(found.token_ids), ops.convert_to_numpy(expected.token_ids)
    )
    kinds = [keras.backend.standardize_dtype(one.dtype) for one in model.weights]
    assert kinds.count("int8") == (2 if tied else 3)


@pytest.mark.parametrize("tied", [False, True], ids=["free", "tied"])
def test_a_quantised_model_that_was_trained_saves_and_loads(tied, tmp_path):
    model = make_model(tie_embeddings=tied)
    model.compile(**kb.modern_recipe())
    model.fit(BATCH, IDS, verbose=0)
    model.quantize("int8")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.quantized == "int8"
    assert not loaded.compiled
    loaded.compile(loss=kb.TokenCrossentropy())
    assert np.isfinite(loaded.evaluate(BATCH, IDS, verbose=0))
    assert_close(loaded(BATCH), numbers(model(BATCH)), 1e-6)


def test_a_model_is_quantised_once_and_to_8_bits():
    model = make_model()
    with pytest.raises(ValueError, match="int4"):
        model.quantize("int4")
    model.quantize("int8")
    with pytest.raises(ValueError, match="already quantized"):
        model.quantize("int8")


def test_the_readout_refuses_another_mode_and_a_subclass():
    class Own(kb.MaxoutReadout):
        """A readout of one's own."""

    for layer, mode in ((kb.MaxoutReadout(W, 5), "float8"), (Own(W, 5), "int8")):
        layer.build([(2, U), (2, M), (2, 2 * U)])
        with pytest.raises(NotImplementedError, match="MaxoutReadout itself"):
            layer.quantize(mode)
