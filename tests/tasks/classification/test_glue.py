"""GLUE, from TSV folders in the layout of each task and from the Hub's: read, encoded, scored and written."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from transformers import BertTokenizer

from bertkit.data.tables import Table, read_table
from bertkit.recipe.files import list_recipes
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.tasks.classification.glue import DataSettings, GlueTask
from bertkit.tasks.encoding import encode_once, encode_split, sharing_encodings
from bertkit.tasks.registry import load_recipe, task_of_recipe
from bertkit.tasks.splits import Truncation, hub_dataset

TASKS = [name.removeprefix("finetune/glue/") for name in list_recipes() if name.startswith("finetune/glue/")]

# Two examples in GLUE's own layout of every task: header, or none, and a row; what is read from it.
LAYOUTS = {
    "cola": ("", 'gj04\t0\t*\tThe film good.\nbc81\t1\t\tNA is "it.\n', [["The film good.", 'NA is "it.']], [0, 1]),
    "sst2": ("sentence\tlabel\n", "a good film \t1\nbad\t0\n", [["a good film ", "bad"]], [1, 0]),
    "mrpc": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n",
        '1\t7\t8\tHe said " so .\tHe said .\n0\t7\t9\tNo\tYes\n',
        [['He said " so .', "No"], ["He said .", "Yes"]],
        [1, 0],
    ),
    "stsb": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n",
        "0\tg\tf\ty\t1\ts\ts\tA man.\tA boy.\t3.250\n1\tg\tf\ty\t2\ts\ts\tOne\tTwo\t0.000\n",
        [["A man.", "One"], ["A boy.", "Two"]],
        [3.25, 0.0],
    ),
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n",
        "5\t1\t2\tWhy?\tHow?\t0\nbroken\n9\t3\t4\tWho?\tWho is?\t1\n",
        [["Why?", "Who?"], ["How?", "Who is?"]],
        [0, 1],
    ),
    "mnli": (
        "index\tpairID\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label\n",
        "0\tp\t( a )\tIt rains.\tIt is wet.\tneutral\tentailment\n1\tp\t( b )\tA\tB\tneutral\tcontradiction\n",
        [["It rains.", "A"], ["It is wet.", "B"]],
        [0, 2],
    ),
    "qnli": (
        "index\tquestion\tsentence\tlabel\n",
        "0\tWho?\tHe did.\tentailment\n1\tWhy?\tNo.\tnot_entailment\n",
        [["Who?", "Why?"], ["He did.", "No."]],
        [0, 1],
    ),
    "rte": (
        "index\tsentence1\tsentence2\tlabel\n",
        "0\tA long text.\tA text.\tnot_entailment\n1\tA\tB\tentailment\n",
        [["A long text.", "A"], ["A text.", "B"]],
        [1, 0],
    ),
    "wnli": (
        "index\tsentence1\tsentence2\tlabel\n",
        "0\tI put it in.\tI put a pin in.\t1\n1\tA\tB\t0\n",
        [["I put it in.", "A"], ["I put a pin in.", "B"]],
        [1, 0],
    ),
}


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8", newline="")
    return folder


def glue_task(name: str, data_dir: Path | None = None, **data: Any) -> GlueTask:
    values = {"data_dir": data_dir and str(data_dir), **data}
    made = task_of_recipe(load_recipe(f"finetune/glue/{name}", {f"data.{key}": each for key, each in values.items()}))
    assert isinstance(made, GlueTask)
    return made


def test_every_task_of_glue_has_a_recipe_and_a_layout_here():
    assert set(TASKS) == set(LAYOUTS) == {"cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"}


@pytest.mark.parametrize("name", TASKS)
def test_each_task_reads_its_own_layout(name, tmp_path):
    header, rows, texts, labels = LAYOUTS[name]
    glue = glue_task(name, tmp_path)
    folder = tmp_path / glue.settings.folder
    folder.mkdir()
    for split, file in glue.settings.files.items():
        if split == "train" or split.startswith("validation"):
            (folder / file).write_text(header + rows, encoding="utf-8")
    _, splits = glue.load()
    assert set(splits) == {split for split in glue.splits if split == "train" or split.startswith("validation")}
    for split in splits.values():
        assert [split.examples[column][:] for column in glue.settings.text_columns] == texts
        assert split.examples["labels"][:] == labels
    assert splits["train"].notes == (("1 broken row skipped",) if name == "qqp" else ())


@pytest.mark.parametrize("name", TASKS)
def test_each_task_is_scored_as_glue_does(name):
    """Two right, one wrong: what the metric makes of it stands in its main metric too."""
    glue = glue_task(name)
    if glue.settings.label_names:
        width = len(glue.settings.label_names)
        logits, labels = np.eye(width)[[0, 1, 1]], np.array([0, 1, 0])
    else:
        logits, labels = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 2.0, 3.0])
    scores = glue.score(logits, {"labels": labels}, {})
    expected = {
        "cola": {"matthews_correlation": 0.5},
        "mrpc": {"accuracy": 2 / 3, "f1": 2 / 3, "combined_score": 2 / 3},
        "qqp": {"accuracy": 2 / 3, "f1": 2 / 3, "combined_score": 2 / 3},
        # r of (1, 2, 4) with (1, 2, 3): 3 / sqrt(2 · 14 / 3)
        "stsb": {"pearson": 3 / (28 / 3) ** 0.5, "spearmanr": 1.0, "combined_score": (3 / (28 / 3) ** 0.5 + 1) / 2},
    }.get(name, {"accuracy": 2 / 3})
    assert scores == pytest.approx(expected)
    assert glue.main_metric in scores


@pytest.mark.parametrize(
    ("name", "split", "file", "written"),
    [
        ("cola", "test", "predict_results_cola.tsv", ["0", "1"]),
        ("qqp", "test", "predict_results_qqp.tsv", ["0", "1"]),
        ("qnli", "test", "predict_results_qnli.tsv", ["entailment", "not_entailment"]),
        ("wnli", "test", "predict_results_wnli.tsv", ["0", "1"]),
        ("mnli", "test_mm", "predict_results_mnli_mm.tsv", ["entailment", "neutral"]),
        ("mnli", "ax", "predict_results_ax.tsv", ["entailment", "neutral"]),
        ("stsb", "test", "predict_results_stsb.tsv", ["1.000", "0.000"]),
    ],
)
def test_predictions_are_written_as_the_leaderboard_takes_them(name, split, file, written, tmp_path):
    glue = glue_task(name)
    logits = np.eye(max(2, len(glue.settings.label_names)))[:2]
    path = glue.write_predictions(split, logits, {}, {"idx": ["7", "3"]}, tmp_path)
    assert path.name == file
    assert path.read_text() == f"index\tprediction\n7\t{written[0]}\n3\t{written[1]}\n"


def test_numbers_stay_within_what_the_leaderboard_takes(tmp_path):
    path = glue_task("stsb").write_predictions(
        "test", np.array([[-0.2], [5.4], [2.34567]]), {}, {"idx": ["0", "1", "2"]}, tmp_path
    )
    assert path.read_text() == "index\tprediction\n0\t0.000\n1\t5.000\n2\t2.346\n"


def test_the_diagnostic_set_lies_beside_mnli(tmp_path):
    header, rows, *_ = LAYOUTS["mnli"]
    write(tmp_path / "MNLI", train=header + rows, dev_matched=header + rows, dev_mismatched=header + rows)
    write(tmp_path / "AX", diagnostic="index\tsentence1\tsentence2\n0\tThe cat sat.\tIt sat not.\n")
    ax = glue_task("mnli", tmp_path).load()[1]["ax"].examples
    assert ax["premise"][:] == ["The cat sat."]
    assert "labels" not in ax.column_names


@pytest.mark.parametrize("text", [3, None, " "])
def test_a_row_without_a_text_in_a_table_of_ones_own_is_named(tmp_path, text):
    header, rows, *_ = LAYOUTS["sst2"]
    write(tmp_path, dev=header + rows)
    own = tmp_path / "own.jsonl"
    own.write_text("".join(json.dumps({"sentence": each, "label": "1"}) + "\n" for each in ("good", text)))
    with pytest.raises(DataError, match=r"own\.jsonl, line 2: .*sentence"):
        glue_task("sst2", tmp_path, train_file=str(own)).load()


@pytest.mark.parametrize("ids", [{"id": "x"}, {}])
def test_a_table_of_ones_own_may_have_ids_of_any_kind(tmp_path, ids):
    write(tmp_path, dev="sentence\tlabel\na\t0\n")
    own = tmp_path / "own.jsonl"
    rows = [{"id": 1, "sentence": "a", "label": "1"}, {**ids, "sentence": "b", "label": "0"}]
    own.write_text("".join(json.dumps(row) + "\n" for row in rows))
    examples = glue_task("sst2", tmp_path, train_file=str(own)).load(["train"])[1]["train"].examples
    assert examples.dataset["idx"][:] == ["0", "1"]


@pytest.mark.parametrize(("given", "missing"), [("train", "validation"), ("validation", "train")])
def test_a_task_without_a_training_or_a_validation_set_is_refused(given, missing):
    with pytest.raises(RecipeError, match=rf"task\.files: expected one of the split {missing}, got {given}"):
        load_recipe("finetune/glue/sst2", {"task.files": {given: "x.tsv"}, "task.submission": {}})


def test_a_table_for_prediction_may_have_either_names():
    mnli = glue_task("mnli")
    for names in (("premise", "hypothesis"), ("sentence1", "sentence2"), ("Premise", "Hypothesis")):
        table = Table({names[0]: ["a"], names[1]: ["b"], "more": ["c"]}, "t", "")
        assert mnli.columns_of(table) == {"premise": ["a"], "hypothesis": ["b"]}


@pytest.mark.parametrize("name", ["sst2", "mnli"])  # in whose files the columns are named as on the Hub, and otherwise
def test_a_table_without_the_columns_of_the_task_is_refused(name):
    with pytest.raises(DataError, match=r"^t\.csv: .*no column '(sentence|premise)'(?!.*--text-column)"):
        glue_task(name).columns_of(Table({"text": ["a"]}, "t.csv", ""))


WORDS = '[PAD] [UNK] [CLS] [SEP] [MASK] a good bad film the story is " NA'.split()


@pytest.fixture
def tokenizer() -> BertTokenizer:
    return BertTokenizer(vocab={word: index for index, word in enumerate(WORDS)})


TRAIN = 'sentence\tlabel\na good film \t1\nthe "bad story\t0\nNA\t0\n'
DEV = "sentence\tlabel\nbad\t0\n"


def test_the_task_folder_itself_is_accepted_and_crlf_and_bom_do_not_matter(tmp_path):
    write(tmp_path / "here", train="\ufeff" + TRAIN.replace("\n", "\r\n"), dev=DEV)
    examples = glue_task("sst2", tmp_path / "here").load(["train"])[1]["train"].examples
    assert examples.column_names == ["sentence", "idx", "labels"]
    assert examples["labels"][:] == [1, 0, 0]


SCORED, ROWS, *_ = LAYOUTS["stsb"]


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        (
            "stsb",
            {"train": SCORED + ROWS.replace("3.250", "much"), "dev": SCORED + ROWS},
            ["train.tsv, line 2: 'score' is 'much'; expected a number"],
        ),
        (
            "sst2",
            {"train": "sentence\tlabel\ngood\t1\nmore\t1\textra\nleast\n", "dev": "sentence\nbad\n"},
            [
                "train.tsv, line 3: 3 fields where the header has 2",
                "train.tsv, line 4: 1 field where the header has 2",
                "dev.tsv: no column 'label'",
            ],
        ),
        (
            "sst2",
            {"train": "sentence\tlabel\ngood\t1\nbad\tgood\n", "dev": DEV},
            ["train.tsv, line 3: label 'good' is not one of '0', '1'"],
        ),
        ("sst2", {}, ["contains neither SST-2/dev.tsv nor dev.tsv"]),
        ("sst2", {"dev": DEV}, ["train.tsv: no such file"]),
    ],
)
def test_wrong_files_are_named_with_their_lines(refusal, tmp_path, name, files, expected):
    message = refusal(glue_task(name, write(tmp_path, **files)))
    for each in expected:
        assert each in message


def test_limits_keep_the_first_examples(tmp_path):
    write(tmp_path, train=TRAIN, dev=DEV + "good\t1\n")
    _, splits = glue_task("sst2", tmp_path, max_train_samples=2, max_eval_samples=1).load()
    assert [len(splits[name].examples) for name in ("train", "validation")] == [2, 1]


def hub_folder(folder: Path, kind: Any, **splits: tuple[list[str], list[Any]]) -> str:
    """A local data set folder in the Hub's form stands for the Hub: the same ``load_dataset`` call reads it."""
    features = Features({"sentence": Value("string"), "label": kind, "idx": Value("int32")})
    (folder / "sst2").mkdir(parents=True)
    for split, (texts, labels) in splits.items():
        columns = {"sentence": texts, "label": labels, "idx": list(range(len(texts)))}
        Dataset.from_dict(columns, features=features).to_parquet(folder / "sst2" / f"{split}-0.parquet")
    (folder / "README.md").write_text("---\nconfigs:\n- config_name: sst2\n  data_dir: sst2\n---\n")
    return str(folder)


