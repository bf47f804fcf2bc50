"""A fine-tuned checkpoint that answers: `load` it once, `Predictor.predict` as often as you like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bertkit.checkpoint import check_positions, load_config, load_model, load_tokenizer
from bertkit.errors import DataError, PlacementError
from bertkit.placement import PlacementSettings, place
from bertkit.progress import Bar
from bertkit.tasks.base import Task, task_of_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` returns.

    Attributes:
        metrics: ``eval_…``, named as in ``eval_results.json``.
        examples: how many were scored.
        source: the file or Hub set they came from.
        truncation: what ``max_seq_length`` cut.
    """

    metrics: dict[str, float]
    examples: int
    source: str
    truncation: dict[str, int]


class Predictor:
    """A checkpoint with its task and tokenizer. Build it with `load`."""

    def __init__(self, task: Task, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_size: int):
        self.task = task
        self.model = model
        self.tokenizer = tokenizer
        self.batch_size = batch_size

    def predict(self, texts: str | Sequence[str]) -> list[dict[str, Any]]:
        """Predictions for texts, in the order given; `Task.line` shows one.

        Args:
            texts: inputs as the task reads them from a line: a text, or for pairs two texts with a tab between them.

        Returns:
            One dictionary a text; for classification ``label``, ``probability`` in [0, 1] and ``probabilities``.
        """
        lines = [texts] if isinstance(texts, str) else list(texts)
        if not lines:
            return []
        features = self.task.encode(self.task.read_input(lines), self.tokenizer)
        return self.task.decode(self.logits(features))

    def logits(self, features: Mapping[str, Sequence[Any]]) -> np.ndarray:
        """The model's logits for encoded inputs, (N, …) float32, in the order given.

        Inputs of like length share a batch, so that little is computed on padding.
        """
        import torch

        # Predictions must not depend on the company: padding is masked, dropout is off.
        self.model.eval()
        order = np.argsort([-length for length in features["length"]], kind="stable")
        rows: list[Any] = [None] * len(order)
        with Bar("predicting", "inputs") as progress:
            for start in range(0, len(order), self.batch_size):
                chosen = order[start : start + self.batch_size]
                batch = self.tokenizer.pad(
                    {name: [list(features[name][row]) for row in chosen] for name in self.task.model_inputs},
                    return_tensors="pt",
                ).to(self.model.device)
                with torch.inference_mode():
                    logits = self.model(**batch).logits.float().cpu().numpy()
                for row, values in zip(chosen, logits, strict=True):
                    rows[row] = values
                progress(start + len(chosen), len(order))
        return np.stack(rows)


def load(
    checkpoint: str | Path, *, device: Literal["auto", "cpu"] = "auto", batch_size: int = 64, **data: Any
) -> Predictor:
    """Loads a fine-tuned checkpoint for use.

    Args:
        checkpoint: a run directory or a Hub id.
        device: ``auto`` or ``cpu``.
        batch_size: inputs computed at once; does not change any result.
        data: values of the task's ``data`` block, such as ``data_dir``.

    Raises:
        CheckpointError: it cannot be loaded, or does not say what it was fine-tuned for.
    """
    if device not in ("auto", "cpu"):
        raise PlacementError(f"device {device!r}: expected auto or cpu")
    where = place(PlacementSettings(device=device), 1)
    name = str(checkpoint)
    config = load_config(name)
    task = task_of_checkpoint(config, name, **data)
    check_positions(task.data.max_seq_length, config, name)
    model, _ = load_model(task.head, name, config, new_head=False)
    return Predictor(task, model.to(where.device), load_tokenizer(name), batch_size)


def evaluate(
    checkpoint: str | Path,
    *,
    data_dir: str | Path | None = None,
    split: str = "validation",
    max_samples: int | None = None,
    max_seq_length: int | None = None,
) -> Evaluation:
    """Scores a fine-tuned checkpoint on a labelled split of its task.

    Args:
        checkpoint: a run directory or a Hub id.
        data_dir: folder with the data; ``None`` takes the set from the Hub.
        split: ``validation`` or ``train``.
        max_samples: only the first so many examples.
        max_seq_length: tokens of one input; the length of training where it is not given.

    Raises:
        BertkitError: the checkpoint or the data are not usable.
    """
    given: dict[str, Any] = {
        "data_dir": None if data_dir is None else str(data_dir),
        "max_seq_length": max_seq_length,
        "max_eval_samples" if split == "validation" else "max_train_samples": max_samples,
    }
    if split not in ("train", "validation"):
        raise DataError(f"--split {split}: expected validation or train, the splits that have labels")
    predictor = load(checkpoint, **{key: value for key, value in given.items() if value is not None})
    found = predictor.task.load([split])[split]
    features, cut = predictor.task.encode_split(found, predictor.tokenizer)
    if "labels" not in features.column_names:
        raise DataError(f"{found.source}: no labels to score against; `bertkit predict` takes inputs without labels")
    columns = features.to_dict()
    scores = predictor.task.score(predictor.logits(columns), np.asarray(columns["labels"]))
    metrics = {f"eval_{name}": value for name, value in scores.items()}
    return Evaluation(metrics, len(features), found.source, asdict(cut))
