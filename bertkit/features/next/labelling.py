"""`bertkit.label_rows`: a page on which a person labels the proposed rows of a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bertkit.features.next.answers import Answers
from bertkit.features.next.propose import training_command
from bertkit.runtime.errors import RecipeError, importing
from bertkit.runtime.features import module_about
from bertkit.runtime.options import several
from bertkit.runtime.progress import counted, inflected, say


def label_rows(
    file: str | Path,
    *,
    label_column: str | None = None,
    text_columns: str | Sequence[str] | None = None,
    port: int = 7861,
    allowed_hosts: Sequence[str] = (),
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serves a page to label the proposed rows of a file, one after the other, until SIGTERM or Ctrl-C.

    A key is an answer: 1 to 9 for the first classes, letters to find others or to write a new one. Each answer rewrites
    the file, which has its old or its complete new content at any moment; a row that is skipped keeps no label. The
    page accepts connections of this machine only, and loads nothing from other hosts.

    Args:
        file: a file of `bertkit.propose_rows`.
        label_column: column of the labels; by default the one before the guesses.
        text_columns: column of the texts, or the two of a pair; by default those of usual names.
        port: port to listen on; 0 takes a free one.
        allowed_hosts: as for `bertkit.serve`, for a proxy on this machine.
        ready: called with the address, such as ``http://127.0.0.1:7861``, when connections are accepted.

    Raises:
        DataError: the file cannot be read, has no proposed rows, or it is unclear which columns are meant.
        OutputError: the file is of a form that cannot be written.
        RecipeError: the extra ``serve`` or the feature ``serving`` is missing, the port cannot be listened on, or an
            allowed host is no name.

    Examples:
        ```python
        bertkit.label_rows("to_label.csv")  # until Ctrl-C
        ```
    """
    serving = module_about(__package__, "serving")
    if serving is None:
        raise RecipeError("label: this installation has no feature 'serving'; fill in the labels in the file")
    with importing("label:", "serve"):
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    from bertkit.features.next.label_page import label_app

    answers = Answers(file, label_column, several(text_columns or []))
    command = training_command(Path(file), answers.texts, answers.label, "MODEL")
    rows = f"{counted(len(answers), 'row')} to label"
    if answers.answered:
        rows += f", {answers.answered:,} of which {inflected(answers.answered, 'has', 'have')} a label,"
    message = f"{rows} in {file}: {{address}}; Ctrl-C ends it"
    serving.serve_page(label_app(answers, command), message, port, allowed_hosts, ready)
    labelled = f"{file}: {answers.answered:,} of {counted(len(answers), 'row')} labelled"
    say(f"{labelled}; train with them:\n{command}" if answers.answered else labelled)
