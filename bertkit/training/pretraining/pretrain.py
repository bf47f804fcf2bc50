"""Pre-training on text with masked LM and next sentence prediction (BERT §3.1, §A.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from accelerate import PartialState
from transformers import PreTrainedConfig, TrainerCallback, set_seed

from bertkit.checkpoint.encoders import BERT, head_class
from bertkit.corpus.building.stores import open_store
from bertkit.corpus.examples.dataset import PhasedExamples, PretrainingExamples, collate
from bertkit.corpus.examples.phases import EPOCHS_OF_A_PHASE, Phase, plan_phases
from bertkit.corpus.settings import PretrainingData, Vocabulary
from bertkit.corpus.sources import Source
from bertkit.errors import RecipeError
from bertkit.metrics.pretraining import PAIRS, TOKENS, score_names
from bertkit.placement.collective import first_on_machine
from bertkit.placement.resolve import check_processes
from bertkit.progress import METRIC_NAMES, Bar, counted, say
from bertkit.recipe.distillation import distillation_settings
from bertkit.recipe.load import Recipe
from bertkit.sharing.card_facts import CardFacts
from bertkit.tasks.pretraining import DataSettings, PretrainingCorpus, curve_facts, load_corpus
from bertkit.training.arguments import schedule_in_steps
from bertkit.training.callbacks import check_callbacks, check_early_stopping
from bertkit.training.card import about_checkpoint, about_teacher, base_model
from bertkit.training.cpu import cpu_speed_ups
from bertkit.training.placements import trainer_class
from bertkit.training.pretraining.distillation import DistilledPretrainingTrainer
from bertkit.training.pretraining.encoders import reaches_all_weights
from bertkit.training.pretraining.initialization import StartingPoint, starting_point
from bertkit.training.pretraining.recipe import checked_recipe, pretraining_recipe
from bertkit.training.pretraining.teacher import pretraining_teacher
from bertkit.training.pretraining.trainer import PretrainingTrainer, eval_batch_size
from bertkit.training.recovery.run_scope import writes_run
from bertkit.training.run import RunInProgress
from bertkit.training.run_directory import Run, RunRecord

# Metrics that the command prints at the end, as (key, name); a run has those of its pair objective.
SHOWN = [
    (f"eval_{name}", f"held-out {METRIC_NAMES[name]}")
    for name in dict.fromkeys(name for names in (*TOKENS.values(), *PAIRS.values()) for name in names)
]
_LABELS = ("labels", "next_sentence_label")
_TOKEN_TASKS = {"masked_lm": "masked LM", "next_token": "prediction of the next token (left to right)"}
_PAIR_TASKS = {"nsp": " and next sentence prediction", "sop": " and sentence order prediction", "none": ""}


@writes_run
def pretrain(
    recipe: str | Path | Mapping[str, Any] | Recipe | None = None,
    *,
    output_dir: str | Path,
    corpus: Sequence[str | Path] | None = None,
    model: str | None = None,
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
            uninterrupted one: pairs and masks are functions of (seed, step) only.
        push_to_hub: Hub repository to push the finished run to, as `bertkit.push` does, with the recipe's ``hub``
            block; the run is saved locally first.
        callbacks: callbacks of transformers' Trainer to call during training, as instances; with several processes each
            process calls its own.
        card_note: a sentence for the top of the model card.

    Returns:
        The run, with its directory and all results.

    Raises:
        HubError: the upload failed; the run is complete, and the message has the command to retry.
        BertkitError: the arguments, recipe or data are invalid; then nothing has been written to ``output_dir``.
    """
    check_callbacks(callbacks)
    prepared = prepare_pretraining(
        pretraining_recipe(recipe, corpus, model, overrides),
        output_dir,
        resume=resume,
        push_to_hub=push_to_hub,
        callbacks=callbacks,
    )
    run, trainer, start = prepared.run, prepared.trainer, prepared.start
    command = "bertkit pretrain --recipe recipe.yaml --output-dir NEW"
    metrics = run.train(trainer, start.tokenizer, command, prepared.logits_per_sequence)
    return run.finish(trainer, _card(run.recipe, run.record, metrics, start, card_note))


