"""One contract, checked over every layer and configuration.

A `Case` says how to make a layer, what goes in, what comes out, how many weights
it owns and whose mask each output carries. `CHECKS` are the functions that hold it
to the contract; `tests/test_contract.py` runs every check over every case.

Sizes are distinct primes, weights are scrambled (no zero that hides a term), the
padding is filled with large numbers, and the last row of a masked input is padding
only, so that whatever leaks shows.
"""

import copy
import dataclasses
import inspect
import json
import typing

import keras
import numpy as np
from arrays import numbers as array_of
from keras import ops, tree

SIZES = {"B": 3, "S": 7, "T": 5, "C": 2}
OPEN = {"S": None, "T": None, "C": None}
MORE_PADDING = 2
GARBAGE = 50.0


@dataclasses.dataclass(frozen=True)
class Spec:
    """One input: its shape after the batch axis, in sizes and the letters of SIZES.

    `ids` are integers in `[1, below)` with 0 as padding; other inputs are numbers.
    A masked input is padded along its first axis, and so are all that share its
    letter there; numbers get a mask of their own. Ids are padded along a second
    letter too, half of the positions by one already without more padding.
    """

    shape: tuple
    below: int = 0
    masked: bool = False

    @property
    def is_ids(self):
        return self.below > 0

    @property
    def dtype(self):
        return "int32" if self.is_ids else "float32"


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer in one configuration, with all that its contract needs.

    Args:
        name: What the test is called.
        make: Function that returns a new, unbuilt layer.
        inputs: Dictionary from a name to its `Spec`.
        outputs: The shape of each flat output after the batch axis.
        weights: The exact number of trainable numbers that the layer owns.
        call: Function of the layer and the dictionary of tensors: the outputs.
        build: Function of the layer and the dictionary of shapes: builds it.
        masks: For each flat output, the name of the input whose mask it carries.
        dtypes: For each flat output its dtype, whatever the policy; `None`, or none
            at all, for those that follow the policy. What is not a number with a
            fraction is no part of a loss.
        attributes: Names of the attributes of arguments that have another name.
        unmoved: Names of weights with a zero gradient by nature.
        trains: Whether all weights get a gradient, so that a fit can be checked.
        thorough: Whether to run the checks that compile, too (mixed precision
            and XLA).
    """

    name: str
    make: typing.Callable
    inputs: dict
    outputs: tuple
    weights: int
    call: typing.Callable = lambda layer, x: layer(*x.values())
    build: typing.Callable = lambda layer, shapes: layer.build(*shapes.values())
    masks: tuple = ()
    dtypes: tuple = ()
    attributes: dict = dataclasses.field(default_factory=dict)
    unmoved: tuple = ()
    trains: bool = True
    thorough: bool = False

    def mask_names(self):
        return self.masks or (None,) * len(self.outputs)

    def output_dtypes(self, policy="float32"):
        """The dtype of each flat output under a policy of this compute dtype."""
        dtypes = self.dtypes or (None,) * len(self.outputs)
        return tuple(dtype or policy for dtype in dtypes)

    def is_padded(self, name):
        """Whether an input runs along a masked one: it gets as much padding."""
        letters = {spec.shape[0] for spec in self.inputs.values() if spec.masked}
        return self.inputs[name].shape[0] in letters


@keras.saving.register_keras_serializable(package="keras_bahdanau_tests")
class Masked(keras.layers.Layer):
    """`layer([x, mask])` is x, carrying the mask as an Embedding's output does."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs):
        return ops.multiply(inputs[0], 1)

    def compute_mask(self, inputs, previous_mask=None):
        return inputs[1]


