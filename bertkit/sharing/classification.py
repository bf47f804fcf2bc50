"""Cards and exports of classification: windows of long texts, thresholds and calibration."""

from __future__ import annotations

from bertkit.sharing.kinds import Shared, shared
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.classification.text_classification import TextClassification


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
        data = self.task.data
        if not self._pools:
            return None
        return (
            f"Texts of any length: windows of {data.max_seq_length} tokens that share {data.overlap}, whose [CLS] "
            f"vectors are pooled ({data.pooling or 'mean'}) to one prediction, in training as in use."
        )

    def onnx_obstacle(self) -> str | None:
        return "pools the windows of long texts, and an ONNX model reads one window" if self._pools else None


class SharedClassification(SharedTexts):
    """The same, with thresholds and probabilities that may have been fitted to the validation set."""

    def stock_note(self) -> str | None:
        notes = [super().stock_note()]
        if self.task.task.threshold != 0.5 or self.task.task.temperature is not None:
            notes.append(
                "thresholds of labels and the temperature of probabilities are applied by bertkit only; plain "
                "transformers predicts the most probable class, or labels from a probability of 0.5"
            )
        return "; ".join(filter(None, notes)) or None


@shared.register
def _(task: TextClassification) -> Shared:
    return SharedTexts(task)


@shared.register
def _(task: ClassificationTask) -> Shared:
    return SharedClassification(task)
