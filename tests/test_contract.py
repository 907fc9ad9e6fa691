"""The contract of tests/contract.py, over every public layer and configuration."""

import dataclasses
import inspect
import json

import contract
import keras
import numpy as np
import pytest
from cases import MODELS, OURS, D, U, build_list, with_scores
from contract import Case, Spec
from keras import ops
from tagging_cases import TAGGING

import keras_bahdanau as kb

STOCK = [
    Case(
        "keras.Dense",
        lambda: keras.layers.Dense(U),
        {"x": Spec(("T", D), masked=True)},
        outputs=(("T", U),),
        weights=D * U + U,
        masks=("x",),
        thorough=True,
    ),
    Case(
        "keras.GRU",
        lambda: keras.layers.GRU(U, return_sequences=True, return_state=True),
        {"sequences": Spec(("T", D), masked=True)},
        outputs=(("T", U), (U,)),
        weights=3 * U * (D + U + 2),
        masks=("sequences", None),
    ),
    Case(
        "keras.Attention",
        lambda: keras.layers.Attention(),
        {"query": Spec(("T", D), masked=True), "value": Spec(("S", D))},
        outputs=(("T", D), ("T", "S")),
        weights=0,
        call=with_scores,
        build=build_list,
        masks=("query", None),
        trains=False,
    ),
]

PAIRS = [
    pytest.param(check, case, id=f"{case.name}-{check.__name__.removeprefix('check_')}")
    for case in STOCK + OURS + TAGGING
    for check in contract.CHECKS
    if contract.applies(check, case)
]


@pytest.mark.parametrize(("check", "case"), PAIRS)
def test_contract(check, case, tmp_path):
    check(case, tmp_path)


def test_every_public_layer_has_a_case():
    public = [getattr(kb, name) for name in kb.__all__]
    layers = {x for x in public if isinstance(x, type)}
    layers = {x for x in layers if issubclass(x, keras.layers.Layer)}
    tested = {
        type(part) for case in OURS + TAGGING for part in contract.parts(case.make())
    }
    assert layers <= tested


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
def test_a_compiled_model_saves_by_itself_and_goes_on(case, tmp_path):
    """With loss, metrics and the state of the optimizer; without custom objects."""
    model = contract.made(case)
    model.compile(**kb.modern_recipe())
    inputs = contract.draw(case)
    labels = np.roll(inputs["target_ids"], -1, axis=1)
    model.fit(inputs, labels, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected = model.predict(inputs, verbose=0)
    np.testing.assert_allclose(loaded.predict(inputs, verbose=0), expected, atol=1e-6)
    assert int(loaded.optimizer.iterations) == 1
    assert loaded.evaluate(inputs, labels, verbose=0) == pytest.approx(
        model.evaluate(inputs, labels, verbose=0), rel=1e-5
    )


@pytest.mark.parametrize(
    "thing",
    [
        kb.TokenCrossentropy(label_smoothing=0.1, pad_id=3, reduction=None, name="x"),
        kb.Perplexity(pad_id=None, name="x"),
        kb.TokenAccuracy(pad_id=3, name="x"),
        kb.TagAccuracy(name="x"),
        kb.CRFNegativeLogLikelihood(reduction=None, name="x", dtype="float64"),
        kb.BlockOrthogonal(gain=0.5, seed=7),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_is_no_layer_makes_the_round_trips_too(thing):
    config = thing.get_config()
    for name in inspect.signature(type(thing)).parameters:
        assert name in config
        assert getattr(thing, name) == config[name]
    text = json.dumps(keras.saving.serialize_keras_object(thing))
    again = keras.saving.deserialize_keras_object(json.loads(text))
    assert type(again) is type(thing)
    assert again.get_config() == config


class Broken(keras.layers.Layer):
    """A projection over time, with a fault that one of the checks must find."""

    def __init__(self, fault=None, **kwargs):
        super().__init__(**kwargs)
        self.fault = fault
        self.supports_masking = True

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], U), name="kernel")
        if self.fault == "unused weight":
            self.unused = self.add_weight(shape=(U,), name="unused")
        if self.fault == "shape builds otherwise" and None in input_shape:
            self.kernel = self.add_weight(shape=(input_shape[-1], U), name="other")

    def call(self, inputs, mask=None):
        outputs = ops.matmul(inputs, self.kernel)
        if self.fault == "stores a tensor":
            self._last = outputs
        if self.fault == "reads the padding":
            outputs = outputs + ops.mean(inputs)
        if self.fault == "mixes the batch":
            outputs = outputs - ops.mean(outputs, axis=0, keepdims=True)
        if self.fault == "float32 only":
            outputs = ops.cast(outputs, "float32")
        if self.fault == "overflows":
            outputs = ops.cast(ops.cast(outputs, "float16") * 6e4, outputs.dtype)
        return outputs

    def compute_mask(self, inputs, mask=None):
        return None if self.fault == "drops the mask" else mask

    def compute_output_shape(self, input_shape):
        if self.fault == "wrong symbolic shape":
            return input_shape
        return (*input_shape[:-1], U)

    def get_config(self):
        config = super().get_config()
        if self.fault != "forgets an argument":
            config["fault"] = self.fault
        return config


FAULTS = {
    "forgets an argument": contract.check_the_config_holds_every_argument,
    "not registered": contract.check_config_and_json_round_trips,
    "unused weight": contract.check_the_count_of_weights_is_exact,
    "shape builds otherwise": contract.check_a_call_builds_what_shapes_build,
    "stores a tensor": contract.check_a_call_stores_nothing_on_the_layer,
    "reads the padding": contract.check_more_padding_changes_nothing,
    "mixes the batch": contract.check_a_row_does_not_depend_on_its_batch,
    "float32 only": contract.check_mixed_precision_stays_close_and_finite,
    "overflows": contract.check_mixed_precision_stays_close_and_finite,
    "drops the mask": contract.check_masks_pass_on_by_themselves,
    "wrong symbolic shape": contract.check_symbolic_shapes_equal_eager_shapes,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_contract_finds_the_fault(fault, tmp_path):
    broken = Case(
        "broken",
        lambda: Broken(fault),
        {"x": Spec(("T", D), masked=True)},
        outputs=(("T", U),),
        weights=D * U,
        masks=("x",),
    )
    FAULTS["forgets an argument"](dataclasses.replace(broken, make=Broken), tmp_path)
    with pytest.raises((AssertionError, TypeError)):
        FAULTS[fault](broken, tmp_path)


def test_a_weight_without_a_gradient_is_found(tmp_path):
    unused = Case(
        "unused",
        lambda: Broken("unused weight"),
        {"x": Spec(("T", D), masked=True)},
        outputs=(("T", U),),
        weights=D * U + U,
    )
    with pytest.raises((AssertionError, UserWarning)):
        contract.check_it_fits_one_step(unused, tmp_path)
