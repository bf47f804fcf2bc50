"""A phase before the training of a classifier of pairs: it learns what the two texts tell that are read apart.

Many encoders say what a text means by the mean of its tokens, and how the means u and v of two texts differ tells much
of the pair: a line on |u - v| and u · v, fitted to a hundred pairs, is often far above a model that reads both texts at
once and has to learn from as many pairs what to compare. So the encoder is taught first to tell from the vector that
the head reads what a line would read: the cosine of u and v, and the principal components of |u - v| and u · v. No
label is needed, so any two of the texts are a pair to learn from. Texts that are made of their words are added, since
the encoder would memorize two hundred texts.

Dimension letters: R rows, T texts, P pairs, B pairs of a batch, D numbers of a mean, K components, H hidden size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from bertkit.inference.forward import forward_in_batches
from bertkit.model.checkpoint.encoders import model_inputs
from bertkit.tasks.base import padded
from bertkit.training.warm_start.heads import captured, optimizer_steps

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PAIRS_OF_BATCH = 32
_MOST_ROWS = 1000  # whose texts are paired; the nearest of each text are found among all others
_LEAST_SPREAD = 1e-3  # standard deviation of the cosines, below which texts are all alike
_ALTERED = 2000  # texts that are made of the words of the others
_MOST_LEFT_OUT = 0.5  # share of the words of a text
_RATE = 2.0  # multiple of the rate of the run
_NEAREST = 5  # texts beside each that are drawn as near ones
_COMPONENTS = 32
_OF_COMPONENTS = 4000  # pairs that the components are computed of
_DECODER_RATE = 1e-2
_BATCH = 64  # texts whose means are computed at once


def means_of_texts(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], longest: int
) -> np.ndarray:
    """Returns the mean of the encoder's last layer over the tokens of each text, (T, D) float32.

    Args:
        model: a model with a head, or an encoder.
        tokenizer: its tokenizer.
        texts: the texts.
        longest: tokens of a text that are read, at most.
    """
    rows = tokenizer(list(texts), truncation=True, max_length=longest, return_token_type_ids=True)
    inputs = model_inputs(model.config)
    lengths = [len(ids) for ids in rows["input_ids"]]

    def collate(numbers: list[int]) -> Mapping[str, Tensor]:
        return padded([{name: rows[name][number] for name in inputs} for number in numbers], tokenizer, inputs)

    def keep(numbers: list[int], outputs: Any) -> Iterator[np.ndarray]:
        for number, states in zip(numbers, outputs[0].float().cpu(), strict=True):
            yield states[: lengths[number]].mean(dim=0).numpy().copy()

    encoder: Any = model.base_model
    return np.stack(forward_in_batches(encoder, lengths, collate, keep, _BATCH, "the frozen checkpoint"))


def altered_texts(
    texts: Sequence[str], number: int, tokenizer: PreTrainedTokenizerBase, longest: int, random: np.random.Generator
) -> list[str]:
    """Returns texts that differ from one of some texts, a third each: some words are left out, all are but a span, or
    another text's span is in place of one.

    Args:
        texts: the texts.
        number: how many are returned.
        tokenizer: a fast tokenizer, which tells what a word is.
        longest: tokens of a text whose words are used, at most.
        random: draws the texts, the ways and the words.
    """
    read = tokenizer(list(texts), add_special_tokens=False, truncation=True, max_length=longest)
    words = []
    for row, text in enumerate(texts):
        places = [read.word_to_chars(row, word) for word in dict.fromkeys(read.word_ids(row))]
        # Some tokenizers count the space before a word as a part of it.
        words.append([text[place.start : place.end].strip() for place in places] or [text])
    altered = []
    for of_text, of_other, way in random.integers([len(texts), len(texts), 3], size=(number, 3)).tolist():
        own, other = words[of_text], words[of_other]
        start, end = np.sort(random.integers(len(own), size=2)).tolist()
        if way == 0:
            kept = random.random(len(own)) >= random.uniform(0, _MOST_LEFT_OUT)
            own = [word for word, is_kept in zip(own, kept, strict=True) if is_kept] or own
        elif way == 1:
            own = own[start : end + 1]
        else:
            at = int(random.integers(len(other)))
            own = [*own[:start], *other[at : at + 1 + end - start], *own[end + 1 :]]
        altered.append(" ".join(own))
    return altered


def differences(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns what a line on two texts reads, (P, 2D): how far their means (P, D) are apart, and their products."""
    return np.concatenate([np.abs(first - second), first * second], axis=1)


