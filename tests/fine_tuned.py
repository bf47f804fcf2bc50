"""Checkpoints of every task, fine-tuned as far as their files say, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Kind of checkpoint -> its task, as config.json has it, and the name of its head.
_TEXT = {"text_columns": ["text"], "label_column": "label"}
_PAIR = {"text_columns": ["one", "two"], "label_column": "score"}
_SHORT = {"max_seq_length": 24}
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "film": (
        "classification",
        {**_TEXT, "problem": "single_label", "label_names": ["bad", "fair", "good"]},
        _SHORT,
        "BertForSequenceClassification",
    ),
    "chunks": (
        "classification",
        {**_TEXT, "problem": "single_label", "label_names": ["bad", "fair", "good"]},
        {**_SHORT, "long_text": "chunk"},
        "BertForSequenceClassification",
    ),
    "threshold": (
        "classification",
        {**_TEXT, "problem": "single_label", "label_names": ["bad", "good"], "threshold": 0.99},
        _SHORT,
        "BertForSequenceClassification",
    ),
    "topics": (
        "classification",
        {**_TEXT, "problem": "multi_label", "label_names": ["plot", "cast"]},
        _SHORT,
        "BertForSequenceClassification",
    ),
    "subjects": (  # more labels than an answer has, and some are predicted though others are more probable
        "classification",
        {
            **_TEXT,
            "problem": "multi_label",
            "label_names": [f"s{number}" for number in range(15)],
            "threshold": {f"s{number}": 0.0001 if number % 3 else 0.99 for number in range(15)},
        },
        _SHORT,
        "BertForSequenceClassification",
    ),
    "intents": (  # more classes than an answer has probabilities
        "classification",
        {**_TEXT, "problem": "single_label", "label_names": [f"i{number}" for number in range(15)]},
        _SHORT,
        "BertForSequenceClassification",
    ),
    "pairs": ("classification", {**_PAIR, "problem": "regression"}, _SHORT, "BertForSequenceClassification"),
    "entities": (
        "ner",
        {"scheme": "IOB2", "label_names": ["O", "B-FILM", "I-FILM"]},
        _SHORT,
        "BertForTokenClassification",
    ),
    "tags": ("ner", {"scheme": "plain", "label_names": ["NOUN", "VERB"]}, _SHORT, "BertForTokenClassification"),
    "answers": (
        "question_answering",
        {},
        {"max_seq_length": 32, "doc_stride": 4, "max_query_length": 8},
        "BertForQuestionAnswering",
    ),
    "maybe": (
        "question_answering",
        {"version_2_with_negative": True},
        {"max_seq_length": 32, "doc_stride": 4, "max_query_length": 8},
        "BertForQuestionAnswering",
    ),
    "reranker": (
        "reranking",
        {"text_columns": ["query", "passage"], "label_column": "label"},
        _SHORT,
        "BertForSequenceClassification",
    ),
    "similar": ("similarity", {"form": "pairs", "text_columns": ["one", "two"]}, _SHORT, "BertModel"),
    "choices": ("multiple_choice", {"num_choices": 2}, _SHORT, "BertForMultipleChoice"),
}


def fine_tuned(kind: str, checkpoint: Path, folder: Path) -> Path:
    """Writes a checkpoint of a kind of `KINDS` with configuration and tokenizer of another; returns its folder."""
    import torch

    from bertkit.model import modeling_bert
    from bertkit.model.checkpoint.load import load_config, load_tokenizer, save_tokenizer
    from bertkit.tasks.base import task_record
    from bertkit.tasks.registry import TASKS

    name, settings, data, head = KINDS[kind]
    task_class = TASKS.task(name)
    task = task_class(task_class.Settings(**settings), task_class.data_settings(**data))
    config = load_config(str(checkpoint))
    for key, value in task.config().items():
        setattr(config, key, value)
    config.bertkit_task, config.initializer_range = task_record(task), 0.5
    torch.manual_seed(1)
    getattr(modeling_bert, head)(config).save_pretrained(folder)
    save_tokenizer(load_tokenizer(str(checkpoint), config=config), folder)
    return folder
