"""The micro-batches of the HTTP service, with functions that tell what they got."""

import time

import pytest
from serving import LIMIT_S, NEVER_S, Recorder, imported

pytestmark = pytest.mark.tf_only


@pytest.fixture(scope="module")
def example():
    with imported("batcher") as modules:
        yield modules


@pytest.fixture
def batching(example):
    """Makes micro-batchers, and closes them."""
    made = []

    def make(function, **options):
        made.append(example.batcher.MicroBatcher(function, **options))
        return made[-1]

    yield make
    for batcher in made:
        assert batcher.close(LIMIT_S)


@pytest.fixture
def blocked(batching):
    """A batcher whose function holds its first batch until `gate.set()`."""

    def make(**options):
        recorder = Recorder()
        recorder.gate.clear()
        batcher = batching(recorder, **{"max_wait_s": 0, **options})
        (first,) = batcher.submit(["first"])
        assert recorder.begun.wait(LIMIT_S)
        return batcher, recorder, first

    return make


def values_of(futures):
    return [future.result(LIMIT_S) for future in futures]


def test_what_several_callers_ask_for_is_computed_together_and_in_order(blocked):
    batcher, recorder, first = blocked()
    asked = [["b", "a"], ["d"], ["c", "f", "e"]]
    futures = [batcher.submit(values) for values in asked]
    recorder.gate.set()
    assert [values_of(some) for some in futures] == [["B", "A"], ["D"], ["C", "F", "E"]]
    assert first.result(LIMIT_S) == "FIRST"
    assert recorder.batches == [["first"], ["b", "a", "d", "c", "f", "e"]]


def test_a_full_batch_waits_no_longer(batching):
    recorder = Recorder()
    batcher = batching(recorder, max_batch=3, max_wait_s=NEVER_S)
    assert values_of(batcher.submit(["a", "b", "c"])) == ["A", "B", "C"]
    assert recorder.batches == [["a", "b", "c"]]


def test_a_value_waits_for_others_and_then_no_longer(batching):
    recorder = Recorder()
    batcher = batching(recorder, max_wait_s=0.2)
    started = time.monotonic()
    assert values_of(batcher.submit(["a"])) == ["A"]
    assert time.monotonic() - started >= 0.2


def test_in_a_hurry_nothing_waits(batching):
    batcher = batching(Recorder(), max_wait_s=NEVER_S)
    futures = batcher.submit(["a", "b"])
    batcher.hurry()
    assert values_of(futures + batcher.submit(["c"])) == ["A", "B", "C"]


def test_a_batch_has_the_oldest_value_and_those_nearest_in_length(blocked):
    batcher, recorder, _ = blocked(max_batch=3)
    lengths = [900, 50, 1000, 60, 901, 299, 55, 45, 13]
    futures = batcher.submit(["x" * length for length in lengths])
    recorder.gate.set()
    values_of(futures)
    found = [sorted(map(len, batch)) for batch in recorder.batches[1:]]
    # 13 counts as 40, and 299 is more than four times 60.
    assert found == [[900, 901, 1000], [45, 50, 55], [13, 60], [299]]


def test_long_values_make_small_batches(blocked):
    batcher, recorder, _ = blocked(max_padded=1000)
    futures = batcher.submit(["x" * length for length in (400, 400, 400, 2000, 1500)])
    recorder.gate.set()
    values_of(futures)
    found = [list(map(len, batch)) for batch in recorder.batches[1:]]
    assert found == [[400, 400], [400], [2000], [1500]]


def test_poison_harms_no_neighbour(blocked):
    batcher, recorder, _ = blocked()
    futures = batcher.submit(["a", "b", "poison", "c", "poison"])
    recorder.gate.set()
    for future in (futures[2], futures[4]):
        with pytest.raises(ValueError, match="poisoned"):
            future.result(LIMIT_S)
    assert values_of([futures[0], futures[1], futures[3]]) == ["A", "B", "C"]
    assert values_of(batcher.submit(["after"])) == ["AFTER"]


def test_too_few_results_are_an_error(batching):
    batcher = batching(lambda values: [])
    (future,) = batcher.submit(["a"])
    with pytest.raises(ValueError, match="Received 0 for 1"):
        future.result(LIMIT_S)


def test_what_is_cancelled_in_time_is_never_computed(blocked):
    dropped = []
    batcher, recorder, first = blocked(dropped=dropped.append)
    futures = batcher.submit(["a", "b", "c"])
    assert not first.cancel() and futures[1].cancel()
    assert batcher.num_waiting == 2
    recorder.gate.set()
    assert values_of([futures[0], futures[2]]) == ["A", "C"]
    assert recorder.batches[1:] == [["a", "c"]] and sum(dropped) == 1


def test_a_full_queue_takes_all_values_of_a_caller_or_none(blocked, example):
    batcher, recorder, _ = blocked(max_queue=3)
    futures = batcher.submit(["a", "b"])
    with pytest.raises(example.batcher.QueueFull):
        batcher.submit(["c", "d"])
    assert batcher.num_waiting == 2
    # Whoever gives up makes room.
    futures[0].cancel()
    futures += batcher.submit(["e", "f"])
    recorder.gate.set()
    assert values_of(futures[1:]) == ["B", "E", "F"]


def test_closing_finishes_what_was_taken(batching, example):
    batcher = batching(Recorder(), max_wait_s=NEVER_S)
    futures = batcher.submit(["a", "b"])
    assert batcher.close(LIMIT_S) and not batcher.is_alive
    assert [future.result(0) for future in futures] == ["A", "B"]
    with pytest.raises(example.batcher.Closed):
        batcher.submit(["c"])
