"""Tables, tagged words, questions and corpora with corrupted bytes, encodings, rows and labels."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

from . import rule
from .campaign import Case
from .damage import hostile_entry

Lines = list[bytes]
Change = Callable[[Lines, int, Random], object]
Kind = tuple[str, str | None, Change]


def _replaced(line: bytes) -> Change:
    return lambda lines, n, rng: lines.__setitem__(n, line)


def _with(byte: bytes) -> Change:
    """Puts bytes somewhere into the line."""

    def insert(lines: Lines, n: int, rng: Random) -> None:
        place = rng.randrange(len(lines[n]) + 1)
        lines[n] = lines[n][:place] + byte + lines[n][place:]

    return insert


def _all(change: Callable[[bytes], bytes]) -> Change:
    """Changes the whole file."""

    def rewrite(lines: Lines, n: int, rng: Random) -> None:
        lines[:] = [change(b"\n".join(lines) + b"\n")]

    return rewrite


# What is right for training on the file: to refuse it, to take it, or (None) either.
ANY_TEXT: list[Kind] = [
    ("a byte that is not UTF-8", None, _with(b"\xff")),  # tables are read as Windows-1252, which is said
    ("half a character", None, _with(b"\xe2\x82")),
    ("UTF-16", None, _all(lambda text: text.decode().encode("utf-16"))),
    ("nothing", "refuse", _all(lambda text: b"")),
    ("a byte order mark", "answer", _all(lambda text: b"\xef\xbb\xbf" + text)),
    ("carriage returns", "answer", _all(lambda text: text.replace(b"\n", b"\r\n"))),
    ("blank lines at the end", "answer", _all(lambda text: text + b"\n\n\n")),
    ("NUL", None, _with(b"\0")),
    ("a terminal escape", None, _with(b"\x1b[31m")),
    ("a line separator", None, _with("\u2028".encode())),
    ("a lone carriage return", None, _with(b"\r")),
    ("cut off", None, lambda lines, n, rng: lines.__setitem__(slice(n, None), [lines[n][:3]])),
    ("a long line", None, _with(b"cat " * 60_000)),
]  # fmt: skip


def _delimited(mark: bytes) -> list[Kind]:
    quotes = "refuse" if mark == b"," else None
    return [
        *ANY_TEXT,
        ("a field too many", "refuse", lambda lines, n, rng: lines.__setitem__(n, lines[n] + mark + b"x")),
        ("a field too few", "refuse", _replaced(b"the cat")),
        ("no text", "refuse", _replaced(mark + b"good")),
        ("no label", "refuse", _replaced(b"the cat" + mark)),
        ("an open quote", quotes, lambda lines, n, rng: lines.__setitem__(n, b'"' + lines[n])),
        ("a header alone", "refuse", lambda lines, n, rng: lines.__delitem__(slice(1, None))),
        ("no header", "refuse", lambda lines, n, rng: lines.__delitem__(0)),
        ("a column twice", "refuse", lambda lines, n, rng: lines.__setitem__(0, mark.join([b"text", b"text"]))),
        ("a formula as a label", None, _replaced(b"the cat" + mark + b"=cmd()")),
        ("an escape as a label", None, _replaced(b"the cat" + mark + b"\x1b[2Jx")),
        ("a path as a label", None, _replaced(b"the cat" + mark + b"../../x")),
        ("a long label", None, _replaced(b"the cat" + mark + b"x" * 20_000)),
        ("one class", None, lambda lines, n, rng: lines.__setitem__(slice(1, None), [b"the cat" + mark + b"a"] * 9)),
    ]


ROWS = {
    b"[]": "refuse", b"null": "refuse", b"7": "refuse", b'{"text": "x"': "refuse", b'{"text": "x"}': "refuse",
    b'{"label": "good"}': "refuse", b"[" * 100_000: "refuse",
}  # fmt: skip
VALUES = {
    b"null": "refuse", b"[]": "refuse", b"{}": "refuse", b'""': "refuse", b"NaN": "refuse",
    b"[" * 5000 + b"]" * 5000: "refuse", b'"\\ud800"': None, b"9" * 5000: None,
    b'"x", "text": "y"': None, b"true": None,
}  # fmt: skip
LABELS = {
    b"null": "refuse", b"{}": "refuse", b'[["a"]]': "refuse", b"NaN": "refuse", b'"\\ud800"': None, b"9" * 5000: None,
    b'["good"]': None, b"1.5": None, b'"\\u0000"': None,
}  # fmt: skip
JSON_LINES: list[Kind] = [
    *ANY_TEXT,
    *[(f"a row {row[:20]!r}", verdict, _replaced(row)) for row, verdict in ROWS.items()],
    *[
        (f"a value {value[:20]!r}", verdict, _replaced(b'{"text": %s, "label": "good"}' % value))
        for value, verdict in VALUES.items()
    ],
    *[
        (f"a label {label[:20]!r}", verdict, _replaced(b'{"text": "the cat", "label": %s}' % label))
        for label, verdict in LABELS.items()
    ],
]
SCORES: list[Kind] = [
    (f"a score {score.decode()!r}", "refuse", _replaced(b"the cat," + score))
    for score in (b"N/A", b"nan", b"inf", b"-inf", b"1e999", b"x", b"-", b"1.5.2", b"NULL", b"0x1p3", b"1_0.5")
]
COLUMNS: list[Kind] = [
    *ANY_TEXT,
    ("a type without a name", "refuse", _replaced(b"dog B-")),
    ("a column too many", "refuse", _replaced(b"dog B-ANIMAL O x y")),
    ("a tag missing", "refuse", _replaced(b"dog")),
    ("I- at the start", "answer", _replaced(b"dog I-ANIMAL")),
    ("a tag of signs", None, _replaced(b"dog B-=cmd()|[x](y)")),
    ("no sentence", "refuse", _all(lambda text: b"-DOCSTART- O\n\n")),
    ("a long sentence", "answer", lambda lines, n, rng: lines.__setitem__(n, b"\n".join([b"cat B-ANIMAL"] * 3000))),
]
TEXT: list[Kind] = [kind for kind in ANY_TEXT if kind[0] != "nothing"]  # one empty file among others is no fault


def _packed(content: bytes, rng: Random) -> bytes:
    """gzip of the content that is cut or has a flipped bit behind its header."""
    packed = bytearray(gzip.compress(content))
    place = rng.randrange(10, len(packed))
    if rng.random() < 0.5:
        return bytes(packed[:place])
    packed[place] ^= 1 << rng.randrange(8)
    return bytes(packed)


def attack(case: Case) -> None:
    made, formats = case.made, ("csv", "tsv", "jsonl", "conll", "scores", "squad", "txt")
    form = case.turn(formats)
    turn = case.place // len(formats)
    source = {"conll": made.tagged, "scores": made.scores, "squad": made.questions}.get(form, made.table)
    name = "rows." + {"scores": "csv", "squad": "json"}.get(form, form)
    if form == "squad":
        path = case.work / name
        path.write_bytes(source.read_bytes())
        verdict, case.note = None, f"squad: {hostile_entry(path, case.rng)}"
        content = path.read_bytes().replace(b'"cat', b'"\\ud800', 1) if case.rng.random() < 0.2 else path.read_bytes()
    else:
        lines, kinds = _lines(case, form, source)
        kind, verdict, change = kinds[turn % len(kinds)] if turn < len(kinds) else case.rng.choice(kinds)
        change(lines, case.rng.randrange(1, len(lines)), case.rng)
        content, case.note = b"\n".join(lines) + (b"\n" if len(lines) > 1 else b""), f"{form}: {kind}"
    if case.rng.random() < 0.1:
        name, content, verdict = f"{name}.gz", _packed(content, case.rng), "refuse"
        case.note += ", gzip damaged"
    path = case.work / name
    path.write_bytes(content)
    _use(case, form, path, verdict)


def _lines(case: Case, form: str, source: Path) -> tuple[Lines, list[Kind]]:
    if form == "txt":
        return (case.made.corpus / "0.txt").read_bytes().splitlines(), TEXT
    if form == "jsonl":
        rows = [{"text": text, "label": label} for text, label in case.made.rows]
        return [json.dumps(row).encode() for row in rows], JSON_LINES
    lines = source.read_bytes().splitlines()
    if form == "tsv":
        return [line.replace(b",", b"\t") for line in lines], _delimited(b"\t")
    return lines, {"csv": _delimited(b","), "scores": SCORES, "conll": COLUMNS}[form]


def _use(case: Case, form: str, path: Path, verdict: str | None) -> None:
    """Trains on the file, or gives it to a model that is trained."""
    made, names, out = case.made, [path.name], case.work / "out"
    if form == "txt":
        start = ["--corpus", path, made.corpus, "--output-dir", out]
        if case.rng.random() < 0.5:
            case.run("tokenizer", "train", *start, "--vocab-size", "80", names=names, must=verdict)
        else:
            case.run(*made.pretraining(1), *start[:3], *start[3:], names=names, must=verdict)
        _nothing_written(case, out)
        return
    task = {"conll": "ner", "squad": "squad"}.get(form, "classification")
    model = {"ner": made.tagger, "squad": made.reader} if task != "classification" else {}
    checkpoint = model.get(task, made.classifier)
    use = case.rng.random()
    if use < 0.6 or form == "scores":
        case.run(*made.training(task, path, schedule=False), "--output-dir", out, names=names, must=verdict)
        _nothing_written(case, out)
    elif use < 0.8:
        case.run("evaluate", checkpoint, "--validation-file", path, "--json", names=names, answer=rule.not_json)
    else:
        grown = ["out.jsonl.partial"]
        case.run("predict", checkpoint, "--input", path, "--output", "out.jsonl", names=names, allowed=grown)


def _nothing_written(case: Case, out: Path) -> None:
    case.check(case.outcomes[-1].code != 2 or not out.exists(), "a refused run has written its folder")
