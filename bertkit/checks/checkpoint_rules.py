"""Rules on the checkpoint: its family, its casing, its head, and the inputs that it gets."""

from __future__ import annotations

from collections.abc import Iterator

from bertkit.checkpoint.encoders import BERT, model_inputs
from bertkit.checks.findings import Finding, error, note, warning
from bertkit.checks.registry import rule
from bertkit.checks.subject import Subject, checked
from bertkit.tasks.splits import ColumnsOf

_FEW_WORDS = 200
_CASE_OF_SPANS = 0.3  # difference of the shares of capitalized words
_LOWER_CASED = 0.001  # share of capitalized words


def is_uncased(subject: Subject) -> bool:
    """Returns whether the tokenizer maps upper case to lower case."""
    upper, lower = (subject.tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("ABE Abe", "abe abe"))
    return bool(upper == lower)


@rule("casing", "tokenizer")
def casing(subject: Subject) -> Iterator[Finding]:
    """Compares the case of the text with that of the checkpoint's vocabulary."""
    words = {word: count for word, count in subject.words.items() if any(map(str.isalpha, word))}
    # Scripts without upper case say nothing.
    words = {word: count for word, count in words.items() if word.lower() != word or word.upper() != word}
    total = sum(words.values())
    if total < _FEW_WORDS:
        return
    if is_uncased(subject):
        yield from _lost_case(subject)
        return
    upper = sum(count for word, count in words.items() if word != word.lower())
    if upper <= _LOWER_CASED * total:
        yield warning(
            "data",
            f"{100 * (1 - upper / total):.1f} % of {total:,} words are lower case, and the vocabulary of "
            f"{subject.checkpoint or 'the tokenizer'} is cased: names and beginnings of sentences have unusual pieces",
            "use an uncased checkpoint, or text in its original case",
        )


def _lost_case(subject: Subject) -> Iterator[Finding]:
    """Finds labels that depend on upper case, which an uncased vocabulary removes."""
    if subject.task is None or "train" not in (subject.splits or {}):
        return
    kind, examples = checked(subject.task), ColumnsOf(subject.splits["train"].examples)
    spans = kind.spans(examples) if kind.relies_on_case else None
    if spans is None:
        return
    inside, outside = [0, 0], [0, 0]  # capitalized words, all words
    for words, of_example in zip(examples["tokens"], spans, strict=True):
        labelled = {word for _, start, end in of_example for word in range(start, end)}
        for number, word in enumerate(words[1:], start=1):  # the first word of a sentence is capitalized anyway
            counted = inside if number in labelled else outside
            counted[0] += word != word.lower()
            counted[1] += 1
    share, elsewhere = (upper / max(total, 1) for upper, total in (inside, outside))
    if share - elsewhere > _CASE_OF_SPANS:
        yield warning(
            "train",
            f"{100 * share:.0f} % of the labelled words are capitalized and {100 * elsewhere:.0f} % of the others, but "
            f"the vocabulary of {subject.checkpoint} is uncased, so the model cannot see this difference",
            "use a cased checkpoint, such as google-bert/bert-base-cased",
        )


@rule("attention-mask", "trainer", "tokenizer")
def attention_mask(subject: Subject) -> Iterator[Finding]:
    """Checks that a batch has an attention mask that covers its padding."""
    dataset = subject.trainer.train_dataset
    if subject.features is not None:
        lengths = subject.features["train"]["length"][:]
        rows = [lengths.index(min(lengths)), lengths.index(max(lengths))]
    else:
        rows = list(range(min(4, len(dataset))))
    batch = subject.trainer.data_collator([dataset[row] for row in rows])
    mask, padding = batch.get("attention_mask"), subject.tokenizer.pad_token_id
    if mask is None:
        found = f"a batch has {', '.join(batch)}, and no attention_mask"
    elif padding is not None and bool((mask[batch["input_ids"] == padding] != 0).any()):
        found = "the attention_mask of a batch is 1 at padding tokens"
    else:
        return
    yield error(
        f"{subject.recipe.kind}.collate",
        f"{found}: predictions depend on the length of the other inputs of the batch",
        "return the attention mask of the tokenizer, 0 at padding",
    )


@rule("checkpoint-family", "config", "features", "stored")
def checkpoint_family(subject: Subject) -> Iterator[Finding]:
    """Reports pairs of texts for a family without segment ids."""
    family = subject.config.model_type
    if family in BERT or "token_type_ids" in model_inputs(subject.config):
        return
    if len(subject.texts[0].columns) > 1:
        yield note(
            "model.name_or_path",
            f"{subject.checkpoint} is of the family {family}, which has no segment ids: the two texts are told apart "
            "only by the special tokens between them, as this family was pre-trained",
            "nothing to do; compare scores with those of the same family",
        )


@rule("new-pooler", "trainer", "stored")
def new_pooler(subject: Subject) -> Iterator[Finding]:
    """Reports a pooler that is initialized at random."""
    if any(".pooler." in f".{name}" for name in subject.new_weights):
        yield warning(
            "model.name_or_path",
            f"{subject.checkpoint} has no pooler, so the layer between [CLS] and the head is initialized at random",
            "train longer, or use a checkpoint pre-trained with sentence pairs, which has one",
        )


@rule("new-head", "trainer", "stored", "task")
def new_head(subject: Subject) -> Iterator[Finding]:
    """Reports that the trained head of a fine-tuned checkpoint is replaced by a new one."""
    head = subject.task.head.removeprefix("Bert")
    saved = (subject.stored.architectures or [""])[0]
    new = [name for name in subject.new_weights if "pooler" not in name]
    if not new or not saved.endswith(head):
        return
    before = [str(name) for name in subject.stored.id2label.values()]
    after = subject.task.config().get("id2label", {}).values()
    yield warning(
        "model.name_or_path",
        f"{subject.checkpoint} was fine-tuned with a head of this kind, for the labels {_few(before)}; the run has "
        f"the labels {_few([str(name) for name in after])}, so the head is initialized at random",
        "use the label names of the checkpoint to keep its head, or the checkpoint it was fine-tuned from",
    )


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
