"""Files of annotation tools: what is read from each form, what is refused with its line, and the way there and back."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertkit.data.tables import Table
from bertkit.inference.ner import EntityInference
from bertkit.tasks.folds import load_splits
from bertkit.tasks.ner.inputs import split_words
from bertkit.tasks.ner.task import DataSettings, NerTask, TaskSettings

from .conftest import ANN, OSLO, SPANS, TAGS, outputs_that_say


def spans(text, given):
    return {"text": text, "spans": [{"start": start, "end": end, "label": kind} for start, end, kind in given]}


def prodigy(text, given):
    tokens = [{"text": word.text, "start": word.start, "end": word.end, "id": 0} for word in split_words(text)]
    return {**spans(text, given), "tokens": tokens, "answer": "accept", "_input_hash": 1, "meta": {"score": 0.5}}


def doccano(text, given):
    return {"id": 3, "text": text, "label": [list(each) for each in given], "Comments": []}


def doccano_of_relations(text, given):
    entities = [{"id": 1, "label": kind, "start_offset": start, "end_offset": end} for start, end, kind in given]
    return {"id": 3, "text": text, "entities": entities, "relations": []}


def predicted(text, given):
    entities = [
        {"text": text[start:end], "type": kind, "probability": 0.5, "start": start, "end": end}
        for start, end, kind in given
    ]
    return {"text": text, "entities": entities}


def values(text, given):
    return [{"start": start, "end": end, "text": text[start:end], "labels": [kind]} for start, end, kind in given]


def label_studio(text, given):
    result = [{"value": value, "type": "labels", "from_name": "label"} for value in values(text, given)]
    result.append({"value": {"choices": ["good"]}, "type": "choices"})
    return {"id": 1, "data": {"text": text, "n": 5}, "annotations": [{"result": result}], "predictions": []}


def label_studio_min(text, given):
    return {"id": 1, "text": text, "label": values(text, given), "annotator": 1}


def html_values(text, given):
    places = {"start": "/text()[1]", "end": "/text()[1]"}
    return [
        places
        | {"startOffset": start, "endOffset": end, "globalOffsets": {"start": start, "end": end}}
        | {"text": text[start:end], "hypertextlabels": [kind]}
        for start, end, kind in given
    ]


def label_studio_html(text, given):
    result = [{"value": value, "type": "hypertextlabels", "from_name": "label"} for value in html_values(text, given)]
    return {"id": 1, "data": {"html": text, "n": 5}, "annotations": [{"result": result}], "predictions": []}


def label_studio_html_min(text, given):
    return {"id": 1, "text": text, "label": html_values(text, given), "annotator": 1}


LABEL_STUDIO = (label_studio, label_studio_min, label_studio_html, label_studio_html_min)
ALL_FORMS = (spans, prodigy, doccano, doccano_of_relations, predicted, *LABEL_STUDIO)


def lines(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


# ---- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ALL_FORMS)
@pytest.mark.parametrize("as_list", [False, True])
def test_every_form_gives_words_and_tags(task, tmp_path, form, as_list):
    rows = [form(ANN, SPANS[0]), form(OSLO, SPANS[1])]
    if as_list:
        (tmp_path / "train.json").write_text(json.dumps(rows), encoding="utf-8")
        found = task(train_file=str(tmp_path / "train.json"))
    else:
        found = task(train_jsonl=lines(*rows))
    found, splits = found.load(["train"])
    examples = splits["train"].examples
    assert examples["tokens"][:] == [[word.text for word in split_words(text)] for text in (ANN, OSLO)]
    assert [[found.settings.label_names[label] for label in row] for row in examples["labels"][:]] == TAGS
    assert found.settings.scheme == "IOB2"
    assert splits["train"].notes == ("tags in IOB2: 2 types of entities ('LOC' 3, 'PER' 1)",)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.tsv", "text\tlabel\nAnn\t[]\n", "cannot hold a list of words or spans; expected one word per row"),
        ("x.ann", "T1\tPER 0 3\tAnn\n", "brat without their text; give the folder"),
        ("folder/x.md", "Ann", "folder: is a folder without .ann files"),
        ("folder/x.ann", "T1\tPER 0 3\tAnn\n", "x.txt: cannot be read"),
    ],
)
def test_other_exports_are_refused_with_what_to_give(task, tmp_path, refusal, name, content, expected):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    given = path.parent if name.startswith("folder") else path
    assert expected in refusal(task(train_file=str(given)))


def test_offsets_in_utf16_are_read_and_proposed(task, refusal):
    in_utf16 = [(0, 7, "PER"), (19, 23, "LOC")]  # the two emoji count 2 each
    refused = refusal(task(train_jsonl=lines(doccano(ANN, in_utf16))))
    assert refused.splitlines() == [
        "train.jsonl, line 1: span 19:23 (LOC) is outside of the text, 0:21",
        "spans that do not fit their text: 1; if the offsets count UTF-16 code units, as JavaScript does, give "
        "--offset-unit utf16, with which there are 0",
    ]
    found, splits = task(train_jsonl=lines(doccano(ANN, in_utf16)), offset_unit="utf16").load(["train"])
    assert [found.settings.label_names[label] for label in splits["train"].examples["labels"][0]] == TAGS[0]
    row = {"text": ANN, "entities": predicted(ANN, SPANS[0])["entities"]}
    assert EntityInference(found).to_form("doccano", row) == {"text": ANN, "label": [list(each) for each in in_utf16]}
    snapped = task(train_jsonl=lines(doccano(ANN, [(0, 7, "PER"), (18, 21, "LOC")])), snap=True).load(["train"])[1]
    assert snapped["train"].notes[1:] == ("1 of 2 spans cut words and were extended to whole words",)


def test_faults_of_whole_rows_are_no_spans_in_the_wrong_unit(task, refusal):
    rows = [doccano(ANN, [(0, 7, "PER"), (19, 23, "LOC")]), {"text": None, "label": []}, {"text": "a", "label": None}]
    refused = refusal(task(train_jsonl=lines(*rows))).splitlines()
    assert refused[0] == "3 faults:"
    assert refused[-1].startswith("spans that do not fit their text: 1; ")
    assert refused[-1].endswith("with which there are 0")


def test_text_of_a_span_must_match(task, refusal):
    wrong = label_studio(ANN, SPANS[0])
    wrong["annotations"][0]["result"][1]["value"]["text"] = "Bergen"
    assert refusal(task(train_jsonl=lines(wrong))) == (
        "train.jsonl, line 1: span 17:21 (LOC) is 'Oslo' in the text, and 'Bergen' in the span"
    )


def label_studio_of(*annotations):
    return {**label_studio(ANN, []), "annotations": list(annotations)}


RESULT = label_studio(ANN, SPANS[0])["annotations"][0]["result"]
FIRST, NONE = {"result": RESULT}, {"result": []}


@pytest.mark.parametrize(
    ("form", "row"),
    [
        (prodigy, {**prodigy(ANN, []), "answer": "reject"}),
        (label_studio, label_studio_of({**FIRST, "was_cancelled": True})),
        (label_studio, label_studio_of()),
    ],
)
def test_rows_without_an_accepted_annotation_are_left_out(task, refusal, form, row):
    split = task(train_jsonl=lines(row, row, form(ANN, SPANS[0]))).load(["train"])[1]["train"]
    assert len(split.examples) == 1
    assert split.notes[1:] == ("2 of 3 rows have no accepted annotation and are left out",)
    assert refusal(task(train_jsonl=lines(row, form(OSLO, [(0, 2, "LOC")])))).startswith(
        "train.jsonl, line 2: span 0:2"
    )
    assert refusal(task(train_jsonl=lines(row))) == "train.jsonl: no row has an accepted annotation"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ([{**FIRST, "ground_truth": True}, {**NONE, "ground_truth": False}], None),
        ([FIRST, {"result": RESULT[::-1]}], None),  # the same spans, in another order
        ([FIRST, {"result": 5}], "the result of an annotation is 5; expected a list"),
        ([FIRST, NONE], "2 annotations that differ; keep one, or mark one as ground truth"),
    ],
)
def test_of_several_annotations_one_counts(task, refusal, annotations, expected):
    given = task(train_jsonl=lines(label_studio_of(*annotations)))
    if expected is None:
        found, splits = given.load(["train"])
        assert [found.settings.label_names[label] for label in splits["train"].examples["labels"][0]] == TAGS[0]
    else:
        assert refusal(given) == f"train.jsonl, line 1: {expected}"


def test_rows_left_out_move_neither_places_nor_groups(task):
    texts = [{**prodigy(f"Ann{row} left", [(0, 4, "PER")]), "author": row // 2} for row in range(8)]
    for row in (0, 1, 2):
        texts[row]["answer"] = "reject"
    folds = task(train_jsonl=lines(*texts), folds=2, fold=0, group_column="author")
    _, splits = load_splits(folds, ["train", "validation"])
    placed = {
        name: [(words[0], split.place(row)) for row, words in enumerate(split.examples["tokens"])]
        for name, split in splits.items()
    }
    assert all(place == f"line {int(word[3:]) + 1}" for split in placed.values() for word, place in split)
    authors = [{int(word[3:]) // 2 for word, _ in split} for split in placed.values()]
    assert sorted([*authors[0], *authors[1]]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (spans("Ann left", [(0, 2, "X")]), "span 0:2 (X, 'An') cuts the word 'Ann'; correct it, or give --snap"),
        (spans("Ann left", [(1, 3, "X")]), "span 1:3 (X, 'nn') cuts the word 'Ann'"),
        (spans("a north-bound", [(4, 6, "X")]), "span 4:6 (X, 'rt') cuts the word 'north-bound'"),
        (spans("Ann left", [(0, 9, "X")]), "span 0:9 (X) is outside of the text, 0:8"),
        (spans("Ann left", [(-1, 3, "X")]), "span -1:3 (X) is outside of the text, 0:8"),
        (spans("Ann left", [(5, 4, "X")]), "span 5:4 (X) ends before it begins"),
        (spans("Ann left", [(3, 4, "X")]), "span 3:4 (X, ' ') has no word"),
        (spans("Ann left", [(4, 4, "X")]), "span 4:4 (X, '') has no word"),
        (spans("Ann left", [(0, 3, "X"), (0, 8, "Y")]), "span 0:3 (X, 'Ann') and span 0:8 (Y, 'Ann left') overlap"),
        (
            spans("Ann left", [(0, 3, "X"), (0, 3, "X")]),
            "span 0:3 (X, 'Ann') and span 0:3 (X, 'Ann') overlap; keep one",
        ),
        ({"text": "Ann", "spans": None}, "no spans; write an empty list if it has none"),
        ({"text": "Ann", "spans": "X"}, "the spans are 'X'; expected a list"),
        ({"text": "Ann", "spans": [{"start": 0, "end": "3", "label": "X"}]}, "a span is {'end': '3', 'label'"),
        (
            {"text": "Ann", "spans": [{"start": 0, "end": 3}]},
            "a span is {'end': 3, 'start': 0}; expected start and end",
        ),
        ({"text": "Ann", "spans": [[0, 3, " "]]}, "a span is [0, 3, ' ']; expected start and end"),
        ({"text": "Ann", "spans": [[0, 3]]}, "a span is [0, 3]; expected start and end"),
        ({"text": "Ann", "spans": [[0, True, "X"]]}, "a span is [0, True, 'X']; expected"),
        ({"text": "Ann", "spans": [[0, 3, 5]]}, "a span is [0, 3, 5]; expected start and end"),
        ({"text": " \u200b", "spans": []}, "the text has no words; leave it out"),
        ({"text": ANN, "spans": {"start": [0, 4], "end": [3], "label": ["X", "Y"]}}, "the spans are {"),
        ({"text": 7, "spans": []}, "the text is 7; expected text"),
    ],
)
def test_a_wrong_row_is_refused_with_its_line(task, refusal, row, expected):
    refused = refusal(task(train_jsonl=lines(spans(ANN, SPANS[0]), row)))
    assert refused.splitlines()[0].startswith(f"train.jsonl, line 2: {expected}")


def test_faults_of_all_files_come_together(task, refusal):
    bad = lines(*[spans("Ann left", [(0, 2, "X")])] * 12)
    refused = refusal(task(train_jsonl=bad, validation_jsonl=bad))
    assert refused.startswith("24 faults:")
    assert refused.count("cuts the word") == refused.count("(12 times, also line 2, ") == 2
    assert "--offset-unit" not in refused  # both units give the same


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"train_jsonl": '{"text": "Ann", "ents": []}\n'},
            "texts without a column spans, … text, ents; … --tag-column",
        ),
        (
            {"train_jsonl": '{"text": "Ann", "ents": []}\n', "tag_column": "ent"},
            "no column 'ent' among text, ents; … --tag-column",
        ),
        ({"train_jsonl": '{"body": "Ann", "ents": []}\n'}, "none of its columns (body, ents) … with --token-column"),
        (
            {"train_jsonl": lines(spans("Ann", [(0, 3, "X")])), "scheme": "plain", "label_names": ["a", "b"]},
            "has spans, and task.scheme plain has a tag for every word; remove it",
        ),
    ],
)
def test_missing_columns_are_asked_for(task, refusal, given, expected):
    refused = refusal(task(**given))
    assert refused.startswith("train.jsonl: ")
    assert all(part in refused for part in expected.split("… "))


def test_columns_of_other_names(task):
    rows = lines({"body": ANN, "ents": spans(ANN, SPANS[0])["spans"], "text": "no"})
    found, splits = task(train_jsonl=rows, token_column="body", tag_column="ents").load(["train"])
    assert [found.settings.label_names[label] for label in splits["train"].examples["labels"][0]] == TAGS[0]
    table = Table({"body": [ANN], "text": ["no"]}, "x.csv", "")
    assert found.columns_of(table)["text"] == [ANN]
    of_columns = found.with_settings(token_column=2)  # trained on a column file
    assert of_columns.columns_of(Table({"text": [ANN]}, "x.csv", ""))["text"] == [ANN]


def test_test_set_may_lack_spans(task):
    rows = [{**spans(text, given), "document_id": 1} for text, given in zip((ANN, OSLO), SPANS, strict=True)]
    _, splits = task(
        train_jsonl=lines(*rows),
        test_jsonl=lines({"text": OSLO, "document_id": 1}),
        context="document",
    ).load(["train", "test"])
    assert splits["train"].examples["after"][0] == OSLO.split()
    assert "labels" not in splits["test"].examples.column_names
    assert splits["test"].examples["tokens"][:] == [OSLO.split()]


def test_texts_can_be_tagged_with_plain_tags(task):
    _, splits = task(train_conll="a X\nb Y\n", test_jsonl=lines({"text": OSLO}), scheme="plain").load(["train", "test"])
    assert splits["test"].examples["tokens"][:] == [OSLO.split()]


def test_table_of_words_and_texts_keeps_words(task):
    rows = lines({"tokens": ["a", "b"], "ner_tags": ["B-X", "O"], "text": "a b", "label": [], "data": {}})
    _, splits = task(train_jsonl=rows).load(["train"])
    assert splits["train"].examples["labels"][:] == [[1, 0]]


@pytest.mark.parametrize("of_lists", [False, True])
def test_span_labels_of_a_hub_set_are_named(task, hub, of_lists):
    columns = {"start": [0, 17], "end": [7, 21], "label": [1, 0]}
    rows = [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]
    hub({"spans.label": ["LOC", "PER"]}, train={"text": [ANN], "spans": [columns if of_lists else rows]})
    found, splits = task(dataset_name="org/x").load(["train"])
    assert [found.settings.label_names[label] for label in splits["train"].examples["labels"][0]] == TAGS[0]


# ---- file → words → model → file ------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        "Ann",
        "O'Neil",
        "film",
        "كتاب",
        "مُحَمَّد",
        "שלום",
        "北",
        "e\u0301te\u0301",
        "नमस्ते",
        "👍",
        "🇩🇪",
        "❤\ufe0f",
        "3,000",
        ".",
    ]
)
GAPS = st.sampled_from([" ", "  ", "\n", " \u200f", "\u00a0", "\u200b "])


@st.composite
def annotated(draw):
    """A text, and spans of its words that do not overlap, without white space at their ends, in order."""
    text = "".join(draw(WORDS) + draw(GAPS) for _ in range(draw(st.integers(1, 9))))
    words = split_words(text)
    cuts = sorted(draw(st.sets(st.integers(0, len(words)), max_size=6)))
    found = []
    for first, end in pairwise(cuts):
        if draw(st.booleans()):
            covered = text[words[first].start : words[end - 1].end].rstrip("\u200f\u200b")
            found.append((words[first].start, words[first].start + len(covered), draw(st.sampled_from(["PER", "a-b"]))))
    return text, found


@pytest.mark.parametrize("form", ["doccano", "spans"])
@pytest.mark.parametrize("unit", ["character", "utf16"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(annotated(), min_size=1, max_size=4), length=st.integers(4, 20))
def test_predicted_gold_spans_equal_the_training_file(tokenizer, tmp_path, form, unit, rows, length):
    names = ["O", "B-PER", "I-PER", "B-a-b", "I-a-b"]
    data = DataSettings(train_file=str(tmp_path / "x.jsonl"), max_seq_length=length, offset_unit=unit)
    task = NerTask(TaskSettings(scheme="IOB2", label_names=names), data)
    entities = [[{"start": start, "end": end, "type": kind} for start, end, kind in spans] for _, spans in rows]
    given = [
        EntityInference(task).to_form(form, {"text": text, "entities": each})
        for (text, _), each in zip(rows, entities, strict=True)
    ]
    (tmp_path / "x.jsonl").write_text(lines(*given), encoding="utf-8")
    _, splits = task.load(["train"])
    labels = splits["train"].examples["labels"][:]
    columns = task.columns_of(task.data.tables(["train"])["train"])
    assert columns["tokens"] == splits["train"].examples["tokens"][:]
    features = task.encode(columns, tokenizer)
    predictions = task.decode(outputs_that_say(labels, features, len(names)), features, columns)
    shown = EntityInference(task).columns_beside(columns)
    assert list(shown) == ["text"]
    written = [
        EntityInference(task).to_form(form, {"text": text, **prediction})
        for text, prediction in zip(shown["text"], predictions, strict=True)
    ]
    assert written == given


def test_ids_of_texts_are_kept(task):
    rows = [{"id": 7, "document_id": "d", **spans(ANN, SPANS[0]), "meta": {"a": 1}}]
    found, _ = task(train_jsonl=lines(*rows), context="document").load(["train"])
    columns = found.columns_of(found.data.tables(["train"])["train"])
    shown = EntityInference(found).columns_beside(columns)
    assert shown == {"id": [7], "document_id": ["d"], "text": [ANN]}
    row = {**{name: values[0] for name, values in shown.items()}, "entities": predicted(ANN, SPANS[0])["entities"]}
    assert EntityInference(found).to_form("spans", row) == {"id": 7, "document_id": "d", **spans(ANN, SPANS[0])}
    mixed = Table({"id": [None], "text": ["a"], "document_id": [0]}, "x.jsonl", "")
    assert list(EntityInference(found).columns_beside(found.columns_of(mixed))) == ["text", "document_id"]


def test_words_are_joined_for_the_forms_of_texts():
    task = NerTask(TaskSettings(scheme="IOB2", label_names=["O", "B-X", "I-X"]), DataSettings())
    row = {"tokens": ["New", "York", ",", "é"], "tags": ["B-X", "I-X", "O", "B-X"], "probabilities": [1.0] * 4}
    assert EntityInference(task).to_form("doccano", row) == {
        "text": "New York , é",
        "label": [[0, 8, "X"], [11, 12, "X"]],
    }
    assert EntityInference(task).to_form("spans", row) == spans("New York , é", [(0, 8, "X"), (11, 12, "X")])
    plain = NerTask(TaskSettings(scheme="plain", label_names=["a", "b"]), DataSettings())
    assert EntityInference(plain).forms == ()
