"""Maxout and the deep output, against plain loops and by their promises."""

import gradients
import keras
import numpy as np
import oracle
import pytest
from keras import ops

from keras_bahdanau.readout import Maxout, MaxoutReadout

B, T, U, M, D, L, V = 3, 5, 7, 2, 11, 13, 17
rng = np.random.default_rng(37)


def inputs(*leading):
    return [rng.normal(size=(*leading, size)).astype("float32") for size in (U, M, D)]


def scrambled(layer):
    layer.build([(None, None, size) for size in (U, M, D)])
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape) * 0.5)
    return layer


def number(tensor):
    return ops.convert_to_numpy(tensor)


def by_loops(layer, state, embedded, context):
    """The logits of each position, by plain loops."""
    U_o, V_o, C_o, b, W_o, b_o = (
        number(variable).astype("float64").T
        for variable in (
            layer.state_kernel,
            layer.embedding_kernel,
            layer.context_kernel,
            layer.bias,
            layer.output_kernel,
            layer.output_bias,
        )
    )
    logits = np.zeros(state.shape[:-1] + (V,))
    for index in np.ndindex(*state.shape[:-1]):
        logits[index] = oracle.readout(
            U_o, V_o, C_o, W_o, state[index], embedded[index], context[index], b, b_o
        )
    return logits


def test_maxout_keeps_the_larger_of_each_pair():
    x = [[1.0, 3.0, 7.0, 2.0, -5.0, -4.0]]
    np.testing.assert_array_equal(number(Maxout()(np.array(x))), [[3, 7, -4]])
    np.testing.assert_array_equal(number(Maxout(3)(np.array(x))), [[7, 2]])
    np.testing.assert_array_equal(number(Maxout(1)(np.array(x))), x)


@pytest.mark.parametrize("leading", [(), (T,), (T, 2)])
def test_maxout_takes_any_leading_axes(leading):
    x = rng.normal(size=(B, *leading, 6))
    expected = x.reshape(B, *leading, 3, 2).max(-1)
    np.testing.assert_allclose(number(Maxout()(x)), expected, rtol=1e-6)
    symbolic = Maxout()(keras.Input((None,) * len(leading) + (6,)))
    assert symbolic.shape == (None,) + (None,) * len(leading) + (3,)


def test_maxout_passes_the_mask_on():
    source = keras.Input((None,), dtype="int32")
    maxed = Maxout()(keras.layers.Embedding(11, 6, mask_zero=True)(source))
    pooled = keras.layers.GlobalAveragePooling1D()(maxed)
    model = keras.Model(source, pooled)
    expected = number(model(np.array([[3, 5]])))
    actual = number(model(np.array([[3, 5, 0, 0]])))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("leading", [(B,), (B, T), (B, 2, T)])
def test_the_readout_equals_plain_loops_with_any_leading_axes(leading):
    layer = scrambled(MaxoutReadout(V, L))
    x = inputs(*leading)
    np.testing.assert_allclose(number(layer(x)), by_loops(layer, *x), rtol=0, atol=1e-5)


def test_one_context_serves_all_steps_and_beams():
    layer = scrambled(MaxoutReadout(V, L))
    state, embedded, _ = inputs(B, T)
    _, _, context = inputs(B, 1)
    expected = by_loops(layer, state, embedded, np.repeat(context, T, axis=1))
    actual = number(layer([state, embedded, context]))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)
    symbols = [keras.Input((None, U)), keras.Input((T, M)), keras.Input((1, D))]
    assert layer(symbols).shape == (None, T, V)


def test_biases_can_be_left_out():
    layer = scrambled(MaxoutReadout(V, L, use_bias=False, pool_size=3))
    assert [weight.name for weight in layer.weights] == [
        "state_kernel",
        "embedding_kernel",
        "context_kernel",
        "output_kernel",
    ]
    assert layer.count_params() == (U + M + D) * 3 * L + L * V
    x = inputs(B)
    wide = sum(a @ number(kernel) for a, kernel in zip(x, layer.weights[:3]))
    expected = wide.reshape(B, L, 3).max(-1) @ number(layer.output_kernel)
    np.testing.assert_allclose(number(layer(x)), expected, rtol=0, atol=1e-5)


def tied_model():
    target = keras.Input((None,), dtype="int32")
    embedding = keras.layers.ReversibleEmbedding(V, M, mask_zero=True)
    embedded = embedding(target)
    state = keras.layers.GRU(U, return_sequences=True)(embedded)
    context = keras.layers.GRU(D, return_sequences=True)(embedded)
    layer = MaxoutReadout(V, M, embedding=embedding)
    return keras.Model(target, layer([state, embedded, context]))


def find(model, kind):
    (layer,) = [layer for layer in model.layers if isinstance(layer, kind)]
    return layer


def test_a_tied_readout_uses_the_embedding_as_its_output_matrix():
    embedding = keras.layers.ReversibleEmbedding(V, L)
    tied = scrambled(MaxoutReadout(V, L, embedding=embedding))
    free = scrambled(MaxoutReadout(V, L))
    kernels = [number(embedding.embeddings).T]
    for name in ("state_kernel", "embedding_kernel", "context_kernel", "bias"):
        getattr(free, name).assign(getattr(tied, name))
    free.output_kernel.assign(kernels[0])
    free.output_bias.assign(tied.output_bias)
    x = inputs(B, T)
    np.testing.assert_allclose(number(tied(x)), number(free(x)), rtol=0, atol=1e-5)
    assert tied.count_params() == free.count_params()


