"""The base class of tasks: examples with several inputs, and the columns of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import AutoTokenizer

from bertkit.tasks import encoding
from bertkit.tasks.base import Task, one_array, padded
from bertkit.tasks.classification.settings import DataSettings, TaskSettings
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.encoding import encode_split
from bertkit.tasks.splits import Split


class InPieces(ClassificationTask):
    """Every example becomes as many inputs as it has words."""

    def encode(self, examples: Any, tokenizer: Any) -> dict[str, list[Any]]:
        owners = [index for index, text in enumerate(examples["text"]) for _ in text.split()]
        words = [word for text in examples["text"] for word in text.split()]
        return {"input_ids": [[int(word)] for word in words], "example": owners} | {
            name: [1] * len(words) for name in ("length", "full_length")
        }


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_inputs_are_padded_as_by_the_tokenizer(stock_models: Any, tmp_path: Path, family: str):
    tokenizer = AutoTokenizer.from_pretrained(stock_models.stock_checkpoint(tmp_path, family, "AutoModel"))
    texts = ["a film", "a good film story", "bad"]
    names = ["input_ids", "attention_mask", "token_type_ids"]
    encoded = tokenizer(texts, [*texts[1:], "awful"], return_token_type_ids=True)
    rows = [{name: encoded[name][number] for name in names} for number in range(3)]
    expected = tokenizer.pad({name: encoded[name] for name in names}, padding_side="right", return_tensors="pt")
    found = padded(rows, tokenizer, names)
    assert list(found) == names
    for name in names:
        assert found[name].dtype == torch.int64
        assert torch.equal(found[name], expected[name])


def test_an_example_may_become_several_inputs_and_keeps_its_index_over_batches_of_the_library():
    """2,500 examples of one, two and three words: the library hands them over a thousand at a time."""
    texts = [" ".join([str(index)] * (index % 3 + 1)) for index in range(2500)]
    task = InPieces(TaskSettings(text_columns=["text"]), DataSettings())
    features, cut = encode_split(task, Split(Dataset.from_dict({"text": texts}), "x", ""), None)
    assert [ids for (ids,) in features["input_ids"][:]] == features["example"][:]
    assert [features["example"][:].count(index) for index in (0, 1, 2, 2498, 2499)] == [1, 2, 3, 3, 1]
    assert cut.of_examples == len(features)
    first = Split(Dataset.from_dict({"text": texts[1500:]}), "x", "").first(4)
    assert encode_split(task, first, None)[0]["example"][:] == [0, 1, 1, 2, 2, 2, 3]


def test_inputs_of_a_large_split_are_in_a_file(monkeypatch):
    task = InPieces(TaskSettings(text_columns=["text"]), DataSettings())
    split = Split(Dataset.from_dict({"text": [str(number) for number in range(20)]}), "x", "")
    small, _ = encode_split(task, split, None)
    monkeypatch.setattr(encoding, "_ROWS_IN_MEMORY", 10)
    large, _ = encode_split(task, split, None)
    assert (small.cache_files, len(large.cache_files)) == ([], 1)
    assert large.to_dict() == small.to_dict()
    again, _ = encode_split(task, split, None)
    assert again.cache_files != large.cache_files


def test_a_task_has_few_public_members():
    """At most 25; two more are the blocks of the recipe, `settings` and `data`."""
    members = {name for name in {*dir(Task), *Task.__annotations__} if not name.startswith("_")}
    assert members == {
        *("kind", "name", "Settings", "data_settings", "recipe", "head", "pipeline_tag", "config", "prepare"),
        *("splits", "load", "with_settings", "learn_from"),
        *("encode", "collate", "label_columns", "count", "loss", "decode", "score", "main_metric"),
        "joins_batch",
        *("read_input", "columns_of", "write_predictions"),
    }


def test_several_arrays_are_not_taken_for_one():
    assert one_array(np.zeros(2)).shape == (2,)
    with pytest.raises(TypeError, match="returns 2 arrays; this task expects one"):
        one_array((np.zeros(2), np.zeros(2)))
