"""Pre-training on text with masked LM and next sentence prediction (BERT §3.1, §A.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import PartialState
from transformers import PreTrainedConfig, TrainerCallback, set_seed

from bertkit.data.corpus.examples.dataset import collate
from bertkit.data.corpus.sources import Source
from bertkit.data.corpus.store.opening import open_store
from bertkit.data.corpus.vocabulary.structure import Vocabulary
from bertkit.metrics.pretraining import PAIRS, TOKENS, reduce_logits, score, score_names
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.placement.processes import first_on_machine
from bertkit.runtime.placement.resolve import check_processes
from bertkit.runtime.progress import METRIC_NAMES, Bar, counted, say
from bertkit.runtime.reading.hub import cache_folder
from bertkit.tasks.pretraining import DataSettings, PretrainingCorpus, curve_facts, load_corpus
from bertkit.training.arguments import check_callbacks, schedule_in_steps, training_arguments
from bertkit.training.cpu import cpu_speed_ups
from bertkit.training.evaluation import check_evaluations
from bertkit.training.initialization import Initialization, set_attention
from bertkit.training.pretraining.encoders import reaches_all_weights
from bertkit.training.pretraining.examples import HeldOut, PretrainingText, RunExamples, eval_batch_size, plan_examples
from bertkit.training.pretraining.first_steps import VocabularyFirst
from bertkit.training.pretraining.initialization import pretraining_model, pretraining_start
from bertkit.training.pretraining.objective import PretrainingObjective, ReportedObjective
from bertkit.training.pretraining.recipe import checked_recipe, pretraining_recipe
from bertkit.training.runs.directory import writes_run
from bertkit.training.runs.record import Run, RunRecord
from bertkit.training.runs.training import (
    RunSetup,
    begin,
    computing,
    finish,
    save_and_score,
    set_up,
    train,
    trainer_class,
)
from bertkit.training.trainer import BertkitTrainer

# Metrics that the command prints at the end, as (key, name); a run has those of its pair objective.
SHOWN = [
    (f"eval_{name}", f"held-out {METRIC_NAMES[name]}")
    for name in dict.fromkeys(name for names in (*TOKENS.values(), *PAIRS.values()) for name in names)
]


@writes_run
def pretrain(
    recipe: str | Path | Mapping[str, Any] | Recipe | None = None,
    *,
    output_dir: str | Path,
    corpus: str | Path | Sequence[str | Path] | None = None,
    model: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    push_to_hub: str | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    card_note: str = "",
) -> Run:
    """Pre-trains a BERT or another encoder on text and writes a run directory.

    Args:
        recipe: a name (``bert-mini``, ``roberta-small``), a YAML file, a mapping of the blocks, or a recipe; the
            default is ``pretrain/bert-base``, with ``model`` ``pretrain/continue``.
        output_dir: the run directory; new or empty unless ``resume``.
        corpus: text files, folders, patterns and Hub ids, or one token store of `build_corpus`, a folder or a URL;
            overrides the recipe's ``data.corpus``.
        model: checkpoint to continue from with its own tokenizer, a folder or a Hub id, of any encoder with a masked-LM
            head; overrides the recipe's ``model.name_or_path``. Without either, the weights are new.
        overrides: recipe values by dotted key.
        resume: continue the run in ``output_dir`` from its last checkpoint. A resumed run computes the same as an
            uninterrupted one: pairs and masks are functions of (seed, epoch, index) only.
        push_to_hub: Hub repository to push the finished run to, as `bertkit.push` does, with the recipe's ``hub``
            block; the run is saved locally first.
        callbacks: callbacks of transformers' Trainer to call during training, as instances; with several processes each
            process calls its own.
        card_note: a sentence for the top of the model card.

    Returns:
        The run, with its directory and all results.

    Raises:
        HubError: the upload failed; the run is complete, and the message has the command to retry.
        SystemExit: a signal came; the last line says how to continue.
        BertkitError: the arguments, recipe or data are invalid; nothing is written to ``output_dir``, unless the fault
            shows only during the training.

    Examples:
        ```python
        run = bertkit.pretrain("small-bert.yaml", corpus=["texts/"], output_dir="pretrained")  # or "pretrain/bert-mini"
        run.metrics["eval_masked_lm_loss"]
        ```
    """
    check_callbacks(callbacks)
    prepared = prepare_pretraining(
        pretraining_recipe(recipe, corpus, model, overrides),
        output_dir,
        resume=resume,
        push_to_hub=push_to_hub,
        callbacks=callbacks,
    )
    setup, record, trainer, start = prepared.setup, prepared.record, prepared.trainer, prepared.start
    with trainer.speed_ups.applied(trainer.model):
        command = "bertkit pretrain --recipe recipe.yaml --output-dir NEW"
        checkpoint = begin(setup, record, trainer, start.tokenizer, command)
        with computing(setup, trainer):
            metrics = train(trainer, checkpoint)
        results, facts = save_and_score(setup, trainer, metrics, checkpoint)
    return finish(setup, record, trainer, facts, results, start=start, note=card_note)


@dataclass(frozen=True)
class PreparedPretraining:
    """A run that is ready for its first step, with nothing written but the cache."""

    setup: RunSetup
    record: RunRecord
    trainer: BertkitTrainer
    start: Initialization
    sources: list[Source]
    corpora: PretrainingCorpus
    examples: RunExamples


def prepare_pretraining(
    recipe: Recipe,
    output_dir: str | Path,
    *,
    resume: bool = False,
    push_to_hub: str | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    scratch: Path | None = None,
    cache_dir: Path | None = None,
    sample: Callable[[list[Source]], tuple[list[Source], float]] | None = None,
) -> PreparedPretraining:
    """Prepares a run: checks all arguments, tokenizes the text unless it is cached, and builds the model.

    Args:
        recipe: a pre-training recipe.
        output_dir, resume, push_to_hub, scratch: as for `set_up`.
        callbacks: as for `pretrain`.
        cache_dir: cache folder; by default `cache_folder`.
        sample: returns sources to read instead of those of the corpus, and their share of it, for a run that is only
            checked.

    Raises:
        BertkitError: the arguments, recipe or data are invalid.
    """
    check_processes(recipe.placement)
    recipe = checked_recipe(recipe)
    pairs = recipe.task.pair_objective
    fixed: dict[str, Any] = {
        "train_sampling_strategy": "sequential",  # the data set has the order of the run; see PretrainingExamples
        "label_names": ["labels"] if pairs == "none" else list(PretrainingObjective.label_columns),
        "remove_unused_columns": False,
    }
    setup = set_up(recipe, output_dir, resume=resume, push_to_hub=push_to_hub, scratch=scratch, **fixed)
    # Resumed at another length, a run could return to a finished phase.
    changes = setup.directory.check_recipe(recipe)
    steps = [each for each in changes if each.startswith(("train.max_steps", "train.num_train_epochs"))]
    if steps and len(recipe.data.lengths()) > 1:
        raise RecipeError(
            f"--resume: {'; '.join(steps)}, which moves the boundary between the phases of this run; give the same "
            "steps, or continue from its checkpoint in another folder: bertkit pretrain --model"
        )
    text = _text(recipe, setup, cache_dir or cache_folder(), sample)
    examples = plan_examples(recipe, text)
    _print_data(text, examples)
    trainer = _trainer(recipe, setup, text, examples, callbacks, fixed)

    start, teacher = text.start, text.teacher
    data: dict[str, Any] = {"corpus": {"files": recipe.data.corpus, **text.corpora.facts}}
    if teacher is not None:
        data = {"teacher": {"source": teacher.name, "fingerprint": teacher.digest}, **data}
    curves = curve_facts(text.corpora, start.config.vocab_size, examples.phases, pairs, start.token_objective)
    record = RunRecord(recipe, setup.placement, data=data, curves=curves, started=setup.started)
    return PreparedPretraining(setup, record, trainer, start, text.sources, text.corpora, examples)


def _trainer(
    recipe: Recipe,
    setup: RunSetup,
    text: PretrainingText,
    examples: RunExamples,
    callbacks: Sequence[TrainerCallback],
    fixed: Mapping[str, Any],
) -> BertkitTrainer:
    """Returns the trainer of the run's model; ``fixed``: ``TrainingArguments`` that do not depend on the data."""
    start, placement, pairs = text.start, setup.placement, recipe.task.pair_objective
    set_seed(recipe.train["seed"])
    network = pretraining_model(start)
    objective: Any = PretrainingObjective()
    if text.teacher is not None:
        from bertkit.training.distillation.pretraining import TaughtPretraining

        objective = TaughtPretraining(text.teacher, network)
    reaches_all = PartialState().num_processes == 1 or reaches_all_weights(network)
    of_data = _fitted(recipe, examples, start.config)
    arguments = training_arguments(
        recipe, placement, setup.folder_of_trainer, reaches_all_weights=reaches_all, **fixed, **of_data
    )
    check_evaluations(callbacks, arguments)
    set_attention(network, recipe, placement)
    vocabulary_first = VocabularyFirst(recipe.train.get("vocabulary_steps") or 0)
    held_out = HeldOut(examples.phases, examples.evaluation) if examples.evaluation else None
    logits = max(part.data.predictions_per_seq for part in examples.train.parts) * start.config.vocab_size
    return trainer_class(placement)(
        what="pretrain",
        model=network,
        args=arguments,
        objective=ReportedObjective(objective, score_names(pairs, start.token_objective), logits),
        evaluation=PretrainingObjective(),
        scores_the_loss=True,
        precision=placement.autocast_dtype,
        speed_ups=cpu_speed_ups(placement, compiles=arguments.torch_compile, is_padded=True),
        train_dataset=examples.train,
        eval_dataset=held_out,
        preprocess_logits_for_metrics=reduce_logits,
        scores=lambda _, outputs: score(np.asarray(outputs), pairs, start.token_objective),
        logs_often=recipe.train["logging_steps"] is None,
        drop_last=bool(recipe.train.get("dataloader_drop_last")),
        data_collator=collate,
        processing_class=start.tokenizer,
        callbacks=[vocabulary_first, *([] if held_out is None else [held_out]), *callbacks],
    )


