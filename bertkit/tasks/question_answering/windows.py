"""Encodes a question and a text of any length as overlapping windows, and locates the tokens of the answer.

The answer is the smallest token span that covers its characters, except white space at either end, which no token
covers. The characters of these tokens are those of the answer if it covers each of its tokens completely, else a few
more. The character range of a token is that given by the tokenizer, without white space at either end, extended by
directly following combining marks and format characters that the tokenizer drops: ``e`` + U+0301 is one letter.

The tokenizer defines the special tokens and their positions; the question comes first. Every window has the whole
question, up to ``max_query_length`` tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.runtime.errors import CheckpointError, RecipeError
from bertkit.tasks.question_answering.questions import Answers
from bertkit.tasks.windows import ends_with_marks, stripped, windows

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class WindowSizes:
    """Window sizes in tokens.

    Attributes:
        max_seq_length: tokens of a window, including question and special tokens.
        doc_stride: tokens of the text that neighbouring windows share: the *overlap*, as in the tokenizers library.
            Google's released run_squad.py has a flag of this name for the *step* from window to window.
        max_query_length: maximum tokens of the question; longer questions are truncated on the right.
    """

    max_seq_length: int
    doc_stride: int
    max_query_length: int

    def check(self, special_tokens: int = 3) -> None:
        """Checks that a window has room for new tokens beside the longest question.

        Raises:
            ValueError: it has not; the message begins with the name of the setting.
        """
        if self.max_seq_length < special_tokens + 2:
            raise ValueError(
                f"max_seq_length: expected at least {special_tokens + 2}, {special_tokens} of them special tokens, got "
                f"{self.max_seq_length}"
            )
        room = self.max_seq_length - special_tokens - self.max_query_length
        if self.max_query_length < 1 or room < 1:
            raise ValueError(
                f"max_query_length: {self.max_query_length} tokens of the question and {special_tokens} special tokens "
                f"leave {max(room, 0)} of max_seq_length {self.max_seq_length} for the text; expected 1 to "
                f"{self.max_seq_length - special_tokens - 1}"
            )
        if not 0 <= self.doc_stride < room:
            raise ValueError(
                f"doc_stride: {self.doc_stride}, but windows have {room} tokens of the text besides the longest "
                f"question (max_seq_length {self.max_seq_length}, max_query_length {self.max_query_length}); "
                f"expected 0 to {room - 1}"
            )


@dataclass(frozen=True)
class PairForm:
    """Template of a tokenizer's pair encoding: three runs of special tokens, and the type of each token.

    Attributes:
        specials: ids before the question, between question and text, and after the text.
        types: ``token_type_ids`` of these three runs.
        question_type, text_type: token type of the question and of the text.
        answerless: (run, index within the run) of [CLS], the target position if there is no answer.
    """

    specials: tuple[list[int], list[int], list[int]]
    types: tuple[list[int], list[int], list[int]]
    question_type: int
    text_type: int
    answerless: tuple[int, int]

    @property
    def count(self) -> int:
        """Number of special tokens."""
        return sum(map(len, self.specials))


def pair_form(tokenizer: PreTrainedTokenizerBase) -> PairForm:
    """Determines the pair template of a tokenizer from a probe.

    Raises:
        CheckpointError: the tokenizer does not give character offsets, or has no [CLS].
    """
    if not tokenizer.is_fast:
        raise CheckpointError(
            f"{type(tokenizer).__name__} does not give the characters of a token; question answering needs a tokenizer "
            "of the tokenizers library"
        )
    probe = tokenizer("a", "a", truncation=False, padding=False, return_token_type_ids=True)
    ids, types, owners = probe["input_ids"], probe["token_type_ids"], probe.sequence_ids(0)
    first, second = owners.index(0), owners.index(1)
    runs = [
        (0, first),
        (len(owners) - owners[::-1].index(0), second),
        (len(owners) - owners[::-1].index(1), len(owners)),
    ]
    specials, special_types = ([values[start:end] for start, end in runs] for values in (ids, types))
    cls = tokenizer.cls_token_id
    places = [(run, tokens.index(cls)) for run, tokens in enumerate(specials) if cls in tokens]
    if not places or second < first:
        raise CheckpointError(
            f"{type(tokenizer).__name__} adds no [CLS] to a question and a text, which is needed to predict no answer"
        )
    return PairForm(tuple(specials), tuple(special_types), types[first], types[second], places[0])


def encode_windows(
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[Answers] | None,
    tokenizer: PreTrainedTokenizerBase,
    sizes: WindowSizes,
) -> dict[str, list[Any]]:
    """Encodes N examples as windows, one per row, the windows of an example in consecutive rows.

    Args:
        questions, contexts: texts.
        answers: answers to each question; the first one is the training target. None if they are unknown.
        tokenizer: a fast tokenizer (tokenizers library).
        sizes: window sizes.

    Returns:
        ``input_ids``, ``attention_mask``, ``token_type_ids``; ``example``, the index of the row's example; ``cls``, the
        position of [CLS]; ``context_begin``, the position of the window's first text token; ``first_token``, the index
        of that token in the whole text, from 0; ``char_starts`` and ``char_ends``, the character range in the context
        of each text token of the window; ``length``, in tokens; ``full_length``, the length plus, in an example's first
        row, the tokens truncated from the question.

        With answers also ``start_positions`` and ``end_positions``, the positions of the answer's first and last token;
        the position of [CLS] if the window does not contain the whole answer, or there is none; `IGNORE_INDEX` in every
        row of an example if no token covers any character of the answer.

    Raises:
        RecipeError: the sizes leave no room with this tokenizer's special tokens.
        CheckpointError: as `pair_form`.
    """
    form = pair_form(tokenizer)
    try:
        sizes.check(form.count)
    except ValueError as error:
        raise RecipeError(f"data.{error}") from error
    plain = {"add_special_tokens": False, "truncation": False, "padding": False, "verbose": False}
    asked = tokenizer(list(questions), **plain)["input_ids"]
    # Texts are tokenized once, since several questions may share one.
    texts = list(dict.fromkeys(contexts))
    read = tokenizer(texts, return_offsets_mapping=True, **plain)
    characters = [_characters(offsets, text) for offsets, text in zip(read["offset_mapping"], texts, strict=True)]
    place = {text: index for index, text in enumerate(texts)}
    rows: list[dict[str, Any]] = []
    for example, (question, context) in enumerate(zip(asked, contexts, strict=True)):
        text, (starts, ends) = read["input_ids"][place[context]], characters[place[context]]
        lost = max(len(question) - sizes.max_query_length, 0)
        question = question[: sizes.max_query_length]
        span = None if answers is None else _tokens_of(answers[example], starts, ends, context)
        for first, end in windows(len(text), sizes.max_seq_length - form.count - len(question), sizes.doc_stride):
            part = slice(first, end)
            row = _input(form, question, text[part])
            row |= {"example": example, "first_token": first, "char_starts": starts[part], "char_ends": ends[part]}
            row["full_length"] = row["length"] + (lost if not first else 0)
            if span is not None:
                inside = first <= span[0] and span[1] < end
                positions = [row["context_begin"] + token - first if inside else row["cls"] for token in span]
                positions = [IGNORE_INDEX, IGNORE_INDEX] if span == (IGNORE_INDEX, IGNORE_INDEX) else positions
                row["start_positions"], row["end_positions"] = positions
            rows.append(row)
    return {name: [row[name] for row in rows] for name in rows[0]}


def _input(form: PairForm, question: list[int], text: list[int]) -> dict[str, Any]:
    before, between, after = form.specials
    types = form.types
    ids = [*before, *question, *between, *text, *after]
    begins = (0, len(before) + len(question), len(ids) - len(after))
    run, place = form.answerless
    return {
        "input_ids": ids,
        "attention_mask": [1] * len(ids),
        "token_type_ids": [
            *types[0],
            *[form.question_type] * len(question),
            *types[1],
            *[form.text_type] * len(text),
            *types[2],
        ],
        "cls": begins[run] + place,
        "context_begin": begins[1] + len(between),
        "length": len(ids),
    }


def _characters(offsets: Sequence[tuple[int, int]], context: str) -> tuple[list[int], list[int]]:
    """Returns the start and the exclusive end of each token's character range."""
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    for token, (start, end) in enumerate(offsets):
        if start < end and (context[start].isspace() or context[end - 1].isspace()) and context[start:end].strip():
            starts[token], ends[token] = stripped(context, start, end)
    return starts, ends_with_marks(context, list(zip(starts, ends, strict=True)), also="Cf")


