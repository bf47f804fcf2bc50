"""``bertkit pretrain``."""

from __future__ import annotations

from typing import Annotated

import typer

from bertkit.cli import options


def pretrain(
    output_dir: options.OutputDir,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", help="Text files or folders. Repeatable.", metavar="PATH", show_default=False),
    ] = None,
    more: options.MorePaths = None,
    recipe: options.RecipeName = "bert-base",
    tokenizer: Annotated[
        str | None, typer.Option(help="A tokenizer's folder or Hub id; or give --vocab-size.", show_default=False)
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option(help="Train a tokenizer of that many pieces on the corpus.", show_default=False)
    ] = None,
    cased: Annotated[bool, typer.Option("--cased", help="With --vocab-size: keep upper case and accents.")] = False,
    document_separator: Annotated[
        str | None,
        typer.Option(
            help="Parts documents within a file: blank-line, or a regex for a whole line.", show_default=False
        ),
    ] = None,
    sentence_per_line: Annotated[
        bool,
        typer.Option("--sentence-per-line", help="Google's form: a sentence a line, a blank line parts documents."),
    ] = False,
    set_: options.Set = None,
    learning_rate: options.LearningRate = None,
    num_train_epochs: options.Epochs = None,
    max_steps: options.MaxSteps = None,
    global_train_batch_size: options.GlobalBatch = None,
    max_seq_length: options.MaxSeqLength = None,
    seed: options.Seed = None,
    max_eval_samples: options.MaxEvalSamples = None,
    placement: options.Placement = None,
    resume: options.Resume = False,
    json: options.AsJson = False,
) -> None:
    """Pre-train BERT on plain text: masked words and next sentences."""
    overrides = options.overrides(
        set_,
        placement,
        data__tokenizer=tokenizer,
        data__vocab_size=vocab_size,
        data__cased=cased or None,
        data__document_separator=document_separator,
        data__sentence_per_line=sentence_per_line or None,
        train__learning_rate=learning_rate,
        train__num_train_epochs=num_train_epochs,
        train__max_steps=max_steps,
        train__global_train_batch_size=global_train_batch_size,
        data__max_seq_length=max_seq_length,
        train__seed=seed,
        data__max_eval_samples=max_eval_samples,
    )
    from bertkit.training.pretrain import SHOWN
    from bertkit.training.pretrain import pretrain as run_pretraining

    texts = [*(corpus or []), *(more or [])]
    run = run_pretraining(recipe, corpus=texts, output_dir=output_dir, overrides=overrides, resume=resume)
    options.print_results(run.output_dir, run.metrics, SHOWN, json)
