"""The ``bertkit`` command: registers the commands, turns errors into messages and exit codes."""

from __future__ import annotations

import gc
import os
import sys
import time
from typing import Annotated

import typer

from bertkit import __version__
from bertkit.cli import (
    embed,
    evaluate,
    export,
    fill_mask,
    finetune,
    predict,
    pretrain,
    push,
    quickstart,
    recipes,
    tokenizer,
)
from bertkit.cli.commands import command
from bertkit.errors import BertkitError
from bertkit.placement.resolve import ProcessesNeeded, is_main_process

_FOR_THE_FIRST = 10  # seconds that the other processes leave to the first one to say what is wrong

app = typer.Typer(
    name="bertkit",
    help="Pre-train, fine-tune, evaluate and use BERT.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("quickstart")(quickstart.quickstart)
command(app, "pretraining", pretrain.SETTINGS)(pretrain.pretrain)
app.add_typer(finetune.app, name="finetune")
command(app, "classification", evaluate.SETTINGS)(evaluate.evaluate)  # the task whose data have all of them
app.command("predict")(predict.predict)
app.command("fill-mask")(fill_mask.fill_mask)
app.command("embed")(embed.embed)
command(app, "classification", export.SETTINGS)(export.export)
app.command("push")(push.push)
app.add_typer(tokenizer.app, name="tokenizer")
app.add_typer(recipes.app, name="recipes")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"bertkit {__version__}")
        raise typer.Exit


@app.callback()
def _bertkit(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line; exit code 0 done, 2 wrong input, 130 interrupted (typer's), 1 a fault of our own."""
    _set_environment()
    if not is_main_process():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - of several processes one gives the results
    # Boxes and colours are for people; what a pipe or a file gets stays plain text.
    app.rich_markup_mode = "rich" if sys.stdout.isatty() and sys.stderr.isatty() else None
    try:
        app()
    except ProcessesNeeded as needed:
        from bertkit.placement.launch import launch

        sys.exit(launch(sys.argv[1:], needed.num_processes))
    except BertkitError as error:
        if not is_main_process():
            time.sleep(_FOR_THE_FIRST)  # which finds the same, says it, and with that ends this one
        print(f"bertkit: error: {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        _end_process_group()


def _end_process_group() -> None:
    """Stops the threads by which several processes talk, while the interpreter still runs.

    One of them may have tensors left to free, which needs the interpreter; at its end that aborts the process. They
    stop when the last that refers to the group is gone: the trainer, which is a cycle that only the collector frees.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        gc.collect()
        distributed.destroy_process_group()


def _set_environment() -> None:
    """Sets what libraries read from the environment when they are loaded, unless the user has set it.

    Without ``MKL_CBWR``, MKL may choose another order of summation for a matrix at another address, as it does on AMD's
    CPUs: the same weights loaded twice would give other last digits.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
