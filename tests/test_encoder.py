"""The encoder against the plain loops, Keras' own layers and its own promises."""

import gradients
import keras
import numpy as np
import oracle
import pytest
from keras import ops

from keras_bahdanau.encoder import BidirectionalGRUEncoder

B, S, D, U = 3, 7, 5, 2
REAL = np.arange(S) < np.array([[S], [3], [0]])
MASKS = {
    "right padding": REAL,
    "left padding": REAL[:, ::-1],
    "gaps": np.random.default_rng(29).random((B, S)) < 0.5,
}
CONSTANTS = {
    "kernel_initializer": keras.initializers.Constant(0.01),
    "recurrent_initializer": keras.initializers.Constant(0.02),
    "bias_initializer": keras.initializers.Constant(0.03),
}


def values(*shape, seed=5):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def numbers(tensors):
    return [ops.convert_to_numpy(tensor) for tensor in tensors]


def assert_close(actual, expected, atol=1e-6):
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


def scrambled(encoder):
    """The encoder, built, with no weight left at 0."""
    encoder.build((None, None, D))
    rng = np.random.default_rng(3)
    for weight in encoder.weights:
        weight.assign(rng.normal(size=weight.shape) * 0.5)
    return encoder


def by_loops(layer, x, mask, initial=None):
    """What one of the encoder's layers should return, by plain loops."""
    weights = [weight.astype("float64") for weight in layer.get_weights()]
    forward = oracle.from_keras(*weights[:3])
    backward = oracle.from_keras(*weights[3:])
    return oracle.encode(forward, backward, x, mask, initial)


def embedded_ids(padding=0):
    """Embedding layer and ids whose padding is where `REAL` is False."""
    rng = np.random.default_rng(7)
    ids = np.where(REAL, rng.integers(1, 11, REAL.shape), 0).astype("int32")
    return keras.layers.Embedding(11, D, mask_zero=True), np.pad(
        ids, ((0, 0), (0, padding))
    )


def test_it_equals_keras_own_values_for_a_gru():
    x = np.arange(72, dtype="float32").reshape(3, 6, 4)
    _, state = numbers(BidirectionalGRUEncoder(3, **CONSTANTS)(x))
    expected = np.repeat([[0.51447755], [0.6426879], [0.40208298]], 3, axis=1)
    np.testing.assert_allclose(state[:, :3], expected, rtol=0, atol=1e-6)


