"""A task of another package: two heads on one encoder, for the stars of a review and for its topic."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers.utils import ModelOutput

from bertkit.data.tables.classes import class_ids
from bertkit.model.modeling_bert import BertModel, BertPreTrainedModel
from bertkit.tasks.base import padded
from bertkit.tasks.splits import Split
from bertkit.tasks.table_data import TableData, TableTask

COLUMNS = ("stars", "topic")


@dataclass(frozen=True, kw_only=True)
class ReviewSettings:
    stars: list[str] = field(default_factory=list)  # names that are not given are those of the training data
    topic: list[str] = field(default_factory=list)


class BertForReviews(BertPreTrainedModel):
    """BERT with a linear classifier for each label, of as many classes as the task has."""

    def __init__(self, config):
        super().__init__(config)
        self.bert, of_task = BertModel(config), config.bertkit_task["task"]
        self.heads = nn.ModuleList(nn.Linear(config.hidden_size, len(of_task[name])) for name in COLUMNS)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, **options):
        pooled = self.bert(input_ids, attention_mask, token_type_ids, return_dict=True, **options).pooler_output
        return ModelOutput({name: head(pooled) for name, head in zip(COLUMNS, self.heads, strict=True)})


class ReviewTask(TableTask):
    kind, head, pipeline_tag = "reviews", BertForReviews, "text-classification"
    Settings, data_settings, label_columns, main_metric = ReviewSettings, TableData, COLUMNS, "both"

    def learn_from_table(self, table):
        if self.settings.stars:
            return self, ()
        return self.with_settings(**{name: sorted(set(table.column(name))) for name in COLUMNS}), ()

    def read_split(self, name, table):
        ids = {each: class_ids(table, each, getattr(self.settings, each)) for each in COLUMNS if each in table.columns}
        return Split.of_table({**self.columns_of(table), **ids}, table)

    def config(self):
        return {}  # the head reads the classes of the settings, which every checkpoint has

    def encode(self, examples, tokenizer):
        limit = {"truncation": True, "max_length": self.data.max_seq_length}
        features = dict(tokenizer(list(examples["text"]), return_token_type_ids=True, **limit))
        features["length"] = features["full_length"] = list(map(len, features["input_ids"]))
        return features | {name: list(examples[name]) for name in COLUMNS if name in examples}

    def collate(self, rows, tokenizer, inputs):
        labels = {name: torch.tensor([row[name] for row in rows]) for name in COLUMNS if name in rows[0]}
        return {**padded(rows, tokenizer, inputs), **labels}

    def count(self, batch):
        return torch.tensor(len(batch["stars"]), device=batch["stars"].device)

    def loss(self, outputs, batch, count):
        return sum(functional.cross_entropy(outputs[name], batch[name], reduction="sum") for name in COLUMNS) / count

    def decode(self, outputs, features, examples):
        best = zip(*(logits.argmax(axis=-1) for logits in outputs), strict=True)
        return [{"stars": self.settings.stars[star], "topic": self.settings.topic[topic]} for star, topic in best]

    def score(self, outputs, features, examples):
        is_right = [logits.argmax(axis=-1) == features[name] for name, logits in zip(COLUMNS, outputs, strict=True)]
        return {"both": float(np.mean(np.all(is_right, axis=0)))}
