"""The network against golden values: every intermediate of one forward pass.

`rnnsearch.json` of the shared folder holds the pass in float64, made by plain loops
without a framework. Its ids start at 0 and its update gate is the paper's; here ids
are one higher, since 0 is padding, and the gate's weights are negated.
"""

import json

import gradients
import keras
import numpy as np
import oracle
import pytest
from keras import ops

import keras_bahdanau as kb

pytestmark = pytest.mark.shared

ORDERS = ("look_generate_update", "look_update_generate")
# Float32 everywhere; float64 where the backend computes in it. The file has nine
# decimals.
PRECISIONS = [
    pytest.param(("float32", 1e-5), id="float32"),
    pytest.param(("float64", 1e-9), id="float64", marks=gradients.needs_float64),
]
PADDING = pytest.mark.parametrize("padding", [0, 3], ids=["as_is", "padded"])


class Golden:
    """The golden file, with its ids one higher and its arrays as arrays."""

    def __init__(self, folder):
        content = json.loads((folder / "golden" / "rnnsearch.json").read_text())
        self.sizes = content["sizes"]
        self.weights = {k: np.array(v) for k, v in content["weights_in"].items()}
        self.expected = {k: np.array(v) for k, v in content["expected"].items()}
        lengths = np.array(content["source_lengths"])
        self.mask = np.arange(self.sizes["source"]) < lengths[:, None]
        self.source_ids = np.where(self.mask, np.array(content["source_ids"]) + 1, 0)
        self.target_ids = np.array(content["target_input_ids"]) + 1
        s_0, states = self.expected["s0"], self.expected["states"]
        self.queries = np.concatenate([s_0[:, None], states[:, :-1]], axis=1)


@pytest.fixture
def golden(shared_dir):
    return Golden(shared_dir)


def network(golden, dtype="float32", step_order=ORDERS[0]):
    """`RNNSearch` with the golden weights; golden biases are 0."""
    vocabulary_size = golden.sizes["vocabulary"] + 1
    model = kb.RNNSearch(
        vocabulary_size,
        vocabulary_size,
        embedding_dim=golden.sizes["embedding"],
        units=golden.sizes["hidden"],
        attention_units=golden.sizes["alignment"],
        readout_units=golden.sizes["maxout"],
        step_order=step_order,
        dropout=0.0,
        dtype=dtype,
    )
    model.build()
    for variable in model.weights:
        variable.assign(ops.zeros(variable.shape, variable.dtype))
    for variable, value in placed(model, golden.weights):
        variable.assign(value)
    return model


def placed(model, weights):
    """Pairs of a variable and its value, for weights named as in the golden file."""

    def below_padding(rows):
        return np.pad(rows, ((1, 0), (0, 0)))

    encoder = model.encoder.layers[0]
    cell, readout = model.decoder.cell, model.readout
    pairs = [
        (model.source_embedding.embeddings, below_padding(weights["E_src"])),
        (model.target_embedding.embeddings, below_padding(weights["E_tgt"])),
        (model.bridge.kernel, weights["W_s"].T),
        (cell.attention.query_kernel, weights["W_a"].T),
        (cell.attention.key_kernel, weights["U_a"].T),
        (cell.attention.score_kernel, weights["v_a"]),
        (readout.state_kernel, weights["U_o"].T),
        (readout.embedding_kernel, weights["V_o"].T),
        (readout.context_kernel, weights["C_o"].T),
        (readout.output_kernel, below_padding(weights["W_o"]).T),
    ]
    for prefix, part in (
        ("fwd", encoder.forward_layer.cell),
        ("bwd", encoder.backward_layer.cell),
        ("dec", cell),
    ):
        gru = oracle.golden_gru(weights, prefix)
        pairs.append((part.kernel, oracle.to_keras(gru, "W")))
        pairs.append((part.recurrent_kernel, oracle.to_keras(gru, "U")))
        if "C" in gru:
            pairs.append((part.context_kernel, oracle.to_keras(gru, "C")))
    return pairs


def padded(golden, padding):
    """The source ids with `padding` more columns of padding."""
    return np.pad(golden.source_ids, ((0, 0), (0, padding)))


def assert_close(actual, expected, atol, padding=0):
    """Compares; the last axis but for `padding`, where all must be 0."""
    actual = ops.convert_to_numpy(actual)
    if padding:
        assert (actual[..., -padding:] == 0).all()
        actual = actual[..., :-padding]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def by_loops(golden, weights):
    """All intermediates by `oracle`'s plain loops."""
    real = np.maximum(golden.source_ids - 1, 0)
    annotations, last = oracle.encode(
        oracle.golden_gru(weights, "fwd"),
        oracle.golden_gru(weights, "bwd"),
        weights["E_src"][real],
        golden.mask,
    )
    targets = weights["E_tgt"][golden.target_ids - 1]
    s_0 = oracle.bridge(weights["W_s"], last)
    found = oracle.decode(
        oracle.golden_gru(weights, "dec"),
        (weights["W_a"], weights["U_a"], weights["v_a"]),
        s_0,
        targets,
        annotations,
        golden.mask,
    )
    found |= {"annotations": annotations, "s0": s_0}
    before = np.concatenate([s_0[:, None], found["states"][:, :-1]], axis=1)
    readout = [weights[name] for name in ("U_o", "V_o", "C_o", "W_o")]
    for name, states in (("previous", before), ("current", found["states"])):
        found[f"logits_{name}_state"] = np.array(
            [
                [oracle.readout(*readout, *step) for step in zip(*row)]
                for row in zip(states, targets, found["contexts"])
            ]
        )
    return found


def test_the_plain_loops_reproduce_every_value(golden):
    found = by_loops(golden, golden.weights)
    assert found.keys() == golden.expected.keys()
    for name, value in golden.expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-9)


