"""Tables of `few_rows.py`, read from the files that their authors published.

Below the folder of the data: ``glue/`` and ``nli/sick/`` as they are named there; of CLINC150 (clinc/oos-eval on
GitHub) ``few/clinc150/data_full.json``; of BANKING77 (PolyAI-LDN/task-specific-datasets)
``few/banking77/{train,test}.csv``; of GoEmotions (google-research) ``few/goemotions/{train,test}.tsv``; of UCI's
SMS spam ``few/sms/SMSSpamCollection``; and, as FreedomIntelligence/qnn on GitHub has them,
``few/trec/{train_5500,TREC_10}.label``, ``few/sst5/sentiment-{train,test}``, ``few/subj/subj.*``,
``few/cr/custrev.*`` and ``few/snli/{s1,s2,labels}.*``; of ChineseNlpCorpus (SophonPlus) ``few/waimai/waimai_10k.csv``;
of Project Gutenberg ``text/books/*.txt``. A row has ``text``, perhaps ``text_b``, and ``label``: a name, names or a
number.
"""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
SCORED = 1000  # rows that are scored, at most
STARS = "terrible bad okay good great".split()
EMOTIONS = (
    "admiration amusement anger annoyance approval caring confusion curiosity desire disappointment disapproval "
    "disgust embarrassment excitement fear gratitude grief joy love nervousness optimism pride realization relief "
    "remorse sadness surprise neutral"
).split()


@dataclass(frozen=True)
class Table:
    """A table: its name for readers, what its labels are, and how its training and other rows are read."""

    title: str
    kind: str  # classes, several or numbers
    read: Callable[[Path], tuple[Rows, Rows]]


def lines_of(file: Path, encoding: str = "utf-8") -> list[str]:
    return [line for line in file.read_text(encoding=encoding).split("\n") if line.strip()]


def tsv(train: str, other: str, label: str, *texts: str, to: Callable[[str], Any] = str.lower) -> Callable[..., Any]:
    """Rows of two TSV files with headers."""

    def of_file(file: Path) -> Rows:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            lines = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
        names = ("text", "text_b")[: len(texts)]
        return [
            {
                **{name: line[text].strip() for name, text in zip(names, texts, strict=True)},
                "label": to(line[label].strip()),
            }
            for line in lines
        ]

    return lambda data: (of_file(data / train), of_file(data / other))


def phrases(data: Path) -> tuple[Rows, Rows]:
    """SST-2: phrases of at least six words, and sentences."""
    names = {"0": "negative", "1": "positive"}
    train, other = tsv("glue/SST-2/train.tsv", "glue/SST-2/dev.tsv", "label", "sentence", to=names.__getitem__)(data)
    return [row for row in train if len(row["text"].split()) >= 6], other


def clinc(data: Path) -> tuple[Rows, Rows]:
    parts = json.loads((data / "few/clinc150/data_full.json").read_text(encoding="utf-8"))
    train, test = ([{"text": text, "label": label} for text, label in parts[name]] for name in ("train", "test"))
    return train, test


def banking(data: Path) -> tuple[Rows, Rows]:
    def of_file(name: str) -> Rows:
        with (data / "few/banking77" / name).open(encoding="utf-8", newline="") as stream:
            return [{"text": line["text"].strip(), "label": line["category"]} for line in csv.DictReader(stream)]

    return of_file("train.csv"), of_file("test.csv")


def label_first(folder: str, train: str, other: str, to: Callable[[str], str]) -> Callable[..., Any]:
    """Rows of lines that begin with the label and a space."""

    def of_file(file: Path) -> Rows:
        pairs = (line.split(" ", 1) for line in lines_of(file, "latin-1"))
        return [{"text": text.strip(), "label": to(label)} for label, text in pairs]

    return lambda data: (of_file(data / folder / train), of_file(data / folder / other))


