"""What may import what, and how long things may get: read from the source, not run."""

import ast
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "keras_bahdanau"
TENSORFLOW = {"tensorflow", "tensorflow_text", "tensorflow_datasets"}
COMPUTED = "a name that is computed"
# Which modules of the package a module may import; those not named, none.
LAYERS = {"attention", "attentive_rnn", "bridge", "decoder", "encoder", "readout"}
MAY_IMPORT = {
    "__init__": "all but tf",
    "attention": {"loop", "products", "random", "scores", "weights"},
    "bridge": {"scores", "weights"},
    "recurrence": {"loop", "scores"},
    "scores": {"products"},
    "decoder": {"attention", "loop", "products", "random", "recurrence", "weights"},
    "attentive_rnn": {"loop", "scores", "weights"},
    "beam": {"continuations", "search", "weights"},
    "continuations": {"scores", "search"},
    "chains": {"loop", "weights"},
    "characters": {"encoder", "random", "weights"},
    "crf": {"chains", "weights"},
    "generation": {"beam", "search"},
    "encoder_decoder": LAYERS
    | {"generation", "initializers", "loop", "products", "random", "recipes"},
    "ensembles": {"generation", "search"},
    "jumps": {"alignment"},
    "metrics": {"losses"},
    "pages": {"alignment"},
    "posterior": {"scores"},
    "search": {"scores", "weights"},
    "losses": {"scores"},
    "fused_loss": {"loop", "losses", "scores", "weights"},
    "encoder": {"initializers", "loop", "products", "recurrence", "weights"},
    "entities": {"tagged_text"},
    "readout": {"loop", "products", "random", "weights"},
    "models": LAYERS | {"encoder_decoder", "initializers"},
    "recipes": {"crf", "losses", "metrics"},
    "tagger": {
        "batching",
        "chains",
        "characters",
        "crf",
        "encoder",
        "initializers",
        "random",
        "weights",
    },
    "tagging_batches": {"batching"},
    "grammar": {"grammar"},
}
LONGEST_FUNCTION = 60
LONGEST_MODULE = 450
LONGEST_TEST_MODULE = 600


def python_files(*folders):
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in files if "__pycache__" not in path.parts)


def name_of(path):
    return str(path.relative_to(ROOT))


OURS = python_files("keras_bahdanau")
PURE = [path for path in OURS if "tf" not in path.relative_to(PACKAGE).parts]
EVERYWHERE = python_files("keras_bahdanau", "examples", "tests", "docs", "benchmarks")


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported_names(tree):
    """Every dotted name that a module imports, wherever in it, or by a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "import from the package by its full name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func).split(".")[-1]
            if called in ("import_module", "__import__", "find_spec"):
                yield getattr(node.args[0], "value", COMPUTED)


def top_level_imports(tree):
    statements = (ast.Import, ast.ImportFrom)
    nodes = [node for node in tree.body if isinstance(node, statements)]
    return {
        name.split(".")[0]
        for name in imported_names(ast.Module(nodes, type_ignores=[]))
    }


def length(node):
    """The lines of the body of a module or function, less all docstrings."""
    lines = node.body[-1].end_lineno - node.body[0].lineno + 1 if node.body else 0
    for part in ast.walk(node):
        if isinstance(part, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = part.body[0] if part.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines -= first.end_lineno - first.lineno + 1
    return lines


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_only_the_tf_folder_imports_tensorflow(path):
    roots = {name.split(".")[0] for name in imported_names(parse(path))}
    assert not roots & (TENSORFLOW | {COMPUTED})


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_importing_the_package_needs_keras_and_numpy_only(path):
    allowed = {"keras", "keras_bahdanau", "numpy", *sys.stdlib_module_names}
    assert top_level_imports(parse(path)) <= allowed


@pytest.mark.parametrize("path", EVERYWHERE, ids=name_of)
def test_nobody_imports_the_private_part_of_keras(path):
    for name in imported_names(parse(path)):
        assert not f"{name}.".startswith("keras.src."), name


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_imports_point_one_way(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    may = MAY_IMPORT.get(parts[0], set())
    for name in imported_names(parse(path)):
        root, *rest = name.split(".")
        assert root not in ("examples", "tests", "benchmarks")
        if root == "keras_bahdanau":
            assert rest[0] != "tf"
            assert may == "all but tf" or rest[0] in may, name


@pytest.mark.parametrize("path", python_files("keras_bahdanau/tf"), ids=name_of)
def test_the_tf_folder_imports_no_example(path):
    roots = {name.split(".")[0] for name in imported_names(parse(path))}
    assert not roots & {"examples", "tests", "benchmarks"}


@pytest.mark.parametrize("path", EVERYWHERE, ids=name_of)
def test_functions_stay_short(path):
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef):
            assert length(node) <= LONGEST_FUNCTION, node.name


@pytest.mark.parametrize("path", EVERYWHERE, ids=name_of)
def test_modules_stay_short(path):
    longest = LONGEST_TEST_MODULE if "tests" in path.parts else LONGEST_MODULE
    assert length(parse(path)) < longest
    assert path.name != "utils.py"


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_errors_are_raised_not_asserted(path):
    assert not [node for node in ast.walk(parse(path)) if isinstance(node, ast.Assert)]


def text_files():
    """What a person would commit: by its ending, less what tools write."""
    endings = {".py", ".md", ".cfg", ".toml", ".yaml", ".yml", ".txt", ".sh"}
    written_by_tools = re.compile(
        r"^(\.git|\.venv.*|build|dist|runs|\..*_cache|.*info)$"
    )
    folders = [ROOT]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path.is_dir() and not written_by_tools.match(path.name):
                folders.append(path)
            elif path.is_file() and (path.suffix in endings or path.name == "run"):
                yield path


@pytest.mark.parametrize("path", list(text_files()), ids=name_of)
def test_no_file_names_a_place_on_one_machine(path):
    text = path.read_text(encoding="utf-8")
    home = "|".join(("work", "root", "home", "Users", "opt", "mnt"))
    found = re.findall(rf"(?<![\w.:/}}*-])/(?:{home})/\S+", text)
    assert not found


def test_the_fence_stands_where_it_should():
    """The lists above hold what they are meant to hold."""
    names = {name_of(path) for path in PURE}
    assert {"keras_bahdanau/__init__.py", "keras_bahdanau/attention.py"} <= names
    assert not any(name.startswith("keras_bahdanau/tf/") for name in names)
    modules = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PURE}
    assert set(MAY_IMPORT) | LAYERS <= modules
    text = "def f():\n    import tensorflow.io as io\n    from keras.src import x\n"
    assert list(imported_names(ast.parse(text))) == ["tensorflow.io", "keras.src.x"]
