"""Vectors of texts and of their tokens, from chosen layers of any encoder (BERT §5.3, feature-based approach).

A text longer than the model's input is encoded in overlapping windows. Each token takes its vector from the window in
which it has most context (`bertkit.tasks.windows.most_context`), as in BERT's released run_squad.py.

Dimension letters: N texts, T tokens of a text, S tokens of a window with [CLS] and [SEP], K chosen layers, H hidden
size.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from bertkit.inference.forward import computes_beside_cores, forward_in_batches, one_ahead
from bertkit.inference.networks import is_ensemble, is_onnx
from bertkit.inference.options import EmbedOptions, Pooling
from bertkit.model.checkpoint.encoders import check_positions, longest_input, model_inputs
from bertkit.model.checkpoint.faults import reading
from bertkit.model.checkpoint.load import load_model, longest_of_tokenizer
from bertkit.runtime.errors import CheckpointError, RecipeError
from bertkit.runtime.options import several
from bertkit.runtime.progress import Bar, Reached, without_library_bars
from bertkit.tasks.base import padded
from bertkit.tasks.windows import WindowedText, encode_in_windows, most_context

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

LONGEST = 512  # default limit on the tokens of a window; attention is quadratic in their number
TEXTS_AT_ONCE = 256  # texts whose token vectors are in memory at the same time

MODES = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}
"""Pooling → its key in ``1_Pooling/config.json``."""

_OTHER_MODES = ("mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")


@dataclass(frozen=True)
class TokenEmbeddings:
    """The tokens of one text, without [CLS] and [SEP].

    Attributes:
        text: as given.
        tokens: T pieces of the vocabulary.
        offsets: (T, 2) int64, the characters of each token: ``text[start:end]``.
        vectors: (T, K * H) float32.
    """

    text: str
    tokens: list[str]
    offsets: np.ndarray
    vectors: np.ndarray

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each token: ``token``, ``start``, ``end`` and ``embedding``, (K * H) float32."""
        return [
            {"token": token, "start": start, "end": end, "embedding": vector}
            for token, (start, end), vector in zip(self.tokens, self.offsets.tolist(), self.vectors, strict=True)
        ]


Vectors = np.ndarray | list[TokenEmbeddings]
"""Vectors of N texts, (N, D) float32, or those of their tokens."""


def rows_of_vectors(vectors: Vectors) -> list[dict[str, Any]]:
    """Returns a row for each text: its vector as ``embedding``, or the rows of its ``tokens``."""
    return [{"tokens": each.rows()} if isinstance(each, TokenEmbeddings) else {"embedding": each} for each in vectors]


@dataclass(frozen=True)
class _Window:
    """One window of S tokens; ``is_own`` marks the tokens whose vectors are taken from it."""

    inputs: dict[str, list[int]]
    offsets: np.ndarray
    is_special: np.ndarray
    is_own: np.ndarray

    def __len__(self) -> int:
        """Returns S."""
        return len(self.offsets)


def load_encoder(checkpoint: str, config: PreTrainedConfig) -> PreTrainedModel:
    """Loads the encoder of a checkpoint without its head.

    Raises:
        CheckpointError: the checkpoint cannot be loaded, its weights are incomplete, or it has no weights of its own.
    """
    weights = [*Path(checkpoint).glob("*.safetensors"), *Path(checkpoint).glob("*.bin")]
    if (is_ensemble(checkpoint) or is_onnx(checkpoint)) and not weights:
        raise CheckpointError(
            f"{checkpoint}: an ONNX model or an ensemble, which computes no vectors; give the run directory of "
            "one model"
        )
    if getattr(config, "feature_layers", None) is not None:  # of a head, which is not loaded
        config = copy(config)
        config.feature_layers = None
    with without_library_bars():
        model, lost = load_model("BertModel", checkpoint, config, new_head=True)
    # The pooler is not used, and checkpoints of some heads do not have it.
    missing = [name for name in lost if not name.startswith("pooler.")]
    if missing:
        raise CheckpointError(f"{checkpoint}: the weights lack {', '.join(missing[:3])}; it is not a complete encoder")
    return model


