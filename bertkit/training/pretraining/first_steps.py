"""First steps of a pre-training that change the rows of the vocabulary alone."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from bertkit.model.checkpoint.encoders import vocabulary_weights


class VocabularyFirst(TrainerCallback):
    """Callback that leaves all weights but the rows of the vocabulary as they are in the first steps.

    New rows, such as those of `bertkit.extend_tokenizer`, come into reach of the trained weights before these change.
    The gradients of the other weights are computed, and count in the norm that is clipped, but are dropped before the
    step, so that the graph of the computation is the same in all steps.

    Args:
        steps: number of these steps; 0 for none.
    """

    def __init__(self, steps: int):
        self.steps = steps

    def on_pre_optimizer_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: PreTrainedModel,
        **others: Any,
    ) -> None:
        """Drops the gradients of the other weights."""
        if state.global_step < self.steps:
            rows = {id(weight) for weight in vocabulary_weights(model)}  # FSDP makes other tensors of those of a model
            for weight in model.parameters():
                if id(weight) not in rows:
                    weight.grad = None
