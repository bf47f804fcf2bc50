"""Writes reviews.csv, the table of the README's first example: 1,500 sentences of reviews of films, from SST-2.

    python benchmarks/reviews.py GLUE reviews.csv

GLUE is the folder of GLUE. Its training set also has parts of sentences; taken are texts of at least eight words that
end with a full stop. The commands beside the numbers give the rest.
"""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

ROWS = 1500
NAMES = {"0": "bad", "1": "good"}


def main(glue: Path, output: Path) -> None:
    """Draws the rows, in the same order each time."""
    with (glue / "SST-2" / "train.tsv").open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    labels = {line["sentence"].strip(): NAMES[line["label"]] for line in lines}
    sentences = [text for text in labels if text.endswith(" .") and len(text.split()) >= 8]
    with output.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["text", "label"])
        rows.writerows([text, labels[text]] for text in random.Random(0).sample(sentences, ROWS))
    print(f"{ROWS:,} of {len(sentences):,} sentences: {output}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