def _text(
    recipe: Recipe,
    setup: RunSetup,
    cache_dir: Path,
    sample: Callable[[list[Source]], tuple[list[Source], float]] | None,
) -> PretrainingText:
    """Reads the corpus, loads or trains the tokenizer, and tokenizes the text unless it is cached."""
    data: DataSettings = recipe.data
    directory = setup.directory
    with first_on_machine(), Bar("tokenizing", "B") as progress:
        store = open_store(data.corpus[0], cache_dir) if data.is_stored() else None
        sources, share = ([] if store else data.sources()), 1.0
        if sample is not None:
            sources, share = sample(sources)
        start = pretraining_start(recipe, sources, cache_dir, directory.path if directory.is_resumed else None, store)
        teacher = None
        if recipe.has_teacher:
            from bertkit.training.distillation.pretraining import pretrained_teacher

            teacher = pretrained_teacher(recipe, start, setup.placement)
            set_attention(teacher.model, recipe, setup.placement)
        corpora = load_corpus(
            data,
            start.tokenizer,
            recipe.train["seed"],
            cache_dir,
            sources=sources,
            store=store,
            pair_objective=recipe.task.pair_objective,
            num_workers=setup.placement.preprocessing_num_workers,
            progress=progress,
        )
    vocabulary = Vocabulary.of(start.tokenizer)
    if data.whole_word_mask and not vocabulary.marks_continuations:
        say(
            "warning: --whole-word-mask: this tokenizer marks no pieces that continue words, such as ##ing, so every "
            "piece counts as a word"
        )
    return PretrainingText(sources, share, start, teacher, corpora, vocabulary)


