"""Bidirectional RNNs against the worked programs of a book chapter.

`bidirectional_rnn.json` of the shared folder holds the states of both directions, the
probabilities of a tagger and the states of a BiGRU, with six decimals. Its matrices are
`(outputs, inputs)`, so a Keras kernel is the transpose; its update gate is Keras' own
(`h = z o h + (1 - z) o h~`), so nothing is negated, while the plain loops in `oracle`,
which have the paper's gate, see the negated one. Every sequence has one number at a
position.
"""

import json

import gradients
import keras
import numpy as np
import oracle
import pytest
from keras import ops

import keras_bahdanau as kb

# Six decimals are off by half of the last one at most. The rest is for the matrices of
# the BiGRU, which are rounded too, and for float32.
ATOL = 6e-7
PRECISIONS = pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("float64", marks=gradients.needs_float64)]
)
PADDING = pytest.mark.parametrize("padding", [0, 3], ids=["as_is", "padded"])
STRINGS = ("words", "gold", "tags", "predicted")
DIRECTIONS = ("forward", "backward")


class Golden:
    """The golden file; a part of it by its name, lists as arrays."""

    def __init__(self, folder):
        path = folder / "golden" / "bidirectional_rnn.json"
        self.content = json.loads(path.read_text())

    def __getitem__(self, name):
        return {
            key: value
            if key in ("words", "gold", "tags", "predicted")
            else arrays(value)
            for key, value in self.content[name].items()
        }


def arrays(value):
    if isinstance(value, dict):
        return {key: arrays(part) for key, part in value.items()}
    return np.array(value, float) if isinstance(value, list) else value


@pytest.fixture
def golden(shared_dir):
    return Golden(shared_dir)


def simple_rnn(weights, inputs):
    """The states of one direction, left to right, as plain loops."""
    h, states = np.zeros(len(weights["b"])), []
    for x in inputs:
        total = [
            weights["b"][i]
            + weights["w_x"][i] * x
            + sum(weights["w_h"][i][j] * h[j] for j in range(len(h)))
            for i in range(len(h))
        ]
        h = np.tanh(total)
        states.append(h)
    return np.array(states)


def both_ways(direction, forward, backward, inputs):
    """Forward and backward states, each at the position that it belongs to."""
    return direction(forward, inputs), direction(backward, inputs[::-1])[::-1]


def simple_layer(part, dtype):
    """`Bidirectional(SimpleRNN)` with the weights of a part of the file."""
    units = len(part["forward"]["b"])
    layer = keras.layers.Bidirectional(
        keras.layers.SimpleRNN(units, return_sequences=True, dtype=dtype), dtype=dtype
    )
    layer.build((None, None, 1))
    layer.set_weights(
        [
            value
            for direction in DIRECTIONS
            for value in (
                part[direction]["w_x"][None],
                part[direction]["w_h"].T,
                part[direction]["b"],
            )
        ]
    )
    return layer


def papers_gru(weights):
    """A GRU of the file as `oracle` wants it: the paper's names, and its gate."""
    names = {"W_z": "W_z", "W_r": "W_r", "W_s": "W", "U_z": "U_z", "U_r": "U_r"}
    names["U_s"] = "U"
    gru = {new: weights[old] for old, new in names.items()}
    for gate in ("W", "W_z", "W_r"):
        gru[gate] = gru[gate][:, None]
    return gru | {name: -gru[name] for name in ("W_z", "U_z")}


def gru_weights(part):
    """Kernel and recurrent kernel of both directions, as Keras has them."""
    return [
        value
        for direction in DIRECTIONS
        for value in (
            np.concatenate([part[direction][f"W_{gate}"] for gate in "zrs"])[None],
            np.concatenate([part[direction][f"U_{gate}"].T for gate in "zrs"], axis=1),
        )
    ]


def keras_gru(part, dtype):
    """`Bidirectional(GRU(reset_after=False))` as a function of `(inputs, mask)`."""
    units = len(part["forward"]["W_z"])
    layer = keras.layers.Bidirectional(
        keras.layers.GRU(
            units,
            return_sequences=True,
            reset_after=False,
            use_bias=False,
            zero_output_for_mask=True,
            dtype=dtype,
        ),
        dtype=dtype,
    )
    layer.build((None, None, 1))
    layer.set_weights(gru_weights(part))
    return layer


def our_gru(part, dtype):
    units = len(part["forward"]["W_z"])
    encoder = kb.BidirectionalGRUEncoder(units, use_bias=False, dtype=dtype)
    encoder.build((None, None, 1))
    encoder.set_weights(gru_weights(part))
    return lambda inputs, mask: encoder(inputs, mask=mask)[0]


GRUS = pytest.mark.parametrize("make", [keras_gru, our_gru])


