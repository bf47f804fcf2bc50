"""A task of another package: how hard a text is to read, a level from 1 to as many as the training data have."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from bertkit.model.checkpoint.encoders import label_fields
from bertkit.tasks.base import PerExampleTask, one_array, softmax
from bertkit.tasks.splits import Split
from bertkit.tasks.table_data import TableData, TableTask


@dataclass(frozen=True, kw_only=True)
class LevelSettings:
    column: str = field(default="level", metadata={"help": "The column of the levels.", "flag": "--level-column"})
    levels: int = 0  # 0 is found in the training data


@dataclass(frozen=True, kw_only=True)
class LevelData(TableData):
    pass


class LevelTask(TableTask, PerExampleTask):
    kind = "reading_level"
    Settings = LevelSettings
    data_settings = LevelData
    head = "BertForSequenceClassification"
    pipeline_tag = "text-classification"
    main_metric = "within_one"

    def learn_from_table(self, table):
        if self.settings.levels:
            return self, ()
        levels = int(max(table.numbers(self.settings.column)))
        return self.with_settings(levels=levels), (f"levels: 1 to {levels}",)

    def read_split(self, name, table):
        columns = self.columns_of(table)
        if self.settings.column in table.columns:  # a table to predict may lack it
            columns["labels"] = [int(level) - 1 for level in table.numbers(self.settings.column)]
        return Split.of_table(columns, table)

    def config(self):
        return label_fields([f"level {level + 1}" for level in range(self.settings.levels)])

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
        expected = probabilities @ torch.arange(self.settings.levels, dtype=torch.float32, device=probabilities.device)
        return ((expected - batch["labels"]) ** 2).sum() / count

    def decode(self, outputs, features, examples):
        expected = softmax(one_array(outputs)) @ np.arange(1, self.settings.levels + 1)
        return [{"level": float(level)} for level in expected]

    def predictions_and_references(self, outputs, features, examples):
        levels = [round(row["level"]) for row in self.decode(outputs, features, examples)]
        return levels, [label + 1 for label in features["labels"]]

    def compute_metrics(self, predictions, references):
        distances = abs(np.array(predictions) - np.array(references))
        return {"within_one": float((distances <= 1).mean()), "distance": float(distances.mean())}
