"""``bertkit check COMMAND …``, the same as ``bertkit COMMAND … --check``; and the printing of its report."""

from __future__ import annotations

import os
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.groups import OptionsOfFeature, nearest_commands, new_app
from bertkit.cli.printing import print_lines, print_text
from bertkit.cli.training import Training
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.files import readable_size
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import counted, duration, memory_size, printable

if TYPE_CHECKING:
    from bertkit.features.checks.findings import Report

_SHORT = 30.0  # seconds
_BUSY = 0.1  # share of the time for which a run waits for other work

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}
_COMMANDS = ("pretrain", "finetune", "distill")
_WIDEST = 24  # columns of a terminal for the names of files
_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Context settings of the command: all of its arguments, ``--help`` included, are those of the other command."""

_USAGE = f"{{{'|'.join(_COMMANDS)}}} ARGUMENTS..."


app = new_app()


@app.command("check", context_settings=_SETTINGS, options_metavar=_USAGE)
def check(context: typer.Context) -> None:
    """Check the data and the settings of a run before it starts. Give the words of a pretrain, finetune or distill
    command, such as: bertkit check finetune glue --task sst2 --model MODEL. The options are those of that command;
    --output-dir can be left out.
    """
    words = list(context.args)
    if words == ["--help"]:
        print_text(context.get_help())
        return
    if not words or words[0] not in _COMMANDS:
        near = nearest_commands(words[0], context.find_root().command) if words else []
        runs = [each.replace("bertkit", "bertkit check") for each in near if each.split()[1] in _COMMANDS]
        hint = f". Did you mean {' or '.join(map(repr, runs))}?" if runs else ""
        raise RecipeError(
            f"check: expected the words of a run, such as bertkit check finetune glue --task sst2 …, got "
            f"{words[0] if words else 'none'}; the runs are {', '.join(_COMMANDS)}{hint}"
        )
    is_group = words[0] == "finetune" and (len(words) == 1 or words[1].startswith("-"))  # only its help is wanted
    flag = [] if is_group else ["--check"]
    given = words[: words.index("--")] if "--" in words else words
    if not is_group and not any(word.split("=")[0] in ("--output-dir", "--resume") for word in given):
        # A folder that does not exist; nothing is written to it.
        place = Path("." if os.access(".", os.W_OK) else tempfile.gettempdir(), f"run-{uuid4().hex}")
        flag += ["--output-dir", str(place)]
    # Before the options of the user: a last one without its value would take the flag as that, and the run would train.
    start = 2 if words[0] == "finetune" else 1
    root = context.find_root()
    code = root.command.main([*words[:start], *flag, *words[start:]], root.info_name, standalone_mode=False)
    raise typer.Exit(code or 0)


@dataclass(frozen=True, kw_only=True)
class Check(OptionsOfFeature):
    """Options of all commands that train."""

    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Report faults and the cost of the run; train and write nothing.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = False
    check_labels: Annotated[
        bool,
        options.option(
            "--check-labels", help="With --check: also look for wrong labels.", panel=options.OUTPUT, rare=True
        ),
    ] = False
    fix: Annotated[
        Path | None,
        options.option(
            help="With --check: the table without empty and repeated rows, labels unified.",
            metavar="OUT.csv",
            panel=options.OUTPUT,
            rare=True,
        ),
    ] = None
    strict: Annotated[
        bool, options.option("--strict", help="With --check: warnings are errors.", panel=options.OUTPUT, rare=True)
    ] = False

    def start(self, command: Training) -> bool:
        """Checks the run, or the runs, and prints the report.

        Raises:
            RecipeError: an option of the check is given without ``--check``.
        """
        for flag, is_given in (("--check-labels", self.check_labels), ("--strict", self.strict), ("--fix", self.fix)):
            if is_given and not self.check:
                raise RecipeError(f"{flag} is for --check; add it, or remove {flag}")
        if not self.check:
            return False
        how: dict[str, Any] = {"labels": self.check_labels, "strict": self.strict, "fix": self.fix}
        reports = {}
        for name, recipe in command.recipes().items():
            place = command.run.output_dir / name
            if (many := command.many) is not None:
                del many["worker"]  # a check takes part in no runs
                reports[name] = bertkit.check_grid(recipe, **many, **how, output_dir=place)
            else:
                reports[name] = bertkit.check(recipe, **command.arguments, **how, output_dir=place)
        if len(reports) == 1:
            [report] = reports.values()
        else:
            from bertkit.features.checks.findings import merge_reports

            report = merge_reports(reports)
        print_report(report, command.run.json)
        return True


def print_report(report: Report, as_json: bool) -> None:
    """Prints a report and ends the command with exit code 2 if it has errors.

    Raises:
        typer.Exit: the report has errors.
    """
    if as_json:
        print_text(dumps(report.to_dict()))
    else:
        print_lines(_draw_findings(report))
        for line in _summarize(report):
            print_text(line)
    if report.errors:
        raise typer.Exit(2)


def _draw_findings(report: Report) -> Iterator[str]:
    """Yields the lines of the tables of findings, one for each level, as wide as the terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from bertkit.runtime.formats import console, draw

    for level, colour in _COLOURS.items():
        findings = [finding for finding in report.findings if finding.level == level]
        if not findings:
            continue
        table = Table(
            title=f"{level}s ({len(findings)})",
            title_justify="left",
            title_style=f"bold {colour}",
            box=box.SIMPLE_HEAD,
            expand=True,
            pad_edge=False,
        )
        table.add_column("code", no_wrap=True)
        longest = max((len(word) for finding in findings for word in finding.where.split()), default=0)
        # The names of files stay whole, unless they are too long.
        table.add_column("where", width=max(console().width // 5, min(longest, _WIDEST)), overflow="fold")
        table.add_column("finding, remedy", ratio=1, overflow="fold")
        for finding in findings:
            # Text, since square brackets would be read as markup.
            what = Text(f"{printable(finding.message)}\n→ {printable(finding.remedy)}")
            table.add_row(Text(finding.code, style=colour), Text(printable(finding.where)), what)
        yield from (*draw(table), "")


def _summarize(report: Report) -> Iterator[str]:
    """Yields what is printed below the findings: each plan, what the labels are, the runs of grids, and the counts."""
    plans = report.plan if report.plan and "steps" not in report.plan else {"": report.plan}
    said: set[str] = set()
    for name, plan in plans.items():
        if plan:
            width = shutil.get_terminal_size().columns
            yield textwrap.fill(f"{printable(name) or 'plan'}: {describe_plan(plan)}", width, subsequent_indent="  ")
            if plan["labels"] is not None and plan["labels"] not in said:
                said.add(plan["labels"])
                yield textwrap.fill(f"labels: {printable(plan['labels'])}", width, subsequent_indent="  ")
    many = [plan for plan in plans.values() if plan and "runs" in plan]
    if many:
        runs = [plan["settings"] * plan["runs"] for plan in many]
        settings = round(sum(plan["settings"] for plan in many))
        line = f"{counted(round(sum(runs)), 'run', form=',')} of {counted(settings, 'setting', form=',')}"
        seconds = [plan["seconds"] for plan in many]
        if None not in seconds:
            line += f": about {duration(sum(map(mul, runs, seconds)))} one after another"
        yield line
    counts = (("error", report.errors), ("warning", report.warnings))
    yield ", ".join(counted(count, name) for name, count in counts)


def describe_plan(plan: Mapping[str, Any]) -> str:
    """Formats a plan; see `bertkit.features.checks.plan.plan`."""
    examples = ", ".join(f"{count:,} {name}" for name, count in plan["examples"].items())
    parts = []
    if "runs" in plan:  # of a setting of a grid; the rest of its plan is that of each
        rate, epochs = f"learning rate {plan['learning_rate']:g}", counted(plan["epochs"], "epoch", form="g")
        parts.append(f"{counted(plan['runs'], 'run')}, each: {rate}, {plan['scheduler']}; {epochs}")
    left_out = f" without {plan['memory_unknown']}," if plan["memory_unknown"] else ""
    parts += [
        f"{counted(plan['steps'], 'step', form=',')} of {plan['global_train_batch_size']} ({examples} examples)"
        + (f", for each of {plan['models']} models" if plan.get("models", 1) > 1 else ""),
        f"{plan['tokens']:,} tokens",
        describe_time(plan),
        f"memory {memory_size(plan['memory_bytes'])}{left_out} of {memory_size(plan['memory_available_bytes'])}",
    ]
    if plan["disk_bytes"] is not None:
        kept = f"{counted(plan['checkpoints'], 'checkpoint')} and the final weights"
        parts.append(f"disk {readable_size(plan['disk_bytes'])} of {readable_size(plan['disk_free_bytes'])} for {kept}")
    if plan["store_bytes"] is not None:
        parts.append(f"tokenized corpus {readable_size(plan['store_bytes'])}")
    return "; ".join(parts)


def describe_time(plan: Mapping[str, Any]) -> str:
    """Formats the estimate of the time; short times, in which the start and the report count, are not told apart."""
    seconds, waiting = plan["seconds"], plan["waiting"]
    if seconds is None:
        return f"time not estimated: {plan['seconds_unknown']}"
    amount = "under a minute" if seconds < _SHORT else f"about {duration(seconds)}"
    busy = waiting is not None and waiting >= _BUSY
    others = f", which other work holds for {100 * waiting:.0f} % of the time" if busy else ""
    return f"{amount} for training and evaluation on {plan['device']}{others}"
