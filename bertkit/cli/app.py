"""Entry point of the ``bertkit`` command: the commands of the core, and errors as messages and exit codes.

Features bring their own commands, see `bertkit.cli.groups`.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from itertools import zip_longest
from typing import Annotated, NoReturn

import typer

from bertkit.cli import distill, finetune, pretraining, recipes, results, texts
from bertkit.cli.commands import command
from bertkit.cli.groups import InOrderOfUse
from bertkit.cli.printing import print_text, standard_streams, use_utf8
from bertkit.runtime.errors import BertkitError, RecipeError, shortened
from bertkit.runtime.files import disk_fault
from bertkit.runtime.options import command_line
from bertkit.runtime.placement.launch import end_with_launcher, launch, wait_for_launcher
from bertkit.runtime.placement.processes import is_main_process
from bertkit.runtime.placement.resolve import ProcessesNeeded
from bertkit.runtime.progress import printable, wrapped
from bertkit.runtime.version import __version__

_PATHS = ("-dir", "-file", "--input", "--output", "--corpus", "--recipe")  # ends of the options that take a path
_TO_REPORT = 10  # seconds that the other processes wait for the main process to report the error

app = typer.Typer(
    name="bertkit",
    cls=InOrderOfUse,
    context_settings={"max_content_width": 100},
    help="Pre-train, fine-tune, evaluate and use BERT.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # without boxes more of the help fits on a page, and pipes get what terminals show
)
command(
    app,
    "pretraining",
    examples=(
        "pretrain --corpus texts --vocab-size 8000 --recipe bert-mini --output-dir my-bert",
        "pretrain --corpus texts --model google-bert/bert-base-uncased --output-dir domain-bert",
        "check pretrain --corpus texts --vocab-size 8000 --output-dir my-bert",
    ),
)(pretraining.pretrain)
app.add_typer(finetune.app, name="finetune")
command(app, distill.KINDS, distill.KEYS)(distill.distill)
command(app, ("classification", "ner"), results.KEYS)(results.evaluate)  # the tasks whose data have the fields
command(
    app,
    (),
    (),
    examples=(
        "predict mails 'a first text' 'a second text'",
        "predict mails --input new.csv --output labelled.csv",
        "predict mails --input folder --output-dir labelled --workers 4",
    ),
)(texts.predict)
app.command("fill-mask")(texts.fill_mask)
command(app, (), ())(texts.embed)
app.command("negatives")(finetune.negatives)
app.command("runs")(results.runs)
app.command("env")(results.env)
app.add_typer(pretraining.tokenizer_app, name="tokenizer")
app.add_typer(pretraining.corpus_app, name="corpus")
app.add_typer(recipes.app, name="recipes")


def _print_version(wanted: bool) -> None:
    if wanted:
        print_text(f"bertkit {__version__}")
        raise typer.Exit


@app.callback()
def _bertkit(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line; exit codes: 0 success, 1 bug in bertkit, 2 invalid input or environment, 130 interrupted,
    141 if nobody reads the output."""
    end_with_launcher()
    use_utf8()
    with standard_streams():
        _set_environment()
        if not is_main_process():
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - of several processes one gives the results
        try:
            _check_arguments()
            running = command_line.set(sys.argv[1:])
            try:
                app()
            finally:
                command_line.reset(running)
                sys.stdout.flush()
        except ProcessesNeeded as needed:
            sys.exit(launch(sys.argv[1:], needed.num_processes))
        except KeyboardInterrupt:
            sys.exit(130)
        except BertkitError as error:
            _fail(str(error))
        except Exception as error:
            wait_for_launcher()
            message = system_error(error)
            if message is None:
                raise
            _fail(message)
        finally:
            # Ends the threads of the process group while the interpreter still runs: they may still have to free
            # tensors, which aborts the process later. They end when the last reference to the group is gone: that of
            # the trainer, which is part of a reference cycle that only the garbage collector frees.
            distributed = sys.modules.get("torch.distributed")
            if distributed is not None and distributed.is_available() and distributed.is_initialized():
                gc.collect()
                distributed.destroy_process_group()
            # The interpreter collects garbage when it ends, and would examine everything that torch has created.
            gc.freeze()


def _fail(message: str) -> NoReturn:
    if not is_main_process():
        time.sleep(_TO_REPORT)  # the main process reports the same error, and its exit ends this process
    print(wrapped(f"bertkit: error: {printable(message)}", sys.stderr), file=sys.stderr)
    sys.exit(2)


def _check_arguments() -> None:
    """Checks that all arguments are UTF-8, as texts are, and that no path of an option is empty; RecipeError for the
    first fault."""
    words = sys.argv[1:]
    for number, argument in enumerate(words, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise RecipeError(
                f"argument {number}, {os.fsencode(argument)!r}: not UTF-8; convert the text, or rename the file"
            ) from error
    for word, following in zip_longest(words, words[1:]):
        name, has_value, value = word.partition("=")
        takes_path = name.startswith("--") and name.endswith(_PATHS) and name != "--per-file"  # a flag
        if takes_path and (value if has_value else following) == "":
            raise RecipeError(f"{name}: is empty, as an unset variable of a shell is; name a file or a folder")


def system_error(error: Exception) -> str | None:
    """Returns the message of an exception by which the system, not bertkit, is at fault; ``None`` for any other.

    Such are full disks, missing permissions and broken connections, in the temporary files and caches of libraries for
    example. What bertkit reads and writes itself has messages of its own.
    """
    fault = disk_fault(error) or error
    if not isinstance(fault, OSError) or fault.errno is None or not fault.strerror:
        return None
    place = fault.filename if isinstance(fault.filename, (str, bytes)) else "the system reports"
    return f"{shortened(os.fsdecode(place), 500)}: {fault.strerror}"


def _set_environment() -> None:
    """Sets environment variables that libraries read at import, unless the user has set them.

    Without ``MKL_CBWR``, the summation order of MKL may depend on the memory address of a matrix, as on AMD CPUs: the
    same weights loaded twice would give results that differ in the last digits.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
