"""`bertkit.check`: prepares a run as the run itself does, applies the rules, and estimates what the run needs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertkit.data.corpus.sources import Source
from bertkit.features.checks.findings import INSTALL, Finding, Report, error, extra, in_order, note, rules
from bertkit.features.checks.fix import CheckedTable, check_tables
from bertkit.features.checks.fix import fix as write_fixed
from bertkit.features.checks.plan import estimate_memory, evaluated_batches, micro_batches, plan
from bertkit.features.checks.sampling import Sample, sample
from bertkit.features.checks.subject import Subject
from bertkit.features.checks.trial import make_trial
from bertkit.model.checkpoint.load import load_config, load_tokenizer
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import (
    BertkitError,
    CheckpointError,
    DataError,
    HubError,
    OtherProcessError,
    OutputError,
    PlacementError,
    RecipeError,
    TrainingError,
    entries_of,
    listed,
    without_place,
)
from bertkit.runtime.files import is_temporary, readable_size
from bertkit.runtime.placement.processes import is_main_process
from bertkit.runtime.placement.resolve import ProcessesNeeded
from bertkit.runtime.progress import say, without_repetitions
from bertkit.runtime.reading.hub import cache_folder
from bertkit.tasks.arguments import with_settings
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.folds import load_splits
from bertkit.tasks.registry import load_recipe, task_of_recipe
from bertkit.tasks.splits import FineTuningData
from bertkit.training.pretraining.recipe import pretraining_recipe
from bertkit.training.runs.directory import check_place, check_same_data
from bertkit.training.runs.finetune import prepare_finetuning
from bertkit.training.runs.pretrain import prepare_pretraining
from bertkit.training.runs.resolve import finetuning_recipe

PROCESSES = "processes"
# Code and place of the errors with which a run would end before its first step.
ERRORS: dict[type[BertkitError], tuple[str, str]] = {
    RecipeError: ("recipe", "recipe"),
    DataError: ("data", "data"),
    CheckpointError: ("checkpoint", "model"),
    PlacementError: ("placement", "placement"),
    OutputError: ("output-dir", "--output-dir"),
    HubError: ("hub", "--push-to-hub"),
    TrainingError: ("training", "train"),
    OtherProcessError: (PROCESSES, "placement"),
}


def check(
    recipe: str | Path | Mapping[str, Any] | Recipe | None = None,
    *,
    output_dir: str | Path | None = None,
    corpus: str | Path | Sequence[str | Path] | None = None,
    model: str | None = None,
    data_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    push_to_hub: str | None = None,
    labels: bool = False,
    strict: bool = False,
    fix: str | Path | None = None,
    **settings: Any,
) -> Report:
    """Checks a run of `bertkit.finetune` or `bertkit.pretrain` before it starts.

    The run is prepared by its own code: data are read and encoded, the model is loaded, and some batches are trained on
    and evaluated, the longest among them. No weight is trained for later use, and without ``fix`` nothing is written
    but temporary files, which are removed. (As by a run, Hub data sets and checkpoints are downloaded to the cache of
    the Hub, and tables that are objects, such as a DataFrame, are kept in that of bertkit.) Of a corpus of more than
    8 MiB a sample is read, unless the run is resumed, streams it or has ``max_train_samples``: see
    `bertkit.features.checks.sampling`.

    Args:
        recipe: as for `finetune` and `pretrain`; ``None`` is the default of `pretrain`.
        output_dir: the run directory; ``None`` does not check it.
        corpus: as for `pretrain`.
        model, overrides, resume, push_to_hub: as for `finetune` and `pretrain`.
        data_dir: as for `finetune`.
        labels: also look for wrong labels, which takes longer and needs the extra ``checks``.
        strict: report warnings as errors.
        fix: a new CSV file for the training table without empty and repeated rows, with one name for each label; labels
            in doubt are in ``NAME.suspects.csv`` beside it. See `bertkit.features.checks.fix.fix`.
        settings: as for `finetune`.

    Returns:
        The findings and the plan of the run. What a run would refuse is an error among the findings.

    Raises:
        RecipeError: ``labels`` is set for a pre-training, or cleanlab is not installed; or ``resume`` without
            ``output_dir``.
        BertkitError: ``fix`` is refused, see `bertkit.features.checks.fix.fix`.

    Examples:
        ```python
        found = bertkit.check("finetune/classification", train_file="reviews.csv", model="my-bert", output_dir="run")
        for finding in found.findings:
            print(finding.level, finding.code, finding.message)
        ```
    """
    if labels and extra("cleanlab") is None:
        raise RecipeError(f"--check-labels: the package cleanlab is not installed, or cannot be imported; {INSTALL}")
    if resume and output_dir is None:
        raise RecipeError("check: resume needs output_dir")
    try:
        if settings:
            overrides = with_settings(recipe or "pretrain/bert-base", overrides, settings)
        resolved: Recipe
        if recipe is None or corpus or not isinstance(load_recipe(recipe, overrides).data, FineTuningData):
            # A pre-training has no such key, and its recipe says so.
            folder = {} if data_dir is None else {"data.data_dir": str(data_dir)}
            resolved = pretraining_recipe(recipe, corpus, model, {**(overrides or {}), **folder})
        else:
            resolved = finetuning_recipe(recipe, model, data_dir, overrides)
    except BertkitError as refused:
        return Report((finding_of(refused),))
    has_labels = isinstance(resolved.data, FineTuningData)
    if labels and not has_labels:
        raise RecipeError("--check-labels: a pre-training has no labels; remove it")
    with tempfile.TemporaryDirectory(prefix="bertkit-check-") as scratch, without_repetitions():
        if fix is not None and is_main_process():
            write_fixed(resolved, Path(fix), labels)
        findings: list[Finding] = []
        subject = _prepare(resolved, output_dir, resume, push_to_hub, Path(scratch), findings)
        subject.check_labels = labels or None
        if subject.trainer is None and has_labels:
            tables = check_tables(resolved)
            findings = _add_faults_of_rows(findings, tables, fix)
            # Without the rows that have faults, so that one report has the findings on the others too.
            sound = {name: table.sound for name, table in tables.items() if table.sound is not None}
            task = task_of_recipe(resolved) if "train" in sound and subject.splits is None else None
            if isinstance(task, ClassificationTask):
                with suppress(DataError):  # of the table as a whole, and among the findings already
                    subject.task, subject.splits = task.load_tables(sound, ("train", "validation"))
        for rule in rules():
            findings += rule.findings(subject)
        numbers = {}
        if subject.trainer is not None:
            findings += _measure(subject)
            numbers = plan(subject)
    report = Report(in_order(findings), numbers)
    return report.strict() if strict else report


def finding_of(refused: BertkitError) -> Finding:
    """Returns the finding on an error with which a run would end before its first step."""
    code, where = next(names for kind, names in ERRORS.items() if isinstance(refused, kind))
    return replace(
        error(where, str(refused), "correct what the message names: the run would stop with this error"), code=code
    )


def _prepare(
    recipe: Recipe,
    output_dir: str | Path | None,
    resume: bool,
    push_to_hub: str | None,
    scratch: Path,
    findings: list[Finding],
) -> Subject:
    """Prepares the run; what it refuses is added to ``findings``, and the rest is prepared nevertheless if possible."""
    folder = None if output_dir is None else Path(output_dir)
    place, hub = folder or scratch / "run", push_to_hub
    num_processes = 1
    while True:
        try:
            if folder is not None:
                check_place(folder)
            arguments = {"resume": resume, "push_to_hub": hub, "scratch": scratch / "trainer"}
            if isinstance(recipe.data, FineTuningData):
                data, subject = _prepare_finetuning(recipe, place, arguments)
            else:
                data, subject = _prepare_pretraining(recipe, place, arguments, scratch)
            if resume and folder is not None:
                check_same_data(folder, data)
            return replace(subject, output_dir=folder, num_processes=num_processes)
        except ProcessesNeeded as needed:
            of_one_process = note(
                "placement",
                f"the run has {needed.num_processes} processes, and this check has one: the memory is that of one "
                "process with the whole batch, and the time is not estimated",
                "start the run: it prints the remaining time after its first steps",
            )
            num_processes = needed.num_processes
            findings.append(replace(of_one_process, code=PROCESSES))
            single = replace(recipe.placement, num_processes=1, strategy="auto")
            recipe = replace(recipe, placement=single)
        except BertkitError as refused:
            if (finding := finding_of(refused)) not in findings:
                findings.append(finding)
            if isinstance(refused, OutputError) and folder is not None:
                place, resume, folder = scratch / "run", False, None
            elif isinstance(refused, HubError) and hub is not None:
                hub = None
            else:
                return _prepare_parts(recipe, findings)


def _prepare_finetuning(recipe: Recipe, place: Path, arguments: dict[str, Any]) -> tuple[Mapping[str, Any], Subject]:
    """Returns the record of the data, and the subject."""
    ready = prepare_finetuning(recipe, place, **arguments)
    source = recipe.model.get("name_or_path")
    run = ready.run
    return ready.record.data, Subject(
        recipe=run.recipe,
        tokenizer=run.start.tokenizer,
        config=ready.trainer.model.config,
        stored=None if source is None else load_config(str(source), any_encoder=True),
        placement=run.setup.placement,
        arguments=ready.trainer.args,
        trainer=ready.trainer,
        new_weights=ready.new_weights,
        task=run.task,
        splits=run.splits,
        features=ready.features,
        truncation=ready.record.truncation,
        models=1 if ready.folds is None else ready.folds.number + 1,
    )


def _prepare_pretraining(
    recipe: Recipe, place: Path, arguments: dict[str, Any], scratch: Path
) -> tuple[Mapping[str, Any], Subject]:
    """Returns the record of the data, and the subject: a large corpus is read in parts."""
    sampled: list[Sample] = []

    def sample_of(sources: list[Source]) -> tuple[list[Source], float]:
        # A run that is resumed has tokenized its corpus, and streams are read as far as their first block.
        is_whole = arguments["resume"] or recipe.data.streaming or recipe.data.max_train_samples
        parts = None if is_whole else sample(sources)
        if parts is None:
            return sources, 1.0
        sampled.append(parts)
        say(f"a sample of {readable_size(parts.read_bytes)} of the corpus of {readable_size(parts.total_bytes)}:")
        return parts.sources, parts.share

    # A cache of its own, which has links to the entries of the real one, so that they are not made again.
    cache, known = scratch / "cache", cache_folder()
    cache.mkdir(exist_ok=True)
    for entry in known.iterdir() if known.is_dir() else ():
        if entry.is_dir() and not is_temporary(entry.name):
            with suppress(OSError):  # a file system without links
                (cache / entry.name).symlink_to(entry.absolute())
    begun = prepare_pretraining(recipe, place, **arguments, cache_dir=cache, sample=sample_of)
    checkpoint = begun.start.checkpoint
    return begun.record.data, Subject(
        recipe=begun.record.recipe,
        tokenizer=begun.start.tokenizer,
        config=begun.start.config,
        stored=None if checkpoint is None else load_config(checkpoint, any_encoder=True),
        placement=begun.setup.placement,
        arguments=begun.trainer.args,
        trainer=begun.trainer,
        sources=begun.sources,
        corpora=begun.corpora,
        examples=begun.examples,
        sample=sampled[0] if sampled else None,
    )


def _prepare_parts(recipe: Recipe, findings: list[Finding]) -> Subject:
    """Prepares the data and the tokenizer of a fine-tuning that cannot be prepared as a whole; adds their errors.

    Of a pre-training nothing is prepared.
    """
    known = {finding.message for finding in findings}
    subject = Subject(recipe=recipe)
    if not isinstance(recipe.data, FineTuningData):
        return subject
    source = recipe.model.get("name_or_path")

    def data() -> None:
        subject.task, subject.splits = load_splits(task_of_recipe(recipe))

    def tokenizer() -> None:
        if source is not None:
            subject.config = load_config(str(source), any_encoder=True)
            subject.tokenizer = load_tokenizer(str(source), config=subject.config)

    for part in (data, tokenizer):
        try:
            part()
        except BertkitError as refused:
            if str(refused) not in known:
                findings.append(finding_of(refused))
    return subject


def _add_faults_of_rows(
    findings: Sequence[Finding], tables: Mapping[str, CheckedTable], fix: str | Path | None
) -> list[Finding]:
    """Adds the faults of rows that other faults hide, and names ``--fix`` where it leaves rows of a finding out."""
    faults = [fault for table in tables.values() for fault in table.faults]
    left_out = {fault.message for fault in faults if fault.is_left_out}
    words = set(map(without_place, left_out))
    # Of equal faults only the first places are said.
    said = {without_place(entry) for finding in findings for entry in entries_of([finding.message])}
    hidden = [fault.message for fault in faults if without_place(fault.message) not in said]
    kinds = [each for each in hidden if each in left_out], [each for each in hidden if each not in left_out]
    added = [finding_of(DataError(listed(kind, at_most=10))) for kind in kinds if kind]
    other = "write a table without such: --fix OUT.csv" if fix is None else f"go on with {fix}, which has none such"
    remedy = f"correct these rows, or {other}"
    return [
        replace(each, remedy=remedy) if words.intersection(map(without_place, entries_of([each.message]))) else each
        for each in (*findings, *added)
    ]


def _measure(subject: Subject) -> Iterator[Finding]:
    """Measures some batches, unless the longest does not fit in memory; an error of the run is a finding."""
    need = estimate_memory(subject)
    if need.needed > need.available:
        return
    say("measuring steps and evaluations, with the longest batch and with shorter ones")
    try:
        subject.trial = make_trial(
            subject.trainer, subject.placement, micro_batches(subject), evaluated_batches(subject)
        )
    except BertkitError as refused:
        yield finding_of(refused)
