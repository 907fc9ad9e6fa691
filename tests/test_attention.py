"""Additive attention against Keras' own, plain loops and closed forms."""

import keras
import numpy as np
import oracle
import pytest
from arrays import assert_close, numbers, real_until, scrambled, values
from gradients import assert_gradients_match_differences, gradients, needs_float64
from keras import ops

import keras_bahdanau as kb
from keras_bahdanau.scores import flatten_positions

B, T, S, QUERY, VALUE, KEY, A = 2, 3, 7, 5, 11, 13, 17


def built(layer, *shapes):
    layer.build(list(shapes))
    return scrambled(layer)


def identity(units):
    """An attention whose projections change nothing and whose v is all ones."""
    return kb.BahdanauAttention(
        units,
        query_initializer="identity",
        key_initializer="identity",
        score_initializer="ones",
    )


def test_it_gives_the_published_values_of_additive_attention():
    query, key = [[[1.0, 0.0], [0.0, 1.0]]], [[[0.0, 1.0], [1.0, 0.0]]]
    value = [[[1.0, 2.0], [3.0, 4.0]]]
    context, weights = identity(2)(
        [np.array(query), np.array(value), np.array(key)], return_attention_scores=True
    )
    assert_close(context, np.array([[[1.727, 2.727], [2.272, 3.272]]]), atol=1e-3)
    assert_close(weights, np.array([[[0.636, 0.363], [0.363, 0.636]]]), atol=1e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_with_identity_kernels_it_is_keras_additive_attention(causal):
    query, value = values(B, S, A), values(B, S, A, seed=4)
    masks = [real_until([7, 5], S), real_until([7, 2], S)]
    call = {"mask": masks, "use_causal_mask": causal, "return_attention_scores": True}
    keras_layer = keras.layers.AdditiveAttention(use_scale=False)
    for actual, expected in zip(
        identity(A)([query, value], **call), keras_layer([query, value], **call)
    ):
        assert_close(actual, expected)


def test_it_takes_the_place_of_additive_attention_in_a_model():
    def model(attention):
        ids = keras.Input((None,), dtype="int32")
        embedded = keras.layers.Embedding(
            19,
            A,
            mask_zero=True,
            embeddings_initializer=keras.initializers.RandomNormal(seed=3),
        )(ids)
        outputs = attention([embedded, embedded])
        return keras.Model(ids, keras.layers.GlobalAveragePooling1D()(outputs))

    ids = np.array([[5, 3, 2, 0, 0], [1, 2, 3, 4, 5]])
    assert_close(
        model(identity(A))(ids),
        model(keras.layers.AdditiveAttention(use_scale=False))(ids),
    )


@pytest.mark.parametrize("key", [None, KEY], ids=["value_as_key", "own_key"])
def test_it_equals_plain_loops(key):
    layer = built(
        kb.BahdanauAttention(A), (B, T, QUERY), (B, S, VALUE), (B, S, key or VALUE)
    )
    query, value = values(B, T, QUERY), values(B, S, VALUE)
    keys = value if key is None else values(B, S, key, seed=5)
    mask = real_until([7, 4], S)
    inputs = [query, value] if key is None else [query, value, keys]
    context, weights = layer(inputs, mask=[None, mask], return_attention_scores=True)
    W_a, U_a, v_a = (
        numbers(kernel).T
        for kernel in (layer.query_kernel, layer.key_kernel, layer.score_kernel)
    )
    for b in range(B):
        for t in range(T):
            _, expected, _ = oracle.attend(W_a, U_a, v_a, query[b, t], keys[b], mask[b])
            np.testing.assert_allclose(numbers(weights[b, t]), expected, atol=1e-5)
            np.testing.assert_allclose(
                numbers(context[b, t]), expected @ value[b], atol=1e-4
            )


def test_a_bias_moves_the_query():
    shapes = (B, T, A), (B, S, A)
    biased = built(kb.BahdanauAttention(A, use_bias=True), *shapes)
    plain = kb.BahdanauAttention(A, query_initializer="identity")
    plain.build(list(shapes))
    for name in ("key_kernel", "score_kernel"):
        getattr(plain, name).assign(getattr(biased, name))
    query, value = values(B, T, A), values(B, S, A)
    moved = query @ numbers(biased.query_kernel) + numbers(biased.bias)
    assert_close(biased([query, value]), plain([moved, value]), atol=1e-5)


def test_weight_norm_fixes_the_length_of_the_score_vector():
    shapes = (B, T, QUERY), (B, S, VALUE)
    normed = built(kb.BahdanauAttention(A, weight_norm=True), *shapes)
    plain = built(kb.BahdanauAttention(A), *shapes)
    vector = numbers(normed.score_kernel)
    gain = numbers(normed.score_gain)
    plain.score_kernel.assign(gain * vector / np.linalg.norm(vector))
    inputs = [values(B, T, QUERY), values(B, S, VALUE)]
    for name in ("query_kernel", "key_kernel"):
        getattr(plain, name).assign(getattr(normed, name))
    assert_close(normed(inputs), plain(inputs), atol=1e-5)


def test_keys_projected_once_serve_any_number_of_calls():
    layer = built(kb.BahdanauAttention(A), (B, T, QUERY), (B, S, VALUE))
    query, value, mask = values(B, T, QUERY), values(B, S, VALUE), real_until([7, 4], S)
    contexts, weights = layer(
        [query, value], mask=[None, mask], return_attention_scores=True
    )
    keys = layer.project_keys(value)
    together = layer.attend(query, value, keys, mask)
    assert_close(together[0], contexts)
    assert_close(together[1], weights)
    for t in range(T):
        context, one = layer.attend(query[:, t], value, keys, mask)
        assert_close(context, contexts[:, t])
        assert_close(one, weights[:, t])


def test_a_grid_is_read_as_the_sequence_of_its_cells():
    layer = built(kb.BahdanauAttention(A), (B, QUERY), (B, 3, 2, VALUE))
    query, grid = values(B, QUERY), values(B, 3, 2, VALUE)
    mask = np.arange(6).reshape(3, 2) < np.array([6, 4])[:, None, None]
    context, weights = layer(
        [query, grid], mask=[None, mask], return_attention_scores=True
    )
    flat, flat_mask = flatten_positions(ops.convert_to_tensor(grid), mask)
    assert tuple(flat_mask.shape) == (B, 6)
    expected, flat_weights = layer(
        [query, flat], mask=[None, flat_mask], return_attention_scores=True
    )
    assert_close(context, expected)
    assert tuple(weights.shape) == (B, 3, 2)
    assert_close(weights, numbers(flat_weights).reshape(B, 3, 2))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "mixed_float16"])
