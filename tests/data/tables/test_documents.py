"""Folders whose files are one text each: the text of every form, results by file, and both readings asked about."""

from __future__ import annotations

import errno
import json
import os
import re
from email.message import EmailMessage
from pathlib import Path

import numpy as np
import pytest

import bertkit
from bertkit.data.tables import read_table
from bertkit.data.tables.columns import label_and_text_columns
from bertkit.data.tables.documents import document_parts, read_document
from bertkit.data.tables.html import text_of_html
from bertkit.inference.files import predict_stream
from bertkit.inference.vector_files import embed_texts
from bertkit.runtime.errors import DataError


def mail(subject: str, html: bool = False) -> bytes:
    message = EmailMessage()
    message["Subject"] = subject
    message.set_content("an awful\nplot, für immer", charset="iso-8859-1")
    if html:
        message = EmailMessage()
        message["Subject"] = subject
        message.set_content("<p>an awful</p><style>p {}</style><p>plot, f&uuml;r immer</p>", subtype="html")
    message.add_attachment(b"not read", maintype="application", subtype="octet-stream", filename="x.txt")
    return message.as_bytes()


@pytest.fixture
def folder(tmp_path):
    box = tmp_path / "box"
    (box / "sub").mkdir(parents=True)
    (box / "a.txt").write_bytes("a good\r\nfilm, für immer".encode("cp1252"))
    (box / "b.md").write_text("# Film\n\ngood\n")
    (box / "c.HTML").write_text("<head><title>no</title></head><body>a <b>good</b> film<br>again</body>")
    (box / "sub" / "d.eml").write_bytes(mail("Größe"))
    (box / "x.pdf").write_bytes(b"no text")
    (box / ".hidden.txt").write_text("no")
    return box


TEXTS = {
    "a.txt": "a good\nfilm, für immer",
    "b.md": "# Film\n\ngood",
    "c.HTML": "a good film\nagain",
    "sub/d.eml": "Größe\n\nan awful\nplot, für immer",
}


def test_a_file_is_a_text(folder, capsys):
    [(first, half), (second, whole)] = document_parts(folder, 2)
    files = [*first.columns["file"], *second.columns["file"]]
    assert dict(zip(files, [*first.columns["text"], *second.columns["text"]], strict=True)) == TEXTS
    assert (half, whole, second.first_row) == (0.5, 1.0, 2)
    assert "1 other file passed over (.pdf)" in capsys.readouterr().err


PREHEADER = "font-size:1px;color:#fff;max-height:0px;max-width:0;opacity:0;overflow:hidden;mso-hide:all"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p hidden>no<p>yes", "yes"),
        ("<div hidden><p>no<p>no</div>yes", "yes"),
        ("<ul><li hidden>no<li>yes</ul>", "yes"),
        ("<div style='display: none !important'><img>no</div>yes", "yes"),
        (f"<div style='{PREHEADER}'>no</div>yes", "yes"),
        ("<span style='OPACITY:0'>no</span>yes", "yes"),
        ("<div style='max-height:0;overflow:hidden'>no</div>yes", "yes"),
        ("<style>.pre{display:none}</style><div class=pre>no</div>yes", "yes"),
        ("<style>.a{display:none} .a.b{display:block}</style><div class=a>no</div><div class='a b'>yes</div>", "yes"),
        ("<div style='visibility:hidden'>no<b style='visibility:visible'>yes</b></div>", "yes"),
        (
            "<div style='font-size:0'>no<p style='font-size:13px'>yes</p><p style='font-size:90%'>no</p></div>",
            "yes",
        ),
        ("<dialog>no</dialog><dialog open>yes</dialog>", "yes"),
        ("<iframe>no</iframe><video>no</video>yes", "yes"),
        ("<p>yes<script>if (a < b) {}</script></p>", "yes"),
        # seen
        ("no tags", "no tags"),
        ("<p>a</p><p>b &amp; c</p>", "a\nb & c"),
        ("<p>never closed <b>at all", "never closed at all"),
        ("</style>a", "a"),
        ("<div aria-hidden=true>yes</div>", "yes"),
        ("<a style='mso-hide:all'>yes</a>", "yes"),  # a button, which Outlook alone replaces
        ("<style media=print>p{display:none}</style><p>yes", "yes"),
        ("<style>@media (max-width:600px){p{display:none}}</style><p>yes", "yes"),
        ("<noscript><style>p{display:none}</style>no</noscript><p>yes", "yes"),
        ("<noscript><p>no<div></noscript>yes<iframe><p>no</iframe><noembed><b>no</noembed> too", "yes\ntoo"),
        ("<p hidden style='display:block'>yes", "yes"),
        ("<div style='max-height:0'>yes</div>", "yes"),
        ("<div style='opacity:0.5;font-size:0.9em'>yes</div>", "yes"),
        ("<div style='visibility:initial'>yes</div><div style='visibility:hiden'>yes</div>", "yes\nyes"),
        ("<style>p{broken</style><p>yes", "yes"),
        ("<style>p{top:0}</style><p style='{'>yes<p style='(;display:none'>no", "yes"),
        ("a<wbr>b <time>c</time> <label>d</label>", "ab c d"),  # on one line
    ],
)
def test_html_is_read_as_it_is_seen(tmp_path, html, text):
    assert text_of_html(html) == text
    page = EmailMessage()
    page["Subject"] = "x"
    page.set_content(html, subtype="html")
    (tmp_path / "a.eml").write_bytes(page.as_bytes())
    assert read_document(tmp_path / "a.eml") == f"x\n\n{text}"


