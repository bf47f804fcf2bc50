"""Multiple choice: SWAG's columns and others, any number of endings an example, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertTokenizer

from bertkit import BertConfig, BertForMultipleChoice, BertForSequenceClassification
from bertkit.data.tables import read_table
from bertkit.inference.outcome import task_inference
from bertkit.inference.predictor import Predictor
from bertkit.runtime.errors import CheckpointError, DataError, shown
from bertkit.tasks.base import with_optional_labels
from bertkit.tasks.multiple_choice import DataSettings, MultipleChoiceTask, TaskSettings

pytestmark = pytest.mark.numeric

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] he she opens a the door and goes in out sings .".split()
TOKENIZER = BertTokenizer(vocab={word: index for index, word in enumerate(WORDS)})
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
SWAG = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"


def swag(*rows: list[str]) -> str:
    """SWAG's file: of each row the context, the start, four endings and the label."""
    stream = io.StringIO()
    for number, (context, start, *rest) in enumerate(rows):
        fields = [number, f"v{number}", number, f"{context} {start}", context, start, "gold", *rest]
        csv.writer(stream, lineterminator="\n").writerow(fields)
    return f"{SWAG}\n{stream.getvalue()}"


def general(*rows: tuple[str, list[str], Any]) -> str:
    """JSON lines of context, endings and label."""
    keys = ("context", "endings", "label")
    return "".join(json.dumps(dict(zip(keys, row, strict=False))) + "\n" for row in rows)


@pytest.fixture
def task(task_of_files):
    """Builds a task of files, each given by its content: ``task(train_csv=…, context_column=…)``."""
    return partial(task_of_files, MultipleChoiceTask)


# ---- load -----------------------------------------------------------------------------------------------------------


def test_swags_own_file_is_read(task):
    found = task(train_csv=swag(["He opens, then.", "She", "sings", "goes, in", "goes out", "opens", "1"]))
    settled, splits = found.load(["train"])
    assert splits["train"].examples.to_dict() == {
        "context": ["He opens, then."],
        "endings": [["She sings", "She goes, in", "She goes out", "She opens"]],
        "labels": [1],
    }
    assert settled.settings == TaskSettings(
        context_column="sent1",
        start_column="sent2",
        ending_columns=["ending0", "ending1", "ending2", "ending3"],
        label_column="label",
        num_choices=4,
    )
    assert found.settings == TaskSettings()


def test_endings_may_be_lists_of_any_length(task):
    found = task(train_jsonl=general(("a", ["b", "c"], 1), ("d", ["e", "f", "g"], "2")))
    found, splits = found.load(["train"])
    split = splits["train"]
    assert split.examples["endings"][:] == [["b", "c"], ["e", "f", "g"]]
    assert split.examples["labels"][:] == [1, 2]
    assert (found.settings.num_choices, found.settings.start_column) == (3, None)


def test_of_several_columns_the_last_ones_may_be_empty(task):
    columns = "premise,ending10,ending2,ending1,label\n"
    found = task(train_csv=columns + "a,,d,c,1\nb,g,f,e,2\n")
    assert found.load(["train"])[1]["train"].examples["endings"][:] == [["c", "d"], ["e", "f", "g"]]


def test_usual_names_are_found_in_any_case(task):
    found = task(train_csv="Sent1,Sent2,Ending1,ENDING0 ,Answer\na,b,d,c,1\n")
    settled, splits = found.load(["train"])
    assert splits["train"].examples.to_dict() == {"context": ["a"], "endings": [["b c", "b d"]], "labels": [1]}
    assert settled.settings.ending_columns == ["ENDING0 ", "Ending1"]


def test_columns_can_be_named(task):
    found = task(
        train_csv="q,right,wrong,key,sent2\na,b,c,0,d\n",
        context_column="q",
        ending_columns=["right", "wrong"],
        label_column="key",
    )
    assert found.load(["train"])[1]["train"].examples.to_dict() == {
        "context": ["a"],
        "endings": [["b", "c"]],
        "labels": [0],
    }


def test_a_label_column_has_its_usual_name_where_all_else_is_given(task):
    given = {"context_column": "q", "ending_columns": ["right", "wrong"], "num_choices": 2}
    found = task(train_csv="q,right,wrong,answer\na,b,c,0\n", **given)
    assert found.load(["train"])[1]["train"].examples["labels"][:] == [0]


