"""GLUE from TSV folders and from the Hub's layout: what is read, encoded, decoded, scored and written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from transformers import BertTokenizer

from bertkit.runtime.errors import DataError
from bertkit.tasks.classification.glue import DataSettings, GlueTask, TaskSettings
from bertkit.tasks.encoding import encode_split
from bertkit.tasks.splits import Truncation

WORDS = '[PAD] [UNK] [CLS] [SEP] [MASK] a good bad film the story is " NA'.split()
SST2 = {
    "name": "sst2",
    "folder": "SST-2",
    "text_columns": ["sentence"],
    "label_names": ["negative", "positive"],
    "file_labels": ["0", "1"],
    "metric": "glue/sst2",
    "main_metric": "accuracy",
}
PAIRS = {**SST2, "name": "pairs", "folder": "P", "text_columns": ["first", "second"], "file_labels": ["no", "yes"]}


@pytest.fixture
def tokenizer() -> BertTokenizer:
    return BertTokenizer(vocab={word: index for index, word in enumerate(WORDS)})


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8", newline="")
    return folder


def task(data_dir: Path | None, settings: dict = SST2, **data) -> GlueTask:
    return GlueTask(TaskSettings(**settings), DataSettings(data_dir=data_dir and str(data_dir), **data))


TRAIN = 'sentence\tlabel\na good film \t1\nthe "bad story\t0\nNA\t0\n'
DEV = "sentence\tlabel\nbad\t0\n"


def test_quotes_and_na_are_text_and_every_row_is_kept(tmp_path):
    write(tmp_path / "SST-2", train=TRAIN, dev=DEV)
    _, splits = task(tmp_path).load()
    assert splits["train"].examples["sentence"][:] == ["a good film ", 'the "bad story', "NA"]
    assert splits["train"].examples["labels"][:] == [1, 0, 0]
    assert set(splits) == {"train", "validation"}


def test_the_task_folder_itself_is_accepted_and_crlf_and_bom_do_not_matter(tmp_path):
    write(tmp_path / "here", train="\ufeff" + TRAIN.replace("\n", "\r\n"), dev=DEV)
    examples = task(tmp_path / "here").load(["train"])[1]["train"].examples
    assert examples.column_names == ["sentence", "idx", "labels"]
    assert examples["labels"][:] == [1, 0, 0]


def test_faults_are_named_with_file_and_line_all_at_once(tmp_path):
    write(tmp_path, train="sentence\tlabel\ngood\t1\nmore\t1\textra\nleast\n", dev="sentence\nbad\n")
    with pytest.raises(DataError) as caught:
        task(tmp_path).load()
    message = str(caught.value)
    assert f"{tmp_path}/train.tsv, line 3: 3 fields where the header has 2" in message
    assert f"{tmp_path}/train.tsv, line 4: 1 field where the header has 2" in message
    assert f"{tmp_path}/dev.tsv: no column 'label'" in message


def test_unknown_labels_are_named_with_file_and_line(tmp_path):
    write(tmp_path, train="sentence\tlabel\ngood\t1\nbad\tgood\n\nmore\t2\n", dev=DEV)
    with pytest.raises(DataError) as caught:
        task(tmp_path).load()
    assert f"{tmp_path}/train.tsv, line 3: label 'good' is not one of '0', '1'" in str(caught.value)
    assert f"{tmp_path}/train.tsv, line 5: label '2' is not one of '0', '1'" in str(caught.value)


def test_many_faults_are_counted_not_all_printed(tmp_path):
    write(tmp_path, train="sentence\tlabel\n" + "x\t7\n" * 500, dev=DEV)
    with pytest.raises(DataError) as caught:
        task(tmp_path).load()
    assert str(caught.value).count("\n") < 15
    assert "(500 times, also line 3, line 4, " in str(caught.value)


def test_a_missing_folder_or_file_says_what_is_expected(tmp_path):
    with pytest.raises(DataError, match=r"contains neither SST-2/dev\.tsv nor dev\.tsv"):
        task(tmp_path).load()
    write(tmp_path, dev=DEV)
    with pytest.raises(DataError, match=r"train\.tsv: no such file"):
        task(tmp_path).load()


def test_a_file_that_is_not_utf8_is_refused_with_its_offset(tmp_path):
    write(tmp_path, dev=DEV)
    (tmp_path / "train.tsv").write_bytes("sentence\tlabel\nčaf".encode() + b"\xe9\t1\n")
    with pytest.raises(DataError, match=r"train\.tsv.*19"):
        task(tmp_path).load()


def test_an_empty_file_is_refused(tmp_path):
    write(tmp_path, train="sentence\tlabel\n", dev=DEV)
    with pytest.raises(DataError, match="no rows after the header"):
        task(tmp_path).load()


def test_limits_keep_the_first_examples(tmp_path):
    write(tmp_path, train=TRAIN, dev=DEV * 1 + "good\t1\n")
    _, splits = task(tmp_path, max_train_samples=2, max_eval_samples=1).load()
    assert [len(splits[name].examples) for name in ("train", "validation")] == [2, 1]


@pytest.mark.parametrize("names", [["negative", "positive"], ["positive", "negative"]])
def test_the_hub_layout_gives_the_same_examples_as_the_tsv_folder(tmp_path, names):
    """A local data set folder in the Hub's form stands for the Hub: the same ``load_dataset`` call reads it."""
    from datasets import ClassLabel, Features, Value

    features = Features({"sentence": Value("string"), "label": ClassLabel(names=names), "idx": Value("int32")})
    good, bad = names.index("positive"), names.index("negative")
    rows = {
        "train": (["a good film ", 'the "bad story', "NA"], [good, bad, bad]),
        "validation": (["bad"], [bad]),
        "test": (["x"], [-1]),
    }
    folder = tmp_path / "hub"
    for split, (texts, labels) in rows.items():
        columns = {"sentence": texts, "label": labels, "idx": list(range(len(texts)))}
        (folder / "sst2").mkdir(parents=True, exist_ok=True)
        Dataset.from_dict(columns, features=features).to_parquet(folder / "sst2" / f"{split}-0.parquet")
    (folder / "README.md").write_text("---\nconfigs:\n- config_name: sst2\n  data_dir: sst2\n---\n")
    write(tmp_path / "SST-2", train=TRAIN, dev=DEV)
    _, from_hub = task(None, {**SST2, "hub_dataset": str(folder)}).load()
    _, from_folder = task(tmp_path).load()
    for name in ("train", "validation"):
        for column in ("sentence", "labels"):
            assert from_hub[name].examples[column][:] == from_folder[name].examples[column][:]
    assert "labels" not in from_hub["test"].examples.column_names