@pytest.mark.parametrize(("start", "end"), [("<div>", "</div>"), ("<table><tr><td>", "</table>"), ("<font>", "")])
def test_a_page_of_elements_nested_very_deep_is_refused(tmp_path, start, end):
    """css-inline calls itself for each: the stack overflowed, which ended the process."""
    (tmp_path / "a.html").write_text(20_000 * start + "x" + 20_000 * end)
    with pytest.raises(DataError, match=r"a\.html: its elements are nested more than 2,000 deep"):
        read_document(tmp_path / "a.html")
    assert text_of_html("<p>a" * 20_000 + "<svg>" + "<path/>" * 20_000) == "\n".join("a" * 20_000)


HEAD = b"Subject: Hi\nContent-Type: text/plain"
MULTIPART = b"Subject: Hi\nContent-Type: multipart/alternative; boundary=X\n\n--X\nContent-Type: text/plain\n\n"


@pytest.mark.parametrize(
    ("mail", "text"),
    [
        (b"Subject: Hi\n\nf\xc3\xbcr", "für"),  # no encoding is declared
        (HEAD + b"; charset=us-ascii\n\nf\xc3\xbcr", "für"),
        (HEAD + b"; charset=iso-8859-1\n\nit\x92s", "it’s"),
        (HEAD + b'; charset="a\0b"\n\nx', "x"),
        (HEAD + b"; charset=iso-2022-jp\n\n" + "請求書".encode("iso-2022-jp"), "請求書"),
        (b"\xef\xbb\xbf" + HEAD + b"\n\nx", "x"),
        (HEAD.replace(b"\n", b"\r\n") + b"; charset=windows-1252\r\n\r\nf\xfcr\r\nimmer\r\n", "für\nimmer"),
        (HEAD + b"; charset=windows-1252\n\nf\xfcr\0immer", "für\0immer"),
        (MULTIPART + b" \n--X\nContent-Type: text/html\n\n<p>seen\n--X--\n", "seen"),  # the plain text is blank
    ],
)
def test_the_text_of_a_mail_is_kept(tmp_path, mail, text):
    (tmp_path / "a.eml").write_bytes(mail)
    assert read_document(tmp_path / "a.eml") == f"Hi\n\n{text}"


@pytest.mark.parametrize(
    ("mail", "fault"),
    [
        (HEAD + b"; charset=utf-8\n\n" + "счёт слишком большой".encode("koi8-r"), "the body, line 1: not UTF-8"),
        (MULTIPART.replace(b"text/plain", b"multipart/related") + b"x\n--X--\n", "a part of the mail lacks its own"),
        (b"Subject: =?utf-7?q?+2D0-?=\n\nx", "its subject has half of a character"),
        (b"Subject: =?utf-7?q?+2D0-?= Hi\n\nx", "its subject has half of a character"),
    ],
)
def test_a_mail_that_cannot_be_read_is_refused(tmp_path, mail, fault):
    (tmp_path / "a.eml").write_bytes(mail)
    with pytest.raises(DataError, match=rf"a\.eml: {fault}"):
        read_document(tmp_path / "a.eml")


def test_a_page_whose_bytes_cannot_be_what_it_declares(tmp_path):
    text = "der große Käse für"
    (tmp_path / "a.html").write_bytes(f"<meta charset=utf-16><p>{text}".encode("cp1252"))
    (tmp_path / "b.html").write_bytes(f"<meta charset=utf-16><p>{text} ".encode("cp1252"))  # one has an even length
    assert read_document(tmp_path / "a.html") == read_document(tmp_path / "b.html") == text


