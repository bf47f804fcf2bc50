"""Attribution of a prediction to words, by two methods that know nothing of each other.

Integrated gradients (Sundararajan et al., 2017) at the token embeddings, by captum, from a text whose words are all
masked: the sum over all tokens is the difference of the two outputs, and the completeness error says how far it is from
that. Occlusion: the output minus that for the text with one word masked.

B inputs, S tokens, W words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bertkit.features.explain.network import Network
from bertkit.features.explain.pieces import Pieces, Word, pieces_of
from bertkit.metrics import spearman
from bertkit.runtime.errors import CheckpointError, DataError, did_you_mean, quoted
from bertkit.tasks.base import Task
from bertkit.tasks.registry import by_kind_of_task

if TYPE_CHECKING:
    from torch import Tensor

Unit = Literal["logit", "probability"]
_STEPS = (32, 64, 128, 256, 512)
_LARGEST_ERROR = 0.02
_AGREEMENT = 0.5  # rank correlation
_TOKENS = 1024  # of a batch; with gradients every layer is kept
_LEAST = 1e-3  # differences below are rounding


# ---- what is attributed; the kinds of tasks register theirs in the modules of their names ----------------------------


@dataclass(frozen=True)
class Target:
    """A number of the output that is attributed to words.

    Attributes:
        name: such as a label.
        of: outputs of B inputs → (B,), differentiable.
        probability: of the label, in [0, 1]; None for a number.
        unit: of the number: ``logit``, ``probability``, or ``score`` for regression.
        as_probability: outputs of B inputs → (B,) in [0, 1], differentiable; None where the number has no probability,
            or one that depends on other inputs too.
    """

    name: str
    of: Callable[[Any], Tensor]
    probability: float | None = None
    unit: str = "logit"
    as_probability: Callable[[Any], Tensor] | None = None

    def in_probability(self) -> Target:
        """Returns the target with its probability as the number that is attributed; DataError if it has none."""
        if self.as_probability is None:
            raise DataError(
                f"unit probability: {self.name!r} has no probability that depends on this input alone; "
                "leave out the unit"
            )
        return replace(self, of=self.as_probability, unit="probability")


@dataclass(frozen=True)
class Curve:
    """Probabilities over the tokens of a passage, or of the part of it in a window.

    Attributes:
        words: text of each of T tokens, without special ones.
        start, end: (T,) float, probability that the answer starts and ends there, of all tokens of the window.
        spans: the best answers and their probabilities; the last is no answer, if the task has such.
    """

    words: list[str]
    start: np.ndarray
    end: np.ndarray
    spans: list[tuple[str, float]]

    def page_values(self) -> dict[str, Any]:
        """Returns the points of both lines on a page, by name, and the largest probability as ``most``."""
        most = float(max(self.start.max(), self.end.max())) or 1.0
        step = 1000 / max(len(self.words) - 1, 1)
        lines = {
            name: " ".join(f"{step * place:.1f},{150 - 130 * value / most:.1f}" for place, value in enumerate(values))
            for name, values in (("start", self.start), ("end", self.end))
        }
        return {**lines, "most": most}


@dataclass(frozen=True)
class Subject:
    """One input of a task.

    Attributes:
        prediction: the prediction as a line.
        pieces: the input, S tokens; special tokens are not attributed to.
        targets: at least one.
        call: inputs (B, S) by name → outputs of the model.
        curve: for question answering.
        note: sentence on what the numbers are of, if it is not the prediction.
    """

    prediction: str
    pieces: Pieces
    targets: list[Target]
    call: Callable[[Mapping[str, Tensor]], Any] = field(repr=False)
    curve: Curve | None = None
    note: str = ""

    def batch(self, network: Network, ids: np.ndarray) -> dict[str, Tensor]:
        """Returns inputs of the model for other ids, (B, S), with the segments of the subject."""
        import torch

        columns = {
            "input_ids": torch.tensor(ids),
            "attention_mask": torch.ones(ids.shape, dtype=torch.long),
            "token_type_ids": torch.tensor(np.broadcast_to(self.pieces.segments, ids.shape).copy()),
        }
        return network.on_device({name: columns[name] for name in network.inputs})


@by_kind_of_task
def subject_of(task: Task, network: Network, texts: Sequence[str], label: str | None, window: int | None) -> Subject:
    """Returns what is attributed of a prediction.

    Args:
        task: the task of the network.
        network: the fine-tuned checkpoint.
        texts: one or two.
        label: the label, or for tagging the word, that is asked about; by default what is predicted.
        window: number of the window of a long text; by default the one that decides most.

    Raises:
        DataError: the texts do not fit the task, or there is no such label.
        CheckpointError: the kind of task has no attribution.
        RecipeError: there is no such window.
    """
    raise CheckpointError(f"{network.name}: predictions of {task.kind} are not attributed to words")


def pieces_like(network: Network, texts: Sequence[str], ids: Sequence[int], window: int | None = None) -> Pieces:
    """Returns the pieces of texts whose ids are those that the task reads.

    Raises:
        DataError: they are not, or are more than are explained.
        RecipeError: there is no such window.
    """
    if len(ids) > network.longest:
        raise DataError(
            f"the task reads {len(ids)} tokens, and attributions are of at most {network.longest}; shorten the text"
        )
    pieces = pieces_of(network, texts, window=window)
    if pieces.ids.tolist() != list(ids):
        raise DataError("the task reads other tokens than its tokenizer gives, so nothing is attributed to words")
    return pieces


def index_of(label: str, names: Sequence[str], what: str) -> int:
    """Returns the index of a label; DataError if there is no such label."""
    if label not in names:
        raise DataError(f"label {label!r}: expected {what} {quoted(names)}{did_you_mean(label, names)}")
    return list(names).index(label)


# ---- the attribution ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reason:
    """A number of the output, attributed to words.

    Attributes:
        name, unit, probability: as of the target.
        value: the number.
        baseline: the same for the text with all words masked.
        gradients: (W,) float64, integrated gradients, a sum over the pieces of each word.
        occlusion: (W,) float64, ``value`` minus that with the word masked.
        error: difference between the sum of all gradients and ``value - baseline``, as a part of the latter, or of
            0.001 if that is more.
        steps: of the integral.
        correlation: Spearman's, of both methods over the words; None for fewer than three words, or constants.
    """

    name: str
    unit: str
    probability: float | None
    value: float
    baseline: float
    gradients: np.ndarray
    occlusion: np.ndarray
    error: float
    steps: int
    correlation: float | None

    @property
    def parts(self) -> np.ndarray:
        """Gradients as parts of the largest one, (W,) float64 in [-1, 1]."""
        return self.gradients / (abs(self.gradients).max(initial=0) or 1.0)

    def warnings(self, with_values: bool = True) -> list[str]:
        """Returns what a reader must know before trusting the numbers.

        Args:
            with_values: with the numbers that are the reason, which differ between numbers that are attributed.
        """
        warnings = []
        if self.error > _LARGEST_ERROR:
            by = f" by {100 * self.error:.1f} % after {self.steps} steps" if with_values else ""
            warnings.append(f"the attributions miss the difference of the outputs{by}: do not trust them")
        if self.correlation is not None and self.correlation < _AGREEMENT:
            value = f" (rank correlation {self.correlation:.2f})" if with_values else ""
            warnings.append(f"both methods order the words differently{value}: the attribution depends on the method")
        return warnings


@dataclass(frozen=True)
class Attribution:
    """Why a prediction: words and what each adds to it.

    Attributes:
        prediction: as a line.
        words: W words.
        reasons: one for each attributed number.
        masked_with: token that stands for a masked word.
        curve: for question answering.
        note: sentence on what the numbers are of, if it is not the prediction.
    """

    prediction: str
    words: list[Word]
    reasons: list[Reason]
    masked_with: str
    curve: Curve | None
    note: str = ""

    def warnings(self) -> list[str]:
        """Returns the warnings of all reasons, the same ones once, with the names of what they are on."""
        if len(self.reasons) == 1:
            return self.reasons[0].warnings()
        names_of: dict[str, list[str]] = {}
        for reason in self.reasons:
            for warning in reason.warnings(with_values=False):
                names_of.setdefault(warning, []).append(reason.name)
        return [f"{', '.join(names)}: {warning}" for warning, names in names_of.items()]

    def record(self) -> dict[str, Any]:
        """Returns the part as plain data."""
        reasons = [
            {
                **asdict(reason),
                "gradients": reason.gradients.tolist(),
                "occlusion": reason.occlusion.tolist(),
                "warnings": reason.warnings(),
            }
            for reason in self.reasons
        ]
        words = [word.text for word in self.words]
        spans = [] if self.curve is None else [list(span) for span in self.curve.spans]
        return {"prediction": self.prediction, "words": words, "reasons": reasons, "spans": spans, "note": self.note}

    def lines(self) -> list[str]:
        """Returns the part for a terminal."""
        lines = [f"prediction: {self.prediction}", *([f"  {self.note}"] if self.note else [])]
        for reason in self.reasons:
            order = np.argsort(-abs(reason.gradients), kind="stable")[:8]
            best = ", ".join(f"{self.words[word].text} {reason.gradients[word]:+.3f}" for word in order)
            agreement = "" if reason.correlation is None else f", rank correlation {reason.correlation:.2f}"
            lines.append(
                f"  {reason.name}, {reason.unit} {reason.value:.3f} (all masked {reason.baseline:.3f}): {best}"
            )
            lines.append(f"    completeness error {100 * reason.error:.2f} %, {reason.steps} steps{agreement}")
        return [*lines, *(f"    warning: {warning}" for warning in self.warnings())]


def subject_to_explain(
    network: Network, texts: Sequence[str], label: str | None = None, window: int | None = None
) -> Subject:
    """Returns what is attributed of the prediction for a text, or a pair.

    Args:
        network: a fine-tuned checkpoint.
        texts: one or two.
        label: the label, or for tagging the word, that is asked about; by default what is predicted.
        window: number of the window of a long text; by default the one that decides most.

    Raises:
        CheckpointError: the checkpoint was not fine-tuned.
        DataError: the texts do not fit the task, or there is no such label.
        RecipeError: there is no such window.
    """
    if network.task is None:
        raise CheckpointError(f"{network.name}: it was not fine-tuned and predicts no label; fine-tune it first")
    return subject_of(network.task, network, texts, label, window)


def attribution_of(network: Network, subject: Subject, unit: Unit = "logit") -> Attribution:
    """Attributes a prediction to the words of its input.

    Raises:
        DataError: there is no probability that depends on the input alone.
    """
    import torch

    masked = network.tokenizer.mask_token_id
    if masked is None:
        masked = network.tokenizer.pad_token_id
    targets = [target.in_probability() for target in subject.targets] if unit == "probability" else subject.targets
    ids, words = subject.pieces.ids, subject.pieces.words
    baseline, rows = ids.copy(), np.tile(ids, (len(words), 1))
    for row, word in zip(rows, words, strict=True):
        baseline[word.start : word.end] = row[word.start : word.end] = masked
    inputs, size = np.concatenate([[ids, baseline], rows]), max(1, _TOKENS // len(ids))
    parts = []
    with torch.inference_mode():
        for start in range(0, len(inputs), size):
            outputs = subject.call(subject.batch(network, inputs[start : start + size]))
            parts.append([target.of(outputs).double().cpu().numpy() for target in targets])
    values = np.concatenate(parts, axis=1)  # a row for each target, a number for each input
    reasons = []
    for target, (value, lowest, *without) in zip(targets, values.tolist(), strict=True):
        of_tokens, error, steps = _integrate(network, subject, target, baseline, value - lowest)
        gradients = np.array([of_tokens[word.start : word.end].sum() for word in words])
        occlusion = value - np.array(without)  # the number with each word masked
        correlation = spearman(gradients, occlusion) if len(gradients) > 2 else math.nan
        reasons.append(
            Reason(
                target.name,
                target.unit,
                target.probability,
                value,
                lowest,
                gradients,
                occlusion,
                error,
                steps,
                None if math.isnan(correlation) else correlation,
            )
        )
    name = str(network.tokenizer.convert_ids_to_tokens(int(masked)))
    return Attribution(subject.prediction, words, reasons, name, subject.curve, subject.note)


def _integrate(
    network: Network, subject: Subject, target: Target, baseline: np.ndarray, difference: float
) -> tuple[np.ndarray, float, int]:
    """Returns the integrated gradients of the tokens, (S,), the completeness error, and the number of steps."""
    from captum.attr import LayerIntegratedGradients

    names = list(network.inputs)
    batch = subject.batch(network, subject.pieces.ids[None])
    others = tuple(batch[name] for name in names if name != "input_ids")

    def forward(input_ids: Tensor, *further: Tensor) -> Tensor:
        rest = dict(zip((name for name in names if name != "input_ids"), further, strict=True))
        return target.of(subject.call({"input_ids": input_ids, **rest}))

    method: Any = LayerIntegratedGradients(forward, network.model.get_input_embeddings())
    for steps in _STEPS:
        attributed = method.attribute(
            batch["input_ids"],
            baselines=subject.batch(network, baseline[None])["input_ids"],
            additional_forward_args=others,
            n_steps=steps,
            internal_batch_size=max(1, _TOKENS // len(subject.pieces.ids)),
        )
        values = attributed[0].double().sum(dim=-1).cpu().numpy()
        error = abs(float(values.sum()) - difference) / max(abs(difference), _LEAST)
        if error <= _LARGEST_ERROR:
            break
    return values, error, steps