def label_in_name(folder: str, of_test: int, **files: str) -> Callable[..., Any]:
    """Rows of a file for each class, shuffled; the last ones are the other rows."""

    def read(data: Path) -> tuple[Rows, Rows]:
        rows = [
            {"text": line.strip(), "label": label}
            for label, name in files.items()
            for line in lines_of(data / folder / name, "latin-1")
        ]
        random.Random(1).shuffle(rows)
        return rows[:-of_test], rows[-of_test:]

    return read


def spam(data: Path) -> tuple[Rows, Rows]:
    lines = [line.split("\t", 1) for line in lines_of(data / "few/sms/SMSSpamCollection", "cp1252")]
    rows = [{"text": text.strip(), "label": label} for label, text in lines]
    random.Random(1).shuffle(rows)
    return rows[:-SCORED], rows[-SCORED:]


def snli(data: Path) -> tuple[Rows, Rows]:
    def of_part(part: str) -> Rows:
        columns = [(data / f"few/snli/{name}.{part}").read_text(encoding="utf-8").splitlines() for name in SNLI]
        rows = [dict(zip(SNLI.values(), map(str.strip, each), strict=True)) for each in zip(*columns, strict=True)]
        return [row for row in rows if row["label"] in ("entailment", "neutral", "contradiction")]

    return of_part("dev"), of_part("test")


SNLI = {"s1": "text", "s2": "text_b", "labels": "label"}


def emotions(data: Path) -> tuple[Rows, Rows]:
    def of_file(name: str) -> Rows:
        with (data / "few/goemotions" / name).open(encoding="utf-8", newline="") as stream:
            lines = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [
                {"text": line["text"], "label": [EMOTIONS[int(each)] for each in line["label"].split(",")]}
                for line in lines
            ]

    return of_file("train.tsv"), of_file("test.tsv")


# ---- unlike the tables that defaults were chosen on -----------------------------------------------------------------


def joined(data: Path) -> tuple[Rows, Rows]:
    """Two or three sentences of CLINC150 as one text, with the intents of all as its labels."""

    def of_part(rows: Rows, seed: int) -> Rows:
        rng = random.Random(seed)
        rng.shuffle(rows)
        parts, start = [], 0
        while start + 3 <= len(rows):
            part = rows[start : start + rng.choice((2, 3))]
            start += len(part)
            parts.append(
                {"text": ". ".join(row["text"] for row in part), "label": sorted({row["label"] for row in part})}
            )
        return parts

    train, test = clinc(data)
    return of_part(train, 1), of_part(test, 2)


def novels(data: Path) -> tuple[Rows, Rows]:
    """Passages of 300 words, whose label is the book."""
    rows = []
    for file in sorted((data / "text/books").glob("*.txt")):
        text = file.read_text(encoding="utf-8-sig").partition("*** START OF")[2].partition("*** END OF")[0]
        words = text.split()[500:]  # behind the title
        rows += [
            {"text": " ".join(words[start : start + 300]), "label": file.stem.replace("_", " ")}
            for start in range(0, len(words) - 300, 300)
        ]
    random.Random(1).shuffle(rows)
    return rows[:-SCORED], rows[-SCORED:]