@dataclass(frozen=True)
class PreparedPretraining:
    """A run that is ready for its first step, with nothing written but the cache.

    Attributes:
        run: the run.
        trainer: trainer with the model, the examples and the collator.
        start: tokenizer, configuration and head.
        sources: sources of the corpus.
        corpora: the tokenized text.
        logits_per_sequence: number of logits of the masked LM head per sequence.
    """

    run: RunInProgress
    trainer: PretrainingTrainer
    start: StartingPoint
    sources: list[Source]
    corpora: PretrainingCorpus
    logits_per_sequence: int


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
        output_dir, resume, push_to_hub, scratch: as for `RunInProgress`.
        callbacks: as for `pretrain`.
        cache_dir: cache folder; by default `cache_folder`.
        sample: returns sources to read instead of those of the corpus, and their share of it, for a run that is only
            checked.

    Raises:
        BertkitError: as for `pretrain`.
    """
    cache_dir = cache_dir or cache_folder()
    check_processes(recipe.placement)
    recipe = checked_recipe(recipe)
    data: DataSettings = recipe.data
    pair_objective, seed = recipe.task.pair_objective, recipe.train["seed"]
    run = RunInProgress(
        recipe,
        output_dir,
        resume,
        push_to_hub,
        scratch,
        train_sampling_strategy="sequential",  # the data set has the order of the run; see PretrainingExamples
        label_names=["labels"] if pair_objective == "none" else ["labels", "next_sentence_label"],
        remove_unused_columns=False,
    )
    _check_phases_resumed(run, data)
    run.check_arguments()
    with first_on_machine(), Bar("tokenizing", "B") as progress:
        store = open_store(data.corpus[0], cache_dir) if data.is_stored() else None
        sources, share = ([] if store else data.sources()), 1.0
        if sample is not None:
            sources, share = sample(sources)
        start = starting_point(recipe, sources, cache_dir, run.output_dir if resume else None, store)
        teacher = pretraining_teacher(recipe, start, run.placement)
        corpora = load_corpus(
            data,
            start.tokenizer,
            seed,
            cache_dir,
            sources=sources,
            store=store,
            pair_objective=pair_objective,
            num_workers=run.placement.preprocessing_num_workers,
            progress=progress,
        )
    vocabulary = Vocabulary.of(start.tokenizer)
    if data.whole_word_mask and not vocabulary.marks_continuations:
        say(
            "warning: --whole-word-mask: this tokenizer marks no pieces that continue words, such as ##ing, so every "
            "piece counts as a word"
        )
    examples = _example_settings(recipe, start)
    phases = plan_phases(data.lengths(), _steps(recipe, corpora, vocabulary, examples, share))
    train_set, eval_sets = _examples(recipe, corpora, vocabulary, phases, examples)
    _print_data(corpora, train_set, eval_sets, start.config, phases)

    set_seed(seed)
    network = start.model()
    core: type[PretrainingTrainer] = PretrainingTrainer
    taught: dict[str, Any] = {}
    if teacher is not None:
        run.set_attention(teacher.model)
        run.record.data["teacher"] = {"source": teacher.name, "fingerprint": teacher.digest}
        core, taught = DistilledPretrainingTrainer, {"teacher": teacher}
    reaches_all = start.config.model_type in BERT or PartialState().num_processes == 1 or reaches_all_weights(network)
    fitted = _fitted(recipe, phases, eval_sets, start.config)
    arguments = run.training_arguments(reaches_all_weights=reaches_all, **fitted)
    check_early_stopping(callbacks, arguments)
    run.set_attention(network)
    run.record.data["corpus"] = {"files": data.corpus, **corpora.facts}
    run.record.curves = curve_facts(corpora, start.config.vocab_size, phases, pair_objective, start.token_objective)
    trainer = trainer_class(core, run.placement)(
        what="pretrain",
        model=network,
        args=arguments,
        train_dataset=train_set,
        eval_sets=eval_sets,
        phases=phases,
        pair_objective=pair_objective,
        token_objective=start.token_objective,
        data_collator=collate,
        processing_class=start.tokenizer,
        callbacks=[*callbacks],
        speed_ups=cpu_speed_ups(run.placement, compiles=arguments.torch_compile),
        label_columns=_LABELS,
        **taught,
    )
    predictions = max(part.data.predictions_per_seq for part in train_set.parts)
    logits = predictions * start.config.vocab_size
    return PreparedPretraining(run, trainer, start, sources, corpora, logits)


def _check_phases_resumed(run: RunInProgress, data: DataSettings) -> None:
    """Rejects a resumed run that moves the boundaries of phases, since it could return to a finished phase."""
    steps = [change for change in run.changed if change.startswith(("train.max_steps", "train.num_train_epochs"))]
    if steps and len(data.lengths()) > 1:
        raise RecipeError(
            f"--resume: {'; '.join(steps)}, which moves the boundary between the phases of this run; give the same "
            "steps, or continue from its checkpoint in another folder: bertkit pretrain --model"
        )


def cache_folder() -> Path:
    """Returns the cache folder of tokenizers and tokenized corpora: ``bertkit`` in the Hugging Face home
    (``HF_HOME``)."""
    from huggingface_hub.constants import HF_HOME

    return Path(HF_HOME) / "bertkit"


def _example_settings(recipe: Recipe, start: StartingPoint) -> Callable[[int], PretrainingData]:
    """Returns a function that gives the settings of the examples of a sequence length."""
    data: DataSettings = recipe.data
    return partial(
        data.examples,
        seed=recipe.train["seed"],
        pair_objective=recipe.task.pair_objective,
        token_objective=start.token_objective,
    )


def _steps(
    recipe: Recipe,
    corpora: PretrainingCorpus,
    vocabulary: Vocabulary,
    examples: Callable[[int], PretrainingData],
    share_of_corpus: float,
) -> int:
    """Returns the optimizer steps of the run: given by the recipe, or computed from its epochs, all of the first one's
    size.

    An epoch is a pass over the text. With several phases each has its fraction of the steps, with its own number of
    examples per pass.
    """
    steps: int = recipe.train.get("max_steps", -1)
    if steps >= 1:
        return steps
    data: DataSettings = recipe.data
    passes_an_example = 0.0
    for length, share in data.lengths():
        first_epoch = PretrainingExamples(corpora.train, vocabulary, examples(length), None, fixed_epoch=0)
        passes_an_example += share / len(first_epoch)
    number = recipe.train.get("num_train_epochs", 1.0) / passes_an_example / share_of_corpus
    return max(1, round(number / recipe.train["global_train_batch_size"]))


def _examples(
    recipe: Recipe,
    corpora: PretrainingCorpus,
    vocabulary: Vocabulary,
    phases: Sequence[Phase],
    examples: Callable[[int], PretrainingData],
) -> tuple[PhasedExamples, list[PretrainingExamples]]:
    """Returns the training examples, and the evaluation examples of each phase if documents are held out."""
    data: DataSettings = recipe.data
    train_sets, eval_sets = [], []
    for phase in phases:
        settings = examples(phase.max_seq_length)
        train_sets.append(
            PretrainingExamples(
                corpora.train,
                vocabulary,
                settings,
                phase.steps * recipe.train["global_train_batch_size"],
                first_epoch=phase.number * EPOCHS_OF_A_PHASE,
            )
        )
        if corpora.validation is not None:
            eval_sets.append(
                PretrainingExamples(corpora.validation, vocabulary, settings, data.max_eval_samples, fixed_epoch=0)
            )
    return PhasedExamples(train_sets), eval_sets


def _fitted(
    recipe: Recipe, phases: Sequence[Phase], eval_sets: Sequence[PretrainingExamples], config: PreTrainedConfig
) -> dict[str, Any]:
    """Returns the Trainer arguments that depend on the data."""
    number = sum(phase.steps for phase in phases)
    steps: dict[str, Any] = {"max_steps": number}
    if (schedule := recipe.train.get("lr_scheduler_kwargs")) is not None:
        steps["lr_scheduler_kwargs"] = schedule_in_steps(schedule, number)
    if not eval_sets:
        return {**steps, "eval_strategy": "no"}
    predictions = max(each.data.predictions_per_seq for each in eval_sets)
    wanted = recipe.placement.per_device_eval_batch_size
    return {**steps, "per_device_eval_batch_size": eval_batch_size(wanted, predictions, config.vocab_size)}


def _print_data(
    corpora: PretrainingCorpus,
    train_set: PhasedExamples,
    eval_sets: Sequence[PretrainingExamples],
    config: PreTrainedConfig,
    phases: Sequence[Phase],
) -> None:
    say(f"corpus: {corpora}")
    layers = counted(config.num_hidden_layers, "layer")
    say(f"model: {layers}, hidden size {config.hidden_size}, {config.vocab_size} pieces")
    for number, (phase, part) in enumerate(zip(phases, train_set.parts, strict=True)):
        evaluated = f", {len(eval_sets[number])} held-out" if eval_sets else ""
        say(
            f"steps: {phase.steps} of {phase.max_seq_length} tokens; {part.examples_per_epoch} inputs in the first "
            f"epoch{evaluated}"
        )


def _card(recipe: Recipe, record: RunRecord, metrics: dict[str, float], start: StartingPoint, note: str) -> CardFacts:
    corpus = record.data["corpus"]
    pair_objective = recipe.task.pair_objective
    objectives = _TOKEN_TASKS[start.token_objective] + _PAIR_TASKS[pair_objective]
    names = [f"eval_{name}" for name in score_names(pair_objective, start.token_objective)]
    source = recipe.model.get("name_or_path")
    origin = "from scratch" if source is None else f"further from {about_checkpoint(recipe)}"
    if start.layers is not None:
        origin += ","
    settings = distillation_settings(recipe.train)
    fills_masks = start.token_objective == "masked_lm"
    about = about_teacher(recipe)
    if settings is not None and settings.weight == 1:
        objectives = "the outputs of a teacher alone"
        if settings.objective == "minilm":
            fills_masks = False
            about = [*about, "Its masked-LM head was not trained in this run."]
    family = start.config.model_type
    encoder = "BERT" if family in BERT else family
    size, held_out = "a stream of documents", counted(corpus["held_out_documents"], "document")
    if not corpus["streamed"]:
        whole = [counted(corpus[f"{noun}s"], noun) for noun in ("sentence", "token")]
        size = f"{counted(corpus['train_documents'], 'document')} of a corpus of {' and '.join(whole)}"
    return CardFacts(
        title=f"{encoder} pre-trained with bertkit",
        head=head_class(start.head, start.config, encoder).__name__,
        auto_class=start.head.replace("BertFor", "AutoModelFor"),
        pipeline_tag="fill-mask" if fills_masks else "feature-extraction",
        task=" ".join([f"{encoder}, pre-trained {origin} by {objectives}.", *about]),
        data={"train": size, "validation": f"{held_out} of the same corpus, held out"},
        metrics=metrics,
        main_metrics=tuple(name for name in names if name in metrics),
        recipe=recipe.to_dict(),
        seed=recipe.train["seed"],
        base_model=base_model(recipe),
        training_sets=tuple(corpus["revisions"]),  # the sources of the Hub
        family=family,
        mask_token=str(start.tokenizer.mask_token),
        note=note,
    )
