"""Markdown: tables and code, and untrusted text, such as names of files, labels and tasks, with escapes."""

from __future__ import annotations

import re
from collections.abc import Sequence

# White space and control characters: a line ending would start a new block.
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
# An underscore between two letters or digits is plain text.
_SPECIAL = re.compile(r"[\\`*\[\]<>|~$&#]|(?<![^\W_])_|_(?![^\W_])")
# The mark of an item of a list, or the first dash of a rule.
_STARTS_BLOCK = re.compile(r"^(\d{0,9})([-+.)])(?=\s|[-\s]*$)")


def escape(text: str) -> str:
    r"""Returns text as one line that Markdown shows unchanged, in a paragraph, a heading or a table.

    >>> escape("f1_ORG of a.csv"), escape("<b>|[x](y)\n# z"), escape("---")
    ('f1_ORG of a.csv', '\\<b\\>\\|\\[x\\](y) \\# z', '\\---')
    """
    return _STARTS_BLOCK.sub(r"\1\\\2", _SPECIAL.sub(r"\\\g<0>", _SPACE.sub(" ", text).strip()))


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table of GitHub's flavour, whose cells are Markdown without line endings.

    >>> print(table(["metric", "value"], [["F1", "0.5"]]))
    | metric | value |
    | --- | --- |
    | F1 | 0.5 |
    """
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, ["---"] * len(heading), *rows))


def code(text: str) -> str:
    """Returns text as a code span.

    >>> code("a/b"), code("a`b")
    ('`a/b`', '``a`b``')
    """
    line = _SPACE.sub(" ", text).strip()
    marks = "`" * (_measure_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{marks}{pad}{line}{pad}{marks}"


def code_block(text: str, language: str) -> str:
    """Returns text as a code block; its fence is longer than any run of backticks in the text."""
    fence = "`" * max(3, _measure_longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _measure_longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
