"""What every test gets: one backend, fixed seeds, and the folder of real data.

The suite runs once per backend, chosen as everywhere in Keras::

    KERAS_BACKEND=tensorflow python -m pytest
    KERAS_BACKEND=jax python -m pytest
    KERAS_BACKEND=torch python -m pytest
"""

import gc
import importlib
import os
import pathlib
import shutil
import sys
import tempfile
import urllib.parse

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# No test may draw on a screen.
os.environ.setdefault("MPLBACKEND", "Agg")
if "PYTEST_XDIST_WORKER" in os.environ:
    # Threads of several workers wait for each other on few cores, those of torch most.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
if os.environ.get("KERAS_BACKEND") == "jax":
    # Most of the suite's time goes into compiling small programs that run once.
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        # The workers of a run share what they compiled; it ends with the run.
        PROGRAMS = tempfile.TemporaryDirectory(prefix="programs-")
        os.environ["JAX_COMPILATION_CACHE_DIR"] = PROGRAMS.name
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

BACKENDS = ("tensorflow", "jax", "torch")
ROOT = pathlib.Path(__file__).resolve().parent.parent
TF_ONLY_FOLDER = ROOT / "tests" / "tf"
# Tests of what computes nothing with a backend run once, with TensorFlow.
NO_BACKEND = {
    f"test_{name}.py"
    for name in (
        "alignment",
        "entities",
        "fence",
        "grammar",
        "jumps",
        "pages",
        "pages_in_browser",
        "plots",
        "tag_reports",
        "tagged_text",
        "vectors",
    )
}
TRANSLATION = ROOT / "examples" / "translation"
SEED = 20140901

BACKEND = pytest.StashKey[str]()
SHARED = pytest.StashKey[pathlib.Path | None]()
BROWSER = pytest.StashKey[str | None]()
# Without a sandbox, for containers run by root; the rest keeps it off the network.
BROWSER_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def pytest_addoption(parser):
    parser.addoption(
        "--shared",
        metavar="FOLDER",
        default=os.environ.get("KERAS_BAHDANAU_SHARED"),
        help="folder with real corpora and golden values (default: the "
        "environment variable KERAS_BAHDANAU_SHARED, else ../shared if it exists); "
        "tests marked `shared` are deselected without one",
    )
    parser.addoption(
        "--browser",
        metavar="PROGRAM",
        default=os.environ.get("KERAS_BAHDANAU_BROWSER"),
        help="Chromium or Chrome (default: the environment variable "
        "KERAS_BAHDANAU_BROWSER, else the first that is installed); tests marked "
        "`browser` are deselected without one",
    )


def pytest_configure(config):
    config.stash[BACKEND] = _checked_backend()
    config.stash[SHARED] = _shared_folder(config.getoption("--shared"))
    config.stash[BROWSER] = _browser(config.getoption("--browser"))


def _checked_backend():
    """The backend in use; a missing one fails the run instead of skipping it."""
    wanted = os.environ.get("KERAS_BACKEND", "")
    if wanted and wanted not in BACKENDS:
        raise pytest.UsageError(
            f"KERAS_BACKEND must be one of {', '.join(BACKENDS)}. Received: {wanted!r}."
        )
    try:
        if wanted:
            importlib.import_module(wanted)
        import keras
    except ImportError as error:
        raise pytest.UsageError(
            f"the backend {wanted or 'of Keras'} does not import: {error}. Install it, "
            'for example with `pip install -c constraints.txt -e ".[all]"`.'
        ) from error
    backend = keras.backend.backend()
    if backend not in BACKENDS or (wanted and backend != wanted):
        raise pytest.UsageError(
            f"Keras runs on {backend!r}, not {wanted or BACKENDS}: set KERAS_BACKEND."
        )
    return backend


def _shared_folder(given):
    """The folder that was given (it must exist), or the one beside the checkout."""
    if given:
        folder = pathlib.Path(given).expanduser().resolve()
        if not folder.is_dir():
            raise pytest.UsageError(f"--shared: no such folder: {given}")
        return folder
    beside = ROOT.parent / "shared"
    return beside if (beside / "golden").is_dir() else None