def test_a_column_that_is_not_there_is_asked_for(task, refusal):
    assert refusal(task(train_csv="c,ending0,ending1,label\na,b,c,0\n")) == (
        "train.csv: none of its columns (c, ending0, ending1, label) is named context, sent1, question, premise; "
        "give the column of the contexts with --context-column"
    )
    assert "with --ending-column" in refusal(task(train_csv="context,label\na,0\n"))
    given = {"context_column": "contxt", "ending_columns": ["ending0", "endng1"]}
    available = "available: 'context', 'ending0', 'ending1', 'lable'"
    assert refusal(task(train_csv="context,ending0,ending1,lable\na,b,c,0\n", **given)).splitlines() == [
        "3 faults:",
        f"  - train.csv: no column 'contxt'; {available}; did you mean 'context'?",
        f"  - train.csv: no column 'endng1'; {available}; did you mean 'ending1'?",
        f"  - train.csv: no column 'label'; {available}; did you mean 'lable'?",
    ]


def test_faults_of_rows_are_told_at_once_with_their_lines(task, refusal):
    rows = general(
        ("a", ["b", "c"], 2), ("", ["b"], 0), ("a", ["b", " "], 0), ("a", "bc", -1), ("a", [], "x"), ("a", ["b", 5], 0)
    )
    assert refusal(task(train_jsonl=rows)).splitlines() == [
        "8 faults:",
        "  - train.jsonl, line 2: context is empty; write a text, or remove the row",
        "  - train.jsonl, line 2: 1 ending; expected two or more",
        "  - train.jsonl, line 3: expected a list of endings, none of them empty, got ['b', ' ']",
        "  - train.jsonl, line 4: expected a list of endings, none of them empty, got 'bc'",
        "  - train.jsonl, line 5: 0 endings; expected two or more",
        "  - train.jsonl, line 6: expected a list of endings, none of them empty, got ['b', 5]",
        "  - train.jsonl, line 4: label -1; expected the position of the correct ending, from 0",
        "  - train.jsonl, line 5: label 'x'; expected the position of the correct ending, from 0",
    ]


@pytest.mark.parametrize("label", [3, -1, "1.0", 1.0, True, None, "", "two", "²", "9" * 5000])
def test_a_label_that_is_no_position_is_refused(task, refusal, label):
    assert refusal(task(train_jsonl=general(("a", ["b", "c"], 0), ("a", ["b", "c", "d"], label)))) == (
        f"train.jsonl, line 2: label {shown(label)}; expected the position of the correct ending, from 0 to 2"
    )


@pytest.mark.parametrize(("labels", "is_refused"), [((1, 2), True), ((0, 1), False), ((1, 1, 1, 2, 0), False)])
def test_labels_that_count_from_one_are_refused(task, refusal, labels, is_refused):
    rows = general(*(("a", ["b", "c", "d"], labels[row % len(labels)]) for row in range(60)))
    if is_refused:
        assert refusal(task(train_jsonl=rows)) == (
            "train.jsonl: label is never 0, the first ending, in 60 rows, so it seems to count from 1; subtract 1"
        )
    else:
        task(train_jsonl=rows).load(["train"])


def test_an_ending_left_out_in_the_middle_is_refused_since_labels_count_it(task, refusal):
    header = "context,ending0,ending1,ending2,label\n"
    assert refusal(task(train_csv=header + "a,b,,c,1\n")) == (
        "train.csv, line 2: expected a list of endings, none of them empty, got ['b', '', 'c']"
    )
    assert refusal(task(train_csv=header + "a,b,,,0\nc,,,,0\n")).splitlines()[1:3] == [
        "  - train.csv, line 2: 1 ending; expected two or more",
        "  - train.csv, line 3: 0 endings; expected two or more",
    ]


def test_rows_that_a_teacher_labels_need_no_labels(task):
    known = with_optional_labels(task(train_csv="context,ending0,ending1\na,b,c\n"))
    assert known.load(["train"])[1]["train"].examples.column_names == ["context", "endings"]


# ---- encode ---------------------------------------------------------------------------------------------------------


def settled(num_choices: int = 2, **data: Any) -> MultipleChoiceTask:
    columns = {"context_column": "context", "ending_columns": ["endings"], "label_column": "label"}
    return MultipleChoiceTask(TaskSettings(**columns, num_choices=num_choices), DataSettings(**data))


def test_every_ending_is_an_input_with_the_context():
    features = settled().encode({"context": ["he opens"], "endings": [["a door", "sings"]], "labels": [0]}, TOKENIZER)
    assert features["input_ids"] == [[[2, 5, 7, 3, 8, 10, 3], [2, 5, 7, 3, 15, 3]]]
    assert features["token_type_ids"] == [[[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]]]
    assert (features["length"], features["full_length"], features["labels"]) == ([13], [13], [0])


