"""The result of `bertkit.load`: a checkpoint that predicts for its task, fills masks and returns vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from bertkit.data.tables.columns import the_text_column
from bertkit.data.tables.labels import texts as texts_of_column
from bertkit.data.tables.objects import kind_of_table, list_of_texts, table_of, with_columns, with_words
from bertkit.inference.embedding import Embedder, TokenEmbeddings, load_encoder, rows_of_vectors
from bertkit.inference.fill_mask import MaskFiller, MaskPrediction, check_fills
from bertkit.inference.forward import asks_to_join, join_sequences
from bertkit.inference.inputs import refuse_columns
from bertkit.inference.options import EmbedOptions, Pooling, PredictOptions
from bertkit.inference.predictor import Predictor, build_predictor, load_task
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer
from bertkit.model.checkpoint.remote import at_revision
from bertkit.runtime.errors import PlacementError
from bertkit.runtime.options import several
from bertkit.runtime.pages.summary import Summarized, Summary
from bertkit.runtime.placement.inference import Precision, inference_device, inference_dtype
from bertkit.runtime.progress import quietly, without_library_bars
from bertkit.tasks.checkpoints import has_task

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load(
    checkpoint: str | Path,
    *,
    device: Literal["auto", "cpu"] = "auto",
    batch_size: int = 64,
    precision: Precision = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    **data: Any,
) -> LoadedCheckpoint:
    """Loads a checkpoint for use: of bertkit or stock, fine-tuned or not, of BERT or of another encoder.

    Args:
        checkpoint: a run directory, a folder or a Hub id.
        device: ``auto`` or ``cpu``.
        batch_size: inputs per batch; does not change any result.
        precision: ``auto`` is float32 on CPUs and fp16 on GPUs.
        revision: branch, tag or commit of a Hub id; ``None`` for ``main``.
        trust_remote_code: run the code that the checkpoint brings; the revision is printed on stderr.
        data: values of the task's ``data`` block, such as ``data_dir``; only for a fine-tuned checkpoint.

    Raises:
        CheckpointError: it cannot be loaded, or there are values of ``data`` and it was not fine-tuned.
        PlacementError: the device, the precision or the size of batches is impossible.
        RecipeError: the task has no such value of ``data``, or it is impossible.

    Examples:
        ```python
        bert = bertkit.load("my-reviews")
        bert.predict("a lovely film")[0]["label"]
        bert.embed(["a good film", "an awful plot"]).shape  # 2, hidden size
        ```
    """
    if batch_size < 1:
        raise PlacementError(f"batch_size {batch_size}: expected at least 1")
    data = {key: str(value) if isinstance(value, Path) else value for key, value in data.items()}
    loaded = LoadedCheckpoint(at_revision(checkpoint, revision, trust_remote_code), device, batch_size, data, precision)
    if loaded.is_fine_tuned or data:
        loaded.predictor  # noqa: B018 - reports faults of the checkpoint now
    else:
        inference_dtype(precision, inference_device(device))  # reports an impossible one now
    return loaded


def load_embedder(checkpoint: str, precision: Precision) -> Embedder:
    """Returns what computes the vectors of a checkpoint; unlike `load` it does not load the model of its task."""
    return LoadedCheckpoint(checkpoint, "auto", 64, {}, precision).embedder


class LoadedCheckpoint(Summarized):
    """A checkpoint for inference, built by `load`; the weights of each head are loaded when first needed.

    Those that predict are loaded by `load`, if it was fine-tuned.
    """

    def __init__(
        self,
        name: str,
        device: Literal["auto", "cpu"],
        batch_size: int,
        data: dict[str, Any],
        precision: Precision = "auto",
    ):
        self.name = name
        self.batch_size = batch_size
        self.device_setting: Literal["auto", "cpu"] = device
        self._precision: Precision = precision
        self._data = data
        self._config = load_config(name, any_encoder=True)

    def summary(self) -> Summary:
        """Returns what is printed, and shown in notebooks; loads no weights."""
        facts: dict[str, object] = {"family": self._config.model_type, "head": self.architecture or "none"}
        if self.is_fine_tuned:
            with quietly():  # what is assumed of a stock checkpoint was said when it was loaded
                task, _ = load_task(self.name, self._data)
            facts |= {"task": task.name, "labels": ", ".join(getattr(task.settings, "label_names", ()))}
        sizes = {name: getattr(self._config, name, None) for name in ("num_hidden_layers", "hidden_size", "vocab_size")}
        known = [(name, value) for name, value in {**facts, **sizes}.items() if value not in (None, "")]
        return Summary(f"Checkpoint {self.name}", known)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.summary().values)
        return f"{type(self).__name__}({self.name!r}, {facts})"

    @property
    def is_fine_tuned(self) -> bool:
        """Returns whether the checkpoint records the task it was fine-tuned for, or has a head that tells it."""
        return has_task(self._config)

    @property
    def architecture(self) -> str:
        """Name of the model class that the checkpoint was saved with; empty if it does not say."""
        return next(iter(self._config.architectures or ()), "")

    @cached_property
    def predictor(self) -> Predictor:
        """The checkpoint with its task.

        Raises:
            CheckpointError: it was not fine-tuned, or cannot be loaded.
        """
        task, config = load_task(self.name, self._data)
        return build_predictor(self.name, task, config, self.device_setting, self.batch_size, self._precision)

    def __getattr__(self, name: str) -> Any:
        """Forwards other names of a fine-tuned checkpoint to its predictor: ``task``, ``model``, ``tokenizer``, …"""
        if hasattr(type(self), name):  # a property whose own work has raised an AttributeError: raises it again
            return object.__getattribute__(self, name)
        if name.startswith("_") or not self.is_fine_tuned:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.predictor, name)

    def predict(
        self,
        texts: str | Sequence[str] | Any = None,
        *,
        all_probabilities: bool = False,
        threshold: float | None = None,
        unsure_below: float | None = None,
        max_error: float | None = None,
        by_class: bool = False,
        text_columns: str | Sequence[str] | None = None,
        **fields: str | Sequence[str],
    ) -> Any:
        """Predicts for texts, in the order given; see `bertkit.inference.predictor.Predictor.predict`.

        Args:
            texts: one text, or several; or a table, which gives a table of its kind with the predictions.
            all_probabilities: return the probability of every label, not only of the ten most probable ones.
            threshold: probability from which a label is predicted, instead of the thresholds of the checkpoint.
            unsure_below: label predictions of a class with a lower probability ``unsure``; ``best_label`` is the class.
            max_error: answer as many rows as possible so that at most this share of the answers is wrong, with 90 %
                confidence, by the rows that the models of the folds of the run have scored; label others ``unsure``.
            by_class: keep ``max_error`` among the answers of each class.
            text_columns: columns of a table to read, instead of those of the training.
            fields: for question answering, instead: ``question`` and ``context``.

        Raises:
            CheckpointError: it was not fine-tuned, or is for ``max_error`` no run whose rows were scored by folds.
            DataError: the task does not take what is given.
            RecipeError: the task does not have an option, or the rows do not support ``max_error``.
        """
        options = PredictOptions(
            all_probabilities, threshold, unsure_below, text_columns, max_error=max_error, by_class=by_class
        )
        return self.predictor.predict(texts, options, **fields)

    @overload
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        pooling: Pooling | None = None,
        layers: Sequence[int] = (-1,),
        max_seq_length: int | None = None,
        stride: int | None = None,
    ) -> np.ndarray: ...

    @overload
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        pooling: Literal["none"],
        layers: Sequence[int] = (-1,),
        max_seq_length: int | None = None,
        stride: int | None = None,
    ) -> list[TokenEmbeddings]: ...

    @overload
    def embed(
        self,
        texts: Any,
        *,
        pooling: Pooling | Literal["none"] | None = None,
        layers: Sequence[int] = (-1,),
        max_seq_length: int | None = None,
        stride: int | None = None,
        text_column: str | None = None,
    ) -> Any: ...

    def embed(
        self,
        texts: str | Sequence[str] | Any,
        *,
        pooling: Pooling | Literal["none"] | None = None,
        layers: Sequence[int] = (-1,),
        max_seq_length: int | None = None,
        stride: int | None = None,
        text_column: str | None = None,
    ) -> Any:
        """Returns vectors of N texts of any length.

        Args:
            texts: one text, or several; or a table, whose copy with a column ``embedding`` is returned, or ``tokens``
                without pooling.
            pooling: over the tokens of a text: their ``mean`` or ``max``, each token once, [CLS] and [SEP] among them;
                ``cls``, the first token's vector (of several windows their mean); or ``none``: every token.
                Unless given, that of a checkpoint in the form of sentence-transformers, and the mean for others.
            layers: K of them, 0 the embeddings, 1 the first layer, -1 the last; their vectors are joined end to end
                (BERT §5.3 joins the last four).
            max_seq_length: tokens of a window; as many as the model reads, at most 512, unless given.
            stride: tokens that neighbouring windows of a long text share; a quarter of a window unless given.
            text_column: of a table; unless given, one of a usual name, such as ``text``.

        Returns:
            (N, K * H) float32, not divided by their length, even if the checkpoint records that for
            sentence-transformers; without pooling a `TokenEmbeddings` a text.

        Raises:
            BertkitError: a layer, a length or the pooling is impossible, the checkpoint has no complete encoder, or a
                value is no text.
        """
        options = EmbedOptions(text_column, pooling, layers, max_seq_length, stride)
        if kind_of_table(texts) is None:
            refuse_columns(several(text_column))
            return self.embedder.embed(with_words(list_of_texts(texts)), options)
        table = table_of(texts)
        column = the_text_column(table, text_column)
        of_column = texts_of_column(table, column)
        rows = rows_of_vectors(self.embedder.embed(of_column, options))
        return with_columns(texts, {name: [row[name] for row in rows] for name in rows[0]})

    def fill_mask(self, texts: str | Sequence[str], *, top_k: int = 5) -> list[list[list[MaskPrediction]]]:
        """Predicts the token in place of each mask.

        Args:
            texts: each with one mask or several, written as the tokenizer writes it: ``[MASK]`` for BERT.
            top_k: number of predictions for each mask.

        Returns:
            For each text and each of its masks, the predictions, the most probable first. Masks of one text are
            predicted independently.

        Raises:
            CheckpointError: the checkpoint has no masked-LM head.
            DataError: a text has no mask, or is longer than the model reads; or a value is no text.
            RecipeError: ``top_k`` is not from 1 to the size of the vocabulary.
        """
        return self.mask_filler.fill(list_of_texts(texts), top_k)

    @cached_property
    def embedder(self) -> Embedder:
        """The checkpoint's encoder with its tokenizer.

        Raises:
            CheckpointError: it has no complete encoder, or cannot be loaded.
        """
        config = load_config(self.name, any_encoder=True)
        tokenizer = load_tokenizer(self.name, config=config)
        return Embedder(self._place(load_encoder(self.name, config)), tokenizer, self.batch_size, self.name)

    @cached_property
    def mask_filler(self) -> MaskFiller:
        """The checkpoint's masked language model with its tokenizer.

        Raises:
            CheckpointError: it has no masked-LM head, or cannot be loaded.
        """
        config = load_config(self.name, any_encoder=True)
        tokenizer = load_tokenizer(self.name, config=config)
        check_fills(self.name, config, tokenizer, self.architecture if self.is_fine_tuned else None)
        with without_library_bars():
            model, _ = load_model("BertForMaskedLM", self.name, config, new_head=False)
        return MaskFiller(self._place(model), tokenizer, self.batch_size, self.name)

    def _place(self, model: PreTrainedModel) -> PreTrainedModel:
        device = inference_device(self.device_setting)
        dtype = inference_dtype(self._precision, device)
        if asks_to_join(device, dtype):
            join_sequences(model)
        return model.to(device, dtype)
