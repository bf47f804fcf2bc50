"""Freed memory is kept: what a step takes again costs no page faults."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = """
import resource, torch
from bertkit.training.cpu.malloc import keep_freed_memory
kept = {keep} and keep_freed_memory()
def step():
    return [torch.empty(10_000_000).fill_(1) for _ in range(3)]  # three times 40 MB
for _ in range(8):
    step()  # until there is room for what comes and goes
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


LARGE_PAGES = """
import re, torch
from pathlib import Path
from bertkit.training.cpu.malloc import keep_freed_memory
{limit}
kept = {keep} and keep_freed_memory()
moments = torch.ones(30_000_000)  # 120 MB
rollup = Path("/proc/self/smaps_rollup").read_text()
print(kept, re.search(r"AnonHugePages: +(\\d+) kB", rollup).group(1))
"""
CHOICE = Path("/sys/kernel/mm/transparent_hugepage/enabled")

only_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back so soon")


def printed(program: str) -> tuple[str, int]:
    kept, count = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    return kept, int(count)


def faults(keep: bool) -> tuple[str, int]:
    return printed(FAULTS.format(keep=keep))


@only_glibc
def test_memory_that_is_taken_again_is_not_asked_of_the_system_again():
    kept, with_it = faults(keep=True)
    not_kept, without = faults(keep=False)
    assert (kept, not_kept) == ("True", "False")
    assert with_it < without / 10


@only_glibc
@pytest.mark.skipif(
    not CHOICE.exists() or "[madvise]" not in CHOICE.read_text(), reason="the system leaves no choice of pages"
)
def test_what_is_taken_from_then_on_lies_in_large_pages():
    assert printed(LARGE_PAGES.format(keep=True, limit=""))[1] > 100_000  # kB
    assert printed(LARGE_PAGES.format(keep=False, limit=""))[1] == 0


@only_glibc
def test_where_addresses_are_limited_memory_is_kept_all_the_same():
    limit = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))"
    assert printed(LARGE_PAGES.format(keep=True, limit=limit))[0] == "True"