class Embedder:
    """An encoder with its tokenizer; `bertkit.load` builds it."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_size: int, name: str):
        self.model = model
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.name = name
        self.inputs = model_inputs(model.config)

    @cached_property
    def pooling(self) -> Pooling:
        """Pooling that the checkpoint records, such as that of its training; else the mean.

        Raises:
            CheckpointError: it records one that bertkit does not compute.
        """
        return recorded_pooling(self.name).pooling

    def size(self, layers: Sequence[int]) -> int:
        """Returns the length of the vectors of these layers, K * H."""
        return len(layers) * int(self.model.config.hidden_size)

    def embed(
        self,
        texts: Sequence[str],
        options: EmbedOptions | None = None,
        on_progress: Reached | None = None,
    ) -> Any:
        """Returns the `Vectors` of texts, or without pooling of their tokens; see
        `bertkit.inference.loaded.LoadedCheckpoint.embed`."""
        options = options or EmbedOptions()
        if options.pooling not in ("cls", "mean", "max", "none", None):
            raise RecipeError(f"pooling {options.pooling!r}: expected cls, mean, max or none")
        how = options.pooling or self.pooling
        found: list[Any] = []
        for text, (windows, states) in zip(texts, self._encode(texts, options, how, on_progress), strict=True):
            if how == "none":
                own = [window.is_own & ~window.is_special for window in windows]
                ids = [np.asarray(window.inputs["input_ids"])[mask] for window, mask in zip(windows, own, strict=True)]
                tokens = self.tokenizer.convert_ids_to_tokens(np.concatenate(ids).tolist())
                offsets = np.concatenate([window.offsets[mask] for window, mask in zip(windows, own, strict=True)])
                vectors = np.concatenate([state[mask] for state, mask in zip(states, own, strict=True)])
                found.append(TokenEmbeddings(text, tokens, offsets, vectors))
            elif how == "max":
                found.append(np.max(states, axis=0))
            else:  # the mean of [CLS] of each window, or of every token once, [CLS] and [SEP] included
                number = len(windows) if how == "cls" else sum(int(window.is_own.sum()) for window in windows)
                found.append(np.sum(states, axis=0) / number)
        if how == "none":
            return found
        return np.stack(found) if found else np.zeros((0, self.size(options.layers)), np.float32)

    def _encode(
        self, texts: Sequence[str], options: EmbedOptions, how: Pooling | Literal["none"], on_progress: Reached | None
    ) -> Iterator[tuple[list[_Window], list[np.ndarray]]]:
        """Yields for each text its windows and what `_states` returns for them."""
        layers, count = options.layers, self.model.config.num_hidden_layers
        if not layers or any(layer not in range(-count - 1, count + 1) for layer in layers):
            raise RecipeError(
                f"layers {', '.join(map(str, layers)) or 'none'}: {self.name} has {count}; expected 0 (the embeddings) "
                f"to {count}, or -1 (the last) to {-count - 1}"
            )
        length = options.max_seq_length
        if length is None:
            length = min(longest_input(self.model.config), LONGEST)
        check_positions(length, self.model.config, self.name)
        overlap = length // 4 if options.stride is None else options.stride
        special = self.tokenizer.num_special_tokens_to_add()
        room = length - special
        if room < 1:
            raise RecipeError(
                f"max_seq_length {length}: expected at least {special + 1}, the {special} special tokens and one more"
            )
        if not 0 <= overlap < room:
            raise RecipeError(
                f"stride {overlap}: expected 0 to {room - 1}, as a window of {length} has room for {room}"
            )
        with ExitStack() as contexts:
            progress = contexts.enter_context(Bar("embedding", "texts")) if on_progress is None else on_progress
            starts = range(0, len(texts), TEXTS_AT_ONCE)
            some = (texts[start : start + TEXTS_AT_ONCE] for start in starts)
            blocks: Generator[list[list[_Window]]] = (
                [self._windows(text) for text in encode_in_windows(each, self.tokenizer, length, overlap)]
                for each in some
            )
            if len(starts) > 1 and computes_beside_cores(self.model):
                blocks = contexts.enter_context(closing(one_ahead(blocks)))
            for start, block in zip(starts, blocks, strict=True):
                states = iter(self._states([window for windows in block for window in windows], layers, how))
                for windows in block:
                    yield windows, [next(states) for _ in windows]
                progress(start + len(block), len(texts))

    def _windows(self, text: WindowedText) -> list[_Window]:
        """Returns the windows of a text with their special tokens."""
        owner = most_context(text.windows)
        around = (text.special_tokens_before, text.special_tokens_after)
        windows = []
        for number, ((start, end), inputs) in enumerate(zip(text.windows, text.inputs, strict=True)):
            windows.append(
                _Window(
                    {name: inputs[name] for name in self.inputs},
                    _with_special(text.offsets[start:end], around, 0),
                    _with_special(np.zeros(end - start, bool), around, True),
                    # Each window keeps its own [CLS] and [SEP].
                    _with_special(owner[start:end] == number, around, True),
                )
            )
        return windows

    def _states(
        self, windows: Sequence[_Window], layers: Sequence[int], how: Pooling | Literal["none"]
    ) -> list[np.ndarray]:
        """Returns of each window the chosen layers' states, float32: (S, K * H), or with a pooling (K * H).

        That of the mean is the sum. It is computed on the device, so that the states of all tokens stay there.
        """
        import torch

        only_last = set(layers) <= {-1, self.model.config.num_hidden_layers}

        def collate(numbers: list[int]) -> Mapping[str, torch.Tensor]:
            return padded([windows[number].inputs for number in numbers], self.tokenizer, self.inputs)

        def keep(numbers: list[int], outputs: Any) -> list[np.ndarray]:
            states = [outputs.last_hidden_state if only_last else outputs.hidden_states[layer] for layer in layers]
            joined = torch.cat(states, dim=-1).float()
            if how == "cls":
                return list(joined[:, 0].cpu().numpy())
            if how != "none":
                is_own = np.zeros(joined.shape[:2], bool)
                for row, number in zip(is_own, numbers, strict=True):
                    row[: len(windows[number])] = windows[number].is_own
                is_other = torch.from_numpy(~is_own).to(joined.device).unsqueeze(-1)
                joined.masked_fill_(is_other, 0.0 if how == "mean" else -torch.inf)
                return list((joined.sum(dim=1) if how == "mean" else joined.amax(dim=1)).cpu().numpy())
            # Copies, so that the padding of the whole batch is not kept with them.
            rows = zip(numbers, joined.cpu().numpy(), strict=True)
            return [values[: len(windows[number])].copy() for number, values in rows]

        lengths = list(map(len, windows))
        return forward_in_batches(
            self.model, lengths, collate, keep, self.batch_size, self.name, output_hidden_states=not only_last
        )


def _with_special(values: np.ndarray, around: tuple[int, int], value: int) -> np.ndarray:
    """Puts a value for each special token before and after those of the tokens; np.pad takes ten times as long."""
    before, after = around
    whole = np.full((before + len(values) + after, *values.shape[1:]), value, values.dtype)
    whole[before : before + len(values)] = values
    return whole


# ---- pooling of checkpoints in the form of sentence-transformers -----------------------------------------------------


@dataclass(frozen=True)
class SentencePooling:
    """Pooling of the vectors of tokens to one vector of a text.

    Attributes:
        pooling: as for `bertkit embed`.
        normalize: whether the vector is divided by its length.
        max_seq_length: tokens of a text that are read; a very large number without a limit, ``None`` for a checkpoint
            in another form.
    """

    pooling: Pooling = "mean"
    normalize: bool = False
    max_seq_length: int | None = None


def recorded_pooling(checkpoint: str) -> SentencePooling:
    """Reads the pooling of a checkpoint in the form of sentence-transformers; the mean for all others.

    Raises:
        CheckpointError: the checkpoint has steps or a pooling that bertkit does not compute.
    """
    modules = _read(checkpoint, "modules.json", list)
    if modules is None:
        return SentencePooling()
    with reading(checkpoint, "modules.json"):
        kinds = [str(each["type"]).rpartition(".")[2] for each in modules]
        places = {kind: str(each["path"]) for kind, each in zip(kinds, modules, strict=True)}
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        raise CheckpointError(
            f"{checkpoint}: modules.json has the steps {', '.join(kinds)}; bertkit computes Transformer, Pooling and "
            "Normalize; use it with sentence-transformers as it is, or `bertkit embed` with --pooling"
        )
    config = _read(checkpoint, f"{places['Pooling']}/config.json", dict) or {}
    poolings = [name for name, mode in MODES.items() if config.get(mode)]
    if isinstance(mode := config.get("pooling_mode"), str | list):  # a list of those whose vectors are joined
        poolings = list(map(str, several(mode)))
    others = [mode for mode in _OTHER_MODES if config.get(f"pooling_mode_{mode}")]
    if len(poolings) != 1 or poolings[0] not in MODES or others:
        raise CheckpointError(
            f"{checkpoint}: its pooling is {', '.join(map(str, [*poolings, *others])) or 'none'}; expected one of "
            f"{', '.join(MODES)}; use it with sentence-transformers as it is, or `bertkit embed` with --pooling"
        )
    limits = _read(checkpoint, "sentence_bert_config.json", dict) or {}
    longest = limits.get("max_seq_length") or longest_of_tokenizer(checkpoint)  # from version 6 on it is there
    return SentencePooling(cast(Pooling, poolings[0]), "Normalize" in kinds, longest)


def _read(checkpoint: str, file: str, kind: type) -> Any:
    """Returns the content of a JSON file of a checkpoint, of type ``kind``; ``None`` if it has no such file."""
    from transformers.utils import cached_file

    with reading(checkpoint, file):
        path = cached_file(
            checkpoint, file, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False
        )
        content = None if path is None else json.loads(Path(path).read_bytes())
        if content is not None and not isinstance(content, kind):
            raise ValueError(f"expected a {kind.__name__}, got {type(content).__name__}")
        return content
