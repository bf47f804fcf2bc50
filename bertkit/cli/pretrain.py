"""``bertkit pretrain``."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from bertkit.cli import options


def pretrain(
    output_dir: options.OutputDir,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", help=options.CORPUS_HELP, metavar="PATH_OR_HUB_ID", show_default=False),
    ] = None,
    more: options.MorePaths = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="A recipe's name (bertkit recipes list) or file; bert-base by default, continue with --model.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Go on from this checkpoint, a folder or a Hub id, with its tokenizer. Without it: new weights.",
            show_default=False,
        ),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="A tokenizer's folder or Hub id; or give --vocab-size.", show_default=False)
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option(help="Train a tokenizer of that many pieces on the corpus.", show_default=False)
    ] = None,
    cased: options.Cased = False,
    merge_score: options.MergeScore = None,
    min_pair_frequency: options.MinPairFrequency = None,
    text_column: options.TextColumn = None,
    dataset_config: options.DatasetConfig = None,
    dataset_split: options.DatasetSplit = None,
    streaming: options.Streaming = False,
    document_separator: Annotated[
        str | None,
        typer.Option(
            help="Parts documents within a text file: blank-line, or a regex for a whole line.", show_default=False
        ),
    ] = None,
    sentence_per_line: Annotated[
        bool,
        typer.Option("--sentence-per-line", help="Google's form: a sentence a line, a blank line parts documents."),
    ] = False,
    sentence_splitter: Annotated[
        str | None,
        typer.Option(help="rules (the default), none, module:function or file.py:function.", show_default=False),
    ] = None,
    pair_objective: Annotated[
        Literal["nsp", "sop", "none"] | None,
        typer.Option(
            help="nsp: does B follow A? sop: are A and B in order? none: masked words alone.", show_default=False
        ),
    ] = None,
    whole_word_mask: Annotated[
        bool, typer.Option("--whole-word-mask", help="Mask whole words instead of single pieces.")
    ] = False,
    set_: options.Set = None,
    learning_rate: options.LearningRate = None,
    num_train_epochs: options.Epochs = None,
    max_steps: options.MaxSteps = None,
    global_train_batch_size: options.GlobalBatch = None,
    max_seq_length: Annotated[
        int | None,
        typer.Option(help="Tokens of one input with specials; cuts every phase to it.", show_default=False),
    ] = None,
    seed: options.Seed = None,
    max_train_samples: Annotated[
        int | None, typer.Option(help="Only the first so many documents.", show_default=False)
    ] = None,
    max_eval_samples: options.MaxEvalSamples = None,
    placement: options.Placement = None,
    num_processes: options.NumProcesses = None,
    resume: options.Resume = False,
    push_to_hub: options.PushToHub = None,
    json: options.AsJson = False,
) -> None:
    """Pre-train BERT on text: masked words and next sentences."""
    overrides = options.overrides(
        locals(),
        task__pair_objective=pair_objective,
        data__tokenizer=tokenizer,
        data__vocab_size=vocab_size,
        data__cased=cased or None,
        data__merge_score=merge_score,
        data__min_pair_frequency=min_pair_frequency,
        data__text_column=text_column,
        data__dataset_split=dataset_split,
        data__streaming=streaming or None,
        data__document_separator=document_separator,
        data__sentence_per_line=sentence_per_line or None,
        data__sentence_splitter=sentence_splitter,
        data__whole_word_mask=whole_word_mask or None,
    )
    from bertkit.training.pretrain import SHOWN
    from bertkit.training.pretrain import pretrain as run_pretraining

    run = run_pretraining(
        recipe,
        corpus=[*(corpus or []), *(more or [])],
        model=model,
        output_dir=output_dir,
        overrides=overrides,
        resume=resume,
        push_to_hub=push_to_hub,
    )
    options.print_results(run.output_dir, run.metrics, SHOWN, json)
