"""``bertkit pretrain``, and what prepares it on much text: ``bertkit tokenizer train`` and ``bertkit corpus``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import bertkit
from bertkit.cli import options, training
from bertkit.cli.commands import Settings, command
from bertkit.cli.groups import Group
from bertkit.cli.printing import print_result
from bertkit.data.corpus.settings import Deduplication
from bertkit.runtime.placement.processes import Engine
from bertkit.runtime.progress import counted

if TYPE_CHECKING:
    from bertkit.data.corpus.store.token_store import TokenStore

tokenizer_app = typer.Typer(cls=Group, help="Train a vocabulary, or change that of a checkpoint.", no_args_is_help=True)


_OF_TOKENIZERS = (
    "data.tokenizer_type",
    "data.cased",
    "data.merge_score",
    "data.min_pair_frequency",
    "data.text_column",
    "data.dataset_config",
    "data.dataset_split",
    "data.streaming",
)


@command(tokenizer_app, "pretraining", _OF_TOKENIZERS)
def train(
    corpus: options.Corpus,
    vocab_size: Annotated[int, options.option(help="Number of pieces in the vocabulary, special tokens included.")],
    output_dir: Annotated[Path, options.option(help="Folder of the tokenizer; new or empty.")],
    settings: Settings,
    more: options.MorePaths = None,
    json: options.AsJson = False,
) -> None:
    """Train a tokenizer on text."""
    tokenizer = bertkit.train_tokenizer(
        [*(corpus or []), *(more or [])], vocab_size, output_dir, **settings.block("data")
    )
    result = {"output_dir": str(output_dir), "vocab_size": len(tokenizer)}
    print_result(result, [f"{len(tokenizer)} pieces: {output_dir}"], json)


corpus_app = typer.Typer(cls=Group, help="Tokenize a corpus ahead of pre-training.", no_args_is_help=True)

_OF_STORES = (
    "data.tokenizer",
    "data.vocab_size",
    *(key for key in _OF_TOKENIZERS if key != "data.streaming"),
    "data.document_separator",
    "data.sentence_per_line",
    "data.sentence_splitter",
)


@command(corpus_app, "pretraining", _OF_STORES)
def build(
    corpus: options.Corpus,
    output_dir: Annotated[Path, options.option(help="Folder of the token store; new or empty.")],
    settings: Settings,
    more: options.MorePaths = None,
    engine: Annotated[Engine, typer.Option(help="Processes of this machine, or of Ray (extra ray).")] = "local",
    workers: Annotated[
        int | None, options.option(help="Number of processes that split and tokenize; by default one per core.")
    ] = None,
    ray_address: Annotated[
        str | None, options.option(help="Address of a running Ray cluster; by default Ray is started here.")
    ] = None,
    min_tokens: Annotated[int, typer.Option(help="Leave out documents with fewer tokens.")] = 1,
    deduplicate: Annotated[
        Deduplication | None, options.option(help="Leave out documents that repeat, or nearly repeat, an earlier one.")
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(help="Do the I-th of N shares of the work, on this machine; then join.", metavar="I/N"),
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Split and tokenize text into a token store. It is what pretrain --corpus reads."""
    store = bertkit.build_corpus(
        [*(corpus or []), *(more or [])],
        output_dir,
        engine=engine,
        workers=workers,
        ray_address=ray_address,
        min_tokens=min_tokens,
        deduplicate=deduplicate,
        part=part,
        **settings.block("data"),
    )
    if store is None:
        join_all = f"bertkit corpus join {shlex.quote(str(output_dir))}"
        print_result({"part": part}, [f"part {part} is finished; after all: {join_all}"], json)
    else:
        _print_counts(store, output_dir, json)


@corpus_app.command()
def join(
    output_dir: Annotated[Path, typer.Argument(help="Folder that was given to corpus build --part.")],
    json: options.AsJson = False,
) -> None:
    """Make a token store of the parts of corpus build --part."""
    _print_counts(bertkit.join_corpus(output_dir), output_dir, json)


@corpus_app.command()
def verify(
    store: Annotated[str, typer.Argument(help="Folder or URL of a token store.")],
    json: options.AsJson = False,
) -> None:
    """Read all of a token store and compare its checksums."""
    _print_counts(bertkit.verify_corpus(store), store, json)


def _print_counts(store: TokenStore, place: str | Path, json: bool) -> None:
    counts = {"documents": store.num_documents, "sentences": store.num_sentences, "tokens": store.num_tokens}
    line = f"{', '.join(counted(number, name.removesuffix('s')) for name, number in counts.items())}: {place}"
    print_result({"output_dir": str(place), **counts}, [line], json)


@dataclass(frozen=True, kw_only=True)
class Run(training.Run):
    """Arguments of pre-training: as for fine-tuning, but without a checkpoint the weights are new."""

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

    texts = [*(corpus or []), *(more or [])] or None
    of_corpus = training.Training(run=run, recipes=lambda: {"": run.recipe}, given={"corpus": texts})
    training.train(bertkit.pretrain, of_corpus, lambda metrics: SHOWN, training.AFTER_PRETRAINING)