@pytest.mark.parametrize("size", [1.0, 300.0], ids=["small", "large"])
def test_padding_gets_exactly_nothing_in_every_dtype(dtype, size):
    """Scores reach several hundred; half precision ends at 65504."""
    layer = built(kb.BahdanauAttention(A, dtype=dtype), (B, QUERY), (B, S, VALUE))
    layer.score_kernel.assign(np.full(A, -size))
    mask = real_until([4, 0], S)
    context, weights = layer(
        [values(B, QUERY), values(B, S, VALUE)],
        mask=[None, mask],
        return_attention_scores=True,
    )
    weights, context = numbers(weights), numbers(context)
    assert not weights[~mask].any()
    assert np.isfinite(context).all() and np.isfinite(weights).all()
    np.testing.assert_allclose(weights[0].sum(), 1.0, atol=1e-2)
    assert not context[1].any()


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "mixed_float16",
        "mixed_bfloat16",
        "float16",
        "bfloat16",
        pytest.param("float64", marks=needs_float64),
    ],
)
def test_gradients_are_finite_where_all_is_padding(dtype):
    layer = built(kb.BahdanauAttention(A, dtype=dtype), (B, QUERY), (B, S, VALUE))
    query, value = values(B, QUERY), values(B, S, VALUE)

    def loss(mask=None):
        mask = real_until([7, 0], S) if mask is None else mask
        context = layer([query, value], mask=[None, mask])
        return ops.sum(ops.square(ops.cast(context, "float32")))

    found = gradients(loss, layer.trainable_variables)
    assert all(np.isfinite(gradient).all() for gradient in found)
    assert any(np.abs(gradient).max() > 0 for gradient in found)
    nothing = gradients(lambda: loss(real_until([0, 0], S)), layer.trainable_variables)
    assert not any(gradient.any() for gradient in nothing)


def test_scores_are_in_float32_under_mixed_precision():
    """In half precision scores near 200 would be 0.125 apart, or 1 in bfloat16."""
    keys, score_kernel = np.full((1, 2, 2), 9.0), np.array([200.0, 0.03])
    keys[0, 1, 1] = -9.0
    query = ops.zeros((1, 2), dtype="bfloat16")
    keys = ops.cast(keys, "bfloat16")
    scores = kb.additive_scores(query, keys, ops.convert_to_tensor(score_kernel))
    assert_close(scores[0, 0] - scores[0, 1], np.array(0.06), atol=1e-3)
    assert keras.backend.standardize_dtype(kb.masked_softmax(query).dtype) == "float32"


@needs_float64
@pytest.mark.parametrize("options", [{}, {"use_bias": True, "weight_norm": True}])
def test_gradients_match_finite_differences(options):
    layer = built(
        kb.BahdanauAttention(A, dtype="float64", **options),
        (B, T, QUERY),
        (B, S, VALUE),
    )
    query, value = values(B, T, QUERY), values(B, S, VALUE)
    mask = [None, real_until([7, 4], S)]
    assert_gradients_match_differences(
        lambda: ops.sum(ops.square(layer([query, value], mask=mask))),
        layer.trainable_variables,
    )