@pytest.mark.parametrize("names", [["negative", "positive"], ["positive", "negative"], None])
def test_the_hub_layout_gives_the_same_examples_as_the_tsv_folder(tmp_path, names):
    kind = ClassLabel(names=names) if names else Value("string")
    good, bad = (names.index("positive"), names.index("negative")) if names else ("positive", "negative")
    hub = hub_folder(
        tmp_path / "hub",
        kind,
        train=(["a good film ", 'the "bad story', "NA"], [good, bad, bad]),
        validation=(["bad"], [bad]),
        test=(["x"], [-1 if names else ""]),
    )
    write(tmp_path / "SST-2", train=TRAIN, dev=DEV)
    _, from_hub = glue_task("sst2").with_settings(hub_dataset=hub).load()
    _, from_folder = glue_task("sst2", tmp_path).load()
    for name in ("train", "validation"):
        for column in ("sentence", "labels"):
            assert from_hub[name].examples[column][:] == from_folder[name].examples[column][:]
    assert "labels" not in from_hub["test"].examples.column_names


def test_a_row_of_the_hub_without_a_class_is_named(tmp_path):
    kind = ClassLabel(names=["negative", "positive"])
    hub = hub_folder(tmp_path / "hub", kind, train=(["a", "b"], [1, None]), validation=(["bad"], [0]))
    with pytest.raises(DataError, match="row 2: label None is not one of the 2 classes"):
        glue_task("sst2").with_settings(hub_dataset=hub).load()


