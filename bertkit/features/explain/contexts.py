"""A word in its contexts: its vectors in each layer, how alike they are within and between groups, and a probe.

N occurrences, L layers and the embeddings before them, H hidden size.
"""

from __future__ import annotations

import math
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.data.reading.row_files import missing_column
from bertkit.data.tables import is_table, read_table
from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.folds import assign_folds
from bertkit.data.tables.labels import texts as texts_of_column
from bertkit.data.tables.table import same_texts
from bertkit.features.explain.network import Network
from bertkit.features.explain.pieces import Pieces, pieces_of
from bertkit.features.explain.result import Result
from bertkit.inference.forward import forward_in_batches
from bertkit.runtime.errors import DataError, raise_listed
from bertkit.runtime.progress import counted, say
from bertkit.runtime.reading.text import read_text, split_lines
from bertkit.tasks.base import padded

if TYPE_CHECKING:
    from torch import Tensor

_FOLDS = 5
_TOKENS = 1024  # of a batch, all of whose layers are kept
_SHAPES = ("circle", "square", "triangle", "diamond")


@dataclass(frozen=True)
class LayerOfContexts:
    """The occurrences of a word in one layer.

    Attributes:
        points: (N, 2) float64, first two principal components.
        variance: share of the variance that each of the two has, in [0, 1]; 0 where all vectors are the same.
        cosines: (N, N) float64 in [-1, 1], after the mean vector of all occurrences is taken away.
        within, between: mean cosine of occurrences with the same label, and with different ones; None without labels.
        accuracy: of a logistic probe for the label, cross-validated; None unless there are two labels or more, each in
            at least two texts, and two of them outside of each fold.
    """

    points: np.ndarray
    variance: tuple[float, float]
    cosines: np.ndarray
    within: float | None
    between: float | None
    accuracy: float | None


@dataclass(frozen=True, repr=False)
class WordContexts(Result):
    """Vectors of a word in the contexts of a file.

    Attributes:
        checkpoint: its name.
        word: the word.
        texts: N texts, one for each occurrence.
        labels: N labels; None without a column of labels.
        vectors: (L + 1, N, H) float32, mean over the pieces of the word; layer 0 is the embeddings.
        layers: L + 1.
        without: number of texts without the word, in the part that the model reads.
    """

    checkpoint: str
    word: str
    texts: list[str]
    labels: list[str] | None
    vectors: np.ndarray
    layers: list[LayerOfContexts]
    without: int

    template = "contexts.html"

    @property
    def title(self) -> str:
        return f"“{self.word}” in {counted(len(self.texts), 'context')}"

    @property
    def chance(self) -> float:
        """Share of the most frequent label: the accuracy of a probe that knows nothing."""
        assert self.labels is not None
        return max(Counter(self.labels).values()) / len(self.labels)

    @property
    def best_layer(self) -> int | None:
        """Layer whose probe is the most accurate, the first of equal ones; None without probes."""
        accuracies = [layer.accuracy for layer in self.layers]
        known = [each for each in accuracies if each is not None]
        return accuracies.index(max(known)) if known else None

    def lines(self) -> list[str]:
        lines = [f"{self.word}: {counted(len(self.texts), 'occurrence')}; {counted(self.without, 'text')} without it"]
        for number, layer in enumerate(self.layers):
            line = f"  layer {number}: two components have {sum(layer.variance):.0%} of the variance"
            if layer.within is not None and layer.between is not None:
                line += f"; cosine within a label {layer.within:+.2f}, between labels {layer.between:+.2f}"
            if layer.accuracy is not None:
                line += f"; probe {layer.accuracy:.2f}"
            lines.append(line)
        if (best := self.best_layer) is not None:
            accuracy = self.layers[best].accuracy or 0.0
            which = f"layer {best} separates the labels best"
            if accuracy <= self.chance:
                which = "no layer separates the labels"
            lines.append(f"{which}: probe {accuracy:.2f}, always the most frequent label {self.chance:.2f}")
        return lines

    def record(self) -> dict[str, Any]:
        """Returns the result as plain data, without vectors and cosines."""
        names = ("variance", "within", "between", "accuracy")
        layers = [
            {"points": layer.points.tolist(), **{name: getattr(layer, name) for name in names}} for layer in self.layers
        ]
        occurrences = {"texts": self.texts, "labels": self.labels, "without": self.without}
        return {"word": self.word, **occurrences, "layers": layers, "best_layer": self.best_layer}

    def cosines_of_labels(self, layer: int) -> list[tuple[str, list[float | None]]]:
        """Returns for each label its mean cosine with every label, over different occurrences; None without any."""
        labels = np.array(self.labels, dtype=object)
        names = list(dict.fromkeys(self.labels or ()))
        others = ~np.eye(len(self.texts), dtype=bool)
        rows = []
        for one in names:
            chosen = [np.outer(labels == one, labels == other) & others for other in names]
            cosines = self.layers[layer].cosines
            rows.append((one, [float(cosines[pairs].mean()) if pairs.any() else None for pairs in chosen]))
        return rows

    def page_values(self) -> dict[str, Any]:
        """Returns further values of the template: for each layer the points in pixels."""
        names = list(dict.fromkeys(self.labels)) if self.labels is not None else []
        group = [names.index(label) for label in self.labels] if self.labels is not None else [0] * len(self.texts)
        layers = []
        for layer in self.layers:
            most = float(abs(layer.points).max()) or 1.0
            layers.append([(250 + 230 * x / most, 190 - 170 * y / most) for x, y in layer.points.tolist()])
        return {"drawn_layers": layers, "groups": group, "group_names": names, "shapes": _SHAPES}