@keras.saving.register_keras_serializable(package="keras_bahdanau_tests")
class MaskProbe(keras.layers.Layer):
    """The mask that arrived with a tensor as numbers, and -1 where none did."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, mask=None):
        if mask is None:
            return ops.full_like(inputs, -1)
        return ops.cast(mask, inputs.dtype)


def sizes(spec, lengths):
    return tuple(lengths.get(axis, axis) for axis in spec.shape)


def eager_shape(shape):
    return (SIZES["B"],) + tuple(SIZES.get(axis, axis) for axis in shape)


def mask_of(length, padding=0):
    """(B, length + padding): a full row, a short row, a row of padding only."""
    real = np.array([length, length // 2, 0])
    return np.arange(length + padding)[None, :] < real[:, None]


def draw(case, padding=0, seed=11):
    """The case's inputs as arrays, padded by `padding` more positions."""
    arrays = {}
    for name, spec in case.inputs.items():
        rng = np.random.default_rng([seed, len(arrays)])
        shape = (SIZES["B"],) + sizes(spec, SIZES)
        if spec.is_ids:
            array = rng.integers(1, spec.below, shape, dtype="int32")
        else:
            array = rng.normal(size=shape).astype("float32")
        if case.is_padded(name):
            extra = [(0, 0)] * array.ndim
            extra[1] = (0, padding)
            fill = 0 if spec.is_ids else GARBAGE
            if spec.is_ids and spec.shape[-1] in SIZES and len(spec.shape) == 2:
                extra[2] = (0, padding)
                array[:, ::2, -1] = fill
            array = np.pad(array, extra, constant_values=fill)
            array[~mask_of(SIZES[spec.shape[0]], padding)] = fill
        arrays[name] = array
    return arrays


def draw_masks(case, padding=0):
    return {
        name: mask_of(SIZES[spec.shape[0]], padding)
        for name, spec in case.inputs.items()
        if spec.masked
    }


def model_inputs(case, padding=0):
    """What `functional(case, ...)` takes: the arrays, then the masks of numbers."""
    masks = draw_masks(case, padding)
    extra = [masks[name] for name in masks if not case.inputs[name].is_ids]
    return [*draw(case, padding).values(), *extra]


def scramble(layer, seed=13):
    """Gives each weight small random numbers: no zero or one hides a term."""
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(rng.uniform(-0.5, 0.5, weight.shape).astype("float32"))
    return layer


def functional(case, layer, lengths=None):
    """The layer in a Functional model, with unknown batch and times by default."""
    lengths = OPEN if lengths is None else lengths
    batch = lengths.get("B")
    data, masks, tensors = [], [], {}
    for name, spec in case.inputs.items():
        shape = sizes(spec, lengths)
        tensor = keras.Input(shape, batch_size=batch, dtype=spec.dtype, name=name)
        data.append(tensor)
        if spec.masked and not spec.is_ids:
            mask = keras.Input(shape[:1], batch_size=batch, dtype="bool")
            masks.append(mask)
            tensor = Masked()([tensor, mask])
        tensors[name] = tensor
    return keras.Model(data + masks, tree.flatten(case.call(layer, tensors)))


def built(case):
    layer = case.make()
    shapes = {name: (None,) + sizes(s, OPEN) for name, s in case.inputs.items()}
    case.build(layer, shapes)
    assert layer.built
    return layer


def made(case):
    """A layer of the case, built from shapes, with scrambled weights."""
    return scramble(built(case))


def eager(case, layer, padding=0, rows=None):
    """The flat outputs of calling the layer on masked tensors, as NumPy arrays."""
    arrays, masks = draw(case, padding), draw_masks(case, padding)
    tensors = {}
    for name, array in arrays.items():
        tensor = ops.convert_to_tensor(array[rows] if rows is not None else array)
        if name in masks and not case.inputs[name].is_ids:
            mask = masks[name][rows] if rows is not None else masks[name]
            tensor = Masked()([tensor, ops.convert_to_tensor(mask)])
        tensors[name] = tensor
    return tree.flatten(case.call(layer, tensors))


def numbers(tensors):
    return [array_of(tensor) for tensor in tensors]


def assert_close(actual, expected, atol=1e-5):
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=atol)


def assert_same(actual, expected):
    """At padding too: it holds large numbers, and sums of them are rounded more."""
    atol = max(1e-5, 1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=atol)


def real_positions(case, index, array):
    """Zero where the output speaks of a masked position; batch-only outputs whole.

    For half precision, in which what padding holds is rounded too much to compare.
    """
    masks = draw_masks(case)
    keep = np.ones(array.shape, bool)
    for axis, letter in enumerate(case.outputs[index], start=1):
        for name, mask in masks.items():
            if case.inputs[name].shape[0] == letter:
                shape = [1] * array.ndim
                shape[0], shape[axis] = mask.shape
                keep &= mask.reshape(shape)
    return np.where(keep, array, 0)


