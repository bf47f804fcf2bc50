"""The documentation site: its generated pages, its links, and that it loads nothing from other servers."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

import bertkit
from tests.docs.conftest import built

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_recipe_keys_have_type_default_and_meaning(generator):
    page = generator.recipe_keys(bertkit.recipe_schema())
    for start in (
        "* `data.mlm_probability` (number > 0, ≤ 1; default `0.15`): Share",
        "* `model.num_hidden_layers` (integer ≥ 1, ≤ 1,000; default `12`): Transformer layers in the encoder.",
        "* `model.lora.r` (integer ≥ 1, ≤ 4,096; default `16`): Rank of the adapters.",
        "* `train.distill.teacher` (string; required): The",
    ):
        assert f"\n{start}" in page


def test_every_rule_has_an_item(generator):
    page = generator.finding_codes()
    for rule in pytest.importorskip("bertkit.features.checks.findings").rules():
        assert re.search(rf"^\* `{rule.code}`: [A-Z].*\.$", page, re.M), rule.code


def test_the_python_page_has_every_public_name():
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    shown = {name.partition(":")[0] for name in re.findall(r"^::: \S+?(\w+)$", page, re.M)}
    shown |= set(re.findall(r"^      heading: (\w+)$", page, re.M)) | set(re.findall(r"`bertkit\.(\w+)\.", page))
    assert set(bertkit.__all__) - {"__version__"} <= shown


def test_links_stay_in_the_site():
    """Files of the repository are named, not linked: the site does not contain them, and its address is not known."""
    for path in DOCS.rglob("*.md"):
        for target in LINK.findall(path.read_text(encoding="utf-8")):
            if "://" not in target:
                place = (path.parent / target.partition("#")[0]).resolve()
                assert place.is_relative_to(DOCS), f"{path}: {target}"
                assert place.suffix in ("", ".md", ".png", ".svg"), f"{path}: {target}"


def test_every_page_is_once_in_the_menu():
    menu = re.findall(r'= "([\w/]+\.md)"', (ROOT / "zensical.toml").read_text(encoding="utf-8"))
    generated = {f"reference/{name}.md" for name in ("commands", "recipes", "findings")}
    assert sorted(menu) == sorted({str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} | generated)


class Loaded(HTMLParser):
    """Collects the addresses that a browser loads with a page; links that a reader follows are none."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "a":
            self.addresses |= {value for name, value in attrs if name in ("src", "href", "srcset", "data") and value}


@pytest.mark.slow
def test_the_site_loads_nothing_from_other_servers(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) == 1 + len(list((site.parent / "docs").rglob("*.md")))  # and 404.html
    for path in pages:
        reader, text = Loaded(), path.read_text(encoding="utf-8")
        reader.feed(text)
        assert not [each for each in reader.addresses if "//" in each], path
        # A list that is indented by two spaces ends in the middle, and its next item becomes a line of a paragraph.
        assert not re.search(r"\n[-*] ", re.sub(r"<(pre|script|style).*?</\1>", "", text, flags=re.S)), path
    for path in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import\s*)[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path


@pytest.mark.slow
def test_links_to_nowhere_fail_the_build(project, tmp_path):
    copy, targets = tmp_path / "project", ("guides/no_such_page.md", "guides/ner.md#no-such-heading")
    shutil.copytree(project, copy, symlinks=True, ignore=shutil.ignore_patterns("site"))
    with (copy / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.writelines(f"\n[nowhere]({target})\n" for target in targets)
    done = built(copy)
    assert done.returncode != 0
    for target in targets:
        assert target in re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")), *ROOT.glob("benchmarks/*.md")]
NAMED_PATH = re.compile(r"(?<![\w/.-])(?:benchmarks|bertkit|docs|recipes|scripts|tests)/(?!a/)[\w./-]*\w")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page):
    """A file that is gone is named with its commit; `bertkit/a/b.py` is an example."""
    text = page.read_text(encoding="utf-8")
    for name in NAMED_PATH.finditer(text):
        exists = (ROOT / name[0]).exists() or any(ROOT.glob(f"recipes/**/{name[0]}"))
        near = text[max(name.start() - 200, 0) : name.end() + 200]
        assert exists or re.search(r"of\s+commit [0-9a-f]{7}", near), name[0]


def test_every_benchmark_is_named():
    named = {name for page in PAGES for name in NAMED_PATH.findall(page.read_text(encoding="utf-8"))}
    for path in ROOT.glob("benchmarks/*.py"):
        assert f"benchmarks/{path.name}" in named or "__main__" not in path.read_text(encoding="utf-8")
