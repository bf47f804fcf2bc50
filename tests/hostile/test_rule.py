"""The rule itself: each way of breaking it is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from . import rule
from .running import Outcome

REFUSED = Outcome("predict x", 2, "", "bertkit: error: rows.csv, line 3: no label\n", 1.0)
ANSWERED = Outcome("predict x", 0, '{"predictions": []}\n', "", 1.0)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/a/bertkit/data/tables/table.py", line 3, in read\nKeyError: 3\n'
)


def test_what_keeps_the_rule():
    assert rule.faults(REFUSED, names=["rows.csv"], must="refuse") == []
    assert rule.faults(ANSWERED, names=["rows.csv"], must="answer", answer=lambda outcome: None) == []
    assert rule.faults(replace(REFUSED, err="Usage: bertkit\n\nError: No such option: --x\n")) == []


@pytest.mark.parametrize(
    ("outcome", "expected", "fault"),
    [
        (replace(REFUSED, code=1, err=TRACEBACK), {}, "traceback: KeyError, read in bertkit/data/tables/table.py"),
        (replace(REFUSED, late=True, err=""), {}, "too late: no end after 1 s; no exception, no frame of bertkit"),
        (replace(REFUSED, code=1), {}, "exit code 1, expected 0 or 2"),
        (replace(REFUSED, code=-9, err=""), {}, "exit code -9, expected 0 or 2"),
        (replace(REFUSED, err="rows.csv is bad"), {}, "exit code 2 with 0 messages"),
        (replace(REFUSED, err=REFUSED.err * 2), {}, "exit code 2 with 2 messages"),
        (replace(REFUSED, err=f"bertkit: error: {'x' * 4000}"), {}, "a message of 4016 characters"),
        (REFUSED, {"names": ["other.csv"]}, "the message names none of the culprits; other.csv: "),
        (REFUSED, {"must": "answer"}, "refused what is to be answered; "),
        (ANSWERED, {"must": "refuse"}, "accepted what is to be refused"),
        (ANSWERED, {"answer": lambda outcome: "no rows"}, "wrong answer: no rows"),
        (replace(ANSWERED, orphans=True), {}, "processes outlive the command"),
        (replace(REFUSED, err="bertkit: error: \x1b[31m\n"), {}, "control characters on stderr"),
    ],
)
def test_what_breaks_it(outcome, expected, fault):
    (found,) = rule.faults(outcome, **expected)
    assert found.startswith(fault)


def test_half_written_files(tmp_path):
    old = tmp_path / "old.partial"
    old.touch()
    for name in ("a.csv.partial", ".unfinished-run-1234abcd", ".tmpx", "recipe.yaml", "labels.csv", "kept.partial"):
        (tmp_path / name).touch()
    found = rule.left_over(tmp_path, {old}, ["kept.partial"])
    half = {".tmpx)", ".unfinished-run-1234abcd)", "a.csv.partial)", "recipe.yaml)"}
    assert {fault.partition("(")[2] for fault in found} == half


def test_json_without_nan():
    assert rule.valid_json("[1.5]") == [1.5]
    for text in ("[NaN]", "[-Infinity]", "[", ""):
        with pytest.raises(ValueError, match=r"JSON|Expecting"):
            rule.valid_json(text)
