"""Printed texts of unknown origin."""

from __future__ import annotations

import io
import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tqdm import tqdm

from bertkit.inference.ner import highlight_spans
from bertkit.runtime.progress import Bar, end_bars, printable, say, wants_colours, without_repetitions, wrapped
from bertkit.tasks.ner.spans import Span

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\x1b\x9b\x07\x7f\r\b"))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def controls(text):
    return [sign for sign in text if unicodedata.category(sign) == "Cc" and sign not in "\t\n"]


@given(TEXTS)
def test_no_control_character_is_printed(text):
    assert controls(printable(text)) == []
    assert json.loads(printable(json.dumps({"text": text}, ensure_ascii=False))) == {"text": text}
    if not controls(text):
        assert printable(text) == text


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_colours_are_the_only_escapes_of_highlighted_entities(before, entity, after, kind):
    span = Span(len(before), len(before) + len(entity), kind)
    shown = highlight_spans(before + entity + after, [span], [kind])
    for colour in ("\x1b[1;32m", "\x1b[0m", "\x1b[2m", "\x1b[0m"):
        assert colour in shown
        shown = shown.replace(colour, "", 1)
    assert shown == printable(f"{before}{entity}[{kind}]{after}")


def test_messages_and_bars_are_escaped(capsys):
    say("file \x1b]0;owned\x07.txt")
    assert capsys.readouterr().err == "file \\u001b]0;owned\\u0007.txt\n"
    assert Bar("a\x1b[2Jb", "B").what == "a\\u001b[2Jb"


def test_lines_break_between_words_on_a_terminal_only(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    line = "accuracy 0.5000, --max-seq-length 128, /a/path/without-a-space/that-is-long"
    lines = wrapped(line, Terminal()).splitlines()
    assert [part.strip() for part in lines] == [
        "accuracy 0.5000,",
        "--max-seq-length",
        "128,",
        "/a/path/without-a-space/that-is-long",
    ]
    assert wrapped(line, io.StringIO()) == line
    assert wrapped("a\nb", Terminal()) == "a\nb"
    command = "  bertkit predict run --input texts.csv"
    assert wrapped(f"next:\n{command}", Terminal()) == f"next:\n{command}"


def test_continued_lines_keep_their_indentation_and_numbers_their_unit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    text = "guessing gives 55.6 %.\n    warning: both methods differ"
    assert wrapped(text, Terminal()) == "guessing gives\n  55.6 %.\n    warning: both\n    methods differ"


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("", True), ("1", False)])
def test_colours_are_for_a_terminal_that_wants_them(monkeypatch, no_color, coloured):
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert wants_colours() is coloured
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not wants_colours()


def test_ended_bars_are_not_drawn_again(capsys):
    bar = tqdm(total=3, file=sys.stderr, leave=True)
    bar.update(1)
    end_bars()
    say("interrupted")
    bar.update(1)
    assert capsys.readouterr().err.endswith("\ninterrupted\n")


def test_a_line_can_be_said_once(capsys):
    with without_repetitions():
        for line in ("a", "b", "a"):
            say(line)
    say("a")
    assert capsys.readouterr().err == "a\nb\na\n"
