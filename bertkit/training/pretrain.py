"""Pre-training: masked LM and next sentence prediction from plain text (BERT §3.1, §A.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from transformers import IntervalStrategy, PreTrainedTokenizerFast, set_seed

from bertkit.checkpoint import check_positions, load_tokenizer
from bertkit.corpus.documents import TextLines, find_text_files
from bertkit.corpus.examples import PretrainingExamples, collate
from bertkit.corpus.sentences import split_sentences
from bertkit.corpus.settings import Vocabulary
from bertkit.corpus.tokenizer import train_tokenizer
from bertkit.errors import RecipeError
from bertkit.model.configuration_bert import BertConfig
from bertkit.model.modeling_bert import BertForPreTraining
from bertkit.progress import METRIC_NAMES, Bar, say
from bertkit.recipe import Recipe, load_recipe
from bertkit.sharing.model_card import CardFacts
from bertkit.tasks import pretraining
from bertkit.training.run import RunInProgress
from bertkit.training.run_directory import Run, RunRecord, absolute
from bertkit.training.trainer import BertkitTrainer, use_attention

# The results that matter, of all: the loss and the accuracy of either objective on held-out documents.
SCORES = ("masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy")
# What the command prints at the end: key and name.
SHOWN = [(f"eval_{name}", f"held-out {METRIC_NAMES[name]}") for name in SCORES]


def pretrain(
    recipe: str | Path | Mapping[str, Any] | Recipe = "pretrain/bert-base",
    *,
    output_dir: str | Path,
    corpus: Sequence[str | Path] | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    splitter: Callable[[str], list[str]] = split_sentences,
    card_note: str = "",
) -> Run:
    """Pre-trains a BERT on text and leaves a run directory.

    Args:
        recipe: a name (``bert-mini``), a file, the blocks as a mapping, or a recipe.
        output_dir: the run directory; new or empty unless ``resume``.
        corpus: text files and folders; wins over the recipe's ``data.corpus``.
        overrides: recipe values by dotted key.
        resume: continue the run in ``output_dir`` from its last checkpoint. What a resumed run computes is what it
            would have computed without the interruption: pairs and masks are functions of (seed, step) alone.
        splitter: paragraph → sentences.
        card_note: a sentence for the top of the model card.

    Returns:
        The run: its directory and all its results.

    Raises:
        BertkitError: anything wrong with what was given; then nothing has been written to ``output_dir``.
    """
    chosen = {"data.corpus": [absolute(path) for path in corpus]} if corpus else {}
    recipe = load_recipe(recipe, {**(overrides or {}), **chosen})
    data = _checked_data(recipe)
    batch_size, seed = recipe.train["global_train_batch_size"], recipe.train["seed"]
    run = RunInProgress(
        recipe,
        output_dir,
        resume,
        train_sampling_strategy="sequential",  # the set is the run in its order; see PretrainingExamples
        label_names=["labels", "next_sentence_label"],
        remove_unused_columns=False,
    )

    positions = recipe.model.get("max_position_embeddings", BertConfig().max_position_embeddings)
    with PartialState().local_main_process_first(), Bar("tokenizing", "B") as progress:
        tokenizer = _tokenizer(data, positions, run.output_dir if resume else None)
        config = _config(recipe, tokenizer)
        corpora = pretraining.load_corpus(data, tokenizer, seed, cache_folder(), splitter, progress)
    settings = data.examples(seed)
    vocabulary = Vocabulary.of(tokenizer)
    steps = recipe.train.get("max_steps", -1)
    if steps < 1:
        steps = _steps_of_epochs(
            recipe, len(PretrainingExamples(corpora.train, vocabulary, settings, None, fixed_epoch=0))
        )
    train_set = PretrainingExamples(corpora.train, vocabulary, settings, steps * batch_size)
    eval_set = None
    if corpora.validation is not None:
        eval_set = PretrainingExamples(corpora.validation, vocabulary, settings, data.max_eval_samples, fixed_epoch=0)
    run.arguments.max_steps = steps
    if eval_set is None:
        run.arguments.eval_strategy = IntervalStrategy.NO
    _announce(corpora, train_set.examples_per_epoch, eval_set, config, steps)

    set_seed(seed)
    model = BertForPreTraining(config)
    use_attention(model, recipe.placement.attn_implementation)
    run.record.data["corpus"] = {
        "files": data.corpus,
        "fingerprint": corpora.store.fingerprint,
        "documents": corpora.store.num_documents,
        "held_out_documents": corpora.validation.num_documents if corpora.validation else 0,
        "sentences": corpora.store.num_sentences,
        "tokens": corpora.store.num_tokens,
    }
    trainer = PretrainingTrainer(
        what="pretrain",
        model=model,
        args=run.arguments,
        train_dataset=train_set,
        eval_dataset=eval_set,
        data_collator=collate,
        processing_class=tokenizer,
        preprocess_logits_for_metrics=pretraining.reduce_logits,
        compute_metrics=lambda outcome: pretraining.score(np.asarray(outcome.predictions)),
    )
    metrics = run.train(trainer, tokenizer, "bertkit pretrain --recipe recipe.yaml --output-dir NEW")
    return run.finish(trainer, _card(recipe, run.record, metrics, card_note))


class PretrainingTrainer(BertkitTrainer):
    """Reports the losses and accuracies of MLM and NSP apart, while their sum is trained."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._sums: torch.Tensor | None = None  # (6,) float32 on the device: no host sync in a step
        self._summed_from = 0

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        if model.training:
            self._add(outputs, inputs)
        return (loss, outputs) if return_outputs else loss

    @torch.no_grad()
    def _add(self, outputs: Any, inputs: dict[str, torch.Tensor]) -> None:
        masked = inputs["labels"] != -100
        right = (outputs.prediction_logits.argmax(dim=-1) == inputs["labels"]) & masked
        next_right = outputs.seq_relationship_logits.argmax(dim=-1) == inputs["next_sentence_label"]
        values = [
            outputs.masked_lm_loss,  # this micro-batch's part of the mean over the global batch
            outputs.next_sentence_loss,
            right.sum(),
            next_right.sum(),
            masked.sum(),
            torch.tensor(next_right.numel(), device=right.device),
        ]
        sums = torch.stack([value.float() for value in values])
        if self._sums is None:
            self._sums, self._summed_from = sums, self.state.global_step
        else:
            self._sums += sums

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs and self._sums is not None:
            gathered = self.accelerator.gather(self._sums[None]).sum(dim=0).tolist()
            steps = self.state.global_step - self._summed_from
            mlm_loss, nsp_loss, mlm_right, nsp_right, masked, pairs = gathered
            values = (mlm_loss / steps, mlm_right / max(masked, 1), nsp_loss / steps, nsp_right / max(pairs, 1))
            logs |= dict(zip(SCORES, values, strict=True))
            self._sums = None
        super().log(logs, start_time)