def test_other_files_are_not_read_for_styles(tmp_path):
    (tmp_path / "a.css").write_text("p {display: none}")
    (tmp_path / "a.html").write_text(f"<link rel=stylesheet href='{tmp_path}/a.css'><p>seen")
    assert read_document(tmp_path / "a.html") == "seen"


@pytest.mark.parametrize(("said", "encoding"), [("Shift_JIS", "cp932"), ("iso-8859-1", "cp1252"), ("unknown", "utf-8")])
def test_a_page_says_its_encoding(tmp_path, said, encoding):
    text = "請求書が高すぎます" if encoding != "cp1252" else "für „immer“ 5 €"
    page = f'<head><meta http-equiv="Content-Type" content="text/html; charset={said}"></head><p>{text}'
    (tmp_path / "a.html").write_bytes(page.encode(encoding))
    assert read_document(tmp_path / "a.html") == text


def test_results_name_their_files(fine_tuned, checkpoint, folder, tmp_path):
    [block] = predict_stream(fine_tuned("film"), input_file=folder, per_file=True)
    assert [(row["file"], row["text"]) for row in block.rows] == list(TEXTS.items())
    assert [line.split("\t")[-1] for line in block.lines] == list(TEXTS)
    expected = bertkit.load(fine_tuned("film")).predict(list(TEXTS.values()))
    assert [row["label"] for row in block.rows] == [each["label"] for each in expected]
    for name in ("v.jsonl", "v.npz", "v.parquet"):
        assert embed_texts(checkpoint, tmp_path / name, input_file=folder, per_file=True)[0] == len(TEXTS)
    rows = map(json.loads, (tmp_path / "v.jsonl").read_text().splitlines())
    assert [row["file"] for row in rows] == list(TEXTS)
    assert list(np.load(tmp_path / "v.npz")["files"]) == list(TEXTS)


def test_both_readings_are_asked_about(fine_tuned, folder, tmp_path):
    predict_folder = pytest.importorskip("bertkit.features.scaling.folders").predict_folder
    film = fine_tuned("film")
    with pytest.raises(DataError, match=r"is a folder; give --per-file if .*, or one file"):
        predict_stream(film, input_file=folder)
    (tmp_path / "lines").mkdir()
    for name, text in (("a", "one\n"), ("b", "one\ntwo\n")):
        (tmp_path / "lines" / f"{name}.txt").write_text(text)
    with pytest.raises(DataError, match=r"b\.txt has several lines; give --per-line if .*, or --per-file"):
        predict_folder(film, str(tmp_path / "lines"), str(tmp_path / "out"), per_line=False)
    assert not (tmp_path / "out").exists()
    (tmp_path / "lines" / "a.txt").rename(tmp_path / "lines" / "a.eml")  # a mail, which has no lines to read
    with pytest.raises(DataError, match=r"b\.txt has several lines"):
        predict_folder(film, str(tmp_path / "lines"), str(tmp_path / "out"), per_line=False)
    (tmp_path / "lines" / "a.eml").rename(tmp_path / "lines" / "a.txt")
    (tmp_path / "lines" / "b.txt").write_text("one\n")
    assert predict_folder(film, str(tmp_path / "lines"), str(tmp_path / "out"), per_line=False).rows == 2


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda box: (box / "e.txt").write_text(" \n"), r"e\.txt: has no text; remove .*, or give --on-error skip"),
        (lambda box: (box / "e.html").write_text("<style>a</style>"), r"e\.html: has no text"),
        (lambda box: [path.unlink() for path in box.rglob("*.*")], r"has no file that ends in \.txt, \.md"),
    ],
)
def test_folders_without_texts_are_refused(fine_tuned, folder, write, message):
    write(folder)
    with pytest.raises(DataError, match=message):
        list(predict_stream(fine_tuned("film"), input_file=folder, per_file=True))


def test_a_file_can_be_one_text(fine_tuned, folder, tmp_path):
    film = fine_tuned("film")
    for name, given in (("sub/d.eml", {}), ("c.HTML", {}), ("b.md", {"per_file": True})):
        [block] = predict_stream(film, input_file=folder / name, **given)
        assert [(row["file"], row["text"]) for row in block.rows] == [(name.rpartition("/")[2], TEXTS[name])]
    assert embed_texts(film, tmp_path / "v.npz", input_file=folder / "sub" / "d.eml")[0] == 1
    assert sum(len(block.rows) for block in predict_stream(film, input_file=folder / "b.md")) == 3  # lines
    with pytest.raises(DataError, match=r"--per-file: is for files that end in \.txt.*x\.pdf"):
        predict_stream(film, input_file=folder / "x.pdf", per_file=True)


