"""Vectors of items, and outputs in the form of the task."""

from __future__ import annotations

import numpy as np
import torch

from bertkit.features.choosing.frozen import frozen_task
from bertkit.tasks.registry import load_recipe, task_of_recipe


def of_recipe(name, **overrides):
    return frozen_task(task_of_recipe(load_recipe(f"finetune/{name}", overrides)).load(["train"])[0])


def test_a_pair_joins_difference_and_product(table):
    kind = of_recipe("classification", **{"data.train_file": str(table), "task.text_columns": ["text", "other"]})
    states = torch.arange(12.0).reshape(1, 6, 2)  # [CLS] a b [SEP] c [SEP]

    class Tokenizer:
        sep_token_id = 3

    vectors = kind.vectors(states, {"input_ids": [2, 7, 8, 3, 9, 3]}, Tokenizer())
    assert vectors["cls"].tolist() == [[[0.0, 1.0]]]
    assert vectors["mean"].tolist() == [[[5.0, 6.0]]]
    u, v = np.array([3.0, 4.0]), np.array([8.0, 9.0])  # tokens a, b; then [SEP] c [SEP]
    assert np.allclose(vectors["pair"].numpy()[0, 0], [*abs(u - v), *(u * v)])


def test_logits_of_words_go_to_their_tokens(tagged, checkpoint):
    from transformers import AutoTokenizer

    kind = of_recipe("ner", **{"data.train_file": str(tagged)})
    examples = kind.task.load(["train"])[1]["train"].examples
    columns = {name: examples[name] for name in examples.column_names}
    features = kind.task.encode(columns, AutoTokenizer.from_pretrained(checkpoint))
    targets = kind.targets(features)
    assert targets.tolist() == [label for labels in columns["labels"] for label in labels]
    assert kind.examples(features).tolist() == [row for row, words in enumerate(columns["tokens"]) for _ in words]
    outputs = kind.outputs(np.eye(kind.classes)[targets] * 9, features)
    scores = kind.task.score(outputs, features, columns)
    assert scores["overall_f1"] == 1
