"""A training that goes on after it was stopped at any moment."""

import shutil

import keras
import numpy as np
import pytest
from arrays import assert_close

from keras_bahdanau.backup import AtomicBackup


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "backup"


def make_model():
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    # Momentum: what is restored must have the optimizer with it.
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    return model


def fit(model, epochs, *callbacks):
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    return model.fit(
        x, y, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks)
    ).epoch


class Stop(Exception):
    """In the place of a kill."""


def test_a_training_in_two_parts_ends_as_in_one(folder):
    whole, first, second = make_model(), make_model(), make_model()
    fit(whole, 5)
    fit(first, 2, AtomicBackup(folder))
    assert fit(second, 5, AtomicBackup(folder)) == [2, 3, 4]
    assert_close(second.get_weights()[0], whole.get_weights()[0], atol=1e-6)


def test_one_complete_backup_is_kept_and_nothing_else(folder):
    backup = AtomicBackup(folder)
    fit(make_model(), 3, backup)
    assert [path.name for path in folder.iterdir()] == ["epoch-0003"]
    assert backup.finished_epochs == 3


@pytest.mark.parametrize("written", [0, 1], ids=["weights", "and_number"])
def test_a_stop_while_a_backup_is_written_leaves_the_one_before(
    folder, monkeypatch, written
):
    expected = make_model()
    fit(expected, 4)
    stopped = make_model()
    fit(stopped, 2, AtomicBackup(folder))
    save = keras.Model.save_weights

    def save_and_stop(model, filepath, **options):
        # What a kill leaves: half a file, or all of it without the number.
        save(model, filepath, **options)
        if not written:
            with open(filepath, "r+b") as file:
                file.truncate(100)
        raise Stop

    monkeypatch.setattr(keras.Model, "save_weights", save_and_stop)
    with pytest.raises(Stop):
        fit(stopped, 4, AtomicBackup(folder))
    monkeypatch.undo()
    assert AtomicBackup(folder).finished_epochs == 2
    model = make_model()
    assert fit(model, 4, AtomicBackup(folder)) == [2, 3]
    assert_close(model.get_weights()[0], expected.get_weights()[0], atol=1e-6)


def test_a_stop_before_the_older_backup_is_deleted_leaves_the_newer(folder):
    fit(make_model(), 1, AtomicBackup(folder))
    shutil.copytree(folder / "epoch-0001", folder / "older")
    fit(make_model(), 2, AtomicBackup(folder))
    (folder / "older").rename(folder / "epoch-0001")
    assert AtomicBackup(folder).finished_epochs == 2
    assert fit(make_model(), 3, AtomicBackup(folder)) == [2]
    assert [path.name for path in folder.iterdir()] == ["epoch-0003"]


def test_a_cleared_backup_starts_anew_and_leaves_other_files(folder):
    backup = AtomicBackup(folder)
    fit(make_model(), 2, backup)
    (folder / "notes.txt").write_text("mine")
    (folder / "writing").mkdir()
    backup.clear()
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert fit(make_model(), 1, AtomicBackup(folder)) == [0]


def fit_rows(model, epochs, first, *callbacks):
    """Fits 6 batches of one row an epoch, the first epoch from batch `first` on."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    options = {"shuffle": False, "verbose": 0, "batch_size": 1}
    return model.fit(
        x[first:], y[first:], epochs=epochs, callbacks=list(callbacks), **options
    )


class StopAt(keras.callbacks.Callback):
    """Stops the process, so to say, after a batch."""

    def __init__(self, epoch, batch):
        super().__init__()
        self.place = epoch, batch

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.place:
            raise Stop


def test_a_stop_within_an_epoch_goes_on_at_the_batch_and_with_the_mean(folder):
    whole, stopped, resumed = make_model(), make_model(), make_model()
    expected = fit_rows(whole, 4, 0).history["loss"]
    with pytest.raises(Stop):
        fit_rows(stopped, 4, 0, AtomicBackup(folder, minutes=1e-9), StopAt(1, 2))
    assert [path.name for path in folder.iterdir()] == ["epoch-0001-batch-3"]
    backup = AtomicBackup(folder, minutes=1e-9)
    assert (backup.finished_epochs, backup.finished_batches) == (1, 3)
    # Stopped once more, in what is left of the epoch.
    with pytest.raises(Stop):
        fit_rows(resumed, 2, 3, backup, StopAt(1, 1))
    assert (backup.finished_epochs, backup.finished_batches) == (1, 5)
    rest = fit_rows(resumed, 2, 5, backup)
    assert rest.epoch == [1] and backup.finished_batches == 0
    last = fit_rows(resumed, 4, 0, backup)
    assert last.epoch == [2, 3] and backup.finished_epochs == 4
    found = rest.history["loss"] + last.history["loss"]
    np.testing.assert_allclose(found, expected[1:], rtol=1e-5)
    assert_close(resumed.get_weights()[0], whole.get_weights()[0], atol=1e-6)


def test_there_is_no_backup_within_an_epoch_before_the_minutes_are_over(folder):
    names = []

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            names.extend(path.name for path in folder.glob("*"))

    fit_rows(make_model(), 1, 0, AtomicBackup(folder, minutes=60), Look())
    assert not names and AtomicBackup(folder).finished_epochs == 1


def test_minutes_must_be_above_0(folder):
    with pytest.raises(ValueError, match="`minutes` must be .* above 0. Received: 0"):
        AtomicBackup(folder, minutes=0)


def test_a_file_in_the_place_of_the_folder_is_an_error(folder):
    folder.write_text("")
    with pytest.raises(ValueError, match="which is a file"):
        AtomicBackup(folder)
