"""Classification of texts longer than the encoder's maximum length by pooling over their windows.

The BERT paper does not cover such texts. Here the encoder reads every window, the vectors of the windows are pooled,
and the head makes one prediction per document. The model is trained end to end.

Dimension letters: B documents, W windows of all of them, S tokens of a window, H hidden size, C classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from bertkit.runtime.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel
    from transformers.utils import ModelOutput


def pool_windows(model: PreTrainedModel, pooling: Literal["mean", "max"]) -> None:
    """Registers hooks with which a sequence classifier accepts documents of several windows.

    The prepared model is called as ``model(**inputs, window_counts=…)``: the inputs are (W, S), with the windows of
    each document in consecutive rows; ``window_counts`` (B,) int64 is the number of windows of each document, at least
    1; the logits are (B, C), with one entry of ``labels`` per document. The output for a document of a single window,
    and for calls without ``window_counts``, does not change. Hidden states and attentions are returned per window.
    Weights, their names and the configuration do not change, so a saved model has to be prepared again after loading.

    The pooled vectors are those that the head reads. BERT, ALBERT and others read the pooler's output: each window's
    first vector passes through the pooler's dense layer and tanh before the pooling. RoBERTa, DistilBERT, ELECTRA,
    DeBERTa, ModernBERT and MPNet read the first token's vector, which is pooled before the dense layer of their head.

    Args:
        model: a sequence classifier of any family.
        pooling: element-wise mean or maximum over a document's windows.

    Raises:
        CheckpointError: the head reads more than the first token and the pooler, as ModernBERT's does with
            ``classifier_pooling="mean"``.
        ValueError: the pooling is unknown, or the model pools already. The prepared model raises it if
            ``window_counts`` on the CPU are not positive numbers with the sum W.
    """
    if pooling not in ("mean", "max"):
        raise ValueError(f"pooling is {pooling!r}; expected 'mean' or 'max'")
    if any(isinstance(getattr(hook, "__self__", None), _PoolingHooks) for hook in model._forward_pre_hooks.values()):
        raise ValueError("the model already pools windows; load it again to change the pooling")
    _check_reads_first_token(model)
    hooks = _PoolingHooks(pooling)
    model.register_forward_pre_hook(hooks.take_counts, with_kwargs=True)
    model.base_model.register_forward_hook(hooks.pool_output)


class _PoolingHooks:
    """Hooks that take ``window_counts`` from a model's arguments and pool the output of its encoder accordingly."""

    def __init__(self, pooling: Literal["mean", "max"]):
        self.pooling = pooling
        self.counts: Tensor | None = None

    def take_counts(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        self.counts = kwargs.get("window_counts")
        return args, {name: value for name, value in kwargs.items() if name != "window_counts"}

    def pool_output(self, encoder: nn.Module, args: tuple[Any, ...], output: ModelOutput) -> ModelOutput:
        counts, self.counts = self.counts, None
        if counts is not None:
            if output.last_hidden_state.shape[1]:  # BERT's classifier reads the pooled output alone
                output.last_hidden_state = self._pool(output.last_hidden_state[:, 0], counts).unsqueeze(1)
            if output.get("pooler_output") is not None:
                output.pooler_output = self._pool(output.pooler_output, counts)
        return output

    def _pool(self, vectors: Tensor, counts: Tensor) -> Tensor:
        """Pools window vectors (W, H) to document vectors (B, H)."""
        import torch

        if counts.device.type == "cpu" and (min(counts, default=0) < 1 or counts.sum() != len(vectors)):
            raise ValueError(
                f"`window_counts` are {counts.tolist()}; expected positive numbers with the sum {len(vectors)}"
            )
        # Given the number of rows, no device has to be asked for the sum of the counts.
        documents = torch.arange(len(counts), device=counts.device).repeat_interleave(counts, output_size=len(vectors))
        reduce = "mean" if self.pooling == "mean" else "amax"
        pooled = vectors.new_zeros(len(counts), vectors.shape[1])
        return pooled.scatter_reduce(0, documents[:, None].expand_as(vectors), vectors, reduce, include_self=False)


def _check_reads_first_token(model: PreTrainedModel) -> None:
    """Checks that the logits depend on no token vector but the first, by changing the other vectors."""
    import torch

    def change_others(encoder: nn.Module, args: tuple[Any, ...], output: ModelOutput) -> ModelOutput:
        hidden = output.last_hidden_state.clone()
        hidden[:, 1:] += torch.arange(hidden.shape[-1], device=hidden.device)
        output.last_hidden_state = hidden
        return output

    training = model.training
    model.eval()
    ones = torch.ones(1, 3, dtype=torch.int64, device=model.device)
    with torch.inference_mode():
        logits = model(input_ids=ones, attention_mask=ones).logits
        with model.base_model.register_forward_hook(change_others):
            unread = torch.equal(logits, model(input_ids=ones, attention_mask=ones).logits)
    model.train(training)
    if not unread:
        pools = hasattr(model.config, "classifier_pooling")
        remedy = "set classifier_pooling to cls" if pools else "cut long texts instead"
        raise CheckpointError(
            f"{type(model).__name__} classifies by more than the first token, so its windows cannot be pooled; {remedy}"
        )