def _browser(given):
    """The program that was given (it must exist), or the first that is installed."""
    if given:
        found = shutil.which(given)
        if found is None:
            raise pytest.UsageError(f"--browser: no such program: {given}")
        return found
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def pytest_report_header(config):
    backend = config.stash[BACKEND]
    left_out = ", tests/tf and tests without a backend left out"
    left_out = "" if backend == "tensorflow" else left_out
    return (
        f"keras backend: {backend}{left_out}; shared: {config.stash[SHARED]}; "
        f"browser: {config.stash[BROWSER]}"
    )


def pytest_ignore_collect(collection_path, config):
    """Keeps other backends from so much as importing the tests of TensorFlow alone."""
    if config.stash[BACKEND] == "tensorflow":
        return None
    inside = collection_path.is_relative_to(TF_ONLY_FOLDER)
    return True if inside or collection_path.name in NO_BACKEND else None


def pytest_collection_modifyitems(config, items):
    unwanted = set()
    if config.stash[BACKEND] != "tensorflow":
        unwanted.add("tf_only")
    if config.stash[SHARED] is None:
        unwanted.add("shared")
    if config.stash[BROWSER] is None:
        unwanted.add("browser")
    dropped = [item for item in items if any(map(item.get_closest_marker, unwanted))]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]


@pytest.fixture
def shared_dir(request):
    """The folder of real corpora and golden values, for tests marked `shared`."""
    if request.node.get_closest_marker("shared") is None:
        pytest.fail("shared_dir: mark this test with pytest.mark.shared")
    return request.config.stash[SHARED]


@pytest.fixture
def page(request):
    """An empty page of a headless browser, for tests marked `browser`.

    What goes wrong in the page, and each request that leaves the machine, fails the
    test.
    """
    from playwright.sync_api import sync_playwright

    if request.node.get_closest_marker("browser") is None:
        pytest.fail("page: mark this test with pytest.mark.browser")
    errors = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=request.config.stash[BROWSER], args=BROWSER_ARGUMENTS
        )
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda asked: _check_address(asked.url, errors))
        yield page
        browser.close()
    assert not errors, errors


def _check_address(url, errors):
    host = urllib.parse.urlsplit(url).hostname
    if host not in (None, "", "localhost", "127.0.0.1"):
        errors.append(f"the page asks for {url}")


@pytest.fixture(autouse=True)
def _same_start():
    """Each test draws the same random numbers, whatever ran before it."""
    import keras

    keras.utils.set_random_seed(SEED)
    policy, floatx = keras.config.dtype_policy(), keras.config.floatx()
    yield
    keras.config.set_dtype_policy(policy)
    keras.config.set_floatx(floatx)


@pytest.fixture(autouse=True, scope="module")
def _no_programs_left():
    """Frees the programs that JAX compiled for the tests of a module.

    Each is mapped into memory several times; Linux allows a process 65,530 of such
    maps, and one that asks for more is killed.
    """
    yield
    if os.environ.get("KERAS_BACKEND") == "jax":
        import jax

        gc.collect()
        jax.clear_caches()


@pytest.fixture
def example(monkeypatch):
    """Imports a module of the example, as the programs do."""
    monkeypatch.syspath_prepend(TRANSLATION)
    before = set(sys.modules)
    yield importlib.import_module
    programs = {path.stem for path in TRANSLATION.glob("*.py")}
    for name in programs - before:
        sys.modules.pop(name, None)


@pytest.fixture
def import_from(monkeypatch):
    """Imports the modules of an example as its programs do, and forgets them then."""
    before, folders = set(sys.modules), []

    def import_from(folder):
        monkeypatch.syspath_prepend(folder)
        folders.append(folder)
        return importlib.import_module

    yield import_from
    for folder in folders:
        for name in {path.stem for path in folder.glob("*.py")} - before:
            sys.modules.pop(name, None)