def test_files_without_text_can_be_skipped(fine_tuned, folder, capsys):
    (folder / "a0.txt").write_text("")
    [block] = predict_stream(fine_tuned("film"), input_file=folder, per_file=True, on_error="skip")
    assert [row["file"] for row in block.rows] == list(TEXTS)
    assert "a0.txt: has no text" in capsys.readouterr().err


@pytest.fixture
def tickets(tmp_path):
    """A folder of mails in a subfolder for each label."""
    for number in range(6):
        sub = tmp_path / "tickets" / ("billing", "sales")[number % 2] / "2024"
        sub.mkdir(parents=True, exist_ok=True)
        (sub / f"{number}.eml").write_bytes(mail(f"number {number}"))
    return tmp_path / "tickets"


def test_subfolders_are_labels(tickets):
    table = read_table(tickets)
    assert table.columns["label"] == ["billing"] * 3 + ["sales"] * 3
    assert table.columns["file"][0] == "billing/2024/0.eml"
    assert table.columns["text"][3].startswith("number 1\n\nan awful")
    assert table.place(3) == f"{tickets}/sales/2024/1.eml"
    (tickets / "billing" / "2024" / "0.eml").write_bytes(mail("another"))
    assert read_table(tickets).fingerprint != table.fingerprint


def test_metadata_have_labels(tickets):
    lines = ["file_name,queue,text", *(f"{file},q{n},-" for n, file in enumerate(read_table(tickets).columns["file"]))]
    (tickets / "metadata.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]))
    table = read_table(tickets)
    assert list(table.columns) == ["file", "text", "queue"]
    assert table.columns["queue"] == [f"q{number}" for number in range(6)]
    (tickets / "metadata.csv").write_text("\n".join(lines[:-1]))
    with pytest.raises(DataError, match=r"no row for the file 'sales/2024/5\.eml'"):
        read_table(tickets)
    (tickets / "metadata.csv").write_text("\n".join([*lines, lines[1]]))
    with pytest.raises(DataError, match=r"metadata\.csv, line 8: a second row for the file 'billing/2024/0\.eml'"):
        read_table(tickets)
    (tickets / "metadata.csv").write_text("name,queue\na,b\n")
    with pytest.raises(DataError, match=r"no column file_name; it has 'name', 'queue'"):
        read_table(tickets)


def test_a_folder_without_labels_is_told_how_to_give_them(folder):
    with pytest.raises(DataError, match=r"its files have no labels; move them into a subfolder for each label, or"):
        label_and_text_columns(read_table(folder / "sub"), None, [])


def test_names_of_files_with_accents_are_found(tmp_path):
    """macOS parts the accents from the letters; other systems take names that are no text."""
    (tmp_path / os.fsdecode(b"f\xfcr.txt")).write_text("a film")
    assert read_table(tmp_path).columns["file"] == [r"f\xfcr.txt"]
    (tmp_path / os.fsdecode(b"f\xfcr.txt")).rename(tmp_path / "cafe\u0301.txt")
    (tmp_path / "metadata.csv").write_text("file_name,label\ncaf\u00e9.txt,good\n")
    assert read_table(tmp_path).columns["label"] == ["good"]


def test_a_subfolder_that_cannot_be_read_is_a_fault(tickets, monkeypatch):
    scandir = os.scandir

    def deny(path):
        if Path(path).name == "sales":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", deny)
    with pytest.raises(DataError, match=r"sales: cannot be read: Permission denied"):
        read_table(tickets)


def test_all_faults_of_a_folder_are_reported(tickets):
    for name in ("billing/a.txt", "sales/b.txt"):
        (tickets / name).write_text(" ")
    with pytest.raises(DataError, match=r"(?s)2 faults:.*billing/a\.txt: has no text.*sales/b\.txt: has no text"):
        read_table(tickets)
    left = read_table(tickets, skip_ragged=True)
    assert (len(left), left.skipped) == (6, 2)
    (tickets / "c.txt").write_text("no label")
    with pytest.raises(DataError, match=r"c\.txt: is in no subfolder"):
        read_table(tickets, skip_ragged=True)


def test_a_model_is_trained_on_a_folder(tickets, checkpoint, tmp_path):
    run = bertkit.finetune(
        "classification",
        train_file=tickets,
        validation_file=tickets,
        model=str(checkpoint),
        max_steps=1,
        max_seq_length=16,
        output_dir=tmp_path / "run",
    )
    assert run.metrics["eval_samples"] == 6
    page = bertkit.report(run.output_dir).read_text()
    assert re.search(r'<th scope="row">(billing|sales)/2024/\d\.eml', page)  # of a wrong prediction
