"""Examples of a token store as a run of pre-training takes them, with masks and segments marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.data.corpus.examples.dataset import PretrainingExamples
from bertkit.data.corpus.settings import EPOCHS_OF_A_PHASE, PretrainingData
from bertkit.data.corpus.store.opening import names_store, open_store
from bertkit.data.corpus.store.token_store import TOKENIZER_FOLDER, TokenStore
from bertkit.data.corpus.vocabulary.structure import Vocabulary
from bertkit.features.explain.result import Result
from bertkit.model.checkpoint.load import load_tokenizer
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.runtime.progress import counted
from bertkit.runtime.reading.hub import cache_folder
from bertkit.tasks.pretraining import load_corpus
from bertkit.training.pretraining.recipe import checked_recipe, pretraining_recipe

_COUNTED = 1000  # examples of the counts
_KINDS = ("masked", "kept", "replaced")


@dataclass(frozen=True)
class SeenToken:
    """A token of an example.

    Attributes:
        text: the piece in the input.
        segment: 0 or 1.
        kind: ``masked``, ``kept`` or ``replaced`` if it is predicted; ``special``; else empty.
        truth: the piece to predict; empty if it is not predicted.
    """

    text: str
    segment: int
    kind: str
    truth: str

    def __str__(self) -> str:
        marks = {"masked": "[MASK→{truth}]", "kept": "[{truth}]", "replaced": "[{text}←{truth}]"}
        return marks.get(self.kind, "{text}").format(text=self.text, truth=self.truth)


@dataclass(frozen=True)
class SeenExample:
    """An example of the batches of a run.

    Attributes:
        epoch, number: example ``number`` of the epoch, both from 0, in the order of training.
        arrays: the arrays that the trainer gets: ``input_ids`` (S,), ``masked_positions`` (P,), ``labels`` (P,), …
        tokens: without padding.
        label: 0 = B follows A; 1 = B is random, or A follows B; None without a pair objective.
        document_a, document_b: number of the document in the store that the segment begins in; None without B.
    """

    epoch: int
    number: int
    arrays: dict[str, np.ndarray]
    tokens: list[SeenToken]
    label: int | None
    document_a: int
    document_b: int | None


@dataclass(frozen=True, repr=False)
class SeenExamples(Result):
    """Examples of a token store and the counts of masks.

    Attributes:
        store: folder or URL of the store.
        phase: of the run, from 0.
        data: settings of the examples.
        examples: the chosen one, and that of the next epoch whose text begins nearest to it.
        in_epoch: number of examples of the epoch.
        counted: number of examples that the counts are of.
        tokens: number of their tokens, special ones among them.
        kinds: ``masked``, ``kept``, ``replaced`` → number of tokens.
        random_pairs: share of examples with label 1, None without a pair objective.
    """

    store: str
    phase: int
    data: PretrainingData
    examples: list[SeenExample]
    in_epoch: int
    counted: int
    tokens: int
    kinds: dict[str, int]
    random_pairs: float | None

    template = "examples.html"

    @property
    def title(self) -> str:
        return f"What pre-training sees of {Path(self.store).name}"

    @property
    def predicted(self) -> int:
        """Number of predicted tokens of the counted examples."""
        return sum(self.kinds.values())

    def shares(self) -> list[tuple[str, float, str]]:
        """Returns name, share in [0, 1] and expectation, as text, of each count."""
        rows = [("predicted, of all tokens", self.predicted / self.tokens, f"{100 * self.data.mlm_probability:g}%")]
        expected = {
            "masked": self.data.mask_replace_prob,
            "kept": self.data.unchanged_prob,
            "replaced": self.data.random_replace_prob,
        }
        rows += [
            (f"{name}, of these", self.kinds[name] / max(self.predicted, 1), f"{100 * expected[name]:g}%")
            for name in _KINDS
        ]
        if self.random_pairs is not None:
            # Text of a single sentence has none left for B, which then always is of another document.
            half = "50% or more" if self.data.pair_objective == "nsp" else "50%"
            rows.append((self.meaning(1), self.random_pairs, half))
        return rows

    def meaning(self, label: int | None) -> str:
        """Returns what a sentence label means."""
        if label is None:
            return "no sentence label"
        other = "B is of another document" if self.data.pair_objective == "nsp" else "A follows B"
        return "B follows A" if label == 0 else other

    def record(self) -> dict[str, Any]:
        """Returns the result as plain data, without the trainer's arrays."""
        names = ("epoch", "number", "label", "document_a", "document_b")
        examples = [
            {**{name: getattr(each, name) for name in names}, "tokens": [asdict(token) for token in each.tokens]}
            for each in self.examples
        ]
        counts = {"examples": self.counted, "tokens": self.tokens, **self.kinds, "random_pairs": self.random_pairs}
        return {"phase": self.phase, "examples": examples, "in_epoch": self.in_epoch, "counts": counts}

    def lines(self) -> list[str]:
        lines = [f"phase {self.phase}: examples of at most {self.data.max_seq_length} tokens"]
        for example in self.examples:
            b = "" if example.document_b is None else f", B of document {example.document_b}"
            lines.append(f"epoch {example.epoch}, example {example.number}: {self.meaning(example.label)}")
            lines.append(f"  A of document {example.document_a}{b}")
            lines.append(f"  {' '.join(map(str, example.tokens))}")
        lines.append(f"counts of {counted(self.counted, 'example')}:")
        return lines + [f"  {name}: {share:.1%} (expected {expected})" for name, share, expected in self.shares()]


