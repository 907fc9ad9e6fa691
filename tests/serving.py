"""What the tests of the HTTP service of examples/translation share."""

import contextlib
import importlib
import pathlib
import sys
import threading
import types

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "translation"
MODULES = ("arguments", "batcher", "measures", "serve", "service")
# Long enough for a loaded machine; nothing that passes waits for it.
LIMIT_S = 300
NEVER_S = 10_000


@contextlib.contextmanager
def imported(*names):
    """Modules of the example, imported as its programs import them."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield types.SimpleNamespace(
            **{name: importlib.import_module(name) for name in names}
        )
    for name in set(MODULES) - before:
        sys.modules.pop(name, None)


class Recorder:
    """A function of lists that tells what it was given, and stops when told to."""

    num_results = 3

    def __init__(self):
        self.batches = []
        self.begun, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def __call__(self, values):
        self.batches.append(list(values))
        self.begun.set()
        assert self.gate.wait(LIMIT_S)
        if "poison" in values:
            raise ValueError("poisoned")
        return [value.upper() for value in values]


class Fake(Recorder):
    """A model that writes in capitals."""

    def __call__(self, jobs):
        texts = super().__call__([job.text for job in jobs])
        return [
            {"text": text, "score": -1.0, "source_tokens": [], "target_tokens": [text]}
            for text in texts
        ]