def test_a_softmax_of_one_position_has_no_gradient():
    scores = keras.Variable(np.array([[1.0, 2.0]], dtype="float32"))
    mask = np.array([[True, False]])
    (gradient,) = gradients(
        lambda: ops.sum(kb.masked_softmax(scores, mask) * 3.0), [scores]
    )
    assert not gradient.any()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("rows", "positions"), [(B, 0), (0, S), (0, 0)])
def test_nothing_to_look_at_gives_an_empty_context(rows, positions, masked):
    layer = built(kb.BahdanauAttention(A), (B, T, QUERY), (B, S, VALUE))
    mask = np.ones((rows, positions), bool) if masked else None
    weights = kb.masked_softmax(ops.zeros((rows, positions)), mask)
    assert tuple(weights.shape) == (rows, positions)
    context, weights = layer(
        [values(rows, T, QUERY), values(rows, positions, VALUE)],
        mask=[None, mask] if masked else None,
        return_attention_scores=True,
    )
    assert tuple(weights.shape) == (rows, T, positions)
    np.testing.assert_array_equal(numbers(context), np.zeros((rows, T, VALUE)))


@pytest.mark.tf_only
def test_a_graph_that_knows_no_sizes_takes_nothing_too():
    import tensorflow as tf

    unknown = [tf.TensorSpec([None, None]), tf.TensorSpec([None, None], tf.bool)]
    graph = tf.function(kb.masked_softmax, input_signature=unknown)
    for shape in ((B, 0), (0, S), (0, 0)):
        weights = graph(tf.zeros(shape), tf.ones(shape, tf.bool))
        assert tuple(weights.shape) == shape


def test_dropout_drops_weights_in_training_only():
    layer = built(kb.BahdanauAttention(A, dropout=0.5, seed=1), (B, A), (B, S, S))
    query, value = values(B, A), np.broadcast_to(np.eye(S, dtype="float32"), (B, S, S))
    plain, weights = layer([query, value], return_attention_scores=True)
    assert_close(plain, weights)
    dropped = numbers(layer([query, value], training=True))
    kept = dropped != 0
    assert kept.any() and not kept.all()
    np.testing.assert_allclose(dropped[kept], 2 * numbers(weights)[kept], rtol=1e-5)


def test_the_masks_of_query_and_value_do_their_work():
    layer = built(kb.BahdanauAttention(A), (B, T, QUERY), (B, S, VALUE))
    query_mask = np.array([[True, True, False], [True, False, False]])
    context = layer(
        [values(B, T, QUERY), values(B, S, VALUE)],
        mask=[query_mask, real_until([7, 7], S)],
    )
    assert not numbers(context)[~query_mask].any()
    assert numbers(context)[query_mask].all()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"units": 0}, "`units` must be a positive integer"),
        ({"units": 2.5}, "`units` must be a positive integer"),
        ({"units": 3, "dropout": 1.0}, "`dropout` is the share.*in .0, 1"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        kb.BahdanauAttention(**arguments)


@pytest.mark.parametrize(
    "inputs, mask, message",
    [
        (values(B, S, VALUE), None, "called on a list"),
        ([values(B, T, QUERY)], None, "called on a list"),
        ([values(B, T, QUERY), values(B, VALUE)], None, "Received shapes"),
        (
            [values(B, T, QUERY), values(B, S, VALUE)],
            real_until([7, 7], S),
            "must be a list",
        ),
        (
            [values(B, T, QUERY), values(B, S, VALUE), values(B, S + 1, VALUE)],
            None,
            "a key for each value",
        ),
        (
            [values(B, T, QUERY), values(B, 3, 2, VALUE), values(B, 6, VALUE)],
            None,
            "a key for each value",
        ),
    ],
)
def test_wrong_inputs_are_refused(inputs, mask, message):
    with pytest.raises(ValueError, match=message):
        kb.BahdanauAttention(A)(inputs, mask=mask)


def test_a_causal_mask_needs_queries_over_time():
    layer = kb.BahdanauAttention(A)
    with pytest.raises(ValueError, match="needs a query"):
        layer([values(B, QUERY), values(B, S, VALUE)], use_causal_mask=True)


def test_a_fixed_context_is_the_one_vector_for_every_query():
    query, value = values(B, T, QUERY), values(B, 1, VALUE)
    layer = kb.FixedContext()
    assert_close(layer([query, value]), np.repeat(value, T, axis=1))
    look = layer.reader(value, value)
    context, weights = look(ops.convert_to_tensor(query[:, 0]))
    assert_close(context, value[:, 0])
    assert_close(weights, np.ones((B, 1)))
    longer = values(B, S, VALUE)
    assert_close(layer.reader(longer, longer)(query)[0], np.repeat(longer[:, :1], T, 1))
    with pytest.raises(ValueError, match="one position"):
        layer.build([(B, T, QUERY), (B, S, VALUE)])
