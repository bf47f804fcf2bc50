"""Fine-tuning: a pre-trained BERT, one new head, all weights trained for some epochs (BERT §4, §A.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from transformers import DataCollatorWithPadding, EvalPrediction, PreTrainedTokenizerBase, set_seed

from bertkit.checkpoint import check_positions, load_config, load_model, load_tokenizer
from bertkit.errors import RecipeError
from bertkit.progress import say
from bertkit.recipe import Recipe, load_recipe
from bertkit.sharing.model_card import CardFacts, without_paths
from bertkit.tasks.base import FineTuningData, Split, Task, task_of_recipe
from bertkit.training.run import RunInProgress
from bertkit.training.run_directory import Run, RunRecord, absolute
from bertkit.training.trainer import BertkitTrainer, use_attention


def finetune(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    *,
    output_dir: str | Path,
    model: str | None = None,
    data_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    card_note: str = "",
) -> Run:
    """Fine-tunes BERT for the recipe's task, evaluates it, predicts the test set and leaves a run directory.

    Args:
        recipe: a name (``finetune/glue/sst2``), a file, the blocks as a mapping, or a recipe.
        output_dir: the run directory; new or empty unless ``resume``.
        model: checkpoint to start from, a folder or a Hub id; wins over the recipe's ``model.name_or_path``.
        data_dir: folder with the data; wins over the recipe's ``data.data_dir``.
        overrides: recipe values by dotted key.
        resume: continue the run in ``output_dir`` from its last checkpoint.
        card_note: a sentence for the top of the model card.

    Returns:
        The run: its directory and all its results.

    Raises:
        BertkitError: anything wrong with what was given; then nothing has been written.
    """
    given = {"model.name_or_path": model, "data.data_dir": data_dir}
    chosen = {key: absolute(value) for key, value in given.items() if value is not None}
    recipe = load_recipe(recipe, {**(overrides or {}), **chosen})
    if not isinstance(recipe.data, FineTuningData):
        raise RecipeError(f"recipe {recipe.name}: task.kind is {recipe.kind!r}; `bertkit pretrain` runs that")
    task = task_of_recipe(recipe)
    run = RunInProgress(recipe, output_dir, resume, **_best_by(task, recipe))
    changes = {key: value for key, value in recipe.model.items() if key != "name_or_path"}
    source = recipe.model.get("name_or_path")
    if source is None:
        raise RecipeError(f"recipe {recipe.name}: no checkpoint to start from; give --model or model.name_or_path")
    config = load_config(source, {**task.config(), **changes, "bertkit_task": task.describe()})
    check_positions(recipe.data.max_seq_length, config, source)
    tokenizer = load_tokenizer(source)
    splits = task.load()
    say(f"{task.name}: {', '.join(f'{len(split.examples)} {name}' for name, split in splits.items())} examples")
    features = _encode(task, splits, tokenizer, run.record)

    set_seed(recipe.train["seed"])
    network, _ = load_model(task.head, source, config, new_head=True)
    use_attention(network, recipe.placement.attn_implementation)
    trainer = BertkitTrainer(
        what=task.name,
        model=network,
        args=run.arguments,
        train_dataset=features["train"],
        eval_dataset=features["validation"],
        data_collator=_Collator(tokenizer, task),
        processing_class=tokenizer,
        compute_metrics=lambda outcome: _score(task, outcome),
    )
    metrics = run.train(trainer, tokenizer, f"bertkit finetune {task.kind} --recipe recipe.yaml --output-dir NEW")
    if "test" in features:
        prediction = trainer.predict(features["test"], metric_key_prefix="predict")
        run.write("predict", prediction.metrics)
        if run.is_main_process:
            path = task.write_test_predictions(splits["test"].examples, prediction.predictions, run.output_dir)
            say(f"test predictions: {path}")
    return run.finish(trainer, _card(task, splits, recipe, metrics, run.record, card_note))


def _best_by(task: Task, recipe: Recipe) -> dict[str, Any]:
    """By what ``load_best_model_at_end`` chooses, unless the recipe says: the task's metric, not the loss."""
    if "metric_for_best_model" in recipe.train or not recipe.train.get("load_best_model_at_end"):
        return {}
    return {"metric_for_best_model": task.main_metric, "greater_is_better": True}


def _encode(
    task: Task, splits: dict[str, Split], tokenizer: PreTrainedTokenizerBase, record: RunRecord
) -> dict[str, Any]:
    """Model inputs of every split; what was cut is told and recorded."""
    features = {}
    for name, split in splits.items():
        features[name], cut = task.encode_split(split, tokenizer)
        record.data[name] = {"source": split.source, "examples": len(split.examples), "fingerprint": split.fingerprint}
        record.truncation[name] = cut
        if cut.examples:
            say(f"{name}: {cut}; a larger --max-seq-length cuts less and takes longer")
    return features


class _Collator:
    """Pads a batch to its longest input; columns that the model does not take are left out."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, task: Task):
        self.pad = DataCollatorWithPadding(tokenizer)
        self.columns = {*task.model_inputs, "labels"}

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        return dict(self.pad([{key: row[key] for key in self.columns & row.keys()} for row in rows]))


def _score(task: Task, outcome: EvalPrediction) -> dict[str, float]:
    return task.score(np.asarray(outcome.predictions), np.asarray(outcome.label_ids))


def _card(
    task: Task,
    splits: dict[str, Split],
    recipe: Recipe,
    metrics: dict[str, float],
    record: RunRecord,
    note: str,
) -> CardFacts:
    source = str(recipe.model["name_or_path"])
    return CardFacts(
        title=f"BERT fine-tuned on {task.name}",
        head=task.head,
        auto_class=task.head.replace("BertFor", "AutoModelFor"),
        pipeline_tag=task.pipeline_tag,
        task=f"BERT, fine-tuned for {task.name} with bertkit, starting from `{without_paths(source)}`.",
        data={name: f"{without_paths(split.source)}, {len(split.examples)} examples" for name, split in splits.items()},
        metrics=metrics,
        main_metrics=(f"eval_{task.main_metric}",),
        recipe=recipe.to_dict(),
        seed=recipe.train["seed"],
        truncation={name: str(cut) for name, cut in record.truncation.items()},
        base_model=None if Path(source).exists() else source,
        dataset=task.dataset,
        note=note,
    )
