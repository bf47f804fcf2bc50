"""Searches: sampled settings, a journal that continues, and pruning."""

from __future__ import annotations

import sys
from itertools import count

import pytest

from bertkit.features.grids import workers
from bertkit.features.grids.definition import define
from bertkit.features.grids.search import JOURNAL, Search
from bertkit.features.grids.workers import SampledCells
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.locks import RunLock
from bertkit.training.runs.listing import RECORDS

from .conftest import write_record

pytest.importorskip("optuna", reason="needs the extra search")


@pytest.fixture
def searched(tmp_path):
    """A search of eight trials with three seeds, and its source of cells."""
    spaces = ["train.learning_rate=1e-5..1e-3:log", "train.global_train_batch_size=4..64", "data.max_seq_length=16,32"]
    definition = define("finetune/glue/rte", {}, (), spaces, 8, 3, None)
    return definition, SampledCells(definition, tmp_path)


def worked(definition, source, folder, stops=()):
    """Settles cells with made-up scores, as one worker; a new source where the worker was killed."""
    done = 0
    while found := source.cells():
        write_record(folder, found[0], 1 - abs(found[0].setting.values["train.learning_rate"] - 1e-4) * 100)
        done += 1
        if done in stops:
            source = SampledCells(definition, folder)
            with (folder / JOURNAL).open("ab") as journal:
                journal.write(b'{"op_code": 4, "wor')  # a line that is cut off
    return source.search


def test_values_in_range_and_bad_settings_pruned(searched, tmp_path):
    definition, source = searched
    found = worked(definition, source, tmp_path)
    settings = found.settings()
    assert [setting.number for setting in settings] == list(range(8))
    for setting in settings:
        assert 1e-5 <= setting.values["train.learning_rate"] <= 1e-3
        assert setting.values["train.global_train_batch_size"] in range(4, 65)
        assert setting.values["data.max_seq_length"] in (16, 32)
    records = len(list((tmp_path / RECORDS).iterdir()))
    assert records == 24 - 2 * len(found.pruned())  # a setting is pruned after its first run
    assert len({setting.name for setting in settings}) == 8


def test_an_interrupted_search_samples_the_same_values(searched, tmp_path, tmp_path_factory):
    definition, source = searched
    whole = worked(definition, source, tmp_path).settings()
    other = tmp_path_factory.mktemp("other")
    assert worked(definition, SampledCells(definition, other), other, stops=(1, 5, 6, 11)).settings() == whole


def test_several_workers_share_the_trials(searched, tmp_path):
    """While all cells of a trial are taken, a worker begins the next one."""
    _, source = searched
    first = source.cells()
    assert len(first) == 3
    assert source.more()
    assert [cell.setting.number for cell in source.cells()] == [0, 0, 0, 1, 1, 1]
    for _ in range(6):
        assert source.more()
    assert not source.more()


def test_a_trial_without_its_values_gets_them(searched, tmp_path):
    """A process that was killed between the trial and its values."""
    definition, _ = searched
    search = Search(definition, tmp_path)
    with search._study() as study:
        study.ask()
    assert search.settings() == []
    assert search.ask().number == 0
    assert len(search.settings()) == 1


def test_lists_are_sampled_without_a_warning(tmp_path):
    definition = define("finetune/glue/rte", {}, (), {"task.metrics": [["f1"], ["accuracy", "f1"]]}, 1, 1, None)
    search = Search(definition, tmp_path)
    sampled = search.ask()
    assert sampled.values["task.metrics"] in definition.search["task.metrics"]
    assert Search(definition, tmp_path).settings() == [sampled]


@pytest.mark.parametrize("left", [b"", b'{"op_code": 4, "wor'])
def test_reading_a_search_leaves_its_journal(searched, tmp_path, left):
    """A worker may be writing to it, and the folder may be read-only."""
    definition, source = searched
    source.cells()
    with (tmp_path / JOURNAL).open("ab") as journal:
        journal.write(left)
    before = (tmp_path / JOURNAL).read_bytes()
    search = Search(definition, tmp_path)
    assert [setting.number for setting in search.settings()] == [0]
    assert not search.pruned()
    assert not search.failed()
    assert (tmp_path / JOURNAL).read_bytes() == before


def test_a_journal_without_a_line_has_no_trials(searched, tmp_path):
    definition, _ = searched
    (tmp_path / JOURNAL).touch()
    assert Search(definition, tmp_path).settings() == []


def test_a_worker_waits_for_one_that_completes_the_grid(searched, tmp_path, monkeypatch):
    """However long that predicts the test set."""
    _, source = searched
    held = RunLock(tmp_path / "runs")
    held.__enter__()
    monkeypatch.setattr(workers.time, "monotonic", count(0, 100).__next__)
    monkeypatch.setattr(workers.time, "sleep", lambda seconds: held.__exit__() if seconds == 0.02 else None)
    assert len(source.cells()) == 3


def test_a_worker_goes_on_if_the_last_run_of_a_trial_ends_meanwhile(searched, tmp_path, monkeypatch):
    _, source = searched
    *ended, last = source.cells()
    for cell in ended:
        write_record(tmp_path, cell, 0.5)

    def read_and_end(folder, cell, record_of=workers.record_of):
        record = record_of(folder, cell)
        if cell == last:
            write_record(folder, cell, 0.5)
        return record

    monkeypatch.setattr(workers, "record_of", read_and_end)
    assert source.cells()
    assert len(source.cells()) == 3  # of the next trial


def test_a_failed_run_is_tried_again_by_a_repeated_command(searched, tmp_path):
    definition, source = searched
    failed = source.cells()[1]
    for cell in source.cells():
        write_record(tmp_path, cell, 0.5)
    (tmp_path / RECORDS / f"{failed.name}.json").write_text('{"error": "diverged"}')
    assert len(worked(definition, source, tmp_path).settings()) == 8  # its trial has ended
    workers.forget_failures(tmp_path)
    repeated = SampledCells(definition, tmp_path)
    assert repeated.cells() == [failed]
    write_record(tmp_path, failed, 0.6)
    assert repeated.cells() == []


def test_a_search_is_read_with_the_extra_alone(searched, tmp_path, monkeypatch):
    """A grid that another environment has made: the message names the extra."""
    definition, source = searched
    source.cells()
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(RecipeError, match=r"a grid of --search needs the extra search: pip install 'bertkit\["):
        Search(definition, tmp_path).settings()


def test_the_runs_of_a_search(grid):
    results = grid(search=["train.learning_rate=1e-4..1e-2:log"], trials=2)
    assert [row.n for row in results.settings] == [1, 1]
    assert results.best in {row.name for row in results.settings}
    assert grid(search=["train.learning_rate=1e-4..1e-2:log"], trials=2) == results