def _tokens_of(answers: Answers, starts: list[int], ends: list[int], context: str) -> tuple[int, int]:
    """Returns the first and last token of the first answer.

    Returns (-1, -1), which no window contains, without an answer, and `IGNORE_INDEX` twice if no token covers any of
    the answer's characters.
    """
    if not answers["text"]:
        return -1, -1
    begin, end = answers["answer_start"][0], answers["answer_start"][0] + len(answers["text"][0])
    begin, end = (0, 0) if begin < 0 else stripped(context, begin, end)
    has = [token for token, (start, stop) in enumerate(zip(starts, ends, strict=True)) if start < end and stop > begin]
    return (has[0], has[-1]) if has and begin < end else (IGNORE_INDEX, IGNORE_INDEX)


def mask_padding(model: PreTrainedModel) -> None:
    """Registers hooks that set the scores of masked positions to the smallest finite value of their dtype.

    The released run_squad.py pads every input to one length, and its softmax includes the padding. With padding to the
    longest input of a batch, the loss of an input would depend on the other inputs, and thereby on the division of the
    global batch.

    Args:
        model: a question-answering model of any family; the scores of its head are (B, S, 2), and ``attention_mask`` is
            passed by keyword.

    Raises:
        CheckpointError: the head of this model family has an unknown name.
    """
    head = getattr(model, "qa_outputs", None) or getattr(model, "classifier", None)
    if head is None:
        raise CheckpointError(
            f"{type(model).__name__}: its head has no layer qa_outputs or classifier; give a BERT checkpoint"
        )
    hooks = _PaddingHooks()
    model.register_forward_pre_hook(hooks.take_mask, with_kwargs=True)
    head.register_forward_hook(hooks.mask_scores)


class _PaddingHooks:
    """Hooks that keep a model's attention mask until its head has computed the scores."""

    def __init__(self) -> None:
        self.mask: Tensor | None = None

    def take_mask(self, model: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        self.mask = kwargs.get("attention_mask")

    def mask_scores(self, head: nn.Module, args: Any, scores: Tensor) -> Tensor | None:
        import torch

        mask, self.mask = self.mask, None
        if mask is None or scores.shape[:2] != mask.shape:  # kernels that remove the padding themselves
            return None
        return scores.masked_fill(mask[:, :, None] == 0, torch.finfo(scores.dtype).min)
