"""A task of another package: the relation of two marked entities, as in ``<e1>Ada</e1> lives in <e2>Rome</e2>``.

Its head reads the vectors of the first tokens of both entities (Baldini Soares et al. 2019).
"""

from __future__ import annotations

import re

import torch
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput

from bertkit.model.modeling_bert import BertModel, BertPreTrainedModel
from bertkit.tasks.classification.task import ClassificationTask

_TAG = re.compile(r"</?e[12]>")


class BertForRelations(BertPreTrainedModel):
    """BERT with a linear classifier on the vectors of two tokens; ``positions`` (B, 2) int64 are their places."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.classifier = nn.Linear(2 * config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, positions=None, **options):
        hidden = self.bert(input_ids, attention_mask, token_type_ids, return_dict=True, **options).last_hidden_state
        rows = torch.arange(len(hidden), device=hidden.device)[:, None]
        return SequenceClassifierOutput(logits=self.classifier(hidden[rows, positions].flatten(1)))


class RelationTask(ClassificationTask):
    """Classification of texts with two marked entities; tables, labels and scores are those of classification."""

    kind = "relations"
    head = BertForRelations

    def encode(self, examples, tokenizer):
        (column,) = self.settings.text_columns
        texts = [_TAG.sub("", text) for text in examples[column]]
        features = super().encode({**examples, column: texts}, tokenizer)
        tokens = tokenizer(texts, truncation=True, max_length=self.data.max_seq_length)
        starts = [[_start(text, entity) for entity in ("<e1>", "<e2>")] for text in examples[column]]
        features["positions"] = [  # an entity that is truncated is represented by [CLS]
            [tokens.char_to_token(row, start) or 0 for start in of_row] for row, of_row in enumerate(starts)
        ]
        return features

    def collate(self, rows, tokenizer, inputs):
        positions = torch.tensor([row["positions"] for row in rows])
        return {**super().collate(rows, tokenizer, inputs), "positions": positions}


def _start(text, entity):
    """Returns the place of an entity in the text without tags."""
    before, _, _ = text.partition(entity)
    return len(_TAG.sub("", before))
