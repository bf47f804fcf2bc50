"""Progress output on stderr: bars with the remaining time on a terminal, plain lines elsewhere.

In a run of several processes only the main process writes.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm import tqdm

from bertkit.runtime.placement.processes import is_main_process

# Display names of metrics, in display order; other metrics follow under their own name.
METRIC_NAMES = {
    "loss": "loss",
    "masked_lm_loss": "masked LM loss",
    "masked_lm_accuracy": "masked LM accuracy",
    "next_token_loss": "next-token loss",
    "next_token_accuracy": "next-token accuracy",
    "next_sentence_loss": "next sentence loss",
    "next_sentence_accuracy": "next sentence accuracy",
    "sentence_order_loss": "sentence order loss",
    "sentence_order_accuracy": "sentence order accuracy",
    "learning_rate": "learning rate",
}
# Results that are no scores: by their end; and of test sets but the first, which end in the name of the set.
_NO_SCORE = re.compile(
    r".*(epoch|grad_norm|flos|step|runtime|per_second|timing|num_input_tokens_seen|threshold|temperature)"
    r"|((train|eval|predict)_)?samples|predict_(runtime|samples|(samples|steps)_per_second)_.*"
)
_BEFORE_PERCENT = re.compile(r"(?<=\d) (?=%)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SECONDS_BETWEEN_LINES = 15.0
_MOST_SCORES = 8
_GIB, _MIB = 1 << 30, 1 << 20


def on_terminal() -> bool:
    """Returns whether stderr is a terminal that can show progress bars."""
    return sys.stderr.isatty()


def wants_colours() -> bool:
    """Returns whether stdout is a terminal and ``NO_COLOR`` is not set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def printable(text: str) -> str:
    r"""Returns text with its control characters, other than tabs and line endings, as JSON writes them.

    Names and texts of others could otherwise move the cursor, change the window's title, or hide what follows. JSON
    that is escaped so has the same content.

    >>> printable("\x1b[31mred\x9b2J\r\t\n")
    '\\u001b[31mred\\u009b2J\\u000d\t\n'
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def wrapped(text: str, stream: Any) -> str:
    """Returns text in the width of a terminal, broken between words; as it is where the stream is no terminal.

    What continues a line is indented by two spaces, or as far as the line itself; a number and its % stay together.
    Commands, lines that begin with "bertkit ", are as they are too, so that they can be copied.

    Args:
        text: one line, or several.
        stream: the stream that it is written to.
    """
    if not stream.isatty():
        return text
    wrapper = textwrap.TextWrapper(
        shutil.get_terminal_size().columns,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )
    lines = []
    for line in text.split("\n"):
        wrapper.subsequent_indent = " " * max(2, len(line) - len(line.lstrip(" ")))
        if not line.lstrip().startswith("bertkit "):
            line = wrapper.fill(_BEFORE_PERCENT.sub("\0", line)).replace("\0", " ")
        lines.append(line)
    return "\n".join(lines)


def say(line: str) -> None:
    """Prints a line to stderr without breaking an active progress bar; control characters are escaped.

    A warning is also kept for `warnings_said`.
    """
    if (kept := _warnings.get()) is not None and "warning: " in line and line not in kept:
        kept.append(line)
    if _is_quiet.get() and "warning: " not in line:
        return
    if (said := _said.get()) is not None:
        if line in said:
            return
        said.add(line)
    if is_main_process():
        tqdm.write(wrapped(printable(line), sys.stderr), file=sys.stderr)


def end_bars() -> None:
    """Ends the lines of the active progress bars, so that a message of the end is the last line on the terminal."""
    for bar in list(getattr(tqdm, "_instances", ())):
        bar.close()


_warnings: ContextVar[list[str] | None] = ContextVar("warnings", default=None)
_is_quiet: ContextVar[bool] = ContextVar("is_quiet", default=False)
_said: ContextVar[set[str] | None] = ContextVar("said", default=None)


@contextmanager
def _during(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def keeping_warnings() -> AbstractContextManager[None]:
    """Returns a context in which `warnings_said` has the warnings that `say` prints."""
    return _during(_warnings, [])


def warnings_said() -> list[str]:
    """Returns the warnings printed so far in the innermost context of `keeping_warnings`; empty outside of one."""
    return list(_warnings.get() or ())


def quietly() -> AbstractContextManager[None]:
    """Returns a context in which `say` prints warnings only, for a part of a run that repeats what another one says."""
    return _during(_is_quiet, True)


def without_repetitions() -> AbstractContextManager[None]:
    """Returns a context in which `say` prints a line once, for work that reads the same files several times."""
    return _during(_said, set())


@contextmanager
def without_library_bars() -> Iterator[None]:
    """Disables the progress bars of transformers and datasets: one per file, also in logs, and mixed with our bars."""
    from transformers.utils import logging as transformers_logging

    datasets = sys.modules.get("datasets")  # its import takes a second, and only those who have it show its bars
    of_transformers = transformers_logging.is_progress_bar_enabled()
    of_datasets = datasets is not None and not datasets.are_progress_bars_disabled()
    transformers_logging.disable_progress_bar()
    if datasets is not None:
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        if of_transformers:
            transformers_logging.enable_progress_bar()
        if datasets is not None and of_datasets:
            datasets.enable_progress_bars()


@contextmanager
def logging_errors_alone(library: str) -> Iterator[None]:
    """Context in which a logger of a library, by its name, and those below it log no warnings."""
    logger = logging.getLogger(library)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def is_score(name: str) -> bool:
    """Returns whether a result of a run is a quality score, not a time, size or step.

    >>> [name for name in ("eval_accuracy", "eval_loss", "eval_runtime", "epoch", "total_flos") if is_score(name)]
    ['eval_accuracy', 'eval_loss']
    >>> is_score("eval_f1_samples"), is_score("predict_samples"), is_score("predict_samples_mm")
    (True, False, False)
    """
    return _NO_SCORE.fullmatch(name) is None


def is_of_class(name: str) -> bool:
    """Returns whether a result is that of one class or of one type of entities.

    >>> [is_of_class(name) for name in ("eval_class/spam/f1", "entity/PER/f1", "eval_f1_macro")]
    [True, True, False]
    """
    return name.removeprefix("eval_").removeprefix("predict_").startswith(("class/", "entity/"))


def display_name(name: str) -> str:
    """Returns the name of a metric, without a prefix such as ``eval_``, as it is shown; names of classes stay as they
    are."""
    return METRIC_NAMES.get(name, name if is_of_class(name) else name.replace("_", " "))


def readable(metrics: Mapping[str, Any]) -> str:
    """Formats scores as one line, at most `_MOST_SCORES` of them; those of single classes are left out.

    >>> readable({"loss": 4.51234, "learning_rate": 5e-05, "epoch": 1.0, "eval_accuracy": 0.5})
    'loss 4.5123, learning rate 5.00e-05, accuracy 0.5000'
    """
    plain = {key.removeprefix("eval_").removeprefix("train_"): value for key, value in metrics.items()}
    ordered = [key for key in METRIC_NAMES if key in plain] + [key for key in plain if key not in METRIC_NAMES]
    parts = []
    for key in ordered:
        if isinstance(plain[key], (int, float)) and is_score(key) and not is_of_class(key):
            form = ".2e" if key == "learning_rate" else ".4f"
            parts.append(f"{display_name(key)} {plain[key]:{form}}")
    more = len(parts) - _MOST_SCORES
    return ", ".join(parts[:_MOST_SCORES]) + (f" and {more} more" if more > 0 else "")


def duration(seconds: float) -> str:
    """Formats a number of seconds for display.

    >>> duration(8.2), duration(75), duration(7384)
    ('8s', '1m15s', '2h03m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def counted(number: int, noun: str, plural: str | None = None, form: str = "") -> str:
    """Formats a number with its noun.

    Args:
        number: the number.
        noun: the singular.
        plural: the plural; None adds ``s``, or changes ``y`` into ``ies``.
        form: how to format the number, such as ``,``.

    >>> counted(2_000, "row", form=","), counted(2, "entity"), counted(2, "class has", "classes have")
    ('2,000 rows', '2 entities', '2 classes have')
    """
    usual = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeou" else f"{noun}s"
    return f"{number:{form}} {inflected(number, noun, plural or usual)}"


def inflected(number: int, singular: str, plural: str) -> str:
    """Returns the form of a word, such as a verb, for a number of things.

    >>> inflected(1, "has", "have"), inflected(0, "has", "have")
    ('has', 'have')
    """
    return singular if number == 1 else plural


def memory_size(size: int) -> str:
    """Formats a number of bytes of memory; `bertkit.runtime.files.readable_size` is for files.

    >>> memory_size(3 << 29), memory_size(3 << 18), memory_size((1 << 30) - 1)
    ('1.50 GiB', '0.8 MiB', '1.00 GiB')
    """
    return f"{size / _GIB:.2f} GiB" if size >= _GIB - _MIB / 20 else f"{size / _MIB:.1f} MiB"


Reached = Callable[[int, int], None]
"""Callback with the amount of work done and the total amount."""


def unreported(done: int, total: int) -> None:
    """Reports nothing, for work without a progress bar; a `Reached`."""


class Bar:
    """Context manager that shows progress: a bar on a terminal, elsewhere a line every 15 seconds.

    Args:
        what: short description of the work.
        unit: unit of the counts; ``B`` is scaled to kB, MB, … on a terminal.
    """

    def __init__(self, what: str, unit: str):
        self.what = printable(what)
        self.unit = unit
        self.bar: tqdm[Any] | None = None
        self.started = self.reported = time.monotonic()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def __call__(self, done: int, total: int | None) -> None:
        """Reports ``done`` of ``total`` units, ``None`` for an unknown total; the total can change between calls."""
        if not is_main_process():
            return
        if on_terminal():
            if self.bar is None:
                scale = self.unit == "B"
                self.bar = tqdm(
                    total=total, desc=self.what, unit=self.unit, unit_scale=scale, dynamic_ncols=True, leave=False
                )
            self.bar.total = total
            self.bar.update(done - self.bar.n)
            return
        now = time.monotonic()
        if now - self.reported >= _SECONDS_BETWEEN_LINES and done:
            self.reported = now
            rate = done / (now - self.started)
            speed = f", {rate:.0f} per second" if rate >= 1 else ""
            if total is None:
                say(f"{self.what}: {done} {self.unit}{speed}")
                return
            left = f"{duration((total - done) / rate)} left"
            say(f"{self.what}: {100 * done / total:.0f} % of {total} {self.unit}, {left}{speed}")

    def clear(self) -> None:
        """Removes the bar from the terminal until the next call, so that results can be printed."""
        if self.bar is not None:
            self.bar.clear()
