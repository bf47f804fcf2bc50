"""The network that is looked into: a checkpoint with its head, its tokenizer and its task, with written-out attention.

The fused kernels of attention return no probabilities, so every part of an explanation is computed by the eager one;
the results of the kernels differ by rounding only.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bertkit.inference.embedding import load_encoder
from bertkit.inference.networks import is_ensemble, is_onnx
from bertkit.inference.predictor import Predictor, load_task
from bertkit.model.checkpoint.encoders import MASKED_LM_HEADS, longest_input, model_inputs, saved_head
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer
from bertkit.runtime.errors import CheckpointError
from bertkit.runtime.placement.inference import inference_device
from bertkit.runtime.progress import unreported, without_library_bars
from bertkit.tasks.checkpoints import has_task
from bertkit.tasks.splits import Columns, WindowedData

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from bertkit.tasks.base import Outputs, Task

_LONGEST = 512  # tokens; the attention of all heads to 8,192 would take tens of gigabytes
_BATCH = 8  # inputs


@dataclass(frozen=True)
class Network:
    """A checkpoint whose inside can be read."""

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    task: Task | None

    @property
    def family(self) -> str:
        """Model type, such as ``roberta``; ``bert`` for bertkit's own."""
        return "bert" if self.model.config.model_type == "bertkit" else str(self.model.config.model_type)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the model's inputs."""
        return model_inputs(self.model.config)

    @property
    def longest(self) -> int:
        """Number of tokens of the longest input: of the model and of its task, at most 512."""
        of_task = self.task.data.max_seq_length if self.task is not None else _LONGEST
        return min(longest_input(self.model.config), of_task, _LONGEST)

    @property
    def overlap(self) -> int | None:
        """Tokens that neighbouring windows of `longest` tokens share; None where the task cuts long texts."""
        if self.task is not None:
            data = self.task.data
            if not isinstance(data, WindowedData) or getattr(data, "long_text", "") == "cut":
                return None
            if data.max_seq_length == self.longest:
                return data.overlap
        return self.longest // 4  # also for a task of longer windows, whose overlap may fill one of `longest` tokens

    def outputs(self, features: Columns) -> Outputs:
        """Returns the outputs of the head for inputs of the task, see `bertkit.inference.predictor.Predictor.outputs`.

        Args:
            features: columns of `Task.encode`.
        """
        assert self.task is not None
        predictor = Predictor(self.task, self.model, self.tokenizer, _BATCH, self.name)
        return predictor.outputs(features, unreported)

    def on_device(self, batch: Any) -> dict[str, Tensor]:
        """Returns the tensors of a batch on the device of the model, without labels."""
        labels = self.task.label_columns if self.task is not None else ()
        return {name: values.to(self.model.device) for name, values in batch.items() if name not in labels}


def load_network(checkpoint: str, device: Literal["auto", "cpu"] = "auto") -> Network:
    """Loads a checkpoint with the head that it has, of its task or of pre-training, or else the encoder alone.

    Raises:
        CheckpointError: it cannot be loaded, or is no PyTorch model.
    """
    if is_onnx(checkpoint) or is_ensemble(checkpoint):
        raise CheckpointError(
            f"{checkpoint}: an ONNX model or an ensemble, which shows nothing of its inside; give the run directory "
            "of one model"
        )
    config = load_config(checkpoint, any_encoder=True)
    task = model = None
    if has_task(config):
        task, config = load_task(checkpoint, {})
        with without_library_bars():
            model, _ = load_model(task.head, checkpoint, config, new_head=False)
        task.prepare(model)
    elif (head := saved_head(config)) in (*MASKED_LM_HEADS, "BertForNextSentencePrediction"):
        for each in dict.fromkeys((head, "BertForMaskedLM")):
            # Not every family has the head of a name that ends in ForPreTraining.
            with suppress(CheckpointError), without_library_bars():
                model, _ = load_model(each, checkpoint, config, new_head=False)
                break
    if model is None:
        model = load_encoder(checkpoint, config)
    tokenizer = load_tokenizer(checkpoint, config=config)
    try:
        model.set_attn_implementation("eager")
    except ValueError as error:
        raise CheckpointError(f"{checkpoint}: its attention cannot be written out ({error})") from error
    model.requires_grad_(False)
    return Network(checkpoint, model.to(inference_device(device)).eval(), tokenizer, task)
