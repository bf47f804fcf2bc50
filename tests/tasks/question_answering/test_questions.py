"""Questions from files: SQuAD's own JSON and rows; what is refused; answers that do not stand where they should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertkit.data.tables import Table
from bertkit.runtime.errors import DataError
from bertkit.tasks.question_answering.decoding import Decoded, Span, write_answers
from bertkit.tasks.question_answering.questions import questions_of, read_nested, read_questions

CONTEXT = "The dog 🐕 is in the park."


def nested(*qas: Any, context: Any = CONTEXT) -> dict[str, Any]:
    return {"version": "v2.0", "data": [{"title": "Dogs", "paragraphs": [{"context": context, "qas": list(qas)}]}]}


def qa(key: str, *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": key, "question": f"{key}?", "answers": found, **more}


def read(folder: Path, document: Any) -> Table:
    path = folder / "dev.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return read_questions(path)


def test_both_versions_of_squads_json_are_read(tmp_path):
    """Characters are counted as code points: the dog's picture is one."""
    plausible = [{"text": "park", "answer_start": 20}]
    table = read(
        tmp_path,
        nested(
            qa("where", ("park", 20), ("the park", 16), is_impossible=False),
            qa("when", is_impossible=True, plausible_answers=plausible),
        ),
    )
    found = questions_of(table, unanswerable=True, drop=True)
    assert found.columns == {
        "id": ["where", "when"],
        "question": ["where?", "when?"],
        "context": [CONTEXT] * 2,
        "answers": [{"text": ["park", "the park"], "answer_start": [20, 16]}, {"text": [], "answer_start": []}],
    }
    assert (found.misplaced, found.dropped, found.notes(2)) == ((), 0, ())
    assert table.fingerprint.startswith("sha256:")


def test_rows_are_read_in_both_forms_of_answers(tmp_path):
    rows = [
        {"id": 1, "context": "a b", "question": "q", "answers": {"text": ["b"], "answer_start": [2]}},
        {"id": 2, "context": "a b", "question": "q", "answers": [{"text": "a", "answer_start": 0}]},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = questions_of(read_questions(path), unanswerable=False, drop=True).columns
    assert found["id"] == ["1", "2"]
    assert found["answers"] == [{"text": ["b"], "answer_start": [2]}, {"text": ["a"], "answer_start": [0]}]


@pytest.mark.parametrize("none", ["", None])
def test_answers_are_found_by_their_text(none):
    rows = {"question": ["who?", "where?", "why?"], "context": ["a dog, a dog"] * 3, "answers": ["dog ", "a dog", none]}
    questions = questions_of(Table(rows, "x.csv", ""), unanswerable=True, drop=True)
    assert questions.columns["id"] == ["1", "2", "3"]
    assert questions.columns["answers"] == [
        {"text": ["dog"], "answer_start": [2]},
        {"text": ["a dog"], "answer_start": [0]},
        {"text": [], "answer_start": []},
    ]
    rows["answers"][1] = "a cat"
    with pytest.raises(DataError, match=r"(?s)row 2: the answer 'a cat' is not in its text.*row 3: no answer"):
        questions_of(Table(rows, "x.csv", ""), unanswerable=False, drop=True)


def test_answers_given_by_their_text_are_not_blamed_for_a_missing_text():
    columns = {"question": ["Who?", "Where?"], "context": ["Ann.", ""], "answers": ["Ann", "Oslo"]}
    with pytest.raises(DataError) as fault:
        questions_of(Table(columns, "x.csv", ""), unanswerable=False, drop=True)
    assert "answer" not in str(fault.value)
    assert "row 2" in str(fault.value)


def test_misplaced_answers_are_listed_and_dropped(tmp_path):
    table = read(
        tmp_path,
        nested(qa("one", ("park", 19)), qa("two", ("dog", 4)), qa("three", ("dog", 4), ("is", -2)), qa("four")),
    )
    found = questions_of(table, unanswerable=True, drop=True)
    assert found.columns["id"] == ["two", "three", "four"]
    assert list(found.rows) == [1, 2, 3]
    assert found.columns["answers"][1] == {"text": ["dog"], "answer_start": [4]}
    assert found.notes(len(table)) == (
        "answers that are not in the context at answer_start: 2, 1 of 4 questions dropped: "
        "one ('park', found ' par'); three (at -2)",
    )
    scored = questions_of(table, unanswerable=True, drop=False)
    assert scored.columns["id"] == ["one", "two", "three", "four"]
    assert scored.columns["answers"][0] == {"text": ["park"], "answer_start": [19]}
    assert "no question dropped" in scored.notes(len(table))[0]


def test_all_answers_misplaced_is_an_error(tmp_path):
    table = read(tmp_path, nested(qa("one", ("park", 23)), *(qa(f"q{number}", ("dog", 5)) for number in range(11))))
    with pytest.raises(DataError, match=r"no answer is in .*first is that of question one \('park', .*not bytes"):
        questions_of(table, unanswerable=False, drop=True)
    (note,) = questions_of(table, unanswerable=False, drop=False).notes(len(table))
    assert "q8 (" in note
    assert note.endswith("); and 2 more")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("{", "not valid JSON"),
        ('{"data": [], "data": []}', "the key 'data' occurs twice in an object; keep one"),
        ("[1]", "no list data; expected SQuAD's format"),
        ({"data": []}, "no questions; expected SQuAD's format"),
        ({"data": [{"paragraphs": [{"context": "c"}]}]}, r"no list data\[0\].paragraphs\[0\].qas"),
        ({"data": [3]}, r"data\[0\] is 3; expected an object"),
        (nested(qa("x", ("dog", 4), is_impossible=True)), r"qas\[0\] \(id x\): is_impossible is true, but there are"),
        (nested(qa("x", is_impossible="no")), "is_impossible is 'no'; expected true or false"),
    ],
)
def test_another_form_is_refused_with_its_place(tmp_path, document, expected):
    with pytest.raises(DataError, match=expected):
        read(tmp_path, document)


