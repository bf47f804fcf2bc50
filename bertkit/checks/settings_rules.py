"""Rules on the hyper-parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bertkit.checks.findings import Finding, warning
from bertkit.checks.registry import rule
from bertkit.checks.subject import Subject
from bertkit.progress import counted

# Largest number of parameters → lowest and highest learning rate of fine-tuning. Turc et al. 2019 (arXiv:1908.08962)
# tune models up to BERT-small with 3e-5 … 3e-4; BERT §A.3 uses 2e-5 … 5e-5 for base and large, where large models
# diverge at higher rates (Mosbach et al. 2021, arXiv:2006.04884).
_RATES = ((50e6, 1e-5, 5e-4), (200e6, 1e-5, 1e-4), (float("inf"), 1e-5, 5e-5))
_FEW_STEPS = 100
_SMALL_SET, _MANY_EPOCHS = 10_000, 5
_MANY_PASSES = 40  # BERT §A.2: "approximately 40 epochs over the 3.3 billion word corpus"


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
            f"set --learning-rate {'5e-5' if low <= 5e-5 <= high else f'{high:g}'}, or a value in this range",
        )


@rule("epochs", "trainer")
def epochs(subject: Subject) -> Iterator[Finding]:
    """Checks the passes over the training data: more than 5 over a small set, more than 40 over a corpus."""
    if subject.task is not None:
        examples = len(subject.trainer.train_dataset)
        steps_of_epoch = math.ceil(examples / subject.recipe.train["global_train_batch_size"])
        passes = subject.total_steps / max(steps_of_epoch, 1)
        if examples < _SMALL_SET and passes > _MANY_EPOCHS:
            yield warning(
                "train.num_train_epochs",
                f"{passes:.1f} epochs on {counted(examples, 'example', form=',')}, which a model memorizes; BERT §A.3 "
                "uses 2 to 4",
                "set --num-train-epochs 3, or keep the best epoch with train.load_best_model_at_end and "
                "train.eval_strategy=epoch",
            )
    elif subject.corpora is not None and not subject.corpora.facts["streamed"]:
        share = subject.share_of_corpus
        inputs = [part.examples_per_epoch / share for part in subject.trainer.train_dataset.parts]
        steps = [phase.steps for phase in subject.trainer.phases]
        batch = subject.recipe.train["global_train_batch_size"]
        passes = sum(number * batch / max(of_epoch, 1) for number, of_epoch in zip(steps, inputs, strict=True))
        if passes > _MANY_PASSES:
            yield warning(
                "train.max_steps",
                f"{subject.total_steps:,} steps are {passes:,.0f} passes over the corpus of "
                f"{round(subject.corpora.facts['tokens'] / share):,} tokens; BERT §A.2 makes about 40",
                f"set --max-steps {max(1, int(subject.total_steps * _MANY_PASSES / passes))}, or add text",
            )


@rule("few-steps", "trainer")
def few_steps(subject: Subject) -> Iterator[Finding]:
    """Checks that the run has at least 100 optimizer steps."""
    steps = subject.total_steps
    if steps < _FEW_STEPS:
        batch = subject.recipe.train["global_train_batch_size"]
        consequence = f"a new head is often undertrained below {_FEW_STEPS}"
        if subject.task is None:
            consequence = f"fewer than {_FEW_STEPS} only try a pre-training out: BERT §A.2 takes 1,000,000"
        yield warning(
            "train",
            f"{steps} optimizer steps of {batch} sequences; {consequence}",
            "set more --num-train-epochs or --max-steps, or a smaller --global-train-batch-size",
        )


@rule("warmup", "trainer")
def warmup(subject: Subject) -> Iterator[Finding]:
    """Checks that the learning rate has a warm-up."""
    if subject.arguments.get_warmup_steps(subject.total_steps) == 0:
        share, part = "0.1", "a tenth"
        consequence = (
            "the first steps change the pre-trained weights at the full learning rate while the new weights are random"
        )
        if subject.task is None:
            share, part = "0.01", "a hundredth"
            consequence = (
                "the first steps have the full learning rate; BERT §A.2 warms up for 10,000 of 1,000,000 steps"
            )
        yield warning(
            "train.warmup_steps", f"no warm-up: {consequence}", f"set train.warmup_steps={share}, {part} of the steps"
        )