def show_examples(
    corpus: str | Path,
    recipe: str | Path | Mapping[str, Any] | Recipe | None = None,
    example: int = 0,
    epoch: int = 0,
    phase: int = 0,
) -> SeenExamples:
    """Reads examples of a token store as a run of `bertkit.pretrain` takes them in one of its phases.

    Args:
        corpus: a token store of `bertkit.build_corpus`, a folder or a URL.
        recipe: recipe of the run; ``pretrain/bert-base`` by default.
        example: number of the example in the epoch, from 0.
        epoch: number of the epoch in the phase, from 0.
        phase: number of the phase, from 0; phases of equal length count as one.

    Raises:
        DataError: there is no such store, or it has too little text.
        RecipeError: the recipe is invalid, the run has no such phase, or the epoch no such example.
    """
    if min(example, epoch, phase) < 0 or epoch + 1 >= EPOCHS_OF_A_PHASE:
        raise RecipeError(
            f"example {example}, epoch {epoch}, phase {phase}: expected numbers from 0, and an epoch below "
            f"{EPOCHS_OF_A_PHASE - 1:,}"
        )
    if not names_store([str(corpus)]):
        raise DataError(f"{corpus}: no token store; build one with bertkit corpus build")
    first = phase * EPOCHS_OF_A_PHASE  # as in a run, so that masks differ from phase to phase
    store, tokenizer, now = _open_examples(corpus, recipe, first + epoch, phase)
    size = len(now)
    if example >= size:
        raise RecipeError(f"example {example}: epoch {epoch} has examples 0 to {size - 1}")
    after = _make_epoch(now.view, now.vocabulary, now.data, first + epoch + 1)
    starts = after.segments(range(len(after)))[:, 0]
    nearest = int(abs(starts - now.segments([example])[0, 0]).argmin())
    chosen = [
        _read_example(now, store, tokenizer, epoch, example),
        _read_example(after, store, tokenizer, epoch + 1, nearest),
    ]
    number = min(size, _COUNTED)
    batch = now.__getitems__(range(number))
    is_predicted = batch["labels"] != IGNORE_INDEX
    ids = np.take_along_axis(batch["input_ids"], batch["masked_positions"], axis=1)[is_predicted]
    kinds = _tell_kinds(ids, batch["labels"][is_predicted], now.vocabulary.mask_token_id)
    return SeenExamples(
        store=str(corpus),
        phase=phase,
        data=now.data,
        examples=chosen,
        in_epoch=size,
        counted=number,
        tokens=int(batch["attention_mask"].sum()),
        kinds={name: int((kinds == name).sum()) for name in _KINDS},
        random_pairs=float(batch["next_sentence_label"].mean()) if "next_sentence_label" in batch else None,
    )


