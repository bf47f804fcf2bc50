"""``bertkit pretrain``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options, runs
from bertkit.cli.printing import print_results
from bertkit.cli.settings import Setting, of_a_run

SETTINGS = of_a_run(
    Setting("data.tokenizer", "A tokenizer's folder or Hub id; or give --vocab-size."),
    Setting("data.vocab_size", "Train a tokenizer of that many pieces on the corpus."),
    "data.cased",
    "data.merge_score",
    "data.min_pair_frequency",
    "data.text_column",
    "data.dataset_config",
    "data.dataset_split",
    "data.streaming",
    Setting("data.document_separator", "Parts documents within a text file: blank-line, or a regex for a whole line."),
    Setting("data.sentence_per_line", "Google's form: a sentence a line, a blank line parts documents."),
    Setting("data.sentence_splitter", "rules (the default), none, module:function or file.py:function."),
    Setting("task.pair_objective", "nsp: does B follow A? sop: are A and B in order? none: masked words alone."),
    Setting("data.whole_word_mask", "Mask whole words instead of single pieces."),
    Setting("data.max_seq_length", "Tokens of one input with specials; cuts every phase to it."),
    Setting("data.max_train_samples", "Only the first so many documents."),
)


@dataclass(frozen=True, kw_only=True)
class Run(runs.Run):
    """Arguments of pre-training: as for fine-tuning, but the recipe and the checkpoint are optional."""

    recipe: Annotated[
        str | None,
        typer.Option(
            help="A recipe's name (bertkit recipes list) or file; bert-base by default, continue with --model.",
            show_default=False,
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            help="Go on from this checkpoint, a folder or a Hub id, with its tokenizer. Without it: new weights.",
            show_default=False,
        ),
    ] = None


def pretrain(
    *,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", help=options.CORPUS_HELP, metavar="PATH_OR_HUB_ID", show_default=False),
    ] = None,
    more: options.MorePaths = None,
    run: Run,
) -> None:
    """Pre-train BERT on text: masked words and next sentences."""
    from bertkit.training.pretrain import SHOWN

    done = bertkit.pretrain(
        run.recipe,
        corpus=[*(corpus or []), *(more or [])],
        model=run.model,
        output_dir=run.output_dir,
        overrides=run.overrides(),
        resume=run.resume,
        push_to_hub=run.push_to_hub,
    )
    print_results(done.output_dir, done.metrics, SHOWN, run.json)