def test_it_equals_keras_own_values_for_a_masked_bidirectional_gru():
    x = np.arange(24, dtype="float32").reshape(2, 4, 3)
    mask = np.array([[True, True, False, True], [True, False, False, True]])
    encoder = BidirectionalGRUEncoder(2, reset_after=True, **CONSTANTS)
    _, state = numbers(encoder(x, mask=mask))
    expected = np.repeat(
        [[0.19393763, 0.11669192], [0.30818558, 0.28380975]], 2, axis=1
    )
    np.testing.assert_allclose(state, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("given", [False, True], ids=["from zero", "from a state"])
def test_it_equals_plain_loops(mask, given):
    encoder = scrambled(BidirectionalGRUEncoder(U))
    x, initial = values(B, S, D), values(B, 2 * U, seed=6) if given else None
    outputs = encoder(x, initial_state=initial, mask=mask)
    assert_close(numbers(outputs), by_loops(encoder.layers[0], x, mask, initial))


@pytest.mark.parametrize("residual", [False, True], ids=["stacked", "residual"])
def test_a_stack_equals_plain_loops_one_upon_the_other(residual):
    encoder = scrambled(BidirectionalGRUEncoder(U, num_layers=3, residual=residual))
    x = values(B, S, D)
    initial = [values(B, 2 * U, seed=seed) for seed in (1, 2, 3)]
    memory = x
    for index, layer in enumerate(encoder.layers):
        output, state = by_loops(layer, memory, REAL, initial[index])
        memory = output + memory if residual and index else output
    outputs = encoder(x, initial_state=initial, mask=REAL)
    assert_close(numbers(outputs), [memory, state])


@pytest.mark.parametrize("reset_after", [False, True])
def test_it_equals_a_keras_bidirectional_gru(reset_after):
    encoder = scrambled(BidirectionalGRUEncoder(U, reset_after=reset_after))
    gru = keras.layers.GRU(
        U, reset_after=reset_after, return_sequences=True, return_state=True
    )
    layer = keras.layers.Bidirectional(gru)
    layer.build((None, None, D))
    layer.set_weights(encoder.get_weights())
    x = values(B, S, D)
    output, *states = numbers(layer(x, mask=REAL))
    assert_close(numbers(encoder(x, mask=REAL)), [output, np.concatenate(states, -1)])


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("given", [False, True], ids=["from zero", "from a state"])
def test_a_row_of_padding_is_zero_and_leaves_the_state_alone(reset_after, given):
    encoder = scrambled(BidirectionalGRUEncoder(U, 2, reset_after=reset_after))
    initial = values(2, B, 2 * U)
    memory, state = numbers(
        encoder(
            np.full((B, S, D), 50.0),
            initial_state=list(initial) if given else None,
            mask=REAL,
        )
    )
    assert (memory[2] == 0).all()
    np.testing.assert_array_equal(state[2], initial[1, 2] if given else 0)
    assert (memory[1, 3:] == 0).all() and np.isfinite(memory).all()


@pytest.mark.parametrize("reset_after", [False, True])
def test_padding_on_either_side_and_of_any_amount_changes_nothing(reset_after):
    encoder = scrambled(BidirectionalGRUEncoder(U, 2, True, reset_after=reset_after))
    x = values(B, S, D)
    memory, state = numbers(encoder(x))
    for left, right in ((0, 3), (2, 1)):
        around = ((0, 0), (left, right))
        padded = np.pad(x, (*around, (0, 0)), constant_values=50.0)
        mask = np.pad(np.ones((B, S), bool), around)
        outputs, final = numbers(encoder(padded, mask=mask))
        inside = outputs[:, left : left + S]
        assert_close([inside, final], [memory, state])
        assert np.count_nonzero(outputs) == np.count_nonzero(inside)


def test_the_state_is_the_forward_end_and_the_backward_start():
    encoder = scrambled(BidirectionalGRUEncoder(U))
    memory, state = numbers(encoder(values(B, S, D), mask=REAL))
    ends = np.stack([memory[0, S - 1, :U], memory[1, 2, :U], np.zeros(U)])
    assert_close([state[:, :U], state[:, U:]], [ends, memory[:, 0, U:]])


@pytest.mark.parametrize("kind", ["tensor", "array", "list"])
def test_an_initial_state_keeps_the_mask_of_an_embedding_eagerly(kind):
    embedding, ids = embedded_ids()
    encoder = scrambled(BidirectionalGRUEncoder(U))
    initial = values(B, 2 * U)
    embedded = embedding(ids)
    given = {
        "tensor": ops.convert_to_tensor(initial),
        "array": initial,
        "list": [initial],
    }[kind]
    outputs = encoder(embedded, initial_state=given)
    plain = ops.convert_to_numpy(embedded)
    assert_close(numbers(outputs), by_loops(encoder.layers[0], plain, REAL, initial))


@pytest.mark.parametrize("num_layers", [1, 2])
def test_an_initial_state_keeps_the_mask_of_an_embedding_in_a_model(num_layers):
    embedding, ids = embedded_ids()
    encoder = scrambled(BidirectionalGRUEncoder(U, num_layers))
    source = keras.Input((None,), dtype="int32")
    starts = [keras.Input((2 * U,)) for _ in range(num_layers)]
    outputs = encoder(
        embedding(source), initial_state=starts[0] if num_layers == 1 else starts
    )
    pooled = keras.layers.GlobalAveragePooling1D()(outputs[0])
    model = keras.Model([source, *starts], [*outputs, pooled])
    initial = [values(B, 2 * U, seed=seed) for seed in range(num_layers)]
    memory, state, pooled = numbers(model([ids, *initial]))
    expected = numbers(
        encoder(
            ops.convert_to_numpy(embedding(ids)),
            initial_state=initial,
            mask=REAL,
        )
    )
    assert_close([memory, state], expected)
    # The pooling sees the mask that the memory carries on.
    mean = memory[1].sum(0) / REAL[1].sum()
    np.testing.assert_allclose(pooled[1], mean, rtol=0, atol=1e-6)


def test_the_mask_may_be_given_by_either_name():
    encoder = scrambled(BidirectionalGRUEncoder(U))
    x = values(B, S, D)
    one, other = encoder(x, mask=REAL), encoder(x, sequences_mask=REAL)
    assert_close(numbers(one), numbers(other), atol=0)
    both = encoder(x, mask=REAL, sequences_mask=np.ones_like(REAL))
    assert_close(numbers(both), numbers(one), atol=0)


def test_dropout_acts_in_training_only_and_differs_between_the_directions():
    options = {"dropout": 0.5, "recurrent_dropout": 0.3, "seed": 3}
    encoder = scrambled(BidirectionalGRUEncoder(U, **options))
    x = np.ones((B, S, D), "float32")
    plain = scrambled(BidirectionalGRUEncoder(U))
    assert_close(numbers(encoder(x)), numbers(plain(x)))
    for weights in (encoder, plain):
        half = weights.get_weights()[:3]
        weights.set_weights(half + half)
    # Constant input, one pattern per sequence and the same weights: only another
    # dropout pattern can tell the last forward state from the last backward one.
    state = numbers(encoder(x, training=True))[1]
    assert (abs(state[:, :U] - state[:, U:]) > 1e-4).any()
    state = numbers(plain(x, training=True))[1]
    np.testing.assert_allclose(state[:, :U], state[:, U:], rtol=0, atol=1e-6)


def test_the_seed_fixes_the_dropout():
    def run(seed):
        encoder = scrambled(BidirectionalGRUEncoder(U, dropout=0.5, seed=seed))
        return numbers(encoder(values(B, S, D), training=True))

    first, again, other = run(11), run(11), run(13)
    assert_close(first, again, atol=0)
    assert abs(first[0] - other[0]).max() > 1e-4


def test_reset_after_compiles_with_xla_when_cudnn_is_ruled_out():
    never = BidirectionalGRUEncoder(U, reset_after=True, use_cudnn=False)
    paper = BidirectionalGRUEncoder(U)
    for encoder in (never, paper):
        assert encoder.layers[0].forward_layer.supports_jit
        assert encoder.layers[0].backward_layer.supports_jit


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_an_unrolled_encoder_is_the_same_function(mask):
    encoder = scrambled(BidirectionalGRUEncoder(U, 2))
    unrolled = scrambled(BidirectionalGRUEncoder(U, 2, unroll=True))
    x = values(B, S, D)
    assert_close(numbers(unrolled(x, mask=mask)), numbers(encoder(x, mask=mask)))


def test_options_reach_every_direction_of_every_layer():
    encoder = BidirectionalGRUEncoder(
        U,
        num_layers=2,
        use_bias=False,
        activation="relu",
        recurrent_activation="hard_sigmoid",
        kernel_initializer="ones",
        recurrent_initializer=keras.initializers.Constant(2.0),
        kernel_regularizer=keras.regularizers.L2(0.5),
        recurrent_constraint="non_neg",
    )
    encoder.build((None, None, D))
    assert len(encoder.weights) == 8
    for layer in encoder.layers:
        for gru in (layer.forward_layer, layer.backward_layer):
            assert gru.activation is keras.activations.relu
            assert gru.recurrent_activation is keras.activations.hard_sigmoid
            assert gru.cell.recurrent_kernel.constraint is not None
            assert (ops.convert_to_numpy(gru.cell.kernel) == 1).all()
            assert (ops.convert_to_numpy(gru.cell.recurrent_kernel) == 2).all()
    kernels = 2 * 3 * U * D + 2 * 3 * U * 2 * U
    np.testing.assert_allclose(sum(numbers(encoder.losses)), 0.5 * kernels)


@gradients.needs_float64
def test_gradients_match_finite_differences():
    encoder = scrambled(BidirectionalGRUEncoder(U, 2, residual=True, dtype="float64"))
    x = ops.convert_to_tensor(values(B, S, D).astype("float64"))
    target = ops.convert_to_tensor(values(B, S, 2 * U, seed=8).astype("float64"))

    def loss():
        memory, state = encoder(x, mask=REAL)
        return ops.sum(memory * target) + ops.sum(state * state)

    gradients.assert_gradients_match_differences(loss, encoder.trainable_variables)


def test_gradients_are_finite_with_a_row_of_padding():
    encoder = scrambled(BidirectionalGRUEncoder(U, reset_after=True))
    x = ops.convert_to_tensor(values(B, S, D))

    def loss():
        memory, state = encoder(x, mask=REAL)
        return ops.sum(memory) + ops.sum(state)

    for gradient in gradients.gradients(loss, encoder.trainable_variables):
        assert np.isfinite(gradient).all() and (gradient != 0).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "`units` must be a positive integer"),
        ({"units": 2.5}, "`units` must be a positive integer"),
        ({"units": U, "num_layers": 0}, "`num_layers` must be a positive integer"),
        ({"units": U, "dropout": 1.0}, "`dropout` is the share"),
        ({"units": U, "recurrent_dropout": -0.1}, "`recurrent_dropout` is the share"),
        ({"units": U, "use_cudnn": "never"}, "use_cudnn"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        BidirectionalGRUEncoder(**arguments)


@pytest.mark.parametrize("symbolic", [False, True], ids=["eager", "symbolic"])
@pytest.mark.parametrize("shapes", [[(U,)], [(2 * U,)], [(2 * U,)] * 3])
def test_an_initial_state_that_does_not_fit_is_refused(shapes, symbolic):
    encoder = BidirectionalGRUEncoder(U, num_layers=2)
    if symbolic:
        x, initial = keras.Input((None, D)), [keras.Input(shape) for shape in shapes]
    else:
        x, initial = values(B, S, D), [values(B, *shape) for shape in shapes]
    for _ in range(2):  # before the layer is built, and after
        with pytest.raises(ValueError, match="`initial_state` must be 2 tensor"):
            encoder(x, initial_state=initial)
        encoder.build((None, None, D))


def test_an_initializer_with_a_seed_gives_each_direction_its_own_weights():
    options = {
        "kernel_initializer": keras.initializers.GlorotUniform(seed=1),
        "recurrent_initializer": keras.initializers.Orthogonal(seed=1),
    }
    first, second = (BidirectionalGRUEncoder(U, 2, **options) for _ in range(2))
    for encoder in (first, second):
        encoder.build((None, None, 2 * U))  # so that all layers' shapes are equal
    kernels = [w for w in first.get_weights() if w.any()]  # the biases are zeros
    for shape in {kernel.shape for kernel in kernels}:
        same = [kernel for kernel in kernels if kernel.shape == shape]
        assert len(same) == 4
        assert len({kernel.tobytes() for kernel in same}) == 4
    for one, other in zip(first.get_weights(), second.get_weights()):
        np.testing.assert_array_equal(one, other)
