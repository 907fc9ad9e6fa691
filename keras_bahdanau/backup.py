"""Backup of a training, so that it goes on after a stop, whenever that comes."""

import pathlib
import re
import shutil

import keras

_WRITING = "writing"
_COMPLETE = re.compile(r"epoch-(\d{4,})")


class AtomicBackup(keras.callbacks.BackupAndRestore):
    """Keras' `BackupAndRestore` after each epoch, never seen half written.

    Keras writes weights and then the number of the epoch over those of the backup
    before. A process that is killed between or within the two leaves files that do
    not load, or weights of one epoch with the number of another. Here each backup is
    written into a folder of its own, which takes its name `epoch-NNNN` when it is
    complete; only then is the one before deleted.

    Args:
        folder: name of the folder, for nothing but this.

    Raises:
        ValueError: if `folder` is a file.

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

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(
                f"`folder` must name a folder. Received {folder}, which is a file. "
                "Choose another name."
            )
        super().__init__(str(self.folder / _WRITING), delete_checkpoint=False)

    @property
    def finished_epochs(self):
        """Number of the epochs that the backup has behind it; 0 without one."""
        return max(self._complete(), default=0)

    def clear(self):
        """Deletes the backup: training starts anew."""
        for folder in self._complete().values():
            shutil.rmtree(folder)
        self._delete_unfinished()

    def on_train_begin(self, logs=None):
        self._delete_unfinished()
        complete = self._complete()
        if complete:
            shutil.copytree(complete[max(complete)], self.folder / _WRITING)
        super().on_train_begin(logs)
        self._delete_unfinished()

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        earlier = self._complete()
        new = self.folder / f"epoch-{epoch + 1:04d}"
        if new.exists():
            shutil.rmtree(new)
        (self.folder / _WRITING).rename(new)
        for folder in earlier.values():
            if folder != new:
                shutil.rmtree(folder)

    def _complete(self):
        """Folders of the complete backups, by their number of epochs."""
        if not self.folder.is_dir():
            return {}
        paths = self.folder.iterdir()
        found = [(_COMPLETE.fullmatch(path.name), path) for path in paths]
        return {int(match[1]): path for match, path in found if match}

    def _delete_unfinished(self):
        if (self.folder / _WRITING).exists():
            shutil.rmtree(self.folder / _WRITING)
