"""Makes the pictures of the README from real output: a terminal with the quickstart, and the top of a report.

    python scripts/pictures.py quickstart
    python scripts/pictures.py report RUN

``quickstart`` runs `bertkit quickstart` and writes docs/pictures/quickstart.svg: all of its standard output and, of the
log, the lines that begin a part or give the scores of one. ``report`` opens RUN/report.html in Chromium and writes
docs/pictures/report.png.
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
COLUMNS = 108
SHOWN = re.compile(r"\d/4 |.*validation: ")  # of the log
WIDTH, HEIGHT = 1100, 900  # of the report, pixels


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


def report(run: Path) -> None:
    """Takes a picture of the top of a run's report."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("the picture of a report needs Chromium (apt-get install chromium)")
    page = (run / "report.html").resolve(strict=True)
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}"]
    subprocess.run([chromium, *options, f"--screenshot={PICTURES / 'report.png'}", page.as_uri()], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pictures = parser.add_subparsers(dest="picture", required=True)
    pictures.add_parser("quickstart")
    pictures.add_parser("report").add_argument("run", type=Path)
    args = parser.parse_args()
    PICTURES.mkdir(parents=True, exist_ok=True)
    if args.picture == "quickstart":
        quickstart()
    else:
        report(args.run)


if __name__ == "__main__":
    main()
