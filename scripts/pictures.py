"""Makes the pictures of the README and the site from real output: a terminal, a report, pages of explain and of label.

    python scripts/pictures.py quickstart
    python scripts/pictures.py report RUN
    python scripts/pictures.py explain MODEL TEXT
    python scripts/pictures.py inside FOLDER
    python scripts/pictures.py label FILE

``quickstart`` runs `bertkit quickstart` and writes docs/pictures/quickstart.svg: all of its standard output and, of the
log, the lines that begin a part or give the scores of one. ``report`` takes pictures of RUN/report.html, and
``explain`` of the page of `bertkit explain`, in Chromium. ``inside`` takes the pictures of the tutorial "See inside
BERT" from the pages in FOLDER, in which its commands have run. ``label`` answers two rows of a copy of FILE, which
`bertkit next` has written, as in the tutorial "What to label next", and takes a picture of the third.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.text import Text

import bertkit

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
COLUMNS = 108
SHOWN = re.compile(r"\d/4 |.*validation: ")  # of the log
WIDTH, HEIGHT = 1100, 900  # of pages, pixels
INSIDE_WIDTH = 820  # of pages whose parts are pictures
LABEL_HEIGHT = 480
INSIDE = {
    "pieces": ("why", "#pieces"),
    "why": ("why", "#attributions"),
    "attention": ("why", "#one-head"),
    "masked": ("pair", "#masked"),
    "next_sentence": ("pair", "#next_sentence"),
    "contexts": ("bank", "section"),
    "seen": ("seen", "section"),
}
"""Name of a picture -> the page of the tutorial, and the part of it."""


def quickstart() -> None:
    """Runs the quickstart and draws what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["bertkit", "quickstart", "--output-dir", "first"]
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=folder,
            check=True,
            text=True,
            capture_output=True,
        )
    log = [line for line in done.stderr.splitlines() if SHOWN.match(line)]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
    console.print(Text("$ " + " ".join(command), style="bold"))
    for line in log:
        console.print(Text(line, style="dim", overflow="ellipsis", no_wrap=True))
    for line in done.stdout.splitlines():
        console.print(Text(line, overflow="ellipsis", no_wrap=True))
    drawn = console.export_svg(title="bertkit quickstart", unique_id="quickstart")
    # Without the web fonts of the template: a picture loads nothing from other sites.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    (PICTURES / "quickstart.svg").write_text(drawn, encoding="utf-8")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Starts the system's Chromium."""
    path = shutil.which("chromium")
    if path is None:
        sys.exit("pictures of pages need Chromium (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def of_scheme(name: str, scheme: str) -> Path:
    """Returns the path of a picture in a color scheme: docs/pictures/NAME.png or NAME-dark.png."""
    return PICTURES / f"{name}{'-dark' if scheme == 'dark' else ''}.png"


def top_of(page: Path, name: str, schemes: Sequence[str]) -> None:
    """Takes a picture of the top of a page in each color scheme."""
    with chromium() as browser:
        for scheme in schemes:
            window = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            window.goto(page.resolve(strict=True).as_uri())
            window.screenshot(path=of_scheme(name, scheme))


def inside(folder: Path) -> None:
    """Takes a picture of one part of each page of the tutorial, in both color schemes."""
    with chromium() as browser:
        for scheme in ("light", "dark"):
            window = browser.new_page(viewport={"width": INSIDE_WIDTH, "height": HEIGHT}, color_scheme=scheme)
            for name, (page, part) in INSIDE.items():
                window.goto((folder / f"{page}.html").resolve(strict=True).as_uri())
                window.add_style_tag(content="nav { display: none }")  # it would lie over tall parts
                window.locator(part).first.screenshot(path=of_scheme(f"inside-{name}", scheme))


def label(file: Path) -> None:
    """Takes a picture of the page of `bertkit label` after two answers, in both color schemes."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        copy = shutil.copy(file, folder)
        command = [sys.executable, "-m", "bertkit", "label", str(copy), "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["address"]
            window = browser.new_page(viewport={"width": INSIDE_WIDTH, "height": LABEL_HEIGHT})
            window.goto(address)
            for row in (2, 3):
                window.keyboard.press("1")
                window.get_by_role("heading", name=f"Row {row} of").wait_for()
            for scheme in ("light", "dark"):
                window.emulate_media(color_scheme=scheme)
                window.screenshot(path=of_scheme("label", scheme))
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pictures = parser.add_subparsers(dest="picture", required=True)
    pictures.add_parser("quickstart")
    pictures.add_parser("report").add_argument("run", type=Path)
    explained = pictures.add_parser("explain")
    explained.add_argument("model")
    explained.add_argument("text")
    pictures.add_parser("inside").add_argument("folder", type=Path)
    pictures.add_parser("label").add_argument("file", type=Path)
    args = parser.parse_args()
    PICTURES.mkdir(parents=True, exist_ok=True)
    if args.picture == "quickstart":
        quickstart()
    elif args.picture == "report":
        top_of(args.run / "report.html", "report", ["light", "dark"])
    elif args.picture == "inside":
        inside(args.folder)
    elif args.picture == "label":
        label(args.file)
    else:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "explain.html"
            bertkit.explain(args.model, args.text, output=page)
            top_of(page, "explain", ["light", "dark"])


if __name__ == "__main__":
    main()