def contexts_of(network: Network, word: str, file: str | Path) -> WordContexts:
    """Collects the vectors of a word in the texts of a file.

    Args:
        network: any encoder.
        word: a word as the tokenizer splits texts into words; upper and lower case are the same.
        file: a table with the column ``text`` and perhaps ``label``, or a text file with one text in each line.

    Raises:
        DataError: the file cannot be read, a text has no word, or the word occurs fewer than three times.
    """
    texts, places, labels = _read(file)
    word, cut = word.strip(), 0
    found: list[tuple[int, Pieces, int, int]] = []
    for number, text in enumerate(texts):
        pieces = pieces_of(network, [text], name=places[number])
        cut += pieces.left_out > 0
        found += [(number, pieces, each.start, each.end) for each in pieces.words if _fold(each.text) == _fold(word)]
    if len(found) < 3:
        raise DataError(
            f"{file}: {counted(len(found), 'occurrence')} of {word!r} as a word; expected three or more, in the part "
            f"of a text that {network.name} reads"
        )
    if cut:
        say(f"{file}: {counted(cut, 'text')} of more than {network.longest} tokens, whose ends are not read")
    vectors = np.stack(_compute_vectors(network, [(pieces, start, end) for _, pieces, start, end in found]), axis=1)
    numbers = [number for number, *_ in found]
    of_words = None if labels is None else [labels[number] for number in numbers]
    copies = same_texts((texts[number],) for number in numbers)
    return WordContexts(
        network.name,
        word,
        [texts[number] for number in numbers],
        of_words,
        vectors,
        [describe_layer(each, of_words, copies) for each in vectors.astype(np.float64)],
        len(texts) - len({*numbers}),
    )


