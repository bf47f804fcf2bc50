"""Batches of one shape: padding and filler rows change no loss, gradient, score or count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from bertkit import BertConfig, pretrain
from bertkit.errors import PlacementError
from bertkit.model import modeling_bert
from bertkit.run.finetune import finetune
from bertkit.tasks.classification.task import ClassificationTask, DataSettings, TaskSettings
from bertkit.tasks.question_answering.task import QuestionAnsweringTask
from bertkit.training.placements.fixed_shapes import FixedShapes, FixedShapesTrainer, check_one_shape
from bertkit.training.trainer import BertkitTrainer
from tests.training.conftest import SMALL, TINY, Labels, arguments_for, assert_same_runs

pytestmark = pytest.mark.numeric

TOKENIZER: Any = SimpleNamespace(pad_token_id=7, pad_token_type_id=2)
LENGTH = 12


# ---- what is added --------------------------------------------------------------------------------------------------


def test_inputs_and_what_each_token_has_are_padded_and_the_rest_is_left():
    batch = {
        "input_ids": torch.tensor([[1, 2], [3, 4]]),
        "attention_mask": torch.tensor([[1, 1], [1, 0]]),
        "token_type_ids": torch.tensor([[0, 1], [0, 1]]),
        "labels": torch.tensor([[5, 6], [-100, 6]]),
        "start_positions": torch.tensor([1, 0]),
    }
    padded = FixedShapes(TOKENIZER, 3, ("labels", "start_positions")).padded(batch)
    assert {name: values.tolist() for name, values in padded.items()} == {
        "input_ids": [[1, 2, 7], [3, 4, 7]],
        "attention_mask": [[1, 1, 0], [1, 0, 0]],
        "token_type_ids": [[0, 1, 2], [0, 1, 2]],
        "labels": [[5, 6, -100], [-100, 6, -100]],
        "start_positions": [1, 0],
    }


def test_as_many_labels_as_tokens_are_no_labels_of_tokens():
    batch = {"input_ids": torch.tensor([[1, 2], [3, 4]]), "labels": torch.tensor([[0.0, 1.0], [1.0, 0.0]])}
    assert FixedShapes(TOKENIZER, 3, ["labels"]).padded(batch)["labels"].tolist() == [[0.0, 1.0], [1.0, 0.0]]


# ---- what comes of it -----------------------------------------------------------------------------------------------

HEADS = {
    "classes": "SequenceClassification",
    "numbers": "SequenceClassification",
    "sets": "SequenceClassification",
    "tags": "TokenClassification",
    "spans": "QuestionAnswering",
    "choices": "MultipleChoice",
}


def examples(kind: str) -> list[dict[str, Any]]:
    """Seven, of 3 to 9 tokens; those with spans are not padded, since to these heads padding may be an answer too."""
    draw = torch.Generator().manual_seed(3)
    rows = []
    for row, length in enumerate([LENGTH] * 7 if kind == "spans" else [5, 9, 3, 7, 4, 6, 8]):
        ids = torch.randint(10, 60, (2, length), generator=draw)
        example: dict[str, Any] = {"input_ids": ids if kind == "choices" else ids[0]}
        if kind == "tags":
            example["labels"] = torch.randint(0, 3, (length,), generator=draw)
        elif kind == "spans":
            example |= {"start_positions": 1, "end_positions": length - 1}
        elif kind == "numbers":
            example["labels"] = -100.0 if row == 1 else row / 7  # a number like any other
        elif kind == "sets":
            example["labels"] = [float(row % 2), 1.0, float(row % 3 == 0)]
        else:
            example["labels"] = row % 2
        rows.append(example)
    return rows


def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Pads to the longest, as tasks do."""
    ids = pad_sequence([row["input_ids"].movedim(-1, 0) for row in rows], batch_first=True, padding_value=7)
    batch = {}
    for name in rows[0].keys() - {"input_ids"}:
        values = [torch.as_tensor(row[name]) for row in rows]
        of_tokens = values[0].dim() and not values[0].is_floating_point()
        batch[name] = pad_sequence(values, True, -100) if of_tokens else torch.stack(values)
    ids = ids.movedim(1, -1)
    return {**batch, "input_ids": ids, "attention_mask": (ids != 7).long()}


