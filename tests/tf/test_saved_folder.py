"""How a saved translator is replaced: what is refused, and what a failure leaves."""

import json
import pathlib
import shutil

import pytest

from keras_bahdanau.tf.saved_folder import (
    FILES,
    FORMAT,
    SETTINGS,
    check_replaceable,
    read_settings,
    replacing,
)


def write(folder, mark, **content):
    """The four files of a translator, as far as this module looks into them."""
    for name in FILES:
        (folder / name).write_text(f"{name} {mark}")
    content = {"format": FORMAT, "settings": {}, "notes": mark, **content}
    (folder / SETTINGS).write_text(json.dumps(content))


def save(folder, mark):
    with replacing(folder) as new:
        write(new, mark)


def tree(folder):
    """All that there is in a folder: files with their content, and folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def folder(tmp_path):
    """A folder with a translator in it, and nothing else beside it."""
    folder = tmp_path / "there" / "translator"
    save(folder, "old")
    return folder


def test_a_translator_is_replaced_whole_and_nothing_stays_beside_it(folder):
    # A file that the new one does not have.
    with replacing(folder) as new:
        write(new, "new")
        (new / FILES[0]).unlink()
    assert read_settings(folder)["notes"] == "new"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES[1:])
    assert [path.name for path in folder.parent.iterdir()] == ["translator"]


def test_new_and_empty_folders_are_taken(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "a/new/one"):
        save(tmp_path / name, "new")
        assert read_settings(tmp_path / name)["notes"] == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "empty"]


def test_others_may_read_the_folder_as_any_other(folder):
    (folder.parent / "other").mkdir()
    assert folder.stat().st_mode == (folder.parent / "other").stat().st_mode


def test_a_link_stays_a_link(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)
    save(link, "new")
    assert link.is_symlink() and read_settings(folder)["notes"] == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "there"]


def foreign_file(folder):
    (folder / "thesis.txt").write_text("years of work")
    return "thesis.txt"


def foreign_folder(folder):
    (folder / "thesis").mkdir()
    (folder / "thesis" / "one.txt").write_text("years of work")
    return "thesis"


def folder_with_one_of_our_names(folder):
    (folder / FILES[0]).unlink()
    (folder / FILES[0]).mkdir()
    (folder / FILES[0] / "one.txt").write_text("years of work")
    return FILES[0]


def model_alone(folder):
    for name in FILES[1:]:
        (folder / name).unlink()
    return FILES[0]


def settings_of_another_program(folder):
    (folder / SETTINGS).write_text('{"format": "another/1"}')
    return SETTINGS


def settings_without_format(folder):
    (folder / SETTINGS).write_text("[1, 2]")
    return SETTINGS


def settings_not_in_json(folder):
    (folder / SETTINGS).write_bytes(b"\xff mine")
    return SETTINGS


@pytest.mark.parametrize(
    "spoil",
    [
        foreign_file,
        foreign_folder,
        folder_with_one_of_our_names,
        model_alone,
        settings_of_another_program,
        settings_without_format,
        settings_not_in_json,
    ],
)
def test_other_files_are_named_and_nothing_is_written_or_deleted(folder, spoil):
    name = spoil(folder)
    before = tree(folder.parent)
    with pytest.raises(ValueError, match=f"translator, which holds {name}, no file"):
        with replacing(folder):
            pytest.fail("too late to refuse")
    assert tree(folder.parent) == before
    with pytest.raises(ValueError, match=f"which holds {name}, "):
        check_replaceable(folder)


def test_a_file_in_place_of_the_folder_stays(tmp_path):
    (tmp_path / "translator").write_text("years of work")
    with pytest.raises(ValueError, match="translator, which is a file"):
        save(tmp_path / "translator", "new")
    assert tree(tmp_path) == {"translator": b"years of work"}


def test_a_translator_of_another_version_is_replaced(folder):
    write(folder, "old", format=FORMAT.replace("/1", "/0"))
    save(folder, "new")
    assert read_settings(folder)["notes"] == "new"


def test_neighbours_stay(folder):
    names = [f"translator{ending}" for ending in (".partial", ".old", ".tmp", ".new")]
    for name in names:
        (folder.parent / name).mkdir()
        (folder.parent / name / "mine.txt").write_text("years of work")
    save(folder, "new")
    for name in names:
        assert tree(folder.parent / name) == {"mine.txt": b"years of work"}


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_the_old_one(folder, error):
    before = tree(folder.parent)
    with pytest.raises(type(error)):
        with replacing(folder) as new:
            (new / FILES[0]).write_text("half of a model")
            raise error
    assert tree(folder.parent) == before


@pytest.mark.parametrize("failing", ["translator", "new"])
@pytest.mark.parametrize("error", [OSError("busy"), KeyboardInterrupt()])
def test_a_failure_at_either_rename_leaves_the_old_one(
    folder, failing, error, monkeypatch
):
    before, rename = tree(folder.parent), pathlib.Path.rename

    def fail(path, target):
        if path.name == failing:
            raise error
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "rename", fail)
    with pytest.raises(type(error)):
        save(folder, "new")
    assert tree(folder.parent) == before


def test_a_crash_leaves_the_old_or_the_new_one_whole(folder, tmp_path, monkeypatch):
    """As a crash would leave the disk, before and after each rename."""
    rename, states = pathlib.Path.rename, []

    def photograph():
        states.append(tmp_path / f"state{len(states)}")
        shutil.copytree(folder.parent, states[-1])

    def watched(path, target):
        photograph()
        rename(path, target)
        photograph()

    monkeypatch.setattr(pathlib.Path, "rename", watched)
    save(folder, "new")
    found = []
    for state in states:
        whole = [path.parent for path in state.rglob(SETTINGS)]
        assert all(sorted(p.name for p in x.iterdir()) == sorted(FILES) for x in whole)
        marks = {path.name: read_settings(path)["notes"] for path in whole}
        found.append(marks.get("translator"))
        assert set(marks.values()) == {"old", "new"}
    # Between the two renames both stand in the folder beside.
    assert found == ["old", None, None, "new"]


def test_a_file_that_comes_while_the_model_is_written_stays(folder):
    with pytest.raises(ValueError, match="which holds thesis.txt"):
        with replacing(folder) as new:
            write(new, "new")
            foreign_file(folder)
    assert read_settings(folder)["notes"] == "old"
    assert (folder / "thesis.txt").read_text() == "years of work"
    assert [path.name for path in folder.parent.iterdir()] == ["translator"]


def test_a_file_that_comes_at_the_last_moment_stays(folder, monkeypatch):
    rename = pathlib.Path.rename

    def late(path, target):
        rename(path, target)
        if target.name == "old":
            foreign_file(target)

    monkeypatch.setattr(pathlib.Path, "rename", late)
    save(folder, "new")
    assert read_settings(folder)["notes"] == "new"
    (kept,) = folder.parent.rglob("thesis.txt")
    assert [path.name for path in kept.parent.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (settings_of_another_program, "of format 'another/1'"),
        (settings_without_format, "which is not: TypeError"),
        (settings_not_in_json, "which is not: UnicodeDecodeError"),
        (lambda folder: (folder / SETTINGS).write_text("{"), "not: JSONDecodeError"),
        (lambda folder: write(folder, "", settings=[1]), r"with: \[1\]"),
        (lambda folder: (folder / SETTINGS).unlink(), "FileNotFoundError"),
    ],
)
def test_broken_settings_are_named(folder, spoil, message):
    spoil(folder)
    with pytest.raises(ValueError, match=f"translator(/{SETTINGS})?[ ,].*{message}"):
        read_settings(folder)
