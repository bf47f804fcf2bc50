"""``bertkit predict``, ``embed`` and ``fill-mask``: what a checkpoint computes of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.groups import Options
from bertkit.cli.printing import print_lines, print_list, print_result
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.progress import counted, say, wants_colours

OnError = Annotated[
    Literal["stop", "skip"] | None,
    options.option(help="For an input that cannot be read: stop (the default), or skip it and report why."),
]


@dataclass(frozen=True, kw_only=True)
class Texts:
    """A command before it computes anything, as the options of features see it.

    Attributes:
        name: ``predict`` or ``embed``.
        checkpoint: the checkpoint.
        input: ``--input``, which may be a folder or a URL; None without it.
        how: arguments of the computation that do not depend on the input.
        others: options that say what to read and to write, and whose code to run, by their flags.
        on_error: ``stop``, ``skip`` or None.
        json: print the result as JSON.
    """

    name: str
    checkpoint: str
    input: str | None
    how: Mapping[str, Any]
    others: Mapping[str, Any]
    on_error: str | None
    json: bool


def predict(
    checkpoint: options.Checkpoint,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts to predict.", show_default=False)
    ] = None,
    *,
    input_file: Annotated[
        str | None,
        options.option(
            "--input",
            metavar="PATH",
            help="Texts, one per line, a table, or the JSON of SQuAD or Label Studio; - is stdin.",
        ),
    ] = None,
    output_file: Annotated[
        Path | None,
        options.option("--output", help="A new file: .csv, .parquet, .json (a list) or .jsonl (an object a line)."),
    ] = None,
    question: Annotated[
        list[str] | None, options.option(help="Question to answer from the context. Repeatable.")
    ] = None,
    context: Annotated[str | None, options.option(help="Text that contains the answers.")] = None,
    context_file: Annotated[Path | None, options.option(help="File with this text.", rare=True)] = None,
    csv_safe: Annotated[
        bool,
        options.option(
            "--csv-safe", help="In CSV, prefix text that looks like a formula with an apostrophe.", rare=True
        ),
    ] = False,
    all_probabilities: Annotated[
        bool,
        typer.Option("--all-probabilities", help="Write those of all labels; by default of the ten most probable."),
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(help="Predict a label from this probability on, instead of the checkpoint's thresholds."),
    ] = None,
    unsure_below: Annotated[
        float | None,
        options.option(
            metavar="P",
            help="Write the label unsure where the probability of the best class is lower than P; best_label has it.",
        ),
    ] = None,
    max_error: Annotated[
        float | None,
        options.option(
            metavar="SHARE",
            help="Answer as many as possible with at most this share of answers wrong, others are unsure; for runs "
            "whose rows were scored by folds.",
        ),
    ] = None,
    by_class: Annotated[
        bool, options.option("--by-class", help="Keep --max-error among the answers of each class.", rare=True)
    ] = False,
    form: Annotated[
        str | None,
        options.option("--as", help="Form of an annotation tool to write: doccano or spans.", metavar="FORM"),
    ] = None,
    text_column: options.TextColumns = None,
    aggregation: Annotated[
        Literal["none", "simple", "first", "average", "max"] | None,
        options.option(
            help="Entities from the tokens of a checkpoint that bertkit did not write; first by default.", rare=True
        ),
    ] = None,
    per_file: options.PerFile = False,
    on_error: OnError = None,
    of_features: Annotated[Options, "texts"],
    precision: options.Precision = "auto",
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    json: options.AsJson = False,
) -> None:
    """Predict with a fine-tuned checkpoint. It may be of bertkit or stock; the task is read from it."""
    how: dict[str, Any] = {
        "all_probabilities": all_probabilities,
        "threshold": threshold,
        "unsure_below": unsure_below,
        "max_error": max_error,
        "by_class": by_class,
        "text_columns": text_column,
        "aggregation": aggregation,
        "precision": precision,
        "revision": revision,
    }
    others: dict[str, Any] = {
        "TEXT": texts,
        "--output": output_file,
        "--question": question,
        "--csv-safe": csv_safe,
        "--as": form,
        "--per-file": per_file,
        "--trust-remote-code": trust_remote_code,  # each worker of a folder would run it
        "--context": context,
        "--context-file": context_file,
    }
    command = Texts(
        name="predict",
        checkpoint=checkpoint,
        input=input_file,
        how=how,
        others=others,
        on_error=on_error,
        json=json,
    )
    if of_features.start(command):
        return
    if context is not None and context_file is not None:
        raise RecipeError("--context and --context-file: give only one of them")
    blocks = bertkit.predict(
        checkpoint,
        texts or None,  # no argument is an empty list
        input_file,
        output_file,
        questions=question or None,
        context=context if context_file is None else context_file,
        colours=wants_colours(),
        csv_safe=csv_safe,
        form=form,
        trust_remote_code=trust_remote_code,
        per_file=per_file,
        on_error=on_error or "stop",
        **how,
    )
    if json:
        print_list("predictions", (block.rows for block in blocks))
    elif output_file is None:
        for block in blocks:
            print_lines(block.lines)
    else:
        count = sum(len(block.rows) for block in blocks)
        say(f"{counted(count, 'prediction')}: {output_file}")


def fill_mask(
    checkpoint: options.Checkpoint,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT", help="Texts with [MASK] where words are missing.", show_default=False),
    ],
    top_k: Annotated[int, typer.Option(help="Number of predictions per mask.")] = 5,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    json: options.AsJson = False,
) -> None:
    """Predict the tokens at [MASK] with a masked language model. Prints probability, token, and the text with it."""
    loaded = bertkit.load(checkpoint, revision=revision, trust_remote_code=trust_remote_code)
    guesses = loaded.fill_mask(texts, top_k=top_k)
    rows = [[[asdict(guess) for guess in mask] for mask in text] for text in guesses]
    every = (guess for text in guesses for mask in text for guess in mask)
    print_result(rows, (f"{guess.probability:.4f}\t{guess.token}\t{guess.text}" for guess in every), json)


def embed(
    checkpoint: options.Checkpoint,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts to embed.", show_default=False)
    ] = None,
    *,
    output_file: Annotated[
        Path | None, options.option("--output", help="A new file: .npz, .parquet or .jsonl.")
    ] = None,
    input_file: Annotated[
        str | None, options.option("--input", metavar="PATH", help="Texts, one per line, or a table; - is stdin.")
    ] = None,
    text_column: Annotated[
        str | None,
        options.option(help="Text column of a table; by default text, or in a single file one of a usual name."),
    ] = None,
    pooling: Annotated[
        Literal["cls", "mean", "max", "none"] | None,
        typer.Option(
            help="Pooling of the tokens of a text; none: one vector per token. By default that which the checkpoint "
            "records for sentence-transformers, else the mean."
        ),
    ] = None,
    layers: Annotated[str, typer.Option(help="Layers to concatenate; -1 is the last, 0 the embeddings.")] = "-1",
    max_seq_length: Annotated[
        int | None, options.option(help="Maximum number of tokens of a window, special tokens included.")
    ] = None,
    stride: Annotated[
        int | None, options.option(help="Tokens that neighbouring windows share; by default a quarter of a window.")
    ] = None,
    per_file: options.PerFile = False,
    on_error: OnError = None,
    of_features: Annotated[Options, "texts"],
    precision: options.Precision = "auto",
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    json: options.AsJson = False,
) -> None:
    """Compute vectors of texts, or of their tokens. Any encoder will do; long texts are read in windows."""
    how: dict[str, Any] = {
        "text_column": text_column,
        "pooling": pooling,
        "layers": parse_numbers(layers, "--layers"),
        "max_seq_length": max_seq_length,
        "stride": stride,
        "precision": precision,
        "revision": revision,
    }
    others = {
        "TEXT": texts,
        "--output": output_file,
        "--trust-remote-code": trust_remote_code,
        "--per-file": per_file,
    }
    command = Texts(
        name="embed",
        checkpoint=checkpoint,
        input=input_file,
        how=how,
        others=others,
        on_error=on_error,
        json=json,
    )
    if of_features.start(command):
        return
    if output_file is None:
        raise RecipeError("give --output FILE, a name that ends in .npz, .parquet or .jsonl")
    count, size = bertkit.embed(
        checkpoint,
        output_file,
        texts or None,  # no argument is an empty list
        input_file,
        trust_remote_code=trust_remote_code,
        per_file=per_file,
        on_error=on_error or "stop",
        **how,
    )
    line = f"{counted(count, 'text')}, {size} numbers {'per token' if pooling == 'none' else 'each'}: {output_file}"
    print_result({"texts": count, "size": size, "output": str(output_file)}, [line], json)


def parse_numbers(text: str, flag: str, example: str = "-1,-2") -> list[int]:
    """Parses whole numbers separated by commas, such as ``-1,-2``; RecipeError if an entry is not a whole number."""
    try:
        return [int(each) for each in text.split(",")]
    except ValueError as error:
        raise RecipeError(f"{flag} {text}: expected whole numbers separated by commas, such as {example}") from error
