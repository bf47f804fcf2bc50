"""Words of wrong predictions, and what each adds to a label or number: `bertkit.explain` in a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bertkit.features.explain.attribution import attribution_of, subject_to_explain
from bertkit.features.explain.network import load_network
from bertkit.features.reporting.reported import Mistake
from bertkit.inference.outcome import OUT_OF_FOLD, Outcome
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.tasks.classification.text_classification import TextClassification


def check_explained(number: int, texts: bool, run: Path, outcome: Outcome | None) -> None:
    """Checks that mistakes of a run can be explained.

    Raises:
        RecipeError: the number is negative, the run has no predictions for texts, texts are not shown, or the
            predictions are those of models of folds, which are not kept.
    """
    what = f"--explain {number}"
    if number < 0:
        raise RecipeError(f"{what}: expected a number of wrong predictions, at least 0")
    if not texts:
        raise RecipeError(f"{what} shows words of texts, which --no-texts leaves out; remove one of them")
    what = f"{what}: {run}"
    if outcome is None:
        raise RecipeError(f"{what}: a run of a pre-training, or one that has not finished, has no wrong predictions")
    if not isinstance(outcome.task, TextClassification):
        raise RecipeError(f"{what}: words are shown for labels and numbers of texts, not for {outcome.task.kind}")
    if outcome.scored == OUT_OF_FOLD:
        raise RecipeError(
            f"{what}: the wrong predictions are those of models of folds, which are not kept, and the model of the run "
            "has learned the labels of these texts; leave it out, or fine-tune with --folds 0, which holds rows out"
        )


def with_words(mistakes: Sequence[Mistake], checkpoint: Path, number: int) -> list[Mistake]:
    """Returns the mistakes, the first ones with the words of their texts.

    They are those of the label that the model predicts; where texts have several labels, of the most probable one. A
    text stays without that has several windows or more tokens than are explained, or that the task reads as other
    tokens than its tokenizer gives.

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
        explained.append(replace(mistake, words=words, words_of=reason.name, warnings=reason.warnings()))
    return [*explained, *mistakes[number:]]