def batch(inputs, padding, dtype):
    """The one sequence as a batch with padding behind it, and the mask."""
    padded = np.pad(inputs, (0, padding), constant_values=9.0)[None, :, None]
    mask = np.arange(len(inputs) + padding)[None] < len(inputs)
    return ops.convert_to_tensor(padded, dtype), ops.convert_to_tensor(mask)


def assert_close(actual, expected, atol=ATOL):
    np.testing.assert_allclose(
        ops.convert_to_numpy(actual), expected, rtol=0, atol=atol
    )


@pytest.mark.shared
@pytest.mark.parametrize("name", ["two_directions", "tagger", "bigru"])
def test_the_plain_loops_reproduce_every_value(golden, name):
    part = golden[name]
    if name == "bigru":
        mask = np.ones((1, len(part["inputs"])), bool)
        grus = [papers_gru(part[direction]) for direction in DIRECTIONS]
        annotations, _ = oracle.encode(*grus, part["inputs"][None, :, None], mask)
        forward, backward = np.split(annotations[0], 2, axis=-1)
        for direction, states in zip(DIRECTIONS, (forward, backward)):
            norms = [sum(value**2 for value in state) ** 0.5 for state in states]
            assert_close(norms, part[f"{direction}_norm"])
    else:
        forward, backward = both_ways(
            simple_rnn, part["forward"], part["backward"], part["inputs"]
        )
    if name == "tagger":
        for state, expected in zip(
            np.hstack([forward, backward]), part["probabilities"]
        ):
            logits = [row @ state + b for row, b in zip(part["w_out"], part["b_out"])]
            assert_close(oracle.softmax(logits), expected)
    else:
        assert_close(forward, part["forward_states"])
        assert_close(backward, part["backward_states"])


@pytest.mark.shared
@PRECISIONS
@PADDING
def test_states_of_two_directions_and_their_concatenation(golden, dtype, padding):
    part = golden["two_directions"]
    layer = simple_layer(part, dtype)
    inputs, mask = batch(part["inputs"], padding, dtype)
    length = len(part["inputs"])
    concatenated = layer(inputs, mask=mask)[0, :length]
    forward, backward = ops.split(concatenated, 2, axis=-1)
    assert_close(forward, part["forward_states"])
    assert_close(backward, part["backward_states"])
    assert_close(concatenated, part["concat"])


@pytest.mark.shared
@PRECISIONS
def test_each_direction_alone_has_the_states_that_it_has_in_the_pair(golden, dtype):
    part = golden["two_directions"]
    layer = simple_layer(part, dtype)
    inputs, _ = batch(part["inputs"], 0, dtype)
    assert_close(layer.forward_layer(inputs)[0], part["forward_states"])
    read_backwards = layer.backward_layer(inputs)[0]
    assert_close(ops.flip(read_backwards, 0), part["backward_states"])


@pytest.mark.shared
@PRECISIONS
@PADDING
def test_probabilities_and_predictions_of_the_tagger(golden, dtype, padding):
    part = golden["tagger"]
    layer = simple_layer(part, dtype)
    classifier = keras.layers.Dense(len(part["tags"]), "softmax", dtype=dtype)
    classifier.build((None, None, part["w_out"].shape[1]))
    classifier.set_weights([part["w_out"].T, part["b_out"]])
    inputs, mask = batch(part["inputs"], padding, dtype)
    found = classifier(layer(inputs, mask=mask))[0, : len(part["words"])]
    assert_close(found, part["probabilities"])
    best = np.argmax(ops.convert_to_numpy(found), axis=-1)
    assert [part["tags"][i] for i in best] == part["predicted"]
    # Untrained as it is, it gets one word of six right.
    assert [a == b for a, b in zip(part["predicted"], part["gold"])].count(True) == 1


@pytest.mark.shared
@PRECISIONS
@PADDING
@GRUS
def test_states_and_norms_of_the_bidirectional_gru(golden, make, dtype, padding):
    part = golden["bigru"]
    inputs, mask = batch(part["inputs"], padding, dtype)
    states = ops.convert_to_numpy(make(part, dtype)(inputs, mask=mask))[0]
    length = len(part["inputs"])
    assert (states[length:] == 0).all()
    for direction, half in zip(DIRECTIONS, np.split(states[:length], 2, axis=-1)):
        assert_close(half, part[f"{direction}_states"])
        norms = np.linalg.norm(half, axis=-1)
        assert_close(norms, part[f"{direction}_norm"])


@pytest.mark.shared
def test_the_gate_of_the_paper_and_the_reset_after_the_product_are_other_functions(
    golden,
):
    """What the tests above would notice: a negated gate, a reset gate misplaced."""
    part = golden["bigru"]
    expected = np.hstack([part["forward_states"], part["backward_states"]])
    inputs, mask = batch(part["inputs"], 0, "float32")
    negated = {
        direction: part[direction]
        | {name: -part[direction][name] for name in ("W_z", "U_z")}
        for direction in DIRECTIONS
    }
    found = ops.convert_to_numpy(our_gru(negated, "float32")(inputs, mask=mask))[0]
    assert np.abs(found - expected).max() > 1e-3
    units = len(part["forward"]["W_z"])
    encoder = kb.BidirectionalGRUEncoder(units, use_bias=False, reset_after=True)
    encoder.build((None, None, 1))
    encoder.set_weights(gru_weights(part))
    found = ops.convert_to_numpy(encoder(inputs)[0])[0]
    assert np.abs(found - expected).max() > 1e-5


