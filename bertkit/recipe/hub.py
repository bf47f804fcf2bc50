"""What a checkpoint on the Hub is to say of itself, and how it gets there: the ``hub`` block of a recipe."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

Form = Literal["bert", "bertkit"]


@dataclass(frozen=True, kw_only=True)
class HubSettings:
    """None of it changes what a run computes; the repository itself is named by ``--push-to-hub``.

    Attributes:
        license: the Hub's identifier, such as ``apache-2.0``; ``None`` leaves it out of the model card.
        language: of the texts, as ISO 639 codes, such as ``en``; none leaves it out of the model card.
        private: whether a repository that has to be created is private; otherwise the Hub decides, which makes it
            public unless the organisation says something else. One that exists stays what it is.
        revision: the branch to push to, created if need be; ``None`` is ``main``.
        form: ``bert``, which plain transformers loads, or ``bertkit``, which brings its own code.
    """

    license: str | None = None
    language: list[str] = field(default_factory=list)
    private: bool = False
    revision: str | None = None
    form: Form = "bert"

    def __post_init__(self) -> None:
        if self.license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", self.license):
            raise ValueError(f"license: expected an identifier as the Hub has it, such as mit, got {self.license!r}")
        for code in self.language:
            if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]+)*", code):
                raise ValueError(f"language: expected ISO 639 codes such as en or de, got {code!r}")