def _fitted(recipe: Recipe, examples: RunExamples, config: PreTrainedConfig) -> dict[str, Any]:
    """Returns the Trainer arguments that depend on the data."""
    steps: dict[str, Any] = {"max_steps": examples.steps}
    if (schedule := recipe.train.get("lr_scheduler_kwargs")) is not None:
        steps["lr_scheduler_kwargs"] = schedule_in_steps(schedule, examples.steps)
    if not examples.evaluation:
        return {**steps, "eval_strategy": "no"}
    predictions = max(each.data.predictions_per_seq for each in examples.evaluation)
    wanted = recipe.placement.per_device_eval_batch_size
    return {**steps, "per_device_eval_batch_size": eval_batch_size(wanted, predictions, config.vocab_size)}


def _print_data(text: PretrainingText, examples: RunExamples) -> None:
    config = text.start.config
    say(f"corpus: {text.corpora}")
    layers = counted(config.num_hidden_layers, "layer")
    say(f"model: {layers}, hidden size {config.hidden_size}, {config.vocab_size} pieces")
    for number, (phase, part) in enumerate(zip(examples.phases, examples.train.parts, strict=True)):
        evaluated = f", {len(examples.evaluation[number])} held-out" if examples.evaluation else ""
        inputs = counted(part.examples_per_epoch, "input")
        say(f"steps: {phase.steps} of {phase.max_seq_length} tokens; {inputs} in the first epoch{evaluated}")