@pytest.mark.shared
def test_the_parameter_counts_of_the_chapter(golden):
    counts = golden["parameter_counts"]
    hidden, inputs = counts["hidden"], counts["inputs"]
    assert (counts["gru"], counts["bigru"]) == (18_624, 37_248)
    check_counts(hidden, inputs, counts["gru"])


@pytest.mark.parametrize(
    ("hidden", "inputs", "one_way"), [(64, 32, 18_624), (7, 5, 3 * 7 * (5 + 7 + 1))]
)
def test_two_directions_have_twice_the_parameters(hidden, inputs, one_way):
    check_counts(hidden, inputs, one_way)


def check_counts(hidden, inputs, one_way):
    gru = keras.layers.GRU(hidden, return_sequences=True, reset_after=False)
    gru.build((None, None, inputs))
    assert gru.count_params() == one_way
    pair = keras.layers.Bidirectional(
        keras.layers.GRU(hidden, return_sequences=True, reset_after=False)
    )
    encoder = kb.BidirectionalGRUEncoder(hidden)
    for both in (pair, encoder):
        both.build((None, None, inputs))
        assert both.count_params() == 2 * one_way
    for width, states in (
        (hidden, gru.compute_output_shape((None, 3, inputs))),
        (2 * hidden, pair.compute_output_shape((None, 3, inputs))),
        (2 * hidden, encoder.compute_output_shape((None, 3, inputs))[0]),
    ):
        assert states == (None, 3, width)
        classifier = keras.layers.Dense(5)
        classifier.build(states)
        assert classifier.count_params() == 5 * width + 5


def drawn(units, seed):
    """Weights and inputs as the file has them, but random."""
    rng = np.random.default_rng(seed)
    part = {"inputs": rng.normal(size=11)}
    for direction in DIRECTIONS:
        part[direction] = {
            "w_x": rng.normal(size=units),
            "w_h": rng.normal(size=(units, units)),
            "b": rng.normal(size=units),
        }
        for gate in "zrs":
            part[direction][f"W_{gate}"] = rng.normal(size=units)
            part[direction][f"U_{gate}"] = rng.normal(size=(units, units))
    return part


@PADDING
def test_simple_rnns_of_any_weights_are_the_plain_loops(padding):
    part = drawn(units=3, seed=5)
    inputs, mask = batch(part["inputs"], padding, "float32")
    found = simple_layer(part, "float32")(inputs, mask=mask)[0, : len(part["inputs"])]
    states = both_ways(simple_rnn, part["forward"], part["backward"], part["inputs"])
    assert_close(found, np.hstack(states), 1e-5)


@PADDING
@GRUS
def test_grus_of_any_weights_are_the_plain_loops(make, padding):
    part = drawn(units=3, seed=7)
    inputs, mask = batch(part["inputs"], padding, "float32")
    found = make(part, "float32")(inputs, mask=mask)[0]
    grus = [papers_gru(part[direction]) for direction in DIRECTIONS]
    mask = ops.convert_to_numpy(mask)
    expected, _ = oracle.encode(*grus, ops.convert_to_numpy(inputs), mask)
    assert_close(found, expected[0], 1e-5)


def test_without_recurrent_weights_both_directions_see_the_position_alone():
    part = drawn(units=3, seed=11)
    for direction in DIRECTIONS:
        part[direction]["w_h"] *= 0.0
    inputs, mask = batch(part["inputs"], 0, "float32")
    found = simple_layer(part, "float32")(inputs, mask=mask)[0]
    expected = [
        np.tanh(np.outer(part["inputs"], part[name]["w_x"]) + part[name]["b"])
        for name in DIRECTIONS
    ]
    assert_close(found, np.hstack(expected), 1e-6)


@GRUS
def test_a_mirrored_sequence_with_exchanged_weights_gives_mirrored_states(make):
    part = drawn(units=3, seed=13)
    exchanged = dict(zip(DIRECTIONS, (part["backward"], part["forward"])))
    inputs, mask = batch(part["inputs"], 0, "float32")
    states = ops.convert_to_numpy(make(part, "float32")(inputs, mask=mask))
    mirrored = make(exchanged, "float32")(ops.flip(inputs, 1), mask=mask)
    forward, backward = np.split(states[:, ::-1], 2, axis=-1)
    assert_close(mirrored, np.concatenate([backward, forward], axis=-1), 1e-6)
