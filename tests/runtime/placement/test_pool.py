"""The pool: the item of a worker that dies goes to another one; an item that kills its workers ends the run."""

from __future__ import annotations

import pytest

from bertkit.runtime.errors import DataError, PlacementError
from bertkit.runtime.placement.pool import Pool, WorkerDiedError

ITEMS = list(range(12))


def computed(make, count, finished):
    return list(Pool(make, ITEMS, finished, "item {}".format).results(count))


class Fake:
    """A worker that dies after ``lives`` items, and fails or dies at one item; ``written`` gets its results."""

    def __init__(self, log, lives=99, dies_at=None, fails_at=None, written=None):
        self.log, self.lives, self.dies_at, self.fails_at = log, lives, dies_at, fails_at
        self.written = written

    def compute(self, item):
        self.lives -= 1
        if not self.lives or item == self.dies_at:
            if self.written is not None:
                self.written[item] = -2
                self.log.append(item)
            raise WorkerDiedError("by SIGKILL")
        if item == self.fails_at:
            raise DataError("x.csv, line 9: no")
        self.log.append(item)
        return item

    def end(self):
        self.log.append("ended")


def unfinished(items):
    return {}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_item_is_computed_once_though_workers_die(count, capsys):
    log = []
    found = computed(lambda number: Fake(log, lives=4), count, unfinished)
    assert sorted(found) == [(item, item) for item in ITEMS]
    assert sorted(each for each in log if each != "ended") == ITEMS
    assert "by SIGKILL; another one takes its place" in capsys.readouterr().err


def test_a_written_item_of_a_dead_worker_counts():
    log, written = [], {}

    def finished(items):
        return {item: written[item] for item in items if item in written}

    found = computed(lambda number: Fake(log, lives=4, written=written), 2, finished)
    assert sorted(each for each in log if each != "ended") == ITEMS
    assert written
    assert {item: result for item, result in found if item in written} == written


def test_an_item_that_kills_workers_ends_the_run():
    with pytest.raises(PlacementError, match=r"item 5: 3 workers have died"):
        computed(lambda number: Fake([], dies_at=5), 2, unfinished)


def test_workers_that_cannot_start_end_the_run():
    def make(number):
        raise WorkerDiedError("with exit code 1")

    with pytest.raises(PlacementError, match="while it starts: 3 workers"):
        computed(make, 1, unfinished)


def test_a_worker_s_error_ends_the_run():
    log = []
    with pytest.raises(DataError, match="line 9"):
        computed(lambda number: Fake(log, fails_at=3), 2, unfinished)
    assert "ended" in log