def _fold(word: str) -> str:
    """Returns a word in the form that is compared: composed letters, without upper case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", word).casefold())


def _read(file: str | Path) -> tuple[list[str], list[str], list[str] | None]:
    """Returns the texts, their places, and their labels if a table has the column ``label``."""
    if not is_table(file):
        lines = enumerate(split_lines(read_text(file)), start=1)
        named = {f"{file}, line {number}": line for number, line in lines if line.strip()}
        return list(named.values()), list(named), None
    table = read_table(file).with_names(("text", "label"))
    if "text" not in table.columns:
        raise DataError(f"{file}: {missing_column('text', table.columns)}; give the column of the texts this name")
    texts, places = list(texts_of_column(table, "text")), [table.place(row) for row in range(len(table))]
    if "label" not in table.columns:
        return texts, places, None
    labels = table.columns["label"]
    raise_listed(
        [
            f"{table.place(row)}: no value for 'label'; give one, or remove the column"
            for row, value in enumerate(labels)
            if not isinstance(value, list) and is_missing(value)
        ]
    )
    return texts, places, list(map(str, labels))


def _compute_vectors(network: Network, occurrences: Sequence[tuple[Pieces, int, int]]) -> list[np.ndarray]:
    """Returns the mean vector of each occurrence's tokens in each layer, N of (L + 1, H) float32."""
    texts: list[Pieces] = []
    places: list[list[tuple[int, int]]] = []
    for pieces, start, end in occurrences:
        if not texts or texts[-1] is not pieces:
            texts.append(pieces)
            places.append([])
        places[-1].append((start, end))

    def collate(numbers: list[int]) -> Mapping[str, Tensor]:
        rows = [
            {name: values[0].tolist() for name, values in texts[number].batch(network).items()} for number in numbers
        ]
        return padded(rows, network.tokenizer, list(rows[0]))

    def keep(numbers: list[int], outputs: Any) -> Iterator[list[np.ndarray]]:
        for row, number in enumerate(numbers):
            means = [
                [states[row, start:end].mean(dim=0).float().cpu().numpy() for states in outputs["hidden_states"]]
                for start, end in places[number]
            ]
            yield [np.stack(each) for each in means]

    vectors = forward_in_batches(
        network.model.base_model,
        [len(pieces.ids) for pieces in texts],
        collate,
        keep,
        max(1, _TOKENS // max(len(pieces.ids) for pieces in texts)),
        network.name,
        output_hidden_states=True,
        return_dict=True,
    )
    return [each for of_text in vectors for each in of_text]


def describe_layer(vectors: np.ndarray, labels: Sequence[str] | None, texts: np.ndarray) -> LayerOfContexts:
    """Computes what a page shows of a layer from its vectors (N, H) and the numbers of their texts (N,)."""
    centred = vectors - vectors.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    # Occurrences of the same vector, as in the layer of embeddings, differ from their mean by rounding only.
    if (lengths <= 1e-5 * np.linalg.norm(vectors, axis=1, keepdims=True)).all():
        centred = np.zeros_like(centred)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    total = float((values**2).sum()) or 1.0
    points = left[:, :2] * values[:2]
    unit = centred / np.maximum(lengths, np.finfo(float).tiny)
    cosines = unit @ unit.T
    within = between = accuracy = None
    if labels is not None:
        same = np.equal.outer(np.array(labels, dtype=object), np.array(labels, dtype=object)).astype(bool)
        others = ~np.eye(len(labels), dtype=bool)
        within = float(cosines[same & others].mean()) if (same & others).any() else None
        between = float(cosines[~same].mean()) if (~same).any() else None
        accuracy = _fit_probe(vectors, labels, texts)
    variance = (float(values[0] ** 2 / total), float(values[1] ** 2 / total))
    return LayerOfContexts(points, variance, cosines, within, between, accuracy)


def _fit_probe(vectors: np.ndarray, labels: Sequence[str], texts: np.ndarray) -> float | None:
    """Returns the accuracy of a logistic regression for the label, cross-validated with all of a text in one fold; None
    with fewer than two labels, if one of them is in fewer than two texts, or if there is one label outside of a
    fold, as a text may have several."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import PredefinedSplit, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fewest = min(Counter(label for label, _ in set(zip(labels, texts.tolist(), strict=True))).values())
    if fewest < 2 or len(set(labels)) < 2:
        return None
    folds = PredefinedSplit(assign_folds(min(_FOLDS, fewest), seed=0, texts=texts, labels=labels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on convergence: the probe is a measure, not a model to keep
        probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        accuracy = float(cross_val_score(probe, vectors, np.array(labels), cv=folds).mean())
    return None if math.isnan(accuracy) else accuracy  # of a fold whose probe has nothing to tell apart