def check_outputs_have_the_stated_shapes(case, tmp_path):
    outputs = eager(case, case.make())
    assert len(outputs) == len(case.outputs)
    for output, shape in zip(outputs, case.outputs, strict=True):
        assert tuple(output.shape) == eager_shape(shape)


def check_symbolic_shapes_equal_eager_shapes(case, tmp_path):
    for lengths in (OPEN, SIZES):
        model = functional(case, case.make(), lengths)
        batch = lengths.get("B")
        for output, shape, dtype in zip(
            model.outputs, case.outputs, case.output_dtypes(), strict=True
        ):
            expected = (batch,) + tuple(lengths.get(axis, axis) for axis in shape)
            assert tuple(output.shape) == expected
            assert keras.backend.standardize_dtype(output.dtype) == dtype


def check_the_count_of_weights_is_exact(case, tmp_path):
    layer = made(case)
    assert layer.count_params() == case.weights
    names = [weight.path for weight in layer.weights]
    assert len(set(names)) == len(names)


def check_a_call_builds_what_shapes_build(case, tmp_path):
    layer, called = built(case), case.make()
    expected = numbers(eager(case, called))
    kinds = [(weight.name, tuple(weight.shape)) for weight in layer.weights]
    assert kinds == [(weight.name, tuple(weight.shape)) for weight in called.weights]
    layer.set_weights(called.get_weights())
    assert_close(numbers(eager(case, layer)), expected)


def check_the_config_holds_every_argument(case, tmp_path):
    layer = case.make()
    config = layer.get_config()
    for name, parameter in inspect.signature(type(layer)).parameters.items():
        if parameter.kind != inspect.Parameter.VAR_KEYWORD:
            assert name in config, f"{name} is not in get_config()"
            attribute = case.attributes.get(name, name)
            assert hasattr(layer, attribute), f"{attribute} is not an attribute"


def check_config_and_json_round_trips(case, tmp_path):
    layer = case.make()
    config = layer.get_config()
    again = type(layer).from_config(copy.deepcopy(config))
    assert again.get_config() == config
    text = json.dumps(keras.saving.serialize_keras_object(layer))
    again = keras.saving.deserialize_keras_object(json.loads(text))
    assert type(again) is type(layer)
    assert again.get_config() == config


def check_a_model_saves_and_loads(case, tmp_path):
    layer = made(case)
    model = functional(case, layer)
    inputs = model_inputs(case)
    expected = tree.flatten(model.predict(inputs, verbose=0))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(tree.flatten(loaded.predict(inputs, verbose=0)), expected, 1e-6)
    model.save_weights(tmp_path / "model.weights.h5")
    other = functional(case, case.make())
    other.load_weights(tmp_path / "model.weights.h5")
    assert_close(numbers(tree.flatten(other(inputs))), expected)


