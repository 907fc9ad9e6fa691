"""The public names: exactly these, each documented, registered and announced."""

import importlib
import inspect
import os
import pathlib
import re
import subprocess
import sys

import keras
import pytest

import keras_bahdanau

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = [
    "AttentiveGRUDecoderCell",
    "AttentiveRNN",
    "BahdanauAttention",
    "BidirectionalGRUEncoder",
    "CRF",
    "CharacterEncoder",
    "FixedContext",
    "Maxout",
    "MaxoutReadout",
    "MemoryStates",
    "StateBridge",
    "TokenDropout",
]
MODELS = [
    "FusedLossModel",
    "RNNEncoderDecoder",
    "RNNEnsemble",
    "RNNSearch",
    "SequenceTagger",
]
LOSSES_AND_METRICS = [
    "CRFNegativeLogLikelihood",
    "Perplexity",
    "TagAccuracy",
    "TokenAccuracy",
    "TokenCrossentropy",
]
INITIALIZERS = ["BlockOrthogonal"]
FUNCTIONS = [
    "additive_scores",
    "average_models",
    "beam_search",
    "ensemble",
    "greedy_search",
    "masked_softmax",
    "modern_recipe",
    "paper_recipe",
    "sample",
    "tagging_recipe",
]
RECORDS = ["SearchResult"]
SERIALISED = LAYERS + MODELS + LOSSES_AND_METRICS + INITIALIZERS
PUBLIC = sorted(SERIALISED + FUNCTIONS + RECORDS)
SECTIONS = ("Args:", "Call arguments:", "Returns:", "Raises:", "Example:", "Masking:")


def doc(name):
    return inspect.getdoc(getattr(keras_bahdanau, name))


def test_the_public_names_are_exactly_these():
    assert sorted(keras_bahdanau.__all__) == PUBLIC
    assert len(set(keras_bahdanau.__all__)) == len(keras_bahdanau.__all__)


def test_the_version_is_stated_once():
    assert re.fullmatch(r"\d+\.\d+\.\d+", keras_bahdanau.__version__)
    assert "attr: keras_bahdanau.__version__" in (ROOT / "setup.cfg").read_text()
    heading = re.search(r"^## \[?(\d+\.\d+\.\d+)", changelog(), re.M)
    assert heading[1] == keras_bahdanau.__version__


def changelog():
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_stands_in_readme_and_changelog(name):
    assert f"`{name}`" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"`{name}`" in changelog()


def modules_in_readme():
    """What the README's table of modules says: a module, and the names in it."""
    rows = re.findall(
        r"^\| `(keras_bahdanau\.[\w.]+)` \|([^|]+)\|",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.M,
    )
    for module, names in rows:
        needs_tf = f"{module}.".startswith("keras_bahdanau.tf.")
        marks = [pytest.mark.tf_only] if needs_tf else []
        yield pytest.param(module, re.findall(r"`(\w+)`", names), marks=marks)


@pytest.mark.parametrize(("module", "names"), list(modules_in_readme()))
def test_a_module_has_the_names_that_the_readme_says(module, names):
    found = importlib.import_module(module)
    for name in names:
        assert inspect.getdoc(getattr(found, name)), name
        assert f"`{name}`" in changelog()
    package = f"{module}." in ("keras_bahdanau.tf.", "keras_bahdanau.grammar.")
    if package:
        public = {name for name in dir(found) if name[0] != "_"}
        public = {x for x in public if not inspect.ismodule(getattr(found, x))}
        assert public == set(names)


@pytest.mark.parametrize("name", LAYERS + MODELS)
def test_a_layer_says_all_that_its_user_must_know(name):
    missing = [section for section in SECTIONS if section not in doc(name)]
    assert not missing
    assert ">>> " in doc(name)
    assert "Reference" in doc(name)


@pytest.mark.parametrize("name", LOSSES_AND_METRICS)
def test_a_loss_or_metric_says_what_counts(name):
    missing = [section for section in SECTIONS if section not in doc(name)]
    assert not missing
    assert ">>> " in doc(name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_tells_its_arguments_and_result(name):
    arguments = inspect.signature(getattr(keras_bahdanau, name)).parameters
    assert "Returns:" in doc(name)
    assert ">>> " in doc(name)
    assert ("Args:" in doc(name)) == bool(arguments)


@pytest.mark.parametrize("name", SERIALISED)
def test_every_argument_is_described(name):
    described = doc(name).split("Args:")[1]
    arguments = inspect.signature(getattr(keras_bahdanau, name)).parameters
    for argument in set(arguments) - {"kwargs"}:
        assert re.search(rf"^ +([\w, ]+, )?{argument}[,:]", described, re.M), argument


@pytest.mark.parametrize("name", SERIALISED)
def test_a_public_class_is_registered_for_saving(name):
    cls = getattr(keras_bahdanau, name)
    assert keras.saving.get_registered_name(cls) == f"keras_bahdanau>{name}"
    assert keras.saving.get_registered_object(f"keras_bahdanau>{name}") is cls


@pytest.mark.parametrize("name", PUBLIC)
def test_public_methods_have_docstrings(name):
    """Those that are ours; Keras documents the methods that it calls itself."""
    cls = getattr(keras_bahdanau, name)
    if not inspect.isclass(cls):
        return
    known = set(dir(keras.Model)) | set(dir(keras.losses.Loss)) | {"__call__"}
    known |= set(dir(keras.layers.RNN)) | set(dir(keras.layers.GRUCell))
    known |= set(dir(keras.metrics.Metric)) | set(dir(tuple))
    for method, value in vars(cls).items():
        if callable(value) and not method.startswith("_") and method not in known:
            assert inspect.getdoc(value), method


def test_importing_brings_no_module_that_keras_does_not():
    """No TensorFlow on other backends, and nothing that only an extra needs."""
    code = (
        "import keras, sys; before = set(sys.modules); import keras_bahdanau;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - {'keras_bahdanau'} - sys.stdlib_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_importing_does_not_bring_tensorflow_to_other_backends():
    if keras.backend.backend() == "tensorflow":
        backends = ["jax", "torch"]
    else:
        backends = [keras.backend.backend()]
    code = (
        "import sys; import keras_bahdanau, keras_bahdanau.alignment;"
        "import keras_bahdanau.grammar; sys.exit('tensorflow' in sys.modules)"
    )
    for backend in backends:
        environment = {**os.environ, "KERAS_BACKEND": backend}
        done = subprocess.run([sys.executable, "-c", code], env=environment)
        assert done.returncode == 0, backend
