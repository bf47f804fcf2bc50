"""Rules on the checkpoint and the hyper-parameters of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bertkit.features.checks.findings import Finding, error, note, rule, warning
from bertkit.features.checks.subject import Subject, checked
from bertkit.model.checkpoint.encoders import BERT, model_inputs
from bertkit.recipe.settings import HEAD, has_steps, most_epochs, usual_epochs
from bertkit.runtime.progress import counted
from bertkit.tasks.base import head_name
from bertkit.tasks.splits import ColumnsOf
from bertkit.training.schedule import TELLING

_FEW_WORDS = 200
_CASE_OF_SPANS = 0.3  # difference of the shares of capitalized words
_LOWER_CASED = 0.001  # share of capitalized words
# Largest number of parameters → lowest and highest learning rate of fine-tuning; 5e-5 is within all. Turc et al. 2019
# (arXiv:1908.08962) tune models up to BERT-small with 3e-5 … 3e-4; BERT §A.3 uses 2e-5 … 5e-5 for base and large, where
# large models diverge at higher rates (Mosbach et al. 2021, arXiv:2006.04884).
_RATES = ((50e6, 1e-5, 5e-4), (200e6, 1e-5, 1e-4), (float("inf"), 1e-5, 5e-5))
_FEW_STEPS = 100
_SMALL_SET = 10_000
_NEVER_WARM = ("constant", "reduce_lr_on_plateau", "greedy")  # schedules without a warm-up; they ignore warmup_steps
_MANY_PASSES = 40  # BERT §A.2: "approximately 40 epochs over the 3.3 billion word corpus"


@rule("casing", "tokenizer")
def casing(subject: Subject) -> Iterator[Finding]:
    """Compares the case of the text with that of the checkpoint's vocabulary."""
    words = {word: count for word, count in subject.words.items() if any(map(str.isalpha, word))}
    # Scripts without upper case say nothing.
    words = {word: count for word, count in words.items() if word.lower() != word or word.upper() != word}
    total = sum(words.values())
    if total < _FEW_WORDS:
        return
    tokenizer = subject.tokenizer
    both = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("ABE Abe", "abe abe")]
    if both[0] == both[1]:  # the tokenizer maps upper case to lower case
        yield from _find_lost_case(subject)
        return
    upper = sum(count for word, count in words.items() if word != word.lower())
    if upper <= _LOWER_CASED * total:
        yield warning(
            "data",
            f"{100 * (1 - upper / total):.1f} % of {total:,} words are lower case, and the vocabulary of "
            f"{subject.checkpoint or 'the tokenizer'} is cased: names and beginnings of sentences have unusual pieces",
            "use an uncased checkpoint, or text in its original case",
        )