def test_saving_a_model_keeps_the_tie(tmp_path):
    model = tied_model()
    ids = np.array([[3, 5, 7], [2, 0, 0]])
    expected = number(model(ids))
    model.save(tmp_path / "tied.keras")
    loaded = keras.saving.load_model(tmp_path / "tied.keras")
    embedding = find(loaded, keras.layers.ReversibleEmbedding)
    assert find(loaded, MaxoutReadout).embedding is embedding
    assert loaded.count_params() == model.count_params()
    np.testing.assert_allclose(number(loaded(ids)), expected, rtol=0, atol=1e-6)
    embedding.embeddings.assign(number(embedding.embeddings) * 2)
    assert abs(number(loaded(ids)) - expected).max() > 1e-4


def test_a_tied_readout_trains_one_matrix():
    model = tied_model()
    embedding = find(model, keras.layers.ReversibleEmbedding)
    readout = find(model, MaxoutReadout)
    own = 4 * 2 + 1 + 2  # two GRUs of three, three kernels, two biases, one matrix
    assert len(model.trainable_weights) == 2 * 3 + 3 + 2 + 1 == own + 1
    before = number(embedding.embeddings).copy()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ids = np.array([[3, 5, 7], [2, 1, 0]])
    model.fit(ids, ids, verbose=0)
    assert (number(embedding.embeddings) != before).any()
    assert readout.embedding is embedding


def test_the_first_mask_passes_on():
    source = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(V, M, mask_zero=True)(source)
    state, context = keras.Input((None, U)), keras.Input((None, D))
    logits = MaxoutReadout(V, L)([state, embedded, context])
    pooled = keras.layers.GlobalAveragePooling1D()(logits)
    model = keras.Model([source, state, context], pooled)
    x = inputs(B, T)
    ids = rng.integers(1, V, (B, T))
    expected = number(model([ids, x[0], x[2]]))
    pad = [np.pad(a, ((0, 0), (0, 2), (0, 0)), constant_values=9) for a in x]
    actual = number(model([np.pad(ids, ((0, 0), (0, 2))), pad[0], pad[2]]))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


def test_dropout_acts_on_the_maxout_output_in_training_only():
    layer = MaxoutReadout(
        L, L, dropout=0.5, use_bias=False, output_initializer="identity", seed=3
    )
    x = inputs(B, T)
    kept = number(layer(x, training=False))
    dropped = number(layer(x, training=True))
    zero = dropped == 0
    assert 0 < zero.sum() < zero.size
    np.testing.assert_allclose(dropped[~zero], 2 * kept[~zero], rtol=1e-5)


@gradients.needs_float64
def test_gradients_match_finite_differences():
    layer = scrambled(MaxoutReadout(V, L, dtype="float64"))
    x = [ops.convert_to_tensor(a.astype("float64")) for a in inputs(B, T)]

    def loss():
        return ops.sum(ops.sin(layer(x)))

    gradients.assert_gradients_match_differences(loss, layer.trainable_variables)


def test_options_reach_the_weights():
    l2 = keras.regularizers.L2
    layer = MaxoutReadout(
        V,
        L,
        kernel_initializer="ones",
        output_initializer="ones",
        bias_initializer="ones",
        kernel_regularizer=l2(1.0),
        output_regularizer=l2(10.0),
        bias_regularizer=l2(100.0),
        kernel_constraint="non_neg",
        output_constraint="non_neg",
        bias_constraint="non_neg",
    )
    logits = number(layer([np.ones((B, size)) for size in (U, M, D)]))
    np.testing.assert_allclose(logits, np.full((B, V), L * (U + M + D + 1) + 1))
    expected = 2 * L * (U + M + D) + 10 * L * V + 100 * (2 * L + V)
    np.testing.assert_allclose(sum(map(number, layer.losses)), expected)
    assert all(weight.constraint is not None for weight in layer.weights)


def test_wrong_arguments_and_inputs_are_refused():
    with pytest.raises(ValueError, match="`pool_size` must be a positive integer"):
        Maxout(0)
    with pytest.raises(ValueError, match="a multiple of `pool_size`"):
        Maxout(2)(np.ones((B, 5)))
    with pytest.raises(ValueError, match="`units` must be a positive integer"):
        MaxoutReadout(V, 0)
    with pytest.raises(ValueError, match="`dropout` is the share"):
        MaxoutReadout(V, L, dropout=1.5)
    with pytest.raises(ValueError, match="must be a `keras.layers.ReversibleEmb"):
        MaxoutReadout(V, L, embedding=keras.layers.Embedding(V, L))
    with pytest.raises(ValueError, match=f"output_dim={L} \\(`units`\\)"):
        MaxoutReadout(V, L, embedding=keras.layers.ReversibleEmbedding(V, M))
    state, embedded, context = inputs(B, T)
    with pytest.raises(ValueError, match="takes a list"):
        MaxoutReadout(V, L)([state, embedded])
    with pytest.raises(ValueError, match="the same number of axes"):
        MaxoutReadout(V, L)([state, embedded, context[:, 0]])
