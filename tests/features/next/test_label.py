"""The page of `bertkit label`: what its forms and keys write into the file, and what is refused."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import bertkit as package
from bertkit.data.tables import read_table
from bertkit.features.next.answers import Answers
from bertkit.features.next.writing import write_rows
from bertkit.runtime.errors import DataError, OutputError

pytestmark = pytest.mark.usefixtures("serve_extra")
TEXTS = ["where is my money", "=a <b>larger</b> one, please\nthanks", "what now"]
LABELS = ("refund", "exchange", "refund")
ENDINGS = (".csv", ".jsonl", ".json", ".parquet", ".xlsx")


def proposal(path: Path, labels: tuple[Any, ...] = LABELS) -> Path:
    """Writes three rows to label above some labelled ones."""
    reason = "unsure between refund and exchange"
    rows: list[dict[str, Any]] = [
        {"id": number, "text": text, "label": None, "guess": str(labels[0]), "probability": 0.5, "reason": reason}
        for number, text in enumerate(TEXTS)
    ]
    rows += [
        {"id": None, "text": f"old {number}", "label": label, "guess": None, "probability": None, "reason": None}
        for number, label in enumerate(labels)
    ]
    write_rows(path, rows, "label", ["text"], sorted(set(map(str, labels))))
    return path


class Page:
    """A client that sends the forms of the page."""

    def __init__(self, path: Path, **options: Any):
        from starlette.testclient import TestClient

        from bertkit.features.next.label_page import label_app

        self.client = TestClient(label_app(Answers(path, **options), "bertkit finetune …"))
        self.text = self.client.get("/").text

    def send(self, action: str, headers: dict[str, str] | None = None, **fields: str) -> int:
        """Sends a form with its hidden fields; the page that follows is in `text`."""
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', self.text))
        answer = self.client.post(f"/{action}", data=hidden | fields, headers=headers)
        if answer.status_code == 200:
            self.text = answer.text
        return answer.status_code

    @property
    def heading(self) -> str:
        return re.search("<h1>(.*)</h1>", self.text)[1]


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_answer_and_each_undo_is_in_the_file_at_once(tmp_path, ending):
    path = proposal(tmp_path / f"rows{ending}")
    before = read_table(path).columns
    page = Page(path)
    assert page.heading == "Row 1 of 3"
    page.send("answer", label="exchange")
    assert [*read_table(path).columns["label"]][:3] in (["exchange", "", ""], ["exchange", None, None])
    page.send("answer", label="=new  class ")
    after = read_table(path).columns
    assert [*after["label"]][:2] == ["exchange", "=new class"]
    assert {name: [*values] for name, values in after.items() if name != "label"} == {
        name: [*values] for name, values in before.items() if name != "label"
    }
    assert page.heading == "Row 3 of 3"
    assert 'value="=new class"' in page.text  # an answer for the next rows
    page.send("undo")
    assert page.heading == "Row 2 of 3"
    page.send("undo")
    assert {name: [*values] for name, values in read_table(path).columns.items()} == {
        name: [*values] for name, values in before.items()
    }
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_answer_leaves_who_may_read_the_file(tmp_path, ending):
    path = proposal(tmp_path / f"rows{ending}")
    path.chmod(0o600)
    Page(path).send("answer", label="exchange")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_label_that_a_workbook_cannot_have_is_told(tmp_path):
    path = proposal(tmp_path / "rows.xlsx")
    page = Page(path)
    for sign in "\x01\uffff":
        assert page.send("answer", label=f"a{sign}b") == 200
        assert "has a character that a workbook cannot have" in page.text
        with pytest.raises(OutputError, match="with a character that a workbook cannot have; give --output FILE"):
            proposal(tmp_path / "others.xlsx", (f"a{sign}b",))
    assert page.heading == "Row 1 of 3"
    assert not read_table(path).columns["label"][0]


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_what_a_killed_page_was_writing_is_removed(tmp_path, ending):
    path = proposal(tmp_path / f"rows{ending}")
    program = (
        "import os, sys; from bertkit.features.next.answers import Answers; answers = Answers(sys.argv[1]); "
        "os.replace = lambda *_: os._exit(9); answers.answer(0, 'refund')"
    )
    before = path.read_bytes()
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 9
    assert path.read_bytes() == before
    assert len([*tmp_path.iterdir()]) == 2
    Answers(path)
    assert [*tmp_path.iterdir()] == [path]


def test_a_workbook_keeps_its_list_and_what_else_is_in_it(tmp_path):
    path = proposal(tmp_path / "rows.xlsx")
    book = openpyxl.load_workbook(path)
    book["rows"]["H2"] = "=1+1"
    book.save(path)
    Page(path).send("answer", label="refund")
    sheet = openpyxl.load_workbook(path)["rows"]
    assert sheet["C2"].value == "refund"
    assert sheet["H2"].value == "=1+1"
    assert len(sheet.data_validations.dataValidation) == 1


@pytest.mark.parametrize(
    ("ending", "labels", "answer", "after"),
    [
        (".jsonl", (1, 0, 1), "0", [0, None, None, 1, 0, 1]),
        (".parquet", (1, 0, 1), "new", ["new", None, None, "1", "0", "1"]),
        (".xlsx", (True, False, True), "False", ["False", "", "", "True", "False", "True"]),
        (".jsonl", ("a  b", " c"), "a  b", ["a  b", None, None, "a  b", " c"]),
        (".jsonl", (" c", "d\n\u00a0e"), "d\r\n\u00a0e", ["d\n\u00a0e", None, None, " c", "d\n\u00a0e"]),
    ],
)
def test_labels_keep_their_type_and_their_white_space(tmp_path, ending, labels, answer, after):
    path = proposal(tmp_path / f"rows{ending}", labels)
    Page(path).send("answer", label=answer)
    assert [*read_table(path).columns["label"]] == after


def test_skipped_rows_stay_empty_and_the_end_has_the_command(tmp_path):
    path = proposal(tmp_path / "rows.csv")
    page = Page(path)
    [skip] = re.findall(r'href="([^"]+)" id="skip"', page.text)
    page.text = page.client.get(f"/{skip}").text
    assert page.heading == "Row 2 of 3"
    page.send("answer", label="REFUND")  # as it is written by hand
    page.send("answer", label="exchange")
    assert page.heading == "2 of 3 labelled"
    assert "bertkit finetune …" in page.text
    assert "1 of the rows has no label" in page.text
    assert read_table(path).columns["label"][:3] == ["", "refund", "exchange"]
    assert Page(path).heading == "Row 1 of 3"  # a page that is opened again goes on


def test_a_guess_is_shown_and_no_answer(tmp_path):
    path = proposal(tmp_path / "rows.csv")
    page = Page(path)
    shown = re.sub("<.*?>", "", page.text)
    assert "The model's guess: refund (50 %); unsure between refund and exchange" in shown
    assert page.text.count('class="text" dir="auto"') == 1  # a text from right to left reads as such
    assert 'aria-current="true"' not in page.text
    assert "autofocus" not in page.text
    assert page.client.get("/?row=0").text == page.client.get("/?row=1").text
    page.send("answer", label="refund")
    page.text = page.client.get("/?row=1").text
    assert re.findall(r'value="([^"]+)" aria-current="true"', page.text) == ["refund"]
    assert "=a &lt;b&gt;larger&lt;/b&gt; one" in page.client.get("/?row=2").text
    path.write_text(path.read_text().replace(",0.5,", ",half,"))
    assert "refund</bdi>; <bdi>unsure" in page.client.get("/?row=1").text


def test_only_up_to_date_forms_of_the_page_change_the_file(tmp_path):
    path = proposal(tmp_path / "rows.csv")
    before, page = path.read_bytes(), Page(path)
    assert page.send("answer", label="refund", token="") == 403
    assert page.send("answer", {"Sec-Fetch-Site": "cross-site"}, label="refund") == 403
    assert page.send("undo", {"Sec-Fetch-Site": "same-site"}) == 403
    assert page.send("answer", label="x" * 20_000) == 413
    assert page.client.get("/answer").status_code == 405
    assert page.send("answer", label="refund", version="0") == 200
    assert "The page was out of date, so nothing was changed" in page.text
    assert page.send("answer", label="  ") == 200
    assert page.send("undo") == 200
    assert path.read_bytes() == before
    assert "frame-ancestors 'none'" in page.client.get("/").headers["content-security-policy"]


def test_a_file_that_another_program_changed_is_not_overwritten(tmp_path):
    path = proposal(tmp_path / "rows.csv")
    page = Page(path)
    page.send("answer", label="refund")
    theirs = path.read_text().replace("what now", "what then")
    path.write_text(theirs)
    page.send("answer", label="exchange")
    assert path.read_text() == theirs
    assert "another program has changed it, so this was not saved. The file was changed by another" in page.text
    assert 'id="undo"' not in page.text
    page.send("answer", label="exchange")
    assert read_table(path).columns["label"][:3] == ["refund", "exchange", ""]
    assert "what then" in path.read_text()
    path.write_text("text,label\na,b\n")
    assert page.client.get("/").status_code == 409


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("rows.csv", "text,label\na,b\n", DataError, "lacks the columns guess, probability, reason"),
        ("rows.csv", "text,label,guess,probability,reason\na,b,,,\n", DataError, "has no rows to label"),
        (
            "rows.csv",
            "guess,text,probability,reason\na,b,0.5,unsure between a and b\n",
            DataError,
            "no column of labels before 'guess'",
        ),
        (
            "rows.csv",
            "one,two,label,guess,probability,reason\na,b,,x,0.5,unsure between x and y\n",
            DataError,
            "cannot tell which of its columns has the text",
        ),
        ("rows.tsv", "text\tlabel\tguess\tprobability\treason\na\t\tb\t0.5\tc\n", OutputError, "name that ends in"),
    ],
)
def test_files_that_cannot_be_labelled(tmp_path, name, content, error, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(error, match=re.escape(message)):
        Answers(tmp_path / name)


def test_columns_of_unusual_names_can_be_given(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("one,two,kind,guess,note,probability,reason\na,b,,x,,0.5,unsure between x and y\n")
    page = Page(path, label_column="kind", texts=["one", "two"])
    assert re.findall("<h2>(.*)</h2>", page.text) == ["one", "two"]
    page.send("answer", label="x")
    assert read_table(path).columns["kind"] == ["x"]


def test_labels_and_guesses_may_be_the_number_0(tmp_path):
    reason = "unsure between 0 and 1"
    rows = [
        {"text": text, "label": label, "guess": 0, "probability": 0.5, "reason": reason}
        for text, label in zip(TEXTS, (0, 1, None), strict=True)
    ]
    write_rows(tmp_path / "rows.jsonl", rows, "label", ["text"], ["0", "1"])
    assert Answers(tmp_path / "rows.jsonl", "label").classes == ["0", "1"]


@pytest.mark.parametrize("answered", [0, 1])
def test_the_training_is_named_once_a_row_has_a_label(tmp_path, monkeypatch, capsys, answered):
    path = proposal(tmp_path / "rows.csv")
    if answered:
        Answers(path).answer(0, "refund")
    monkeypatch.setattr("bertkit.features.next.serving.run_app", lambda *args: None)
    package.label_rows(path, port=0)
    said = capsys.readouterr().err
    assert f"rows.csv: {answered} of 3 rows labelled" in said
    assert ("train with them:\nbertkit finetune classification" in said) == bool(answered)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"label_column": "guess"}, "--label-column guess: `bertkit next` writes this column itself"),
        ({"label_column": "Reason"}, "--label-column Reason: `bertkit next` writes this column itself"),
        ({"label_column": "text"}, "--label-column text: this column has other values than classes, such as 'where is"),
        ({"text_columns": "guess"}, "--text-column guess: `bertkit next` writes this column itself"),
        ({"text_columns": "label"}, "--text-column label: this column contains the labels"),
        ({"text_columns": ["text", "Text"]}, "--text-column text: given twice; a pair has two columns"),
        ({"text_columns": "body"}, "--text-column: no column 'body'"),
    ],
)
def test_columns_that_answers_must_not_overwrite_are_refused(tmp_path, given, message):
    path = proposal(tmp_path / "rows.csv")
    before = path.read_bytes()
    with pytest.raises(DataError, match=re.escape(message)):
        package.label_rows(path, **given)
    assert path.read_bytes() == before


def test_a_folder_is_no_file_to_label(tmp_path):
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(DataError, match=r"rows\.csv: is a folder; give a file that `bertkit next` has written"):
        package.label_rows(tmp_path / "rows.csv")


def test_a_file_in_the_home_folder_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    proposal(tmp_path / "rows.csv")
    Answers("~/rows.csv").answer(0, "refund")
    assert read_table(tmp_path / "rows.csv").columns["label"][0] == "refund"


def test_a_port_in_use_is_named(bertkit, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = bertkit("label", proposal(tmp_path / "rows.csv"), "--port", port)
    done.refuses(f"--port {port}: Address already in use")


@pytest.mark.browser
def test_keys_label_rows_one_after_the_other(browser, tmp_path):
    path = proposal(tmp_path / "rows.csv", tuple(f"class {letter}" for letter in "abcdefghijkl"))
    command = [sys.executable, "-m", "bertkit", "label", str(path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = process.stderr.readline()
            url = re.search(r"http://127\.0\.0\.1:\d+", said)[0]
            page = browser.new_page(viewport={"width": 400, "height": 800})
            page.set_default_timeout(120_000)  # milliseconds; machines may be busy
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            page.goto(url)

            def press(*keys: str, shown: str) -> None:
                page.locator("html[data-drawn=true]").wait_for()  # the policy forbids to evaluate text
                for key in keys:
                    page.keyboard.press(key)
                page.get_by_role("heading", name=shown).wait_for()

            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            press("2", shown="Row 2 of 3")
            press("ArrowRight", shown="Row 3 of 3")
            press("s", " ", "k", "Enter", shown="2 of 3 labelled")  # finds class k
            assert read_table(path).columns["label"][:3] == ["class b", "", "class k"]
            press("Backspace", shown="Row 3 of 3")
            press(*"odd", "Enter", shown="2 of 3 labelled")
            press("ArrowLeft", shown="Row 3 of 3")
            press("ArrowLeft", shown="Row 2 of 3")
            press("1", shown="3 of 3 labelled")
            assert read_table(path).columns["label"][:3] == ["class b", "class a", "odd"]
            assert all(each.startswith(url) for each in asked if not each.startswith("data:"))
            page.close()
            connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
            connection.request("GET", "/", headers={"Host": "evil.example"})
            assert connection.getresponse().status == 400
            connection.close()
            process.send_signal(signal.SIGTERM)
            assert "3 of 3 rows labelled; train with them:" in process.stderr.read()
            assert process.wait(timeout=200) == 0
        finally:
            process.kill()