def _find_lost_case(subject: Subject) -> Iterator[Finding]:
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
            counts = inside if number in labelled else outside
            counts[0] += word != word.lower()
            counts[1] += 1
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
        fault = f"a batch has {', '.join(batch)}, and no attention_mask"
    elif padding is not None and bool((mask[batch["input_ids"] == padding] != 0).any()):
        fault = "the attention_mask of a batch is 1 at padding tokens"
    else:
        return
    yield error(
        f"{subject.recipe.kind}.collate",
        f"{fault}: predictions depend on the length of the other inputs of the batch",
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
    """Reports a pooler that is initialized at random, and that no linear probe sets before the first step."""
    if subject.recipe.train.get(HEAD) != "probe" and any(".pooler." in f".{name}" for name in subject.new_weights):
        yield warning(
            "model.name_or_path",
            f"{subject.checkpoint} has no pooler, so the layer between [CLS] and the head is initialized at random",
            "train longer, or use a checkpoint pre-trained with sentence pairs, which has one",
        )


@rule("new-head", "trainer", "stored", "task")
def new_head(subject: Subject) -> Iterator[Finding]:
    """Reports that the trained head of a fine-tuned checkpoint is replaced by a new one."""
    head = head_name(subject.task).removeprefix("Bert")
    saved = (subject.stored.architectures or [""])[0]
    new = [name for name in subject.new_weights if "pooler" not in name]
    if not new or not saved.endswith(head):
        return
    before, after = _name_outputs(subject.stored.to_dict()), _name_outputs(subject.task.config())
    start, keep = "is initialized at random", "use"
    if subject.recipe.train.get(HEAD) == "probe":  # which replaces a head with the same label names too
        start, keep = "starts from a linear probe", "use --head random and"
    yield warning(
        "model.name_or_path",
        f"{subject.checkpoint} was fine-tuned with a head of this kind, for {before}; the run is for {after}, so the "
        f"head {start}",
        f"{keep} the label names of the checkpoint to keep its head, or the checkpoint it was fine-tuned from",
    )


def _name_outputs(config: Mapping[str, Any]) -> str:
    """Returns in words what a head predicts: a number, or the first labels."""
    if config.get("problem_type") == "regression":
        return "a number"
    names = [str(name) for name in config.get("id2label", {}).values()]
    return f"the labels {', '.join(names[:5])}" + (f" and {len(names) - 5} more" if len(names) > 5 else "")


@rule("learning-rate", "trainer", "task", "stored")
def learning_rate(subject: Subject) -> Iterator[Finding]:
    """Checks the learning rate of fine-tuning against the range for the size of the model."""
    parameters = list(subject.network.parameters())
    if not all(parameter.requires_grad for parameter in parameters):
        return  # the ranges are for fine-tuning of all weights
    size = sum(parameter.numel() for parameter in parameters)
    low, high = next((low, high) for limit, low, high in _RATES if size <= limit)
    rate = subject.arguments.learning_rate
    if not low <= rate <= high:
        yield warning(
            "train.learning_rate",
            f"{rate:g} is outside {low:g} to {high:g}, the usual range for a model of {size / 1e6:.1f} million "
            "parameters; BERT §A.3 uses 2e-5 to 5e-5",
            "set --learning-rate 5e-5, or a value in this range",
        )


@rule("epochs", "trainer")
def epochs(subject: Subject) -> Iterator[Finding]:
    """Checks the passes over the training data: more than four times the usual ones over a small set, more than 40 over
    a corpus.

    The usual ones are those that a run chooses, so that no schedule that is chosen, or proposed after a run, is warned
    of. A run that keeps its best epoch may have more over a small set: what it memorizes later is not kept.
    """
    passes = subject.passes
    if subject.task is not None:
        if subject.arguments.load_best_model_at_end:
            return
        examples, steps_of_epoch = len(subject.trainer.train_dataset), subject.steps_of_epoch
        if examples < _SMALL_SET and passes is not None and passes > most_epochs(steps_of_epoch):
            scored = len(subject.features.get("validation", ()))
            keep = ", or keep the best epoch with train.load_best_model_at_end and train.eval_strategy=epoch"
            usual = usual_epochs(steps_of_epoch)
            where, fewer = "train.num_train_epochs", f"--num-train-epochs {usual}"
            if has_steps(subject.recipe.train):
                where, fewer = "train.max_steps", f"--max-steps {usual * steps_of_epoch}"
            yield warning(
                where,
                f"{passes:.1f} epochs on {counted(examples, 'example', form=',')}, which a model memorizes; "
                f"{usual} are usual for so few, and {most_epochs(steps_of_epoch)} are many",
                f"set {fewer}{keep if scored >= TELLING else ''}",
            )
    elif passes is not None and passes > _MANY_PASSES:
        yield warning(
            "train.max_steps",
            f"{subject.total_steps:,} steps are {passes:,.0f} passes over the corpus of "
            f"{round(subject.corpora.facts['tokens'] / subject.share_of_corpus):,} tokens; BERT §A.2 makes about 40",
            f"set --max-steps {max(1, int(subject.total_steps * _MANY_PASSES / passes))}, or add text",
        )


@rule("few-steps", "trainer")
def few_steps(subject: Subject) -> Iterator[Finding]:
    """Checks that the run has at least 100 optimizer steps, unless its head starts from a linear probe."""
    steps = subject.total_steps
    if steps < _FEW_STEPS and subject.recipe.train.get(HEAD) != "probe":
        batch = subject.recipe.train["global_train_batch_size"]
        consequence = f"a new head is often undertrained below {_FEW_STEPS}"
        remedy = "set more --num-train-epochs or --max-steps, or a smaller --global-train-batch-size"
        if has_steps(subject.recipe.train):
            remedy = "set more --max-steps"
        if subject.task is None:
            consequence = f"fewer than {_FEW_STEPS} only try a pre-training out: BERT §A.2 takes 1,000,000"
        elif not has_steps(subject.recipe.train) and steps >= usual_epochs(epoch := subject.steps_of_epoch) * epoch:
            remedy = "add examples, or set a smaller --global-train-batch-size: the examples are seen often as it is"
        taken = f"{counted(steps, 'optimizer step')} of {counted(batch, 'sequence')}"
        yield warning("train", f"{taken}; {consequence}", remedy)


@rule("warmup", "trainer")
def warmup(subject: Subject) -> Iterator[Finding]:
    """Checks that the learning rate has a warm-up."""
    arguments = subject.arguments
    is_never_warm = arguments.lr_scheduler_type in _NEVER_WARM
    if not is_never_warm and arguments.get_warmup_steps(subject.total_steps) > 0:
        return
    share, part, reason = "0.1", "a tenth", ""
    if subject.task is None:
        share, part, reason = "0.01", "a hundredth", "; BERT §A.2 warms up for 10,000 of 1,000,000 steps"
    elif subject.new_weights and subject.recipe.train.get(HEAD) != "probe":
        reason = " while the new weights are random"
    where, schedule = "train.warmup_steps", ""
    if is_never_warm:
        where, schedule = "train.lr_scheduler_type", "train.lr_scheduler_type=constant_with_warmup and "
    yield warning(
        where,
        f"no warm-up: the first steps have the full learning rate{reason}",
        f"set {schedule}train.warmup_steps={share}, {part} of the steps",
    )
