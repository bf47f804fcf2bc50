"""Texts of strangers stay texts in Markdown."""

from __future__ import annotations

import random

import pytest
from markdown_it import MarkdownIt

from bertkit.runtime.markdown import code, code_block, escape

HOSTILE = [
    "plain", "a|b", "a\nb", "\n\n# Heading", "\n---\nlicense: mit\n---\n", "<script>alert(1)</script>",
    "<!-- hidden", "[x](javascript:alert(1))", "![x](http://tracker/x.png)", "[x]: http://evil", "`code`", "``",
    "```\n# out of the block\n```", "~~~\nx", "**bold**", "_emphasis_", "snake_case_name", "&lt;&#60;", "$x$", "C#",
    "# ", "- item", "1. item", "\\", "\\|", "\x1b[31m", "\u2028x", "'\"", "{{x}}", "+ ", "1)", "-", "---", "===",
]  # fmt: skip
PARSER = MarkdownIt("commonmark").enable("table").enable("strikethrough")
DRAW = random.Random(17)
NAMES = [*HOSTILE, *("".join(DRAW.choices(HOSTILE, k=DRAW.randint(2, 4))) for _ in range(60))]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_is_shown_as_it_is(name):
    shown = " ".join(name.replace("\x1b", " ").split())
    (_, inline, _) = PARSER.parse(f"a {escape(name)} b")
    assert " ".join("".join(child.content for child in inline.children).split()) == f"a {shown} b".replace("  ", " ")
    if shown:
        (_, inline, _) = PARSER.parse(f"a {code(name)} b")
        assert [child.content for child in inline.children if child.type == "code_inline"] == [shown]
    block, *rest = PARSER.parse(code_block(name, "yaml"))
    assert (block.type, rest) == ("fence", [])


@pytest.mark.parametrize("name", ["---", "- - -", "-- -", "--- ---", "- a", "+ a", "1. a", "12) a", "+"])
def test_a_text_at_the_start_of_a_line_is_no_rule_and_no_list(name):
    assert [token.type for token in PARSER.parse(escape(name))] == ["paragraph_open", "inline", "paragraph_close"]


def test_ordinary_names_stay_as_they_are():
    for name in ("…/train_file.csv, 9 of 90 rows", "f1_ORG", "nyu-mll/glue (sst2), 67349 examples", "SST-2: größer"):
        assert escape(name) == name