def test_without_the_hub_the_message_offers_the_folder():
    with pytest.raises(DataError, match=r"cannot be read .*give GLUE's TSV folder with --data-dir"):
        glue_task("sst2").with_settings(hub_dataset="./no-such-folder-here").load()


def test_a_damaged_file_at_the_hub_is_told_in_one_line(tmp_path):
    kind, rows = ClassLabel(names=["negative", "positive"]), (["b"], [0])
    hub = hub_folder(tmp_path / "damaged", kind, train=rows, validation=rows)
    file = tmp_path / "damaged" / "sst2" / "train-0.parquet"
    content = file.read_bytes()
    file.write_bytes(content[:4] + bytes(20) + content[24:])  # the rows, not the list of columns at the end
    with pytest.raises(DataError, match=r"damaged \(sst2\): cannot be read .*give GLUE's TSV folder with --data-dir"):
        glue_task("sst2").with_settings(hub_dataset=hub).load()


def test_the_scored_split_may_be_of_another_configuration():
    of_ax = glue_task("mnli").with_settings(hub_splits={"validation": "ax/test"})
    assert hub_dataset(of_ax) == ("nyu-mll/glue", "ax", "test")
    assert hub_dataset(glue_task("mnli")) == ("nyu-mll/glue", "mnli", "validation_matched")


