"""Folders of brat: a text and its annotations in two files."""

from __future__ import annotations

import pytest

from bertkit.tasks.ner.brat import read_brat

from .conftest import ANN, OSLO, SPANS, TAGS


def test_a_folder_of_brat_gives_words_and_tags(task, tmp_path):
    for name, text, of_text in (("b", ANN, SPANS[0]), ("a", OSLO, SPANS[1])):
        entities = [
            f"T{at}\t{label} {start} {end}\t{text[start:end]}" for at, (start, end, label) in enumerate(of_text)
        ]
        (tmp_path / f"{name}.txt").write_bytes(f"{text}\r\nAnn.\r\n".encode())
        last = f"T9\tPER {len(text) + 2} {len(text) + 5}\tAnn"
        (tmp_path / f"{name}.ann").write_text(
            "\n".join([*entities, last, "R1\tin Arg1:T0 Arg2:T1", "#1\tNote T0\tsure"])
        )
    (tmp_path / "annotation.conf").write_text("[entities]\nPER\n")
    found, splits = task(train_file=str(tmp_path)).load(["train"])
    tags = [[found.settings.label_names[label] for label in row] for row in splits["train"].examples["labels"][:]]
    assert tags == [[*TAGS[1], "B-PER", "O"], [*TAGS[0], "B-PER", "O"]]


@pytest.mark.parametrize(
    ("line", "start"),
    [
        ("T1\tPER 0 2;3 5\tin parts", "0 2;3 5"),
        ("T1 PER 0 3 Ann", "T1 PER 0 3 Ann"),  # an editor has replaced the tabs
    ],
)
def test_a_line_of_brat_without_one_span_is_refused(task, refusal, tmp_path, line, start):
    (tmp_path / "a.txt").write_text("Ann is here")
    (tmp_path / "a.ann").write_text(line)
    refused = refusal(task(train_file=str(tmp_path)))
    assert refused.startswith("a.txt: a span is {")
    assert f"'start': '{start}'" in refused


def test_hidden_files_in_a_folder_of_brat_are_left_out(tmp_path):
    """Archives made on macOS have a binary file for every file, with a dot before its name."""
    (tmp_path / "__MACOSX").mkdir()
    for name in ("a", "._a", "__MACOSX/a"):
        (tmp_path / f"{name}.txt").write_bytes(b"Ann" if name == "a" else b"\0\5\x16\7")
        (tmp_path / f"{name}.ann").write_bytes(b"T1\tPER 0 3\tAnn" if name == "a" else b"\0\5\x16\7")
    assert read_brat(tmp_path).columns["file"] == ["a.txt"]


def test_a_line_of_brat_ends_at_a_line_break_alone(task, tmp_path):
    text = "Ann is in New\u2028Town, Oslo"  # a line separator, for which the name of an entity has no other sign
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.ann").write_text("T1\tLOC 10 18\tNew\u2028Town\r\nT2\tLOC 20 24\tOslo\n")
    found, splits = task(train_file=str(tmp_path)).load(["train"])
    tags = [found.settings.label_names[label] for label in splits["train"].examples["labels"][0]]
    assert tags == ["O", "O", "O", "B-LOC", "I-LOC", "O", "B-LOC"]


def test_an_entity_that_brat_divides_at_a_line_break_is_one(task, tmp_path):
    (tmp_path / "a.txt").write_text("Ann is in New\n York")
    (tmp_path / "a.ann").write_text("T1\tLOC 10 13;15 19\tNew York\n")
    found, splits = task(train_file=str(tmp_path)).load(["train"])
    tags = [found.settings.label_names[label] for label in splits["train"].examples["labels"][0]]
    assert tags == ["O", "O", "O", "B-LOC", "I-LOC"]
