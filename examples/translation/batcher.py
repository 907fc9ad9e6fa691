"""Gathers what many threads ask for into batches that one thread computes."""

import concurrent.futures
import threading
import time
from typing import Any, NamedTuple

# Values shorter than this take about the same time.
_SHORT = 40
# How many times as long as another value of its batch a value may be.
_SPREAD = 4


class QueueFull(Exception):
    """There is no room for so many values."""


class Closed(Exception):
    """Nothing is taken any more."""


class _Item(NamedTuple):
    value: Any
    length: int
    arrived: float
    future: concurrent.futures.Future


class MicroBatcher:
    """Computes a function of lists for callers who each have a few values.

    A thread takes the value that has waited longest as soon as it has waited for
    `max_wait_s` or `max_batch` values wait, and with it those of similar length. So
    nothing waits for more than the batches that hold what came before it, and

        texts in a batch <= max_batch
        texts in a batch * length of the longest <= max_padded, or one text alone
        longest / shortest <= 4 either side of the first, the short ones apart

    If the function fails, the two halves of the batch are tried, and so on: what
    fails alone gets the exception, and its neighbours their results.

    Args:
        function: takes a list of values and returns as many results; only ever called
            by the one thread.
        max_batch: largest number of values in a batch.
        max_wait_s: for how many seconds a value waits for others.
        max_queue: largest number of values that may wait.
        max_padded: largest size of a batch as a matrix, number by longest length.
        length: function that gives the length of a value.
        dropped: function that is told how many values were given up.
    """

    def __init__(
        self,
        function,
        max_batch=64,
        max_wait_s=0.005,
        max_queue=1024,
        max_padded=float("inf"),
        length=len,
        dropped=lambda count: None,
    ):
        self._function = function
        self._max_batch, self._max_wait_s = max_batch, max_wait_s
        self._max_queue, self._max_padded = max_queue, max_padded
        self._length, self._dropped = length, dropped
        self._waiting = []
        self._changed = threading.Condition()
        self._closed = self._hurried = False
        self._busy_since = None
        # A daemon: a function that hangs must not keep the program from ending.
        self._thread = threading.Thread(
            target=self._work, name="micro-batcher", daemon=True
        )
        self._thread.start()

    def submit(self, values):
        """Hands values in, all of them or none.

        Args:
            values: list.

        Returns:
            List of a `concurrent.futures.Future` for each. One that is cancelled
            before its batch begins is never computed.

        Raises:
            QueueFull: if not all of them have room.
            Closed: after `close`.
        """
        now = time.monotonic()
        items = [
            _Item(value, self._length(value), now, concurrent.futures.Future())
            for value in values
        ]
        with self._changed:
            if self._closed:
                raise Closed
            if len(self._waiting) + len(items) > self._max_queue:
                self._drop_cancelled()
            if len(self._waiting) + len(items) > self._max_queue:
                raise QueueFull
            self._waiting += items
            self._changed.notify()
        return [item.future for item in items]

    def hurry(self):
        """From now on no value waits for others; more may still come."""
        with self._changed:
            self._hurried = True
            self._changed.notify()

    def close(self, timeout_s=None):
        """Takes no more values, and waits until all that were taken are done.

        Args:
            timeout_s: for how many seconds to wait; None for as long as it takes.

        Returns:
            Whether all are done.
        """
        with self._changed:
            self._closed = self._hurried = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def num_waiting(self):
        """How many values wait, those given up not counted."""
        with self._changed:
            return sum(not item.future.cancelled() for item in self._waiting)

    @property
    def busy_s(self):
        """For how many seconds the batch at hand has been computed; 0 without one."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def is_alive(self):
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _work(self):
        while batch := self._next_batch():
            self._busy_since = time.monotonic()
            self._compute(batch)
            self._busy_since = None

    def _next_batch(self):
        """Waits for the next batch; None at the end."""
        with self._changed:
            while True:
                self._drop_cancelled()
                if not self._waiting and self._closed:
                    return None
                left_s = self._left_s()
                if left_s is not None and left_s <= 0:
                    # Some may have been cancelled just now.
                    if batch := self._take():
                        return batch
                else:
                    self._changed.wait(left_s)

    def _left_s(self):
        """For how many seconds to wait for company; None for as long as it takes."""
        if not self._waiting:
            return None
        if self._hurried or len(self._waiting) >= self._max_batch:
            return 0.0
        return self._waiting[0].arrived + self._max_wait_s - time.monotonic()

    def _take(self):
        """Takes the first of those that wait, and the nearest to it in length."""
        first = self._waiting[0].length
        ranked = sorted(self._waiting, key=lambda item: _ratio(item.length, first))
        batch, longest = [], 0
        for item in ranked[: self._max_batch]:
            longest = max(longest, item.length)
            too_large = (len(batch) + 1) * longest > self._max_padded
            if batch and (too_large or _ratio(item.length, first) > _SPREAD):
                break
            batch.append(item)
        taken = {id(item.future) for item in batch}
        self._waiting = [item for item in self._waiting if id(item.future) not in taken]
        started = [item for item in batch if item.future.set_running_or_notify_cancel()]
        self._dropped(len(batch) - len(started))
        return started

    def _drop_cancelled(self):
        left = [item for item in self._waiting if not item.future.cancelled()]
        self._dropped(len(self._waiting) - len(left))
        self._waiting = left

    def _compute(self, batch):
        try:
            results = self._function([item.value for item in batch])
            if len(results) != len(batch):
                raise ValueError(
                    "`function` must return a result for each value. Received "
                    f"{len(results)} for {len(batch)}."
                )
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
                return
            middle = len(batch) // 2
            self._compute(batch[:middle])
            self._compute(batch[middle:])
        else:
            for item, result in zip(batch, results):
                item.future.set_result(result)


def _ratio(length, other):
    """How many times as long the longer of two is; short ones count as alike."""
    return max(length, other, _SHORT) / max(min(length, other), _SHORT)
