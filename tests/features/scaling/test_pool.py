"""The pool: a shard of a worker that dies goes to another one; a shard that kills its workers ends the run."""

from __future__ import annotations

import pytest

from bertkit.features.scaling.inputs import InputFile, Shard
from bertkit.features.scaling.output import FileRecord, Finished
from bertkit.features.scaling.pool import WorkerDiedError, compute_shards
from bertkit.runtime.errors import DataError, PlacementError

FILE = InputFile("x.csv", "x.csv", ".csv", "", 1, "")
SHARDS = [Shard(FILE, number, 1, number) for number in range(12)]


def record(rejected):
    return Finished(rejected, {"x.csv.000000.jsonl": FileRecord.of(b"{}")})


class Fake:
    """A worker that dies after ``lives`` shards, and fails or dies at one shard; ``written`` gets its results."""

    def __init__(self, log, lives=99, dies_at=None, fails_at=None, written=None):
        self.log, self.lives, self.dies_at, self.fails_at = log, lives, dies_at, fails_at
        self.written = written

    def compute(self, shard):
        self.lives -= 1
        if not self.lives or shard.number == self.dies_at:
            if self.written is not None:
                self.written[shard] = record(2)
                self.log.append(shard.number)
            raise WorkerDiedError("by SIGKILL")

        if shard.number == self.fails_at:
            raise DataError("x.csv, line 9: no")
        self.log.append(shard.number)
        return record(shard.number)

    def end(self):
        self.log.append("ended")


def unfinished(shards):
    return {}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_shard_is_computed_once_though_workers_die(count, capsys):
    log = []
    found = list(compute_shards(lambda number: Fake(log, lives=4), count, SHARDS, unfinished))
    assert sorted(each.shard.number for each in found) == list(range(12))
    assert sorted(each for each in log if each != "ended") == list(range(12))
    assert "by SIGKILL; another one takes its place" in capsys.readouterr().err


def test_a_written_shard_of_a_dead_worker_counts():
    log, written = [], {}

    def finished(shards):
        return {shard: written[shard] for shard in shards if shard in written}

    found = list(compute_shards(lambda number: Fake(log, lives=4, written=written), 2, SHARDS, finished))
    assert sorted(each for each in log if each != "ended") == list(range(12))
    assert written
    assert {each.shard: each.finished for each in found if each.shard in written} == written


def test_a_shard_that_kills_workers_ends_the_run():
    with pytest.raises(PlacementError, match=r"x\.csv\.000005: 3 workers have died"):
        list(compute_shards(lambda number: Fake([], dies_at=5), 2, SHARDS, unfinished))


def test_workers_that_cannot_start_end_the_run():
    def make(number):
        raise WorkerDiedError("with exit code 1")

    with pytest.raises(PlacementError, match="while it starts: 3 workers"):
        list(compute_shards(make, 1, SHARDS, unfinished))


def test_a_worker_s_error_ends_the_run():
    log = []
    with pytest.raises(DataError, match="line 9"):
        list(compute_shards(lambda number: Fake(log, fails_at=3), 2, SHARDS, unfinished))
    assert "ended" in log
