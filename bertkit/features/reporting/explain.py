"""Words of wrong predictions, and what each adds to the predicted label: `bertkit.explain` in a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bertkit.features.explain.attribution import attribution_of, subject_to_explain
from bertkit.features.explain.network import load_network
from bertkit.features.reporting.reported import Mistake
from bertkit.inference.outcome import Outcome
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.tasks.classification.text_classification import TextClassification


def check_explained(number: int, texts: bool, outcome: Outcome | None) -> None:
    """Checks that mistakes of a run can be explained.

    Raises:
        RecipeError: the number is negative, the run has no predictions for texts, or texts are not shown.
    """
    what = f"--explain {number}"
    if number < 0:
        raise RecipeError(f"{what}: expected a number of wrong predictions, at least 0")
    if not texts:
        raise RecipeError(f"{what} shows words of texts, which --no-texts leaves out; remove one of them")
    if outcome is None:
        raise RecipeError(f"{what}: a run of a pre-training, or one that has not finished, has no wrong predictions")
    if not isinstance(outcome.task, TextClassification):
        raise RecipeError(f"{what}: words are shown for labels and numbers of texts, not for {outcome.task.kind}")


def with_words(mistakes: Sequence[Mistake], checkpoint: Path, number: int) -> list[Mistake]:
    """Returns the mistakes, the first ones with the words of their texts.

    A text of several windows stays without.

    Raises:
        CheckpointError: it cannot be loaded with its attention written out.
    """
    network = load_network(str(checkpoint))
    explained = []
    for mistake in mistakes[:number]:
        try:
            subject = subject_to_explain(network, [text for _, text, _ in mistake.texts])
        except DataError:
            subject = None
        if subject is None or subject.pieces.windows > 1:
            explained.append(mistake)
            continue
        attribution = attribution_of(network, subject)
        reason = attribution.reasons[0]
        words = [(word.text, float(part)) for word, part in zip(attribution.words, reason.parts, strict=True)]
        explained.append(replace(mistake, words=words, warnings=reason.warnings()))
    return [*explained, *mistakes[number:]]