def test_without_the_hub_the_message_offers_the_folder():
    with pytest.raises(DataError, match=r"cannot be loaded: .*give GLUE's TSV folder with --data-dir"):
        task(None, {**SST2, "hub_dataset": "./no-such-folder-here"}).load()


def test_encoding_adds_specials_and_counts_what_it_cuts(tokenizer):
    features = task(None, max_seq_length=4).encode({"sentence": ["a good film", "bad"], "labels": [1, 0]}, tokenizer)
    assert features["input_ids"] == [[2, 5, 6, 3], [2, 7, 3]]
    assert features["token_type_ids"] == [[0] * 4, [0] * 3]
    assert features["length"] == [4, 3]
    assert features["full_length"] == [5, 3]
    assert features["labels"] == [1, 0]


def test_a_pair_has_two_segments_and_the_longer_one_is_cut(tokenizer):
    pair = task(None, PAIRS, max_seq_length=6)
    columns = pair.read_input(["a good film the story\tbad"])
    features = pair.encode(columns, tokenizer)
    assert features["input_ids"] == [[2, 5, 6, 3, 7, 3]]  # [CLS] a good [SEP] bad [SEP]
    assert features["token_type_ids"][0][-2:] == [1, 1]
    assert features["full_length"] == [9]
    with pytest.raises(DataError, match="input 1: expected two texts separated by a tab"):
        pair.read_input(["only one"])


def test_a_split_is_encoded_with_its_ledger(tmp_path, tokenizer):
    write(tmp_path, train=TRAIN, dev=DEV)
    glue = task(tmp_path, max_seq_length=4)
    features, cut = encode_split(glue, glue.load(["train"])[1]["train"], tokenizer)
    # 'a good film' is 5 tokens with specials, 'the "bad story' 6, 'NA' (uncased: unknown) 3
    assert cut == Truncation(examples=2, tokens=3, of_examples=3, of_tokens=14)
    assert str(cut) == "2 of 3 inputs cut (66.7 %), 3 tokens lost"
    assert features["labels"][:] == [1, 0, 0]
    assert "full_length" not in features.column_names


def test_decoding_gives_the_worked_probabilities():
    """The course's three-class example: logits [-0.13, -0.06, 0.32]."""
    three = {**SST2, "label_names": ["a", "b", "c"], "file_labels": ["0", "1", "2"]}
    (prediction,) = task(None, three).decode(np.array([[-0.13, -0.06, 0.32]]), {}, {})
    assert prediction["label"] == "c"
    assert [round(value, 3) for value in prediction["probabilities"].values()] == [0.275, 0.295, 0.431]
    assert prediction["probability"] == prediction["probabilities"]["c"]


def test_large_logits_do_not_overflow():
    (prediction,) = task(None).decode(np.array([[1e4, -1e4]]), {}, {})
    assert prediction == {
        "label": "negative",
        "probability": 1.0,
        "probabilities": {"negative": 1.0, "positive": 0.0},
    }


def test_scores_are_those_of_the_metric():
    logits = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert task(None).score(logits, {"labels": [0, 1, 0]}, {}) == {"accuracy": pytest.approx(2 / 3)}


def test_test_predictions_take_the_leaderboards_form(tmp_path):
    write(tmp_path, train=TRAIN, dev=DEV, test="index\tsentence\n0\tgood\n1\tbad\n")
    glue = task(tmp_path)
    examples = glue.load(["test"])[1]["test"].examples
    path = glue.write_predictions("test", np.array([[0.0, 1.0], [1.0, 0.0]]), {}, examples, tmp_path)
    assert path.name == "predict_results_sst2.tsv"
    assert path.read_text() == "index\tprediction\n0\t1\n1\t0\n"


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"text_columns": []}, "text_columns: expected one or two"),
        ({"label_names": ["a"], "file_labels": ["0"]}, "label_names: expected at least two"),
        ({"file_labels": ["0"]}, "file_labels: expected one for each"),
        ({"metric": "bleu"}, "metric: unknown metric"),
    ],
)
def test_impossible_settings_are_refused(wrong, expected):
    with pytest.raises(ValueError, match=expected):
        TaskSettings(**{**SST2, **wrong})


@pytest.mark.real
def test_the_published_files_are_read_whole(real_data):
    _, splits = task(real_data / "glue").load()
    assert {name: len(split.examples) for name, split in splits.items()} == {
        "train": 67_349,
        "validation": 872,
        "test": 1_821,
    }
    assert sum(splits["train"].examples["labels"][:]) == 37_569
    assert sum(splits["validation"].examples["labels"][:]) == 444
    assert splits["validation"].examples["sentence"][0] == "it 's a charming and often affecting journey . "