def trained(kind: str, fixed: bool, folder: Any) -> tuple[list[tuple[int, ...]], list[Any], Any, dict[str, float]]:
    """Two epochs of two batches, of four and of three: the shapes of the model's inputs, what the log has of each step,
    what the model gives, and the evaluation."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    problem = {"numbers": "regression", "sets": "multi_label_classification"}.get(kind)
    labels = {"numbers": 1, "spans": 2, "choices": 1}.get(kind, 3)
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(vocab_size=60, **sizes, **no_dropout, num_labels=labels, problem_type=problem)
    model = getattr(modeling_bert, f"BertFor{HEADS[kind]}")(config)
    shapes: list[tuple[int, ...]] = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    task = QuestionAnsweringTask(None, None) if kind == "spans" else Labels(problem or "single_label_classification")
    shapes_of = {"shapes": FixedShapes(TOKENIZER, LENGTH, task.label_columns)} if fixed else {}
    trainer = (FixedShapesTrainer if fixed else BertkitTrainer)(
        what="test",
        model=model,
        args=arguments_for(
            folder,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            per_device_eval_batch_size=4,
            num_train_epochs=2,
            learning_rate=1e-3,
            save_strategy="no",
            remove_unused_columns=False,
            include_num_input_tokens_seen="non_padding",
        ),
        train_dataset=examples(kind),
        eval_dataset=examples(kind),
        data_collator=collate,
        objective=task,
        **shapes_of,
    )
    trainer.train()
    names = ("loss", "grad_norm", "num_input_tokens_seen")
    steps = [[entry[name] for name in names] for entry in trainer.state.log_history if "grad_norm" in entry]
    return shapes, steps, trainer.predict(examples(kind)).predictions, trainer.evaluate()


@pytest.mark.parametrize("kind", HEADS)
def test_losses_gradients_scores_and_counts_are_those_of_batches_as_they_come(kind, tmp_path):
    shapes, steps, predictions, evaluation = trained(kind, True, tmp_path)
    some_shapes, some_steps, some_predictions, some_evaluation = trained(kind, False, tmp_path)
    assert len(set(some_shapes)) > 2
    choices = (2,) if kind == "choices" else ()
    assert set(shapes) == {(2, *choices, LENGTH), (4, *choices, LENGTH)}
    np.testing.assert_allclose(steps, some_steps, rtol=2e-5)
    assert evaluation["eval_loss"] == pytest.approx(some_evaluation["eval_loss"], rel=1e-5)
    pairs = [(predictions, some_predictions)]
    if kind == "spans":
        pairs = list(zip(predictions, some_predictions, strict=True))
    for given, expected in pairs:
        assert len(given) == 7
        if kind == "tags":  # what lies beyond an input's own tokens is nobody's
            given, expected = given[2, :3], expected[2, :3]
        if kind in ("spans", "choices"):  # the gradient of their bias is 0, and Adam makes steps of what rounding left
            given, expected = given - given.mean(), expected - expected.mean()
        np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-5)


def test_tokens_are_those_of_the_examples(tmp_path):
    _, steps, _, _ = trained("classes", True, tmp_path)
    assert steps[1][-1] == 5 + 9 + 3 + 7 + 4 + 6 + 8
    assert steps[3][-1] == 2 * steps[1][-1]


def test_a_fine_tuning_gives_what_it_gives_without(checkpoint, glue, tmp_path):
    runs = [
        finetune(
            "finetune/glue/sst2",
            model=str(checkpoint),
            data_dir=glue,
            output_dir=tmp_path / str(is_on),
            overrides={**SMALL, "data.max_train_samples": 27, "data.max_seq_length": 16}
            | {"placement.fixed_shapes": is_on},
        )
        for is_on in (True, False)
    ]
    assert_same_runs(*runs)


def test_a_pretraining_gives_what_it_gives_without(corpus, tmp_path):
    changes = {**TINY, **SMALL, "train.max_steps": 4, "data.phases": {16: 0.5, 32: 0.5}}
    changes |= {"placement.per_device_eval_batch_size": 5}
    runs = [
        pretrain(
            "bert-tiny",
            corpus=[corpus],
            output_dir=tmp_path / str(fixed),
            overrides={**changes, "placement.fixed_shapes": fixed},
        )
        for fixed in (True, False)
    ]
    assert_same_runs(*runs)


def test_what_has_many_shapes_is_refused():
    chunked = ClassificationTask(TaskSettings(), DataSettings(long_text="chunk"))
    with pytest.raises(PlacementError, match="long_text: chunk"):
        chunked.check_one_shape()
    ClassificationTask(TaskSettings(), DataSettings()).check_one_shape()
    with pytest.raises(PlacementError, match="feature_layers"):
        check_one_shape(BertConfig(feature_layers=[-1]))
    check_one_shape(BertConfig())


def test_the_refusal_comes_before_anything_is_written(checkpoint, glue, tmp_path):
    changes = {**SMALL, "data.long_text": "chunk", "data.max_seq_length": 16, "placement.fixed_shapes": True}
    with pytest.raises(PlacementError, match="long_text"):
        finetune(
            "finetune/glue/sst2", model=str(checkpoint), data_dir=glue, output_dir=tmp_path / "run", overrides=changes
        )
    assert not (tmp_path / "run").exists()
