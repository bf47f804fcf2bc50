"""Processes that compute one function: results in either order, few items ahead, and an end at once."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from multiprocessing import active_children

import pytest

from bertkit.runtime.placement.parallel import compute_in_processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="functions that cannot be pickled need a fork")


@pytest.fixture(autouse=True)
def no_process_is_left():
    before = set(active_children())
    yield
    assert set(active_children()) <= before


def compute(call, items, number=2, **options):
    return compute_in_processes(call, items, number, killed="a process was killed", **options)


def test_results_as_they_are_done():
    found = list(compute(lambda item: time.sleep(0.5 * (item == 0)) or os.getpid(), range(5)))
    assert sorted(item for item, _ in found) == list(range(5))
    assert found[0][0] != 0
    assert os.getpid() not in {process for _, process in found}


@pytest.mark.parametrize(("in_order", "ahead"), [(False, 2), (True, 4)])
def test_few_items_are_read_ahead(in_order, ahead):
    read = []
    items = (read.append(item) or item for item in range(100))
    with closing(compute(abs, items, in_order=in_order)) as computed:
        next(computed)
        assert len(read) == ahead
    assert len(read) == ahead