def _open_examples(
    corpus: str | Path, recipe: str | Path | Mapping[str, Any] | Recipe | None, epoch: int, phase: int
) -> tuple[TokenStore, Any, PretrainingExamples]:
    """Returns a store, its tokenizer, and the examples of an epoch, numbered over all phases of a run."""
    settings = checked_recipe(pretraining_recipe(recipe, [corpus], None, None))
    if settings.model.get("attention") == "left_to_right":
        raise RecipeError(f"recipe {settings.name}: a left_to_right model masks no tokens; give another recipe")
    lengths = settings.data.lengths()
    if phase >= len(lengths):
        raise RecipeError(
            f"phase {phase}: recipe {settings.name} has {counted(len(lengths), 'phase')}, numbered from 0; "
            "see data.phases"
        )
    store = open_store(settings.data.corpus[0], cache_folder())
    tokenizer = load_tokenizer(settings.data.tokenizer or store.folder / TOKENIZER_FOLDER, for_pretraining=True)
    objective, seed = settings.task.pair_objective, settings.train["seed"]
    text = load_corpus(settings.data, tokenizer, seed, cache_folder(), store=store, pair_objective=objective)
    data = settings.data.examples(lengths[phase][0], seed, objective)
    return store, tokenizer, _make_epoch(text.train, Vocabulary.of(tokenizer), data, epoch)


def _make_epoch(view: Any, vocabulary: Vocabulary, data: PretrainingData, epoch: int) -> PretrainingExamples:
    """Returns the examples of an epoch, in the order of training."""
    one = PretrainingExamples(view, vocabulary, data, 1, first_epoch=epoch)
    # The number of examples bounds their numbers only: each is a function of seed, epoch and number.
    return PretrainingExamples(view, vocabulary, data, one.examples_per_epoch, first_epoch=epoch)


def _tell_kinds(input_ids: Any, labels: Any, mask: int) -> np.ndarray:
    """Returns the kind of each predicted token, given its id in the input and the true one."""
    return np.where(input_ids == labels, "kept", np.where(input_ids == mask, "masked", "replaced"))


def _read_example(
    examples: PretrainingExamples, store: TokenStore, tokenizer: Any, epoch: int, number: int
) -> SeenExample:
    arrays = examples[number]
    length = int(arrays["attention_mask"].sum())
    ids = arrays["input_ids"][:length]
    a_start, a_end, b_start, b_end = examples.segments([number])[0].tolist()
    first, between, last = examples.vocabulary.pair if "next_sentence_label" in arrays else examples.vocabulary.single
    is_text = np.zeros(length, bool)
    is_text[len(first) : len(first) + a_end - a_start] = True
    is_text[len(first) + a_end - a_start + len(between) : length - len(last)] = True
    truth = {
        position: label
        for position, label in zip(arrays["masked_positions"].tolist(), arrays["labels"].tolist(), strict=True)
        if label != IGNORE_INDEX
    }
    pieces = tokenizer.convert_ids_to_tokens(ids.tolist())
    tokens = []
    for position, piece in enumerate(pieces):
        kind, true = "" if is_text[position] else "special", ""
        if position in truth:
            label = truth[position]
            kind = str(_tell_kinds(ids[position], np.int64(label), examples.vocabulary.mask_token_id))
            true = tokenizer.convert_ids_to_tokens(label)
        tokens.append(SeenToken(piece, int(arrays["token_type_ids"][position]), kind, true))
    return SeenExample(
        epoch,
        number,
        arrays,
        tokens,
        int(arrays["next_sentence_label"]) if "next_sentence_label" in arrays else None,
        _find_document(store, a_start),
        _find_document(store, b_start) if b_end > b_start else None,
    )


def _find_document(store: TokenStore, token: int) -> int:
    """Returns the number of the document that has a token."""
    sentence = int(store.sentence_offsets.searchsorted(token, side="right")) - 1
    return int(store.document_offsets.searchsorted(sentence, side="right")) - 1