def test_faults_of_questions_are_named_together():
    table = Table(
        {
            "id": ["a", "a", "b", "c", "d"],
            "context": ["x", "x", "", "x", "x"],
            "question": ["q", "q", "q", None, "q"],
            "answers": [
                {"text": ["x"]},
                [],
                [{"text": " ", "answer_start": 0}],
                [{"text": "x", "answer_start": "0"}],
                None,
            ],
        },
        "dev.jsonl",
        "",
    )
    with pytest.raises(DataError) as caught:
        questions_of(table, unanswerable=False, drop=False)
    message = str(caught.value)
    for expected in (
        "dev.jsonl, row 1: several questions have the id 'a'",
        "dev.jsonl, row 3: context is empty",
        "dev.jsonl, row 4: no value for 'question'",
        "row 1 (id a): answers is {'text': ['x']}; expected {'text': […], 'answer_start': […]}",
        "row 2 (id a): no answer; give --version-2-with-negative if questions may have none",
        "row 3 (id b): an answer is ' '; expected text",
        "row 4 (id c): answer_start is '0'; expected a whole number",
        "row 5 (id d): answers is None; expected {'text'",
    ):
        assert expected in message
    with pytest.raises(DataError, match="no column 'answers'"):
        questions_of(Table({"id": ["a"], "context": ["x"], "question": ["q"]}, "x", ""), unanswerable=True, drop=False)


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "questions", "unanswerable"),
    [("dev-v1.1", 10570, 0), ("train-v1.1-44articles", 11877, 0), ("dev-v2.0", 11873, 5945)],
)
def test_published_squad_has_no_misplaced_answer(real_data, name, questions, unanswerable):
    found = questions_of(read_nested(real_data / "squad" / f"{name}.json"), unanswerable=True, drop=True)
    assert len(found.columns["id"]) == questions
    assert found.misplaced == ()
    assert sum(not each["text"] for each in found.columns["answers"]) == unanswerable


def test_files_suit_the_official_scorers(tmp_path):
    sure = Decoded((Span("é", 0, 1, 2.0, 1.0, 0.7), Span("b", 2, 3, 1.0, 1.0, 0.2)), 0.5, 1.0, 0.1)
    unsure = Decoded((Span("c", 0, 1, 0.0, 1.0, 0.2),), 2.0, 1.0, 0.8)
    nothing = Decoded((), 0.0, 0.0, 1.0)
    path = write_answers(tmp_path, ["x", "y", "z"], [sure, unsure, nothing], 0.0)
    assert path == tmp_path / "predictions.json"
    assert json.loads(path.read_text(encoding="utf-8")) == {"x": "é", "y": "", "z": ""}
    odds = json.loads((tmp_path / "null_odds.json").read_text())
    assert (odds["x"], odds["y"]) == (-1.5, 2.0)
    assert odds["z"] > 1e6
    best = json.loads((tmp_path / "nbest_predictions.json").read_text())
    assert [each["text"] for each in best["x"]] == ["é", "b", ""]
    assert best["y"][0] == {"text": "", "probability": 0.8, "start_logit": 2.0, "end_logit": 1.0}

    certain = tmp_path / "v1"
    certain.mkdir()
    write_answers(certain, ["x", "y"], [sure, unsure], None)
    assert json.loads((certain / "predictions.json").read_text(encoding="utf-8")) == {"x": "é", "y": "c"}
    assert sorted(path.name for path in certain.iterdir()) == ["nbest_predictions.json", "predictions.json"]