def rare(data: Path) -> tuple[Rows, Rows]:
    """SMS spam with one spam in forty messages."""

    def of_part(rows: Rows) -> Rows:
        ham, found = ([row for row in rows if row["label"] == label] for label in ("ham", "spam"))
        kept = ham + found[: len(ham) // 39]
        random.Random(1).shuffle(kept)
        return kept

    train, other = spam(data)
    return of_part(train), of_part(other)


def meals(data: Path) -> tuple[Rows, Rows]:
    """Chinese reviews of delivered meals."""
    with (data / "few/waimai/waimai_10k.csv").open(encoding="utf-8", newline="") as stream:
        rows = [
            {"text": line["review"].strip(), "label": "good" if line["label"] == "1" else "bad"}
            for line in csv.DictReader(stream)
        ]
    random.Random(1).shuffle(rows)
    return rows[:-SCORED], rows[-SCORED:]


MRPC = tsv(
    "glue/MRPC/train.tsv",
    "glue/MRPC/dev.tsv",
    "Quality",
    "#1 String",
    "#2 String",
    to=lambda quality: "same" if quality == "1" else "other",
)
SICK = "nli/sick/SICK_train.txt", "nli/sick/SICK_test_annotated.txt", "entailment_judgment", "sentence_A", "sentence_B"
STS_B = "glue/STS-B/train.tsv", "glue/STS-B/dev.tsv", "score", "sentence1", "sentence2"
TREC = "few/trec", "train_5500.label", "TREC_10.label"
TABLES = {
    "sst2": Table("SST-2", "classes", phrases),
    "sst5": Table(
        "SST-5",
        "classes",
        label_first("few/sst5", "sentiment-train", "sentiment-test", lambda label: STARS[int(label)]),
    ),
    "spam": Table("SMS spam", "classes", spam),
    "trec": Table("TREC, 6 kinds", "classes", label_first(*TREC, lambda label: label.split(":")[0])),
    "trec50": Table("TREC, 50 kinds", "classes", label_first(*TREC, lambda label: label)),
    "banking": Table("BANKING77", "classes", banking),
    "clinc": Table("CLINC150", "classes", clinc),
    "mrpc": Table("MRPC (pairs)", "classes", MRPC),
    "rte": Table(
        "RTE (pairs)", "classes", tsv("glue/RTE/train.tsv", "glue/RTE/dev.tsv", "label", "sentence1", "sentence2")
    ),
    "sick": Table("SICK (pairs)", "classes", tsv(*SICK)),
    "goemotions": Table("GoEmotions (several labels)", "several", emotions),
    "stsb": Table("STS-B (numbers)", "numbers", tsv(*STS_B, to=float)),
}
CONFIRMED = {
    "subj": Table(
        "SUBJ", "classes", label_in_name("few/subj", 1500, objective="subj.objective", subjective="subj.subjective")
    ),
    "cr": Table("CR", "classes", label_in_name("few/cr", SCORED, negative="custrev.neg", positive="custrev.pos")),
    "snli": Table("SNLI (pairs)", "classes", snli),
}
"""Tables that no default was chosen on."""
UNLIKE = {
    "joined": Table("CLINC150, sentences joined (150 labels)", "several", joined),
    "novels": Table("8 novels, passages of 300 words", "classes", novels),
    "rare": Table("SMS spam, one in 40", "classes", rare),
    "meals": Table("Reviews in Chinese", "classes", meals),
}
"""Tables of kinds that no default was chosen on."""
ALL = {**TABLES, **CONFIRMED, **UNLIKE}


def pool_and_scored(table: Table, data: Path) -> tuple[Rows, Rows]:
    """Training rows in the order of the files, and other rows, shuffled: no text of one is in the other."""
    train, other = ({(row["text"], row.get("text_b")): row for row in part} for part in table.read(data))
    scored = [row for key, row in other.items() if key not in train]
    random.Random(7).shuffle(scored)
    return list(train.values()), scored


def drawn(table: Table, data: Path, rows: str, draw: int) -> tuple[Rows, Rows, Rows]:
    """Training rows of one draw, the rows to score, and the other rows of the pool: no text is in two of them.

    Of many tables the rows to score were collected apart, and are easier or harder than those of the pool; what a run
    expects holds for rows like its own.

    Args:
        rows: their number; or ``10c`` for 10 of each class; or ``all``.
        draw: its number, from 0.
    """
    pool, scored = pool_and_scored(table, data)
    random.Random(draw).shuffle(pool)
    taken: Counter[str] = Counter()
    if rows.endswith("c"):
        parts: tuple[Rows, Rows] = [], []
        for row in pool:
            taken[row["label"]] += 1
            parts[taken[row["label"]] > int(rows[:-1])].append(row)
        train, alike = parts
    else:
        number = len(pool) if rows == "all" else int(rows)
        train, alike = pool[:number], pool[number:]
    return train, scored[:SCORED], alike[:SCORED]
