"""Cards and exports by kind of task: windows of long texts, and what plain transformers or ONNX cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.runtime.files import write_json
from bertkit.tasks.base import Task
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.classification.text_classification import TextClassification
from bertkit.tasks.ner.task import NerTask
from bertkit.tasks.question_answering.task import QuestionAnsweringTask
from bertkit.tasks.registry import by_kind_of_task

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


ADDRESS = "PATH_OR_HUB_ID"
"""Placeholder for the address of a checkpoint that has none yet."""


class Shared:
    """Limits of a task outside of bertkit, and its way with long texts; the defaults suit any task."""

    def __init__(self, task: Any):
        self.task = task

    def stock_note(self) -> str | None:
        """Returns how plain transformers differs from bertkit for an exported checkpoint; ``None`` if it does not."""
        return None

    def window_note(self) -> str | None:
        """Returns a sentence on the windows of texts that are too long for one; ``None`` if they are cut."""
        return None

    def onnx_obstacle(self) -> str | None:
        """Returns why the task cannot be exported to ONNX, and what to do instead; ``None`` if it can be."""
        return None

    def example(self) -> str:
        """Returns Python that uses a checkpoint, which it calls `ADDRESS`; empty by default, for `bertkit predict`."""
        return ""

    def files_of_others(self, config: PreTrainedConfig) -> dict[str, Any]:
        """Returns files of a checkpoint that other libraries load: path → content, as JSON; by default none."""
        return {}


def write_files_of_others(task: Task | None, config: PreTrainedConfig, folder: Path) -> None:
    """Writes `Shared.files_of_others` of a checkpoint into its folder; nothing without a task."""
    files = {} if task is None else shared(task).files_of_others(config)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        write_json(folder / name, content)


@by_kind_of_task
def shared(task: Task) -> Shared:
    """Returns what cards and exports say of a task; other packages register their own class."""
    return Shared(task)


@shared.register(TextClassification)
class SharedTexts(Shared):
    """Texts in one window, or in several whose [CLS] vectors are pooled."""

    @property
    def _pools(self) -> bool:
        return bool(self.task.data.long_text != "cut")

    def stock_note(self) -> str | None:
        if not self._pools:
            return None
        return (
            f"this model reads long texts in windows of {self.task.data.max_seq_length} tokens and pools them; plain "
            "transformers reads one window. Texts that fit get the same prediction, longer ones only with bertkit "
            "predict"
        )

    def window_note(self) -> str | None:
        if not self._pools:
            return None
        pooling = self.task.data.pooling or "mean"
        return (
            f"Texts of any length: {_windows(self.task.data.max_seq_length, self.task.data.overlap)}, whose [CLS] "
            f"vectors are pooled ({pooling}) to one prediction, in training as in use."
        )

    def onnx_obstacle(self) -> str | None:
        if not self._pools:
            return None
        return "pools the windows of long texts, and an ONNX model reads one window; export it with --to bert"


@shared.register(ClassificationTask)
class SharedClassification(SharedTexts):
    """The same, with thresholds and probabilities that may have been fitted to the validation set."""

    def stock_note(self) -> str | None:
        notes = [super().stock_note()]
        has_threshold = (self.task.settings.threshold or 0.5) not in (0.5, "tuned")
        if has_threshold or self.task.settings.temperature not in (None, 1.0):
            notes.append(
                "thresholds of labels and the temperature of probabilities are applied by bertkit only; plain "
                "transformers predicts the most probable class, or labels from a probability of 0.5"
            )
        return "; ".join(filter(None, notes)) or None


@shared.register(NerTask)
class SharedTags(Shared):
    """Words whose labels come from one of several windows."""

    def window_note(self) -> str:
        windows = _windows(self.task.data.max_seq_length, self.task.data.overlap)
        return f"Sentences of any length: {windows}; each word is labelled in one of them."


@shared.register(QuestionAnsweringTask)
class SharedAnswers(Shared):
    """Answers from one of several windows of a context."""

    def window_note(self) -> str:
        windows = _windows(self.task.data.max_seq_length, self.task.data.doc_stride)
        return f"Contexts of any length: {windows}; the answer is the best one of all windows."


def _windows(length: int, overlap: int) -> str:
    return f"windows of {length} tokens that share {overlap}"
