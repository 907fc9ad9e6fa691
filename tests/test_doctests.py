"""The examples in docstrings, and the Python of README and docs, run everywhere."""

import doctest
import importlib
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# The part of the package that needs TensorFlow.
TF_FOLDER = "keras_bahdanau.tf"


def module_params():
    for path in sorted((ROOT / "keras_bahdanau").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        inside = f"{name}.".startswith(f"{TF_FOLDER}.")
        yield pytest.param(name, marks=[pytest.mark.tf_only] if inside else [])


def python_blocks():
    """Every fenced `python` block; what is not ours to run is fenced as `py`."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S):
            line = text[: match.start()].count("\n") + 2
            place = f"{path.relative_to(ROOT)}:{line}"
            needs_tf = f"{TF_FOLDER} " in match[1] or "import tensorflow" in match[1]
            marks = [pytest.mark.tf_only] if needs_tf else []
            yield pytest.param("\n" * (line - 1) + match[1], id=place, marks=marks)


@pytest.mark.parametrize("name", list(module_params()))
def test_the_examples_of_a_module_are_right(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    report = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.mark.parametrize("block", list(python_blocks()))
def test_a_block_of_the_documentation_runs(block, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, request.node.callspec.id, "exec"), {"__name__": "__main__"})
