"""The folder that `Translator.save` writes: what is in it, and how it is replaced."""

import contextlib
import json
import pathlib
import shutil
import tempfile

FORMAT = "keras_bahdanau.translator/1"
MODEL, SOURCE, TARGET = "model.keras", "source_codec.json", "target_codec.json"
SETTINGS = "translator.json"
FILES = (MODEL, SOURCE, TARGET, SETTINGS)


def check_replaceable(folder):
    """Makes sure that nothing but a translator is lost when `folder` is replaced.

    Args:
        folder: name of a folder, which need not exist.

    Raises:
        ValueError: if it is a file, or holds anything but a translator.
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
    other = [path for path in found if path.name not in FILES or not path.is_file()]
    if found and not other and not _is_translator(folder):
        other = found[-1:]
    if other:
        raise ValueError(
            "`folder` must be new, empty, or a translator saved before. Received "
            f"{folder}, which holds {other[0].name}, no file of a translator. Choose "
            "another name, or move that away."
        )


@contextlib.contextmanager
def replacing(folder):
    """A new folder to write into, which takes the place of `folder` at the end.

    What fails or stops leaves `folder` as it was. Between the two renames at the end
    old and new stand complete in the folder beside it. Only files of a translator are
    ever deleted.

    Args:
        folder: name of a folder, see `check_replaceable`.

    Yields:
        A `pathlib.Path`, the new folder.

    Raises:
        ValueError: as `check_replaceable`, before anything is written.
    """
    # The folder itself where the name is a link.
    folder = pathlib.Path(folder).resolve()
    check_replaceable(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = pathlib.Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    old, new = beside / "old", beside / "new"
    try:
        new.mkdir()
        yield new
        # Once more: writing a large model takes its time.
        check_replaceable(folder)
        try:
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
        except BaseException:
            if old.exists() and not folder.exists():
                old.rename(folder)
            raise
        for name in FILES:
            (old / name).unlink(missing_ok=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        for made in (old, beside):
            # Only if it is empty.
            with contextlib.suppress(OSError):
                made.rmdir()


def read_settings(folder):
    """Reads the settings and notes of a translator.

    Args:
        folder: name of the folder.

    Returns:
        Dictionary with `"settings"`, a dictionary, and `"notes"`.

    Raises:
        ValueError: if its file is broken or of another format.
    """
    path = pathlib.Path(folder) / SETTINGS
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        received = content["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{SETTINGS} must be as `Translator.save` wrote it. Received {path}, which "
            f"is not: {error!r}."
        ) from error
    if received != FORMAT:
        raise ValueError(
            f"`path` must hold a translator of format {FORMAT!r}. Received {path} of "
            f"format {received!r}. Save it again with this version."
        )
    if not isinstance(content.get("settings"), dict):
        raise ValueError(
            f"{SETTINGS} must hold the settings of a translator. Received {path} with: "
            f"{content.get('settings')!r}. Save it again."
        )
    return {"settings": content["settings"], "notes": content.get("notes")}


def _is_translator(folder):
    """Whether the settings are those of a translator, of this version or another."""
    try:
        content = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        return content["format"].startswith(FORMAT.split("/")[0] + "/")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