def test_what_is_cut_is_counted():
    features = settled(max_seq_length=6).encode(
        {"context": ["he opens the door .", "he"], "endings": [["and goes", "sings"], ["sings", "goes"]]}, TOKENIZER
    )
    assert [len(ids) for row in features["input_ids"] for ids in row] == [6, 6, 5, 5]
    assert features["length"] == [12, 10]
    assert features["full_length"] == [10 + 9, 10]


# ---- the model: any number of endings -------------------------------------------------------------------------------

EXAMPLES: dict[str, list[Any]] = {
    "context": ["he opens the door .", "she", "he sings ."],
    "endings": [["goes in", "goes out and sings ."], ["sings", "opens a door", "goes", "in"], ["a", "the", "out ."]],
    "labels": [1, 3, 0],
}


def rows_of(task: MultipleChoiceTask, *chosen: int) -> list[dict[str, Any]]:
    features = task.encode(EXAMPLES, TOKENIZER)
    return [{name: values[row] for name, values in features.items()} for row in chosen]


def model(prepared_for: MultipleChoiceTask | None = None) -> BertForMultipleChoice:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    sizes["initializer_range"] = 0.3  # large, so that logits differ clearly
    made = BertForMultipleChoice(BertConfig(vocab_size=len(WORDS), max_position_embeddings=16, **sizes)).eval()
    if prepared_for is not None:
        prepared_for.prepare(made)
    return made


def test_a_batch_has_the_endings_of_each_example_and_their_number():
    task = settled(4)
    batch = task.collate(rows_of(task, 0, 1), TOKENIZER, INPUTS)
    assert next(iter(batch)) == "labels"
    assert batch["labels"].tolist() == [1, 3]
    assert batch["choice_counts"].tolist() == [2, 4]
    assert all(batch[name].shape == (2, 4, 13) for name in INPUTS)
    alone = task.collate([{name: row[name] for name in INPUTS} for row in rows_of(task, 1)], TOKENIZER, INPUTS)
    assert next(iter(alone)) == "choice_counts"
    assert alone["input_ids"].shape == (1, 4, 7)


def test_logits_loss_and_gradients_of_a_batch_are_those_of_each_example_alone():
    task, expected, losses = settled(4), model(), []
    network = model(task)
    together = network(**task.collate(rows_of(task, 0, 1, 2), TOKENIZER, INPUTS))
    together.loss.backward()
    for row, count in enumerate([2, 4, 3]):
        exact = settled(count)  # nothing to fill up, and a model that was taught nothing
        inputs = exact.collate(rows_of(exact, row), TOKENIZER, INPUTS)
        inputs.pop("choice_counts")
        alone = expected(**inputs)
        torch.testing.assert_close(together.logits[row, :count], alone.logits[0])
        assert (together.logits[row, count:] == torch.finfo(torch.float32).min).all()
        assert alone.logits.std() > 0.05
        (alone.loss / 3).backward()
        losses.append(alone.loss)
    torch.testing.assert_close(together.loss, torch.stack(losses).mean())
    for (name, ours), theirs in zip(network.named_parameters(), expected.parameters(), strict=True):
        assert ours.grad.isfinite().all(), name
        torch.testing.assert_close(ours.grad, theirs.grad, msg=name)


def test_predictions_do_not_depend_on_the_batch_nor_on_the_most_endings():
    columns = {name: EXAMPLES[name] for name in ("context", "endings")}
    expected = None
    for num_choices, batch_size in ((4, 64), (4, 1), (7, 2)):
        task = settled(num_choices)
        found = Predictor(task, model(task), TOKENIZER, batch_size).predict_columns(columns)
        expected = expected or found
        assert [row["choice"] for row in found] == [row["choice"] for row in expected]
        for ours, theirs in zip(found, expected, strict=True):
            assert ours["probabilities"] == pytest.approx(theirs["probabilities"], abs=1e-6)
    assert [len(row["probabilities"]) for row in expected] == [2, 4, 3]


