"""Findings, the registry of the rules that yield them, optional packages of rules, and reports of `bertkit.check`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from bertkit.features.checks.subject import Subject
from bertkit.runtime.pages.summary import Summarized, Summary
from bertkit.runtime.progress import counted

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
"""Levels in the order of a report. ``error``: the run fails or gives wrong results. ``warning``: probably unintended.
``note``: unusual, or a check that could not be made."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of a rule, with the fields in the order of the JSON output.

    Attributes:
        code: stable name of the rule; docs/guides/checks.md lists all of them.
        level: one of `LEVELS`.
        where: split, file and line, column, or recipe value.
        message: the fault, with its numbers.
        remedy: what to do.
    """

    code: str = ""
    level: Level
    where: str
    message: str
    remedy: str


def error(where: str, message: str, remedy: str) -> Finding:
    """Returns a finding of level ``error``; the runner of the rules sets its code."""
    return Finding(level="error", where=where, message=message, remedy=remedy)


def warning(where: str, message: str, remedy: str) -> Finding:
    """Returns a finding of level ``warning``, as `error`."""
    return Finding(level="warning", where=where, message=message, remedy=remedy)


def note(where: str, message: str, remedy: str) -> Finding:
    """Returns a finding of level ``note``, as `error`."""
    return Finding(level="note", where=where, message=message, remedy=remedy)


@dataclass(frozen=True)
class Report(Summarized):
    """Result of `bertkit.check`.

    Attributes:
        findings: all findings, errors first.
        plan: numbers of the run: ``steps``, ``examples``, ``tokens``, ``memory_bytes``, ``seconds``, ``disk_bytes`` and
            others; empty if the run cannot be prepared. For several runs, a plan for each.
    """

    findings: tuple[Finding, ...]
    plan: dict[str, Any] = field(default_factory=dict)

    @property
    def errors(self) -> int:
        """Number of errors."""
        return sum(finding.level == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """Number of warnings."""
        return sum(finding.level == "warning" for finding in self.findings)

    def summary(self) -> Summary:
        """Returns what is printed, and shown in notebooks."""
        rows = [
            (f"{each.level}: {each.code}", f"{each.where}: {each.message} → {each.remedy}") for each in self.findings
        ]
        return Summary(f"{counted(self.errors, 'error')}, {counted(self.warnings, 'warning')}", rows)

    def strict(self) -> Report:
        """Returns the report with warnings as errors."""
        raised = [replace(each, level="error") if each.level == "warning" else each for each in self.findings]
        return Report(in_order(raised), self.plan)

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of the JSON output."""
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "errors": self.errors,
            "warnings": self.warnings,
            "plan": self.plan,
        }


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Sorts findings by level; findings of a level keep their order."""
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def merge_reports(reports: Mapping[str, Report]) -> Report:
    """Returns one report for several runs; the name of the run precedes the place of each finding."""
    findings = [
        replace(finding, where=f"{name}: {finding.where}")
        for name, report in reports.items()
        for finding in report.findings
    ]
    plans: dict[str, Any] = {}
    for name, report in reports.items():
        of_one = "steps" in report.plan or not report.plan
        plans |= {name: report.plan} if of_one else {f"{name} {run}": plan for run, plan in report.plan.items()}
    return Report(in_order(findings), plans)


Function = Callable[[Subject], Iterable[Finding]]

# Modules with rules; findings of a level are in this order.
_MODULES = ("training_rules", "text_rules", "duplicate_rules", "label_rules", "corpus_rules", "plan")


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
        code: stable name of its findings.
        needs: attributes of the `Subject` that must not be ``None``.
        function: yields the findings, without code.
    """

    code: str
    needs: tuple[str, ...]
    function: Function

    def findings(self, subject: Subject) -> Iterator[Finding]:
        """Yields the findings of the rule; none if the subject lacks what the rule needs."""
        if all(getattr(subject, name) is not None for name in self.needs):
            for finding in self.function(subject):
                yield replace(finding, code=self.code)


_RULES: dict[str, Rule] = {}


def rule(code: str, *needs: str) -> Callable[[Function], Function]:
    """Returns a decorator that registers a function as the rule with this code.

    Args:
        code: stable name of its findings, with an entry in docs/guides/checks.md.
        needs: attributes of the `Subject` that the rule reads and that may be ``None``.
    """

    def register(function: Function) -> Function:
        if code in _RULES:
            raise ValueError(f"{code}: two rules have this code")
        _RULES[code] = Rule(code, needs, function)
        return function

    return register


def rules() -> list[Rule]:
    """Returns all rules, in the order of their modules."""
    order = {import_module(f"bertkit.features.checks.{name}").__name__: number for number, name in enumerate(_MODULES)}
    return sorted(_RULES.values(), key=lambda each: order.get(each.function.__module__, len(order)))


INSTALL = "pip install 'bertkit[checks]'"


@cache
def extra(module: str) -> ModuleType | None:
    """Imports a module of an optional package; ``None`` if the package is not installed or cannot be imported."""
    try:
        return import_module(module)
    except ImportError:
        return None
