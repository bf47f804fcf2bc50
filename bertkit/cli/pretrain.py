"""``bertkit pretrain``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import bertkit
from bertkit.cli import options, training


@dataclass(frozen=True, kw_only=True)
class Run(training.Run):
    """Arguments of pre-training: as for fine-tuning, but the recipe and the checkpoint are optional."""

    recipe: Annotated[
        str | None,
        options.option(
            help="A recipe's name (bertkit recipes list) or file; bert-base by default, continue with --model.",
            complete=options.complete_recipes,
            panel=options.TRAINING,
        ),
    ] = None
    model: Annotated[
        str | None,
        options.option(
            help="Continue from this checkpoint, a folder or a Hub id, with its tokenizer. Without it: new weights.",
            panel=options.MODEL,
        ),
    ] = None


def pretrain(
    *,
    corpus: Annotated[
        list[str] | None,
        options.option(
            help=f"{options.CORPUS_HELP} Or one store of corpus build, folder or URL.",
            metavar="PATH_OR_HUB_ID",
            panel=options.DATA,
        ),
    ] = None,
    more: options.MorePaths = None,
    run: Run,
) -> None:
    """Pre-train BERT on text: masked words and next sentences."""
    if run.recipe is not None:
        training.check_kind(run.recipe, "pretraining")
    from bertkit.training.runs.pretrain import SHOWN

    texts = [*(corpus or []), *(more or [])]
    command = training.Training(run=run, recipes=lambda: {"": run.recipe}, given={"corpus": texts})
    training.train(bertkit.pretrain, command, lambda metrics: SHOWN, training.AFTER_PRETRAINING)