def cache_folder() -> Path:
    """Where tokenized corpora are kept: ``bertkit`` in the Hugging Face home (``HF_HOME``)."""
    from huggingface_hub.constants import HF_HOME

    return Path(HF_HOME) / "bertkit"


def _checked_data(recipe: Recipe) -> pretraining.DataSettings:
    """The ``data`` block of a pre-training recipe, with a corpus and one way to a tokenizer."""
    data = recipe.data
    if not isinstance(data, pretraining.DataSettings):
        raise RecipeError(f"recipe {recipe.name}: task.kind is {recipe.kind!r}; pre-training needs 'pretraining'")
    if not data.corpus:
        raise RecipeError(f"recipe {recipe.name}: no text to train on; give --corpus or data.corpus")
    if (data.tokenizer is None) == (data.vocab_size is None):
        raise RecipeError("give either --tokenizer (a folder or a Hub id) or --vocab-size (to train one on the corpus)")
    for key in ("train_sampling_strategy", "label_names"):
        if key in recipe.train:
            raise RecipeError(f"train.{key}: pre-training decides that itself; leave it out")
    if data.cased and data.tokenizer is not None:
        raise RecipeError("--cased goes with --vocab-size; the casing of --tokenizer is its own")
    return data


def _tokenizer(data: pretraining.DataSettings, positions: int, resumed: Path | None) -> PreTrainedTokenizerFast:
    """The tokenizer to use: given, trained now for a model of so many ``positions``, or trained when the run began."""
    if data.tokenizer is not None:
        return load_tokenizer(data.tokenizer, for_pretraining=True)
    if resumed is not None and (resumed / "tokenizer.json").is_file():
        return load_tokenizer(resumed, for_pretraining=True)
    assert data.vocab_size is not None
    say(f"training a tokenizer of {data.vocab_size} pieces")
    lines = TextLines(find_text_files(data.corpus))
    return train_tokenizer(lines, data.vocab_size, lowercase=not data.cased, model_max_length=positions)


