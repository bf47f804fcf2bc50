"""Settings of the model card and of pushing a checkpoint to the Hub: the ``hub`` block of a recipe."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from bertkit.options import setting

Form = Literal["bert", "bertkit"]
ANY_DATA = "any"
"""Key of ``citations`` for entries that do not depend on the data."""

WIDGET_KEYS = ("text", "context", "example_title")
"""Keys of an example in ``widget``."""

NEEDED_IN_WIDGET = {
    "feature-extraction": ("text",),
    "fill-mask": ("text",),
    "multiple-choice": ("text",),
    "question-answering": ("text", "context"),
    "text-classification": ("text",),
    "token-classification": ("text",),
}
"""Keys that every example in ``widget`` must have, by the Hub's name of the task, for the tasks of bertkit."""

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_BIBTEX_ENTRY = re.compile(r"@\w+\s*\{\s*[^\s,{}]+\s*,")


@dataclass(frozen=True, kw_only=True)
class HubSettings:
    """Settings of the ``hub`` block; they do not change results of a run. ``--push-to-hub`` names the repository."""

    license: str | None = setting(
        "Licence identifier of the Hub, such as `apache-2.0`; `null` omits it from the model card.", default=None
    )
    language: list[str] = setting(
        "Languages of the texts as ISO 639 codes, such as `en`; an empty list omits them from the model card.",
        factory=list,
    )
    private: bool = setting(
        "Create a new repository as private; otherwise the default of the Hub or the organisation applies, "
        "which is public unless the organisation changed it. Existing repositories are not changed.",
        default=False,
    )
    revision: str | None = setting("Branch to push to, created if missing; `null` for `main`.", default=None)
    form: Form = setting(
        "`bert`, which plain transformers loads, or `bertkit`, which includes its own code.", default="bert"
    )
    report: bool = setting(
        "Push `report.html` and its figures with a run; they show texts of the validation set.", default=True
    )
    widget: list[dict[str, str]] = setting(
        "Example inputs of the widget on the model page, each a mapping with `text`, for question answering "
        "also `context`, and optionally `example_title`. bertkit takes none from the data.",
        factory=list,
    )
    benchmark_task: str | None = setting(
        "A task in the `eval.yaml` of the scored Hub data set, if that is a benchmark of the Hub; a push then "
        "writes the main score of the run to `.eval_results`. `null` writes none.",
        default=None,
    )
    citations: dict[str, str] = setting(
        "BibTeX entries for the model card, in addition to that of the BERT paper. The key is the Hub id of a "
        "data set, whose entries are cited with its scores, or `any` for entries that are always cited.",
        factory=dict,
    )

    def __post_init__(self) -> None:
        if self.license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", self.license):
            raise ValueError(f"license: expected a licence identifier of the Hub, such as mit, got {self.license!r}")
        for code in self.language:
            if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]+)*", code):
                raise ValueError(f"language: expected ISO 639 codes such as en or de, got {code!r}")
        for example in self.widget:
            if unknown := sorted(set(example) - set(WIDGET_KEYS)):
                raise ValueError(f"widget: expected the keys {', '.join(WIDGET_KEYS)}, got {unknown[0]!r}")
            if not example.get("text", "").strip():
                raise ValueError(f"widget: expected a text in every example, got {example!r}")
        if self.benchmark_task is not None and not self.benchmark_task.strip():
            raise ValueError("benchmark_task: expected the id of a task in eval.yaml, got an empty text")
        for name, entries in self.citations.items():
            if name != ANY_DATA and not _HUB_ID.fullmatch(name):
                raise ValueError(f"citations: expected the Hub id of a data set, or {ANY_DATA}, got the key {name!r}")
            if not _BIBTEX_ENTRY.match(entries.strip()) or entries.count("{") != entries.count("}"):
                raise ValueError(
                    f"citations: expected BibTeX entries for {name}, such as @misc{{key, title={{…}}}}, got {entries!r}"
                )
