"""Pages name scripts of benchmarks that there are, or the commit that has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "benchmarks").glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MENTION = re.compile(r"benchmarks/(\w+\.py)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_mentioned_benchmarks_exist(page):
    text = page.read_text(encoding="utf-8")
    for mention in MENTION.finditer(text):
        near = text[max(mention.start() - 200, 0) : mention.end() + 200]
        exists = (ROOT / "benchmarks" / mention[1]).exists()
        assert exists or re.search(r"of\s+commit [0-9a-f]{7}", near), f"{mention[1]} is not in benchmarks/"


def test_every_benchmark_is_mentioned():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    scripts = [path for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text(encoding="utf-8")]
    assert {path.name for path in scripts} <= set(MENTION.findall(text))
