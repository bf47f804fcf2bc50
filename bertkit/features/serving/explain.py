"""The tab "Inside" of a page: `bertkit.explain` on texts that are typed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from bertkit.features.explain.attribution import subject_of
from bertkit.features.explain.explain import explanation_of
from bertkit.features.explain.network import Network, load_network
from bertkit.inference.loaded import LoadedCheckpoint
from bertkit.inference.networks import is_ensemble, is_onnx
from bertkit.recipe.files import run_name
from bertkit.runtime.errors import DataError

_SECOND = "second text (may stay empty)"


class Inside(NamedTuple):
    """Inputs and computation of the tab.

    Attributes:
        fields: labels of the text boxes.
        html: computes what is shown of their texts.
        examples: texts to click on.
        can_be_empty: whether the last text can be left out.
    """

    fields: Sequence[str]
    html: Callable[[Sequence[str]], str]
    examples: Sequence[Sequence[str]]
    can_be_empty: bool = False


def inside_of(
    loaded: LoadedCheckpoint, use: str, fields: Sequence[str], examples: Sequence[Sequence[str]]
) -> Inside | None:
    """Returns the tab of a checkpoint: words and what they add to a prediction, or what fills masks and follows.

    Args:
        loaded: the checkpoint.
        use: what it is used for: ``predict``, ``fill-mask`` or ``embed``.
        fields, examples: names and examples of the texts of a prediction.

    Returns:
        None where nothing fits: for tasks whose predictions are not attributed to words, for vectors, and for ONNX
        models and ensembles, which `load_network` refuses.
    """
    if use not in ("predict", "fill-mask") or is_onnx(loaded.name) or is_ensemble(loaded.name):
        return None
    if use == "predict" and not subject_of.knows(loaded.predictor.task):
        return None
    parts = ("attributions",) if use == "predict" else ("masked", "next_sentence")

    @cache
    def network() -> Network:  # with another attention than the one that predicts, so a copy
        return load_network(loaded.name, loaded.device_setting)

    def html(texts: Sequence[str]) -> str:
        shown = explanation_of(network(), [text for text in texts if text.strip()], parts=parts)
        if not shown.parts().keys() & set(parts):
            raise DataError(next(iter(shown.missing.values())))
        return replace(shown, checkpoint=run_name(loaded.name)).framed()  # a page shows no folders of its machine

    if use == "predict":
        return Inside(fields, html, examples)
    return Inside(["text", _SECOND], html, [["The man went to the bank.", "He bought a gallon of milk."]], True)
