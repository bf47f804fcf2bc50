"""`bertkit.explain`: the inside of a checkpoint on a text, as arrays, in a few lines, and as a page of one file."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from bertkit.errors import BertkitError, RecipeError
from bertkit.explain.attention import Attention, attention_of
from bertkit.explain.network import load_network
from bertkit.explain.pieces import Pieces, pieces_of
from bertkit.files import check_new_file, write_whole
from bertkit.inference.loaded import LoadedCheckpoint

Part = TypeVar("Part")


@dataclass
class Explanation:
    """The inside of a checkpoint on a text, or a pair; printing it gives a few lines, and a notebook shows its page.

    Attributes:
        checkpoint: its name.
        family: model type, such as ``bert``.
        pieces: words, pieces and ids.
        attention: of all heads; None if the family does not return it.
        missing: name of a part → the reason why it is not there.
    """

    checkpoint: str
    family: str
    pieces: Pieces
    attention: Attention | None = None
    missing: dict[str, str] = field(default_factory=dict)

    def parts(self) -> dict[str, Any]:
        """Returns the parts that are there, by name."""
        names = ("pieces", "attention")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def __str__(self) -> str:
        lines = [line for part in self.parts().values() for line in part.lines()]
        return "\n".join([*lines, *(f"{name}: {reason}" for name, reason in self.missing.items())])

    def html(self) -> str:
        """Returns the page: one HTML file that loads nothing."""
        from bertkit.explain.page import page_of_text

        return page_of_text(self)

    def _repr_html_(self) -> str:
        # In a frame, so that its style does not reach the notebook.
        return f'<iframe srcdoc="{html.escape(self.html())}" style="width:100%;height:900px;border:0"></iframe>'


def explain(
    model: str | Path | LoadedCheckpoint,
    text: str,
    text_b: str | None = None,
    *,
    output: str | Path | None = None,
    device: Literal["auto", "cpu"] = "auto",
) -> Explanation:
    """Shows the inside of a checkpoint on a text: its pieces and the attention of all heads.

    A part that does not fit the checkpoint is left out, and ``missing`` of the result says why.

    Args:
        model: a run directory, a folder, a Hub id, or the result of `bertkit.load`.
        text: text, or the first one of a pair.
        text_b: the second one.
        output: a new HTML file to write.
        device: ``auto`` or ``cpu``.

    Raises:
        CheckpointError: the checkpoint cannot be loaded.
        DataError: a text is empty.
        OutputError: the file exists or cannot be written.
    """
    for name, value in (("text", text), ("text_b", text_b)):
        if not isinstance(value, str) and (name == "text" or value is not None):
            raise RecipeError(f"{name}: expected a text, got {type(value).__name__}")
    target = Path(output) if output is not None else None
    if target is not None:
        check_new_file(target, f"--output {target}")
    network = load_network(model.name if isinstance(model, LoadedCheckpoint) else str(model), device)
    pieces = pieces_of(network, [each for each in (text, text_b) if each is not None])
    explanation = Explanation(network.name, network.family, pieces)
    if pieces.left_out:
        explanation.missing["end of the text"] = (
            f"{pieces.left_out} tokens are left out, since the model reads at most {network.longest}"
        )

    def part(name: str, compute: Callable[[], Part]) -> Part | None:
        try:
            return compute()
        except BertkitError as error:
            explanation.missing[name] = str(error)
            return None

    explanation.attention = part("attention", lambda: attention_of(network, pieces))
    if target is not None:
        write_whole(target, explanation.html())
    return explanation