def test_encoding_adds_specials_and_counts_what_it_cuts(tokenizer):
    glue = glue_task("sst2", max_seq_length=4)
    features = glue.encode({"sentence": ["a good film", "bad"], "labels": [1, 0]}, tokenizer)
    assert features["input_ids"] == [[2, 5, 6, 3], [2, 7, 3]]
    assert features["token_type_ids"] == [[0] * 4, [0] * 3]
    assert features["length"] == [4, 3]
    assert features["full_length"] == [5, 3]
    assert features["labels"] == [1, 0]


def test_a_pair_has_two_segments_and_the_longer_one_is_cut(tokenizer):
    pair = glue_task("mrpc", max_seq_length=6)
    columns = pair.read_input(["a good film the story\tbad"])
    features = pair.encode(columns, tokenizer)
    assert features["input_ids"] == [[2, 5, 6, 3, 7, 3]]  # [CLS] a good [SEP] bad [SEP]
    assert features["token_type_ids"][0][-2:] == [1, 1]
    assert features["full_length"] == [9]
    with pytest.raises(DataError, match="input 1: expected two texts separated by a tab"):
        pair.read_input(["only one"])


def test_what_is_cut_of_a_split_is_counted(tmp_path, tokenizer):
    write(tmp_path, train=TRAIN, dev=DEV)
    glue = glue_task("sst2", tmp_path, max_seq_length=4)
    features, cut = encode_split(glue, glue.load(["train"])[1]["train"], tokenizer)
    # 'a good film' is 5 tokens with specials, 'the "bad story' 6, 'NA' (uncased: unknown) 3
    assert cut == Truncation(examples=2, tokens=3, of_examples=3, of_tokens=14)
    assert str(cut) == "2 of 3 inputs cut (66.7 %), 3 tokens lost"
    assert features["labels"][:] == [1, 0, 0]
    assert "full_length" not in features.column_names


