"""Evaluations take inputs of like length together, and give everything in the order of the data set."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import TrainingArguments

from bertkit.model.configuration_bert import BertConfig
from bertkit.model.modeling_bert import BertForTokenClassification
from bertkit.training.evaluation import evaluation_sampler, float32_products, in_dataset_order
from bertkit.training.trainer import BertkitTrainer
from tests.training.conftest import Labels

LENGTHS = [3, 9, 4, 9, 1, 7, 2]


def test_a_set_without_lengths_comes_as_it_stands():
    for dataset in (Dataset.from_dict({"number": [5, 6, 7]}), [5, 6, 7]):
        assert list(evaluation_sampler(dataset)) == [0, 1, 2]
        assert in_dataset_order(np.arange(3), dataset).tolist() == [0, 1, 2]


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_products_of_a_program_do_not_change_those_of_an_evaluation(precision):
    """It may have asked for TF32, or for bf16 on CPUs, as many do in the first lines."""
    places = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    at_first = [place.fp32_precision for place in places]
    of_process = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        before = [place.fp32_precision for place in places]
        with float32_products("tf32"):
            assert [place.fp32_precision for place in places] == ["tf32", "tf32"]
            with float32_products("ieee"):
                assert {place.fp32_precision for place in places} <= {"none", "ieee"}
            assert [place.fp32_precision for place in places] == ["tf32", "tf32"]
        assert [place.fp32_precision for place in places] == before
        assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision(of_process)
        for place, value in zip(places, at_first, strict=True):
            place.fp32_precision = value


@pytest.mark.parametrize("drop_last", [False, True], ids=["all batches", "whole batches in training"])
def test_predictions_scores_and_loss_are_those_of_any_order(tmp_path, drop_last):
    draw = torch.Generator().manual_seed(1)
    rows = [
        {
            "input_ids": torch.randint(5, 50, (length,), generator=draw).tolist(),
            "labels": torch.randint(0, 3, (length,), generator=draw).tolist(),
            "length": length,
        }
        for length in LENGTHS
    ]
    widths = []

    def collate(examples):
        longest = max(len(example["input_ids"]) for example in examples)
        widths.append(longest)

        def filled(name, filler):
            return torch.tensor([each[name] + [filler] * (longest - len(each[name])) for each in examples])

        ids = filled("input_ids", 0)
        return {"input_ids": ids, "attention_mask": ids.ne(0).long(), "labels": filled("labels", -100)}

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=3
    )
    model = BertForTokenClassification(config).eval()
    scored = []
    trainer = BertkitTrainer(
        what="test",
        model=model,
        objective=Labels(),
        args=TrainingArguments(
            str(tmp_path),
            per_device_eval_batch_size=2,
            report_to="none",
            use_cpu=True,
            remove_unused_columns=False,
        ),
        data_collator=collate,
        drop_last=drop_last,
        eval_dataset=Dataset.from_list(rows),
        scores=lambda dataset, outputs: scored.append(outputs) or {},
    )
    outcome = trainer.predict(trainer.eval_dataset)
    assert widths == [9, 7, 3, 1]
    with torch.no_grad():
        one_by_one = [model(torch.tensor([row["input_ids"]])).logits[0].numpy() for row in rows]
    for row, labels in zip(rows, outcome.label_ids, strict=True):
        assert labels[: row["length"]].tolist() == row["labels"]
    for outputs in (outcome.predictions, scored[0]):
        for row, logits, expected in zip(rows, outputs, one_by_one, strict=True):
            np.testing.assert_allclose(logits[: row["length"]], expected, atol=1e-5)
    losses = [
        torch.nn.functional.cross_entropy(torch.tensor(logits), torch.tensor(row["labels"]), reduction="sum").item()
        for row, logits in zip(rows, one_by_one, strict=True)
    ]
    assert outcome.metrics["test_loss"] == pytest.approx(sum(losses) / sum(LENGTHS), rel=1e-5)
    assert trainer.outputs(trainer.eval_dataset) is outcome.predictions