@pytest.mark.parametrize("precision", PRECISIONS)
@PADDING
def test_annotations_and_the_first_state(golden, precision, padding):
    dtype, atol = precision
    memory, states = network(golden, dtype).encode(padded(golden, padding))
    values = ops.transpose(memory["values"], (0, 2, 1))
    expected = golden.expected["annotations"].transpose(0, 2, 1)
    assert_close(values, expected, atol, padding)
    assert_close(states[0], golden.expected["s0"], atol)


@pytest.mark.parametrize("precision", PRECISIONS)
@PADDING
def test_scores_weights_and_contexts_of_the_attention(golden, precision, padding):
    dtype, atol = precision
    model = network(golden, dtype)
    attention = model.decoder.cell.attention
    memory, _ = model.encode(padded(golden, padding))
    queries = ops.convert_to_tensor(golden.queries, dtype)
    scores = kb.additive_scores(
        ops.matmul(queries, ops.convert_to_tensor(attention.query_kernel)),
        memory["keys"],
        ops.convert_to_tensor(attention.score_kernel),
    )
    real = ops.expand_dims(memory["mask"], 1)
    scores = ops.where(real, scores, ops.zeros_like(scores))
    assert_close(scores, golden.expected["scores"], atol, padding)
    contexts, weights = attention(
        [queries, memory["values"]],
        mask=[None, memory["mask"]],
        return_attention_scores=True,
    )
    assert_close(weights, golden.expected["weights"], atol, padding)
    assert_close(contexts, golden.expected["contexts"], atol)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("step_order", ORDERS)
@PADDING
def test_states_contexts_and_weights_of_the_decoder(
    golden, precision, step_order, padding
):
    dtype, atol = precision
    model = network(golden, dtype, step_order)
    memory, states = model.encode(padded(golden, padding))
    outputs, contexts, weights = model.decoder(
        model.target_embedding(golden.target_ids),
        memory["values"],
        initial_state=states,
        memory_mask=memory["mask"],
    )
    expected = golden.queries if step_order == ORDERS[0] else golden.expected["states"]
    assert_close(outputs, expected, atol)
    assert_close(contexts, golden.expected["contexts"], atol)
    assert_close(weights, golden.expected["weights"], atol, padding)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_states_of_the_cell_in_a_plain_keras_rnn(golden, precision):
    dtype, atol = precision
    model = network(golden, dtype, ORDERS[1])
    cell = model.decoder.cell
    memory, states = model.encode(golden.source_ids)
    start = kb.MemoryStates(cell.attention, dtype=dtype)(
        [states[0], memory["values"]], mask=[None, memory["mask"]]
    )
    rnn = keras.layers.RNN(cell, return_sequences=True, dtype=dtype)
    outputs = rnn(model.target_embedding(golden.target_ids), initial_state=start)
    assert_close(outputs, golden.expected["states"], atol)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("step_order", ORDERS)
@PADDING
def test_logits_of_the_whole_network(golden, precision, step_order, padding):
    dtype, atol = precision
    model = network(golden, dtype, step_order)
    inputs = {
        "source_ids": padded(golden, padding),
        "target_ids": golden.target_ids,
    }
    name = "previous" if step_order == ORDERS[0] else "current"
    expected = golden.expected[f"logits_{name}_state"]
    assert_close(model(inputs)[..., 1:], expected, atol)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("step_order", ORDERS)
def test_logits_and_weights_step_by_step(golden, precision, step_order):
    dtype, atol = precision
    model = network(golden, dtype, step_order)
    memory, states = model.encode(golden.source_ids)
    name = "previous" if step_order == ORDERS[0] else "current"
    for t in range(golden.sizes["target"]):
        logits, states, weights = model.decode_step(
            ops.convert_to_tensor(golden.target_ids[:, t]), states, memory
        )
        expected = golden.expected[f"logits_{name}_state"][:, t]
        assert_close(logits[:, 1:], expected, atol)
        assert_close(weights, golden.expected["weights"][:, t], atol)
        assert_close(states[0], golden.expected["states"][:, t], atol)


@pytest.mark.parametrize("step_order", ORDERS)
def test_gradients_are_those_of_the_plain_loops(golden, step_order):
    """Every weight's gradient against central differences of the float64 loops."""
    labels = np.array([[3, 6, 1, 5], [2, 4, 4, 0]])
    kind = "previous" if step_order == ORDERS[0] else "current"

    def loss_by_loops(weights):
        logits = by_loops(golden, weights)[f"logits_{kind}_state"]
        return oracle.crossentropy(logits, labels, label_smoothing=0.1)

    model = network(golden, step_order=step_order)
    crossentropy = kb.TokenCrossentropy(0.1)

    def loss():
        inputs = {"source_ids": golden.source_ids, "target_ids": golden.target_ids}
        return crossentropy(labels, model(inputs)[..., 1:])

    variables = model.trainable_variables
    found = dict(
        zip(
            [variable.path for variable in variables],
            gradients.gradients(loss, variables),
        )
    )
    assert_close(loss(), loss_by_loops(golden.weights), 1e-6)
    rng = np.random.default_rng(47)
    none = {name: np.zeros_like(value) for name, value in golden.weights.items()}
    for name, value in golden.weights.items():
        direction = rng.normal(size=value.shape)
        up, down = (
            loss_by_loops(golden.weights | {name: value + step * direction})
            for step in (1e-5, -1e-5)
        )
        along = sum(
            np.sum(found[variable.path] * part)
            for variable, part in placed(model, none | {name: direction})
        )
        np.testing.assert_allclose(
            along, (up - down) / 2e-5, rtol=1e-4, atol=1e-6, err_msg=name
        )
