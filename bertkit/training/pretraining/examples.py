"""The examples of a pre-training: the text, the phases of the run, and the inputs of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch.utils.data import Dataset
from transformers import TrainerCallback, TrainerControl, TrainerState

from bertkit.data.corpus.examples.dataset import PhasedExamples, PretrainingExamples
from bertkit.data.corpus.settings import EPOCHS_OF_A_PHASE, Phase, plan_phases
from bertkit.data.corpus.sources import Source
from bertkit.data.corpus.vocabulary.structure import Vocabulary
from bertkit.recipe.load import Recipe
from bertkit.tasks.pretraining import DataSettings, PretrainingCorpus
from bertkit.training.initialization import Initialization

# An evaluation batch holds B × P × V logits: 2²⁵ of them are 128 MiB in float32.
_LOGITS_AT_ONCE = 1 << 25


@dataclass(frozen=True)
class PretrainingText:
    """The tokenized text of a run, and what reads it: the start of the model, and its teacher.

    Attributes:
        sources: sources of the corpus; empty for a token store.
        share: share of the corpus that they are; 1 but for a run that is only checked.
        start: tokenizer, configuration and head.
        teacher: the teacher, None without one.
        corpora: the tokens.
        vocabulary: ids of the tokenizer.
    """

    sources: list[Source]
    share: float
    start: Initialization
    teacher: Any | None
    corpora: PretrainingCorpus
    vocabulary: Vocabulary


@dataclass(frozen=True)
class RunExamples:
    """The examples of a run.

    Attributes:
        phases: phases of the run.
        train: training examples.
        evaluation: held-out examples of each phase; empty if no documents are held out.
    """

    phases: Sequence[Phase]
    train: PhasedExamples
    evaluation: list[PretrainingExamples]

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.steps for phase in self.phases)


class HeldOut(Dataset[Any], TrainerCallback):
    """Data set of the held-out examples of the phase in which a training is; as a callback it follows its steps.

    Args:
        phases: phases of the run.
        examples: the held-out examples of each.
    """

    def __init__(self, phases: Sequence[Phase], examples: Sequence[PretrainingExamples]):
        self._phases, self._of_phases = phases, examples
        self._examples = examples[-1]

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> Any:
        return self._examples[index]

    def __getitems__(self, indices: Sequence[int]) -> Any:
        """Returns several examples, as `PretrainingExamples`."""
        return self._examples.__getitems__(indices)

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.on_step_end(args, state, control)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        begun = [phase.first_step <= max(state.global_step - 1, 0) for phase in self._phases]
        self._examples = self._of_phases[sum(begun) - 1]


def plan_examples(recipe: Recipe, text: PretrainingText) -> RunExamples:
    """Returns the examples of a run, from its text and its recipe.

    The recipe gives the optimizer steps or epochs, which are passes over the text. With several phases each has its
    fraction of the steps, with its own number of examples per pass.
    """
    data: DataSettings = recipe.data
    settings_of = partial(
        data.examples,
        seed=recipe.train["seed"],
        pair_objective=recipe.task.pair_objective,
        token_objective=text.start.token_objective,
    )
    corpora, vocabulary = text.corpora, text.vocabulary
    steps: int = recipe.train.get("max_steps", -1)
    if steps < 1:  # those of the epochs, all of which count as the first one
        passes_an_example = 0.0
        for length, share in data.lengths():
            first_epoch = PretrainingExamples(corpora.train, vocabulary, settings_of(length), None, fixed_epoch=0)
            passes_an_example += share / len(first_epoch)
        number = recipe.train.get("num_train_epochs", 1.0) / passes_an_example / text.share
        steps = max(1, round(number / recipe.train["global_train_batch_size"]))
    phases = plan_phases(data.lengths(), steps)
    train_sets, eval_sets = [], []
    for phase in phases:
        settings = settings_of(phase.max_seq_length)
        size, epoch = phase.steps * recipe.train["global_train_batch_size"], phase.number * EPOCHS_OF_A_PHASE
        train_sets.append(PretrainingExamples(corpora.train, vocabulary, settings, size, first_epoch=epoch))
        if corpora.validation is not None:
            eval_sets.append(
                PretrainingExamples(corpora.validation, vocabulary, settings, data.max_eval_samples, fixed_epoch=0)
            )
    return RunExamples(phases, PhasedExamples(train_sets), eval_sets)


def eval_batch_size(largest: int, predictions_per_seq: int, vocab_size: int) -> int:
    """Returns the inputs of an evaluation batch, at most ``largest``, limited so that their logits fit in 128 MiB.

    >>> eval_batch_size(64, 20, 8000), eval_batch_size(64, 77, 30522)
    (64, 14)
    """
    return max(1, min(largest, _LOGITS_AT_ONCE // (predictions_per_seq * vocab_size)))
