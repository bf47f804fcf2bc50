"""Makes the pictures of the README and the site from real pages: a report, and a page of explain in light and dark.

    python scripts/pictures.py report RUN
    python scripts/pictures.py explain MODEL TEXT

They show the top of a page in Chromium. docs/pictures/report.png is that of RUN/report.html, which is always light;
explain.png and explain-dark.png are those of the page of `bertkit explain`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import sync_playwright

import bertkit

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH, HEIGHT = 1100, 900  # of pages, pixels


def top_of(page: Path, name: str, schemes: Sequence[str]) -> None:
    """Takes a picture of the top of a page in each color scheme."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("pictures of pages need Chromium (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in schemes:
            window = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            window.goto(page.resolve(strict=True).as_uri())
            window.screenshot(path=PICTURES / f"{name}{'-dark' if scheme == 'dark' else ''}.png")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pictures = parser.add_subparsers(dest="picture", required=True)
    pictures.add_parser("report").add_argument("run", type=Path)
    explained = pictures.add_parser("explain")
    explained.add_argument("model")
    explained.add_argument("text")
    args = parser.parse_args()
    PICTURES.mkdir(parents=True, exist_ok=True)
    if args.picture == "report":
        top_of(args.run / "report.html", "report", ["light"])
    else:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "explain.html"
            bertkit.explain(args.model, args.text, output=page)
            top_of(page, "explain", ["light", "dark"])


if __name__ == "__main__":
    main()