def test_each_split_is_shared_once(tmp_path, tokenizer):
    """A run that encodes the first split leaves settings in the tokenizer, which are no part of the second's key."""
    write(tmp_path, train=TRAIN, dev=DEV)
    glue = glue_task("sst2", tmp_path, max_seq_length=4)
    splits = glue.load(["train", "validation"])[1]
    with sharing_encodings(tmp_path / "shared"):
        for _ in range(2):
            tokenizer.backend_tokenizer.no_truncation()
            encode_once(glue, splits, tokenizer)
    assert len(list((tmp_path / "shared").iterdir())) == 2


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"text_columns": []}, "text_columns: expected one or two"),
        ({"label_names": ["a"], "file_labels": ["0"]}, "label_names: expected at least two"),
        ({"file_labels": ["0"]}, "file_labels: expected one for each"),
        ({"metric": "bleu"}, "metric: unknown metric"),
        ({"name": "own/sst2"}, "name: 'own/sst2' cannot be part of the name of a file"),
    ],
)
def test_impossible_settings_are_refused(wrong, expected):
    with pytest.raises(ValueError, match=expected):
        glue_task("sst2").with_settings(**wrong)


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "sizes", "labels"),
    [
        ("sst2", (67_349, 872, 1_821), {0: 428, 1: 444}),
        ("mrpc", (3_668, 408, 1_725), {0: 129, 1: 279}),
        ("rte", (2_490, 277, 3_000), {0: 146, 1: 131}),
        ("stsb", (5_749, 1_500, 1_379), None),
    ],
)
def test_the_published_files_of_other_tasks_are_read_whole(real_data, name, sizes, labels):
    _, splits = glue_task(name, real_data / "glue").load()
    assert tuple(len(split.examples) for split in splits.values()) == sizes
    found = splits["validation"].examples["labels"][:]
    if labels is None:
        assert (min(found), max(found)) == (0.0, 5.0)
    else:
        assert Counter(found) == labels


@pytest.mark.real
def test_the_published_sample_of_qqp_and_the_diagnostic_set_are_read(real_data):
    qqp = GlueTask(
        replace(load_recipe("finetune/glue/qqp").task, folder="QQP-sample"),
        DataSettings(data_dir=str(real_data / "glue")),
    )
    _, splits = qqp.load(["train", "validation"])
    assert [len(split.examples) for split in splits.values()] == [9, 9]
    ax = read_table(real_data / "glue" / "AX" / "diagnostic.tsv")
    assert len(glue_task("mnli").columns_of(ax)["premise"]) == 1_104