def test_prediction_takes_more_endings_than_training_had(tmp_path):
    task = settled(2)
    predictor = Predictor(task, model(task), TOKENIZER, 64)
    (lines,) = predictor.predict("he opens\ta door\tsings\tgoes in")
    assert len(lines["probabilities"]) == 3
    (tmp_path / "x.jsonl").write_text(general(("he opens", ["a door", "sings", "goes in", "out", "."])))
    (table,) = predictor.predict_columns(task.columns_of(read_table(tmp_path / "x.jsonl")))
    assert len(table["probabilities"]) == 5
    # Of the same endings the odds are the same, whatever else could be chosen.
    odds = [np.divide(row["probabilities"][:3], row["probabilities"][0]) for row in (lines, table)]
    np.testing.assert_allclose(*odds, rtol=1e-5)


def test_predicting_changes_nothing_of_later_predictions():
    """Also where inputs with more endings came between, and where batches of one call differ in their endings."""
    task = settled(2)
    predictor = Predictor(task, model(task), TOKENIZER, 1)
    lines = ["he opens\ta door\tsings", "she\tsings\topens a door\tgoes\tin", "he sings .\ta\tthe\tout ."]
    before = dict(vars(task))
    alone = [predictor.predict(line) for line in lines]
    assert predictor.predict(lines) == [row for rows in alone for row in rows]
    assert [predictor.predict(line) for line in lines] == alone
    assert [len(row["probabilities"]) for (row,) in alone] == [2, 4, 3]
    assert vars(task) == before


def test_a_model_without_a_classifier_is_refused():
    network = BertForSequenceClassification(BertConfig(vocab_size=9, hidden_size=4, num_attention_heads=1))
    del network.classifier
    with pytest.raises(CheckpointError, match="BertForSequenceClassification: multiple choice needs a head"):
        settled().prepare(network)


# ---- decode → score -------------------------------------------------------------------------------------------------


def test_decoding_gives_the_worked_probabilities_of_the_endings_there_are():
    """Softmax of (0, ln 3): a quarter and three quarters; -inf is no ending. Large logits do not overflow."""
    logits = np.array([[0.0, np.log(3), -np.inf], [1e4, -1e4, 1e4]])
    found = settled(3).decode(logits, {"choice_count": [2, 3]}, {})
    assert found == [
        {"choice": 1, "probability": pytest.approx(0.75), "probabilities": pytest.approx([0.25, 0.75])},
        {"choice": 0, "probability": 0.5, "probabilities": [0.5, 0.0, 0.5]},
    ]
    assert task_inference(settled()).format_prediction(found[0]) == "1\t0.7500"


def test_the_score_is_the_share_of_right_choices():
    logits = np.array([[0.0, 1.0, -np.inf], [0.0, 1.0, 2.0], [3.0, 1.0, 2.0]])
    features = {"labels": [1, 1, 0], "choice_count": [2, 3, 3]}
    assert settled().score(logits, features, {}) == {"accuracy": pytest.approx(2 / 3)}
    # What fills up the arrays of batches with fewer choices is no choice either.
    filled = np.array([[-200.0, -101.0, -100.0], [0.0, 1.0, 2.0], [3.0, 1.0, 2.0]])
    assert settled().score(filled, features, {}) == {"accuracy": pytest.approx(2 / 3)}
    assert settled().decode(filled, features, {})[0]["choice"] == 1
    assert settled().main_metric == "accuracy"


def test_lines_are_a_context_and_endings_with_tabs():
    task = settled(2)
    assert task.read_input(["a\tb\tc", "d\te\tf\tg"]) == {
        "context": ["a", "d"],
        "endings": [["b", "c"], ["e", "f", "g"]],
    }
    assert task.settings.num_choices == 2  # reading changes nothing
    for wrong in ("a\tb", "a", "", "a\tb\t", "\tb\tc", "a\t \tc"):
        with pytest.raises(DataError, match=r"^input 2: expected a context and two or more endings"):
            task.read_input(["a\tb\tc", wrong])


# ---- the checkpoint -------------------------------------------------------------------------------------------------


def test_a_checkpoint_keeps_the_columns(task, through_checkpoint, tmp_path):
    trained = task(train_csv="sent1,ending0,ending1,label\na,b,c,0\n", max_seq_length=33)
    trained, _ = trained.load(["train"])
    # Trained without a start, it goes on so, whatever other columns a later table has.
    (tmp_path / "later.csv").write_text("context,sent1,sent2,ending0,ending1,ending2\nw,a,x,b,c,d\n")
    later = through_checkpoint(trained, test_file=str(tmp_path / "later.csv"))
    assert asdict(later.settings) == asdict(trained.settings)
    assert later.data.max_seq_length == 33
    assert later.load(["test"])[1]["test"].examples.to_dict() == {"context": ["a"], "endings": [["b", "c"]]}
