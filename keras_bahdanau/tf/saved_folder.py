"""Folders that `save` writes: what is in them, and how they are replaced."""

import contextlib
import dataclasses
import json
import pathlib
import shutil
import tempfile

import keras

FORMAT = "keras_bahdanau.translator/1"
MODEL, SOURCE, TARGET = "model.keras", "source_codec.json", "target_codec.json"
SETTINGS = "translator.json"
FILES = (MODEL, SOURCE, TARGET, SETTINGS)


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a folder holds.

    Args:
        noun: what messages call it.
        format: name and version of its format, in its settings.
        files: the names of its files.
        settings: the one with settings and notes.
    """

    noun: str
    format: str
    files: tuple
    settings: str


TRANSLATOR = Kind("translator", FORMAT, FILES, SETTINGS)
TAG_CODEC, TAGGER_SETTINGS = "tag_codec.json", "tagger.json"
TAGGER = Kind(
    "tagger",
    "keras_bahdanau.tagger/1",
    (MODEL, TAG_CODEC, TAGGER_SETTINGS),
    TAGGER_SETTINGS,
)


def check_replaceable(folder, kind=TRANSLATOR):
    """Makes sure that nothing but its kind is lost when `folder` is replaced.

    Args:
        folder: name of a folder, which need not exist.
        kind: a `Kind`.

    Raises:
        ValueError: if it is a file, or holds anything else.
    """
    folder = pathlib.Path(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(
            f"`folder` must name a folder. Received {folder}, which is a file. Choose "
            "another name."
        )
    found = sorted(folder.iterdir())
    other = [
        path for path in found if path.name not in kind.files or not path.is_file()
    ]
    if found and not other and not _is_kind(folder, kind):
        other = found[-1:]
    if other:
        raise ValueError(
            f"`folder` must be new, empty, or a {kind.noun} saved before. Received "
            f"{folder}, which holds {other[0].name}, no file of a {kind.noun}. Choose "
            "another name, or move that away."
        )


@contextlib.contextmanager
def replacing(folder, kind=TRANSLATOR):
    """A new folder to write into, which takes the place of `folder` at the end.

    What fails or stops leaves `folder` as it was. Between the two renames at the end
    old and new stand complete in the folder beside it. Only files of its kind are
    ever deleted.

    Args:
        folder: name of a folder, see `check_replaceable`.
        kind: a `Kind`.

    Yields:
        A `pathlib.Path`, the new folder.

    Raises:
        ValueError: as `check_replaceable`, before anything is written.
    """
    # The folder itself where the name is a link.
    folder = pathlib.Path(folder).resolve()
    check_replaceable(folder, kind)
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = pathlib.Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    old, new = beside / "old", beside / "new"
    try:
        new.mkdir()
        yield new
        # Once more: writing a large model takes its time.
        check_replaceable(folder, kind)
        try:
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
        except BaseException:
            if old.exists() and not folder.exists():
                old.rename(folder)
            raise
        for name in kind.files:
            (old / name).unlink(missing_ok=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        for made in (old, beside):
            # Only if it is empty.
            with contextlib.suppress(OSError):
                made.rmdir()


def settings_text(settings, notes, kind=TRANSLATOR):
    """What `read_settings` reads, as text.

    Args:
        settings: dictionary.
        notes: what else to remember, for JSON.
        kind: a `Kind`.

    Returns:
        String.

    Raises:
        ValueError: if `notes` are not for JSON.
    """
    content = {"format": kind.format, "settings": settings, "notes": notes}
    try:
        return json.dumps(content, indent=1) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(
            "`notes` must hold numbers, strings, lists and dictionaries, for JSON. "
            f"Received {notes!r}: {error}."
        ) from error


def check_not_saved(path, kind=TRANSLATOR):
    """Raises a `ValueError` where an export would go into a folder of `save`."""
    if (pathlib.Path(path) / kind.settings).exists():
        raise ValueError(
            f"`path` must not be a folder that `{kind.noun.title()}.save` wrote. "
            f"Received {path}, which holds {kind.settings}. Choose another name."
        )


def read_settings(folder, kind=TRANSLATOR):
    """Reads the settings and notes of what is in a folder.

    Args:
        folder: name of the folder.
        kind: a `Kind`.

    Returns:
        Dictionary with `"settings"`, a dictionary, and `"notes"`.

    Raises:
        ValueError: if its file is broken or of another format.
    """
    path = pathlib.Path(folder) / kind.settings
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        received = content["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{kind.settings} must be as `save` wrote it. Received {path}, which "
            f"is not: {error!r}."
        ) from error
    if received != kind.format:
        raise ValueError(
            f"`path` must hold a {kind.noun} of format {kind.format!r}. Received "
            f"{path} of format {received!r}. Save it again with this version."
        )
    if not isinstance(content.get("settings"), dict):
        raise ValueError(
            f"{kind.settings} must hold the settings of a {kind.noun}. Received "
            f"{path} with: {content.get('settings')!r}. Save it again."
        )
    return {"settings": content["settings"], "notes": content.get("notes")}


def load_model(path, kind=TRANSLATOR):
    """Reads the model in a folder.

    Args:
        path: name of its file.
        kind: the `Kind` of the folder.

    Returns:
        The `keras.Model`.

    Raises:
        ValueError: if it does not load; the message names the file.
    """
    try:
        return keras.saving.load_model(path)
    except Exception as error:
        # Of many kinds, most of which do not name the file.
        raise ValueError(
            f"A {kind.noun} must hold a model. Received {path}, which does not load: "
            f"{error}"
        ) from error


def check_backend(kind=TRANSLATOR):
    """Raises a `ValueError` unless the Keras backend is TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"A {kind.noun.title()} is a TensorFlow graph and needs the TensorFlow "
            f"backend. Received: {keras.backend.backend()}. Set "
            "KERAS_BACKEND=tensorflow; a .keras file from another backend loads there."
        )


def _is_kind(folder, kind):
    """Whether the settings are those of the kind, of this version or another."""
    try:
        content = json.loads((folder / kind.settings).read_text(encoding="utf-8"))
        return content["format"].startswith(kind.format.split("/")[0] + "/")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
