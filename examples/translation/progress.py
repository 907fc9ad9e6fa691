"""How far a program has come, on standard error, where a person looks at it."""

import contextlib
import os
import stat
import sys

import keras


def is_watched():
    """Whether a bar is seen, and does not mix with what is printed."""
    return sys.stderr.isatty() and not sys.stdout.isatty()


def count_lines(file):
    """The number of lines of a file from here on; `None` of a pipe."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return None
    start = file.tell()
    total = sum(1 for _ in file)
    file.seek(start)
    return total


def watched(found, total):
    """What was found, one by one, with a bar that tells how much of `total` that is."""
    with contextlib.redirect_stdout(sys.stderr):
        bar = keras.utils.Progbar(total, unit_name="sentence")
        bar.update(0)
    for one in found:
        yield one
        with contextlib.redirect_stdout(sys.stderr):
            bar.add(1)