def _config(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> BertConfig:
    """The new model's configuration; the vocabulary is the tokenizer's, or larger where the recipe says so."""
    if "name_or_path" in recipe.model:
        raise RecipeError("model.name_or_path: pre-training starts from new weights; leave it out")
    try:
        config = BertConfig(**{"vocab_size": len(tokenizer), **recipe.model, "pad_token_id": tokenizer.pad_token_id})
    except ValueError as error:
        raise RecipeError(f"recipe {recipe.name}: model: {error.__cause__ or error}") from error
    if config.vocab_size < len(tokenizer):
        raise RecipeError(f"model.vocab_size: {config.vocab_size}, but the tokenizer has {len(tokenizer)} pieces")
    if recipe.model.get("pad_token_id", config.pad_token_id) != config.pad_token_id:
        raise RecipeError(f"model.pad_token_id: it is the tokenizer's, {config.pad_token_id}; leave it out")
    check_positions(recipe.data.max_seq_length, config, "the model")
    return config


def _steps_of_epochs(recipe: Recipe, examples_per_epoch: int) -> int:
    """Optimizer steps of the recipe's epochs, all of the size of the first."""
    epochs = recipe.train.get("num_train_epochs", 1.0)
    return max(1, round(epochs * examples_per_epoch / recipe.train["global_train_batch_size"]))


def _announce(
    corpora: pretraining.PretrainingCorpus,
    first_epoch: int,
    eval_set: PretrainingExamples | None,
    config: BertConfig,
    steps: int,
) -> None:
    store = corpora.store
    say(f"corpus: {store.num_documents} documents, {store.num_sentences} sentences, {store.num_tokens} tokens")
    held_out = (
        f"{corpora.validation.num_documents} documents held out, {len(eval_set)} pairs"
        if corpora.validation and eval_set
        else "none held out: there are too few documents, or data.validation_fraction is 0"
    )
    say(f"pairs: {first_epoch} in the first epoch; evaluation: {held_out}")
    say(f"model: {config.num_hidden_layers} layers, {config.hidden_size} wide, {config.vocab_size} pieces")
    say(f"steps: {steps}")


def _card(recipe: Recipe, record: RunRecord, metrics: dict[str, float], note: str) -> CardFacts:
    corpus = record.data["corpus"]
    return CardFacts(
        title="BERT pre-trained with bertkit",
        head="BertForPreTraining",
        auto_class="AutoModelForPreTraining",
        pipeline_tag="fill-mask",
        task="BERT, pre-trained from scratch by masked LM and next sentence prediction.",
        data={
            "train": f"{corpus['documents'] - corpus['held_out_documents']} documents of plain text",
            "validation": f"{corpus['held_out_documents']} documents of the same corpus, held out",
        },
        metrics=metrics,
        main_metrics=tuple(key for key, _ in SHOWN if key in metrics),
        recipe=recipe.to_dict(),
        seed=recipe.train["seed"],
        note=note,
    )