def fit_one_step(case, **compile_options):
    """One step of SGD; checks that all weights are finite and have moved."""
    layer = made(case)
    model = functional(case, layer)
    rng = np.random.default_rng(17)
    targets = [rng.normal(size=eager_shape(s)) for s in case.outputs]
    before = {w.path: ops.convert_to_numpy(w).copy() for w in layer.trainable_weights}
    optimizer = keras.optimizers.SGD(0.5)
    if keras.config.dtype_policy().name == "mixed_float16":
        # The default of 2 ** 15 makes the first steps overflow and be left out.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0)
    model.compile(
        optimizer=optimizer,
        loss=[
            "mean_squared_error" if "float" in dtype else None
            for dtype in case.output_dtypes()
        ],
        **compile_options,
    )
    history = model.fit(model_inputs(case), targets, batch_size=SIZES["B"], verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    for weight in layer.trainable_weights:
        value = ops.convert_to_numpy(weight)
        assert np.isfinite(value).all(), f"{weight.path} is not finite"
        if weight.name not in case.unmoved:
            assert (value != before[weight.path]).any(), f"{weight.path} did not move"


def check_it_fits_one_step(case, tmp_path):
    fit_one_step(case)


def check_it_fits_one_step_compiled_by_xla(case, tmp_path):
    fit_one_step(case, jit_compile=True)


def check_it_fits_one_step_in_mixed_float16(case, tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    fit_one_step(case)


def check_it_fits_one_step_in_mixed_bfloat16(case, tmp_path):
    keras.config.set_dtype_policy("mixed_bfloat16")
    fit_one_step(case)


def check_mixed_precision_stays_close_and_finite(case, tmp_path):
    layer = made(case)
    expected = numbers(eager(case, layer))
    for policy, dtype, atol in (
        ("mixed_float16", "float16", 0.03),
        ("mixed_bfloat16", "bfloat16", 0.2),
    ):
        keras.config.set_dtype_policy(policy)
        mixed = built(case)
        mixed.set_weights(layer.get_weights())
        outputs = eager(case, mixed)
        expected_dtypes = case.output_dtypes(dtype)
        for output, one in zip(outputs, expected_dtypes, strict=True):
            assert keras.backend.standardize_dtype(output.dtype) == one
        values = numbers(outputs)
        assert all(np.isfinite(value).all() for value in values)
        index = range(len(values))
        assert_close(
            [real_positions(case, i, values[i]) for i in index],
            [real_positions(case, i, expected[i]) for i in index],
            atol,
        )
        symbolic = functional(case, mixed).outputs
        for output, one in zip(symbolic, expected_dtypes, strict=True):
            assert keras.backend.standardize_dtype(output.dtype) == one
        for weight in mixed.weights:
            assert keras.backend.standardize_dtype(weight.dtype) == "float32"


def parts(thing, seen=None):
    """The layer and all layers inside it, each once."""
    seen = {} if seen is None else seen
    if isinstance(thing, keras.layers.Layer) and id(thing) not in seen:
        seen[id(thing)] = thing
        for value in vars(thing).values():
            parts(value, seen)
    elif isinstance(thing, list | tuple):
        for value in thing:
            parts(value, seen)
    return seen.values()


def stored(layer):
    """What each part of the layer holds: attribute names, and which object each is.

    Less the names that TensorFlow gives whatever it tracks for a checkpoint.
    """
    return [
        {k: id(v) for k, v in vars(part).items() if not k.startswith("_self_")}
        for part in parts(layer)
    ]


def check_a_call_stores_nothing_on_the_layer(case, tmp_path):
    layer = made(case)
    eager(case, layer, rows=slice(0, 2))
    before = stored(layer)
    functional(case, layer)
    eager(case, layer)
    for now, then in zip(stored(layer), before, strict=True):
        assert {name for name in now if now[name] != then.get(name)} == set()


def check_masks_pass_on_by_themselves(case, tmp_path):
    outputs = functional(case, made(case))
    probes = [MaskProbe()(output) for output in outputs.outputs]
    values = keras.Model(outputs.inputs, probes)(model_inputs(case))
    masks = draw_masks(case)
    found = numbers(tree.flatten(values))
    for value, name in zip(found, case.mask_names(), strict=True):
        if name is None:
            assert (value == -1).all()
        else:
            np.testing.assert_array_equal(value, masks[name])


def check_more_padding_changes_nothing(case, tmp_path):
    layer = made(case)
    expected = numbers(eager(case, layer))
    padded = numbers(eager(case, layer, padding=MORE_PADDING))
    in_model = tree.flatten(functional(case, layer)(model_inputs(case, MORE_PADDING)))
    in_model = numbers(in_model)
    for one, more, third in zip(expected, padded, in_model, strict=True):
        overlap = tuple(slice(size) for size in one.shape)
        assert np.isfinite(more).all()
        for value in (more[overlap], third[overlap]):
            assert_same(value, one)


def check_a_row_does_not_depend_on_its_batch(case, tmp_path):
    layer = made(case)
    together = numbers(eager(case, layer))
    rows = slice(1, 2)
    alone = numbers(eager(case, layer, rows=rows))
    for whole, row in zip(together, alone, strict=True):
        assert_same(row, whole[rows])


CHECKS = [value for name, value in sorted(globals().items()) if name[:6] == "check_"]


def applies(check, case):
    """Whether the check says anything about the case, on the backend in use."""
    if check is check_it_fits_one_step:
        return case.trains
    if check is check_it_fits_one_step_compiled_by_xla:
        return case.thorough and keras.backend.backend() in ("tensorflow", "jax")
    if check.__name__.startswith("check_it_fits"):
        return case.thorough
    if check is check_the_config_holds_every_argument:
        return type(case.make()).__module__.startswith("keras_bahdanau")
    return True
