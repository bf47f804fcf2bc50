"""`bertkit.explain`: the inside of a checkpoint on a text, as arrays, in a few lines, and as a page of one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from bertkit.features.explain.attention import Attention, attention_of
from bertkit.features.explain.attribution import Attribution, Unit, attribution_of, subject_to_explain
from bertkit.features.explain.contexts import contexts_of
from bertkit.features.explain.heads import Filling, NextSentence, fillings, next_sentence_of, rank_texts, score_pairs
from bertkit.features.explain.network import Network, load_network
from bertkit.features.explain.pieces import Pieces, pieces_of, with_summands
from bertkit.features.explain.result import Result
from bertkit.inference.loaded import LoadedCheckpoint
from bertkit.model.checkpoint.remote import at_revision
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import BertkitError, CheckpointError, DataError, OutputError, RecipeError
from bertkit.runtime.files import check_new_file, write_whole

if TYPE_CHECKING:
    import numpy as np

_PAGES = (".html", ".htm")

HEADINGS = {
    "pieces": "Pieces",
    "attributions": "Why this prediction",
    "attention": "Attention",
    "masked": "What it would fill in",
    "next_sentence": "Next sentence",
}
PARTS = ("attributions", "attention", "masked", "next_sentence")


@dataclass(repr=False)
class Explanation(Result):
    """The inside of a checkpoint on a text, or a pair; printing it gives a few lines, and a notebook shows its page.

    Attributes:
        checkpoint: its name.
        family: model type, such as ``bert``.
        pieces: words, pieces and ids.
        heads: attention of all heads, and what each does on the text; None if the family does not return it.
        attributions: what each word adds to the prediction of a fine-tuned checkpoint.
        masked: what a masked language model would fill in for each word.
        next_sentence: whether the second text follows the first.
        missing: name of a part → the reason why it is not there.
    """

    checkpoint: str
    family: str
    pieces: Pieces
    heads: Attention | None = None
    attributions: Attribution | None = None
    masked: Filling | None = None
    next_sentence: NextSentence | None = None
    missing: dict[str, str] = field(default_factory=dict)

    template = "explain.html"

    @property
    def title(self) -> str:
        """Title of the page: the texts."""
        return " · ".join(each if len(each) <= 80 else f"{each[:79]}…" for each in self.pieces.texts)

    @property
    def attention(self) -> np.ndarray | None:
        """Attention of all heads, (layers, heads, tokens, tokens) float32: from a token (row) to a token (column)."""
        return None if self.heads is None else self.heads.weights

    def parts(self) -> dict[str, Any]:
        """Returns the parts that are there, by name."""
        parts = {
            "pieces": self.pieces,
            "attributions": self.attributions,
            "attention": self.heads,
            "masked": self.masked,
            "next_sentence": self.next_sentence,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def lines(self) -> list[str]:
        lines = [line for part in self.parts().values() for line in part.lines()]
        return [*lines, *(f"{name.replace('_', ' ')}: {reason}" for name, reason in self.missing.items())]

    def record(self) -> dict[str, Any]:
        parts = {name: part.record() for name, part in self.parts().items()}
        return {"checkpoint": self.checkpoint, "family": self.family, **parts, "missing": self.missing}

    def page_values(self) -> dict[str, Any]:
        return {
            "headings": HEADINGS,
            "attention": None if self.heads is None else self.heads.page_values(),
        }


def explain(
    model: str | Path | LoadedCheckpoint | None = None,
    text: str | None = None,
    text_b: str | None = None,
    *,
    label: str | None = None,
    unit: Unit | None = None,
    window: int | None = None,
    sentences: str | Path | None = None,
    rank: str | Path | Sequence[str] | None = None,
    pairs: str | Path | None = None,
    word: str | None = None,
    texts: str | Path | None = None,
    corpus: str | Path | None = None,
    recipe: str | Path | Mapping[str, Any] | Recipe | None = None,
    example: int | None = None,
    epoch: int | None = None,
    phase: int | None = None,
    output: str | Path | None = None,
    device: Literal["auto", "cpu"] = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Result:
    """Shows the inside of a checkpoint: on a text, on several texts, or on a word in its contexts; or what pre-training
    sees of a corpus.

    A part that does not fit the checkpoint is left out, and ``missing`` of the result says why.

    Args:
        model: a run directory, a folder or a Hub id, or the result of `bertkit.load`, whose checkpoint is loaded anew,
            without its options. None with ``corpus``.
        text: text, or the first one of a pair.
        text_b: the second one.
        label: the label that is attributed to words; by default the predicted one. For tagging a word of the
            text, for multiple choice the number of an ending.
        unit: what is attributed to words: ``logit``, the default, or ``probability``.
        window: number, from 0, of the window of a text that is longer than the model reads; by default the one that
            decides the prediction, and for a pre-trained checkpoint the first.
        sentences: a text file, of whose sentences five take the place of ``text_b`` for comparison.
        rank: instead of ``text``: texts, or a file with one in each line, to rank by their pseudo-perplexity.
        pairs: instead of ``text``: a table of minimal pairs with the columns ``good`` and ``bad``.
        word: instead of ``text``: a word, whose vectors in ``texts`` are compared.
        texts: with ``word``: a table with the column ``text`` and perhaps ``label``, or a file with one text in each
            line.
        corpus: instead of a model: a token store, examples of which are shown as pre-training takes them.
        recipe: with ``corpus``: recipe of the pre-training; ``pretrain/bert-base`` by default.
        example, epoch, phase: with ``corpus``: numbers of the example in the epoch, of the epoch in the phase, and of
            the phase of the run; 0, the first, by default.
        output: a new file to write, ``.html`` or ``.htm``.
        device: ``auto`` or ``cpu``.
        revision, trust_remote_code: as for `bertkit.load`.

    Returns:
        An `Explanation` of a text; a `bertkit.features.explain.heads.Ranking` or
        `bertkit.features.explain.heads.MinimalPairs`; a `bertkit.features.explain.contexts.WordContexts`; or
        `bertkit.features.explain.examples.SeenExamples`.

    Raises:
        RecipeError: the arguments do not go together, or there is no such window.
        CheckpointError: the checkpoint cannot be loaded; or has no labels, for ``label``, no head for pairs, for
            ``sentences``, or no masked-LM head, for ``rank`` and ``pairs``.
        DataError: a text is empty, there is no such label, or a file cannot be read.
        OutputError: the file exists or cannot be written.

    Examples:
        ```python
        inside = bertkit.explain("my-reviews", "a lovely film", output="film.html")
        inside.attention.shape  # layers, heads, tokens, tokens
        ```
    """
    subjects = {"text": text, "rank": rank, "pairs": pairs, "word": word, "corpus": corpus}
    others: dict[str, dict[str, Any]] = {
        "text": {"text_b": text_b, "label": label, "unit": unit, "sentences": sentences, "window": window},
        "word": {"texts": texts},
        "corpus": {"recipe": recipe, "example": example, "epoch": epoch, "phase": phase},
    }
    _check(subjects, others, model)
    for argument, is_given in (("revision", revision is not None), ("trust_remote_code", trust_remote_code)):
        if corpus is not None and is_given:
            raise RecipeError(f"explain: {argument}: is of a checkpoint, and corpus takes none; remove it")
    target = Path(output) if output is not None else None
    if target is not None:
        if target.suffix.lower() not in _PAGES:
            raise OutputError(f"--output {target}: expected a name that ends in {' or '.join(_PAGES)}")
        check_new_file(target, f"--output {target}")
    result: Result
    if corpus is not None:
        from bertkit.features.explain.examples import show_examples

        result = show_examples(corpus, recipe, example or 0, epoch or 0, phase or 0)
    else:
        name = model.name if isinstance(model, LoadedCheckpoint) else str(model)
        network = load_network(at_revision(name, revision, trust_remote_code), device)
        if rank is not None:
            result = rank_texts(network, rank)
        elif pairs is not None:
            result = score_pairs(network, pairs)
        elif word is not None:
            assert texts is not None
            result = contexts_of(network, word, texts)
        else:
            both = [each for each in (text, text_b) if each is not None]
            result = explanation_of(
                network, both, label=label, unit=unit or "logit", window=window, sentences=sentences
            )
    if target is not None:
        write_whole(target, result.html())
    return result


def _check(subjects: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]], model: Any) -> None:
    """Checks that the arguments go together; RecipeError if they do not."""
    chosen = [name for name, value in subjects.items() if value is not None]
    if len(chosen) != 1:
        raise RecipeError(f"explain: give one of {', '.join(subjects)}, got {' and '.join(chosen) or 'none'}")
    (name,) = chosen
    for subject, values in others.items():
        given = [argument for argument, value in values.items() if value is not None]
        if subject != name and given:
            raise RecipeError(f"explain: {' and '.join(given)}: only with {subject}; give {subject} instead of {name}")
    if (unit := others["text"]["unit"]) not in (None, *get_args(Unit)):
        raise RecipeError(f"unit: expected 'logit' or 'probability', got {unit!r}")
    if (model is None) != (name == "corpus"):
        raise RecipeError("explain: give a checkpoint" if model is None else "explain: corpus takes no checkpoint")
    if name == "word" and others["word"]["texts"] is None:
        raise RecipeError("explain: word needs texts, a file in which the word occurs: --texts FILE")
    of_text = others["text"]
    texts = {"text": subjects["text"], "word": subjects["word"], "text_b": of_text["text_b"], "label": of_text["label"]}
    files = {"sentences": of_text["sentences"], "pairs": subjects["pairs"], "texts": others["word"]["texts"]}
    numbers = {name: others["corpus"][name] for name in ("example", "epoch", "phase")}
    for values, kind, what in ((texts, str, "text"), (files, (str, Path), "file"), (numbers, Integral, "whole number")):
        for argument, value in values.items():
            if value is not None and not isinstance(value, kind):
                raise RecipeError(f"{argument}: expected a {what}, got {type(value).__name__}")


def explanation_of(
    network: Network,
    texts: Sequence[str],
    *,
    label: str | None = None,
    unit: Unit = "logit",
    window: int | None = None,
    sentences: str | Path | None = None,
    parts: Sequence[str] = PARTS,
) -> Explanation:
    """Computes the parts that fit a checkpoint, on a text or a pair.

    Args:
        network: the checkpoint.
        texts: one or two.
        label, unit, window, sentences: as for `explain`.
        parts: those that are asked for, of `PARTS`; pieces are always there.

    Raises:
        DataError: a text is empty, there is no such label, or ``sentences`` cannot be read or has no second text.
        CheckpointError: a label is given, and the checkpoint has none; or ``sentences``, and it has no head for pairs.
        RecipeError: there is no such window.
    """
    missing: dict[str, str] = {}
    subject = None
    try:
        subject = subject_to_explain(network, texts, label, window)
        pieces = subject.pieces
    except (CheckpointError, DataError) as error:
        if label is not None:
            raise
        missing["attributions"] = str(error)
        pieces = pieces_of(network, texts, window=window or 0)
    compute: dict[str, Callable[[], Any]] = {
        "attention": lambda: attention_of(network, pieces),
        "masked": lambda: fillings(network, [pieces])[0],
        "next_sentence": lambda: next_sentence_of(network, pieces, sentences),
    }
    if subject is not None:
        compute["attributions"] = lambda: attribution_of(network, subject, unit)
    computed: dict[str, Any] = {}
    for name in parts:
        if name in compute:
            try:
                computed[name] = compute[name]()
            except BertkitError as error:
                if name == "next_sentence" and sentences is not None:
                    raise
                missing[name] = str(error)
    missing = {name: missing[name] for name in parts if name in missing}
    return Explanation(
        network.name,
        network.family,
        with_summands(network, pieces),
        heads=computed.get("attention"),
        attributions=computed.get("attributions"),
        masked=computed.get("masked"),
        next_sentence=computed.get("next_sentence"),
        missing=missing,
    )
