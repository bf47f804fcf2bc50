"""Registry of the rules: each is a function of the `Subject` that yields findings, registered under its code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module

from bertkit.checks.findings import Finding
from bertkit.checks.subject import Subject

Function = Callable[[Subject], Iterable[Finding]]

_MODULES = (
    "checkpoint_rules",
    "settings_rules",
    "text_rules",
    "vocabulary_rules",
    "duplicate_rules",
    "label_rules",
    "span_rules",
    "corpus_rules",
    "label_noise",
    "resource_rules",
)


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
    for name in _MODULES:
        import_module(f"bertkit.checks.{name}")
    return list(_RULES.values())
