"""A task of another package: how hard a text is to read, a level from 1 to as many as the training data have."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from datasets import Dataset

from bertkit.checkpoint.encoders import label_fields
from bertkit.errors import noted, raise_all
from bertkit.tasks.base import one_array, softmax
from bertkit.tasks.splits import Split
from bertkit.tasks.table_data import TableData, TableTask


@dataclass(frozen=True, kw_only=True)
class LevelSettings:
    column: str = field(default="level", metadata={"help": "The column of the levels.", "flag": "--level-column"})
    levels: int = 0  # 0 is found in the training data


@dataclass(frozen=True, kw_only=True)
class LevelData(TableData):
    pass


class LevelTask(TableTask):
    kind = "reading_level"
    settings = LevelSettings
    data_settings = LevelData
    head = "BertForSequenceClassification"
    pipeline_tag = "text-classification"
    main_metric = "within_one"

    def load(self, splits=None):
        splits = self.splits if splits is None else splits
        found, faults = {}, []
        for name, table in self.data.tables(splits).items():
            with noted(faults):
                columns = self.columns_of(table)
                if self.task.column in table.columns:
                    columns["labels"] = [int(level) - 1 for level in table.numbers(self.task.column)]
                found[name] = Split(Dataset.from_dict(columns), table.source, table.fingerprint)
        raise_all(faults)
        task = self if self.task.levels else self.with_settings(levels=max(found["train"].examples["labels"]) + 1)
        task, found = task._with_validation(splits, found)
        return task, self._limited(splits, found)

    def config(self):
        return label_fields([f"level {level + 1}" for level in range(self.task.levels)])

    def encode(self, examples, tokenizer):
        read = list(examples["text"])
        length = self.data.max_seq_length
        features = dict(tokenizer(read, truncation=True, max_length=length, return_token_type_ids=True))  # keeps [SEP]
        features["length"] = [len(row) for row in features["input_ids"]]
        features["full_length"] = [len(row) for row in tokenizer(read, verbose=False)["input_ids"]]
        return features | ({"labels": list(examples["labels"])} if "labels" in examples else {})

    def loss(self, outputs, batch, count):
        """Computes the squared distance of the expected level from the true one."""
        probabilities = outputs["logits"].float().softmax(dim=-1)
        expected = probabilities @ torch.arange(self.task.levels, dtype=torch.float32, device=probabilities.device)
        return ((expected - batch["labels"]) ** 2).sum() / count

    def decode(self, outputs, features, examples):
        expected = softmax(one_array(outputs)) @ np.arange(1, self.task.levels + 1)
        return [{"level": float(level)} for level in expected]

    def score(self, outputs, features, examples):
        levels = np.array([row["level"] for row in self.decode(outputs, features, examples)])
        return {"within_one": float((abs(levels - 1 - features["labels"]) <= 1).mean())}
