"""Backup of a training, so that it goes on after a stop, whenever that comes."""

import pathlib
import re
import shutil
import time

import keras
import numpy as np

_WRITING, _METRICS = "writing", "metrics.npz"
_COMPLETE = re.compile(r"epoch-(\d{4,})(?:-batch-(\d+))?")


class AtomicBackup(keras.callbacks.BackupAndRestore):
    """Keras' `BackupAndRestore` after each epoch, never seen half written.

    Keras writes weights and then the number of the epoch over those of the backup
    before. A process that is killed between or within the two leaves files that do
    not load, or weights of one epoch with the number of another. Here each backup is
    written into a folder of its own, which takes its name `epoch-NNNN` when it is
    complete; only then is the one before deleted.

    With `minutes` there are backups within an epoch too, `epoch-NNNN-batch-B`. Keras
    has no way to begin an epoch at its batch `B`: who goes on from such a backup first
    fits the rest of that epoch, with `steps_per_epoch` less by `finished_batches` and
    with the data from that batch on. The loss of that epoch is then the mean over all
    of its batches, and so are metrics, but for those of `compile` on TensorFlow, which
    Keras builds with the first batch only: they begin anew.

    Args:
        folder: name of the folder, for nothing but this.
        minutes: a number above 0, after which there is a backup at the end of a batch;
            `None` for epochs only.

    Raises:
        ValueError: if `folder` is a file, or `minutes` is not above 0.

    Example:

    >>> import tempfile
    >>> import numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile(loss="mse")
    >>> folder = tempfile.mkdtemp()
    >>> def fit(epochs):
    ...     data = np.ones((4, 3)), np.ones((4, 2))
    ...     backup = AtomicBackup(folder)
    ...     return model.fit(*data, epochs=epochs, verbose=0, callbacks=[backup]).epoch
    >>> fit(2), AtomicBackup(folder).finished_epochs, fit(3)
    ([0, 1], 2, [2])
    """

    def __init__(self, folder, minutes=None):
        self.folder = pathlib.Path(folder)
        self.minutes = minutes
        if minutes is not None and not minutes > 0:
            raise ValueError(
                f"`minutes` must be a number above 0. Received: {minutes}. Leave it "
                "out for a backup after each epoch only."
            )
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(
                f"`folder` must name a folder. Received {folder}, which is a file. "
                "Choose another name."
            )
        super().__init__(str(self.folder / _WRITING), delete_checkpoint=False)

    @property
    def finished_epochs(self):
        """Number of the epochs that the backup has behind it; 0 without one."""
        return self._newest()[0]

    @property
    def finished_batches(self):
        """Number of the batches of the epoch after these that it has behind it."""
        return self._newest()[1]

    def clear(self):
        """Deletes the backup: training starts anew."""
        for folder in self._complete().values():
            shutil.rmtree(folder)
        self._delete_unfinished()

    def on_train_begin(self, logs=None):
        self._delete_unfinished()
        complete = self._complete()
        self._metrics, self._skipped = None, 0
        if complete:
            newest = complete[self._newest()]
            shutil.copytree(newest, self.folder / _WRITING)
            self._skipped = self.finished_batches
            if self._skipped:
                with np.load(newest / _METRICS) as saved:
                    self._metrics = [saved[name] for name in saved.files]
        super().on_train_begin(logs)
        self._delete_unfinished()
        self._saved = time.monotonic()

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        # Keras has just set the metrics back.
        if self._metrics is not None:
            for variable, value in zip(self.model.metrics_variables, self._metrics):
                variable.assign(value)
            self._metrics = None

    def on_train_batch_end(self, batch, logs=None):
        if self.minutes is None or time.monotonic() - self._saved < self.minutes * 60:
            return
        # As Keras counts: the epochs that are complete.
        super().on_epoch_end(self._epoch - 1, logs)
        values = map(keras.ops.convert_to_numpy, self.model.metrics_variables)
        np.savez(self.folder / _WRITING / _METRICS, *values)
        done = self._skipped + batch + 1
        self._finish(f"epoch-{self._epoch:04d}-batch-{done}")

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        self._skipped = 0
        self._finish(f"epoch-{epoch + 1:04d}")

    def _finish(self, name):
        """Gives the backup its name, and deletes the one before."""
        earlier = self._complete()
        new = self.folder / name
        if new.exists():
            shutil.rmtree(new)
        (self.folder / _WRITING).rename(new)
        for folder in earlier.values():
            if folder != new:
                shutil.rmtree(folder)
        self._saved = time.monotonic()

    def _newest(self):
        return max(self._complete(), default=(0, 0))

    def _complete(self):
        """Folders of the complete backups, by their numbers of epochs and batches."""
        if not self.folder.is_dir():
            return {}
        paths = self.folder.iterdir()
        found = [(_COMPLETE.fullmatch(path.name), path) for path in paths]
        return {
            (int(match[1]), int(match[2] or 0)): path for match, path in found if match
        }

    def _delete_unfinished(self):
        if (self.folder / _WRITING).exists():
            shutil.rmtree(self.folder / _WRITING)