class TextsApart:
    """Pairs of texts to learn from, and what their means tell.

    Args:
        means: means of the first texts of the rows, of the second ones, and of other texts, (T, D).
        rows: R.
        random: draws the pairs.

    Attributes:
        weights: weights in the loss of the numbers that `told` returns, (1 + K,) float32: 1 for the cosine, and for the
            components their shares of the explained variance, whose sum is 1.
        are_alike: whether all texts have nearly the same mean, so that there is nothing to learn.
    """

    def __init__(self, means: np.ndarray, rows: int, random: np.random.Generator):
        from sklearn.decomposition import PCA

        self._means, self._rows, self._random = means, rows, random
        unit = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        self._cosines = unit @ unit.T
        others = self._cosines - 2 * np.eye(len(unit), dtype=unit.dtype)  # a text is not its own neighbour
        nearest = min(_NEAREST, len(unit) - 1)
        self._nearest = np.argpartition(-others, nearest - 1, axis=1)[:, :nearest]
        first, second = self.draw(_OF_COMPONENTS)
        told = differences(means[first], means[second])
        self._center, self._spread = told.mean(axis=0), np.maximum(told.std(axis=0), 1e-6)
        told = (told - self._center) / self._spread
        self._components = PCA(min(_COMPONENTS, *told.shape), random_state=0).fit(told)
        self._deviations = np.maximum(self._components.transform(told).std(axis=0), 1e-6)
        cosines = self._cosines[first, second]
        self._mean_cosine, self._of_cosines = cosines.mean(), max(float(cosines.std()), 1e-6)
        self.are_alike = self._of_cosines < _LEAST_SPREAD
        shares = np.nan_to_num(self._components.explained_variance_ratio_)  # 0 / 0 where all texts are alike
        self.weights = np.concatenate([[1.0], shares / max(shares.sum(), 1e-12)]).astype(np.float32)

    def draw(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the two texts of pairs, (P,) int64 each: rows of the table, near texts and any two, a third each."""
        rows, random = self._rows, self._random
        kind = random.integers(3, size=number)
        first, any_other = random.integers(len(self._means), size=(2, number))
        near = self._nearest[first, random.integers(self._nearest.shape[1], size=number)]
        of_row = random.integers(rows, size=number)
        first = np.where(kind == 0, of_row, first)
        second = np.choose(kind, [of_row + rows, near, any_other])
        is_turned = random.random(number) < 0.5
        return np.where(is_turned, second, first), np.where(is_turned, first, second)

    def told(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Returns what the means of pairs tell, (P, 1 + K) float32: the cosine, then the components; each has mean 0
        and deviation 1."""
        told = (differences(self._means[first], self._means[second]) - self._center) / self._spread
        cosines = (self._cosines[first, second] - self._mean_cosine) / self._of_cosines
        components = self._components.transform(told) / self._deviations
        return np.concatenate([cosines[:, None], components], axis=1).astype(np.float32)


def learn_from_texts_apart(
    model: PreTrainedModel,
    layer: nn.Linear,
    texts: Sequence[Sequence[str]],
    tokenizer: PreTrainedTokenizerBase,
    *,
    longest: int,
    steps: int,
    at_once: int = PAIRS_OF_BATCH,
    optimizer: torch.optim.Optimizer,
    seed: int,
    precision: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
) -> Tensor:
    """Trains the weights below the head of a classifier of pairs to tell what the two texts tell that are read apart.

    Args:
        model: the classifier, in evaluation mode afterwards: what is to be learned has no noise, and dropout adds some.
        layer: the first layer of its head, whose input is what the head reads.
        texts: the first texts of the rows, and the second ones.
        tokenizer: of the model.
        longest: tokens of a pair that are read, at most.
        steps: number of steps.
        at_once: pairs that are computed at once, for the memory.
        optimizer: of the weights of the model, at the highest rate of the run; the steps are made at twice that rate.
        seed: of the pairs.
        precision: context of the forward pass.

    Returns:
        The losses of the steps, (steps,) float32, between about 2 (nothing learned) and 0. Shape (0,) if all texts are
        alike, since no step is made then.
    """
    random = np.random.default_rng(seed)
    rows = random.permutation(len(texts[0]))[:_MOST_ROWS].tolist()
    all_texts = [column[row] for column in texts for row in rows]
    all_texts += altered_texts(all_texts, _ALTERED, tokenizer, longest, random)
    apart = TextsApart(means_of_texts(model, tokenizer, all_texts, longest), len(rows), random)
    if apart.are_alike:
        return torch.zeros(0)
    inputs, device = model_inputs(model.config), model.device
    weights = torch.from_numpy(apart.weights).to(device)
    decoder = nn.Linear(layer.in_features, len(weights)).to(device)
    trained = [weight for group in optimizer.param_groups for weight in group["params"]]
    for group in optimizer.param_groups:
        group["lr"] *= _RATE
    optimizer.add_param_group({"params": list(decoder.parameters()), "lr": _DECODER_RATE})
    losses: list[Tensor] = []
    model.eval()
    with captured(layer) as seen:
        for _ in optimizer_steps(optimizer, trained, steps, "texts apart"):
            losses.append(torch.zeros((), device=device))
            drawn = apart.draw(PAIRS_OF_BATCH)
            for start in range(0, PAIRS_OF_BATCH, at_once):
                first, second = (side[start : start + at_once] for side in drawn)
                pairs = ([all_texts[number] for number in side.tolist()] for side in (first, second))
                encoded = tokenizer(*pairs, truncation=True, max_length=longest, return_token_type_ids=True)
                of_pairs = [{name: encoded[name][pair] for name in inputs} for pair in range(len(first))]
                batch = {name: values.to(device) for name, values in padded(of_pairs, tokenizer, inputs).items()}
                with precision():
                    model(**batch)
                read = seen.pop(layer)[0].float()
                told = torch.from_numpy(apart.told(first, second)).to(device)
                loss = ((decoder(read) - told).square() * weights).sum() / PAIRS_OF_BATCH
                torch.autograd.backward(loss)
                losses[-1] += loss.detach()
    return torch.stack(losses).cpu()
