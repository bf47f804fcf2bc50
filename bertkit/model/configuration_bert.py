"""Configuration of BERT, validated on construction.

The class is named ``BertkitConfig``; ``BertConfig`` is the alias to use. transformers' Auto classes look up
configuration classes *by name*: with the name ``BertConfig``, every Auto class that is not registered here, such as
``AutoModelForCausalLM``, would silently build transformers' model from a bertkit checkpoint, also if this file was
loaded as remote code. With a different name they raise an error.
"""

# No `from __future__ import annotations` here: `strict` checks types only where annotations are types, not strings.
from typing import Any, ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig

# Settings of a stock `bert` checkpoint that our encoder fixes: any other value describes a different network, or a
# computation in chunks, which it does not have.
_FIXED = {
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "is_encoder_decoder": False,
    "chunk_size_feed_forward": 0,
}
# Settings of a stock `bert` checkpoint that say nothing about an encoder: they are read and dropped.
_WITHOUT_MEANING = ("use_cache", "gradient_checkpointing", "cross_attention_hidden_size")

_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "feature_lstm_size",
)
_USUAL_ACTIVATIONS = ("gelu", "relu", "silu", "gelu_new")
_PROBABILITIES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")


@strict
class BertkitConfig(PreTrainedConfig):
    """Sizes and rates of one BERT encoder; the defaults are BERT-base (BERT §3, "Model Architecture").

    The ``config.json`` of a stock ``bert`` checkpoint loads unchanged; one that describes a decoder, cross-attention or
    relative positions is rejected.

    Attributes:
        vocab_size: Rows of the token embedding and width of the masked-LM output, in WordPieces.
        hidden_size: Width of every hidden state and of the pooled output.
        num_hidden_layers: Transformer layers in the encoder.
        num_attention_heads: Heads of each self-attention; each is ``hidden_size / num_attention_heads`` wide.
        intermediate_size: Width of the feed-forward layer inside each layer, 4 x ``hidden_size`` in BERT §3.
        hidden_act: Name of the activation in the feed-forward layer and in the masked-LM transform.
        hidden_dropout_prob: Dropout after the embeddings, after each attention and after each feed-forward; [0, 1).
        attention_probs_dropout_prob: Dropout on the attention probabilities; [0, 1).
        max_position_embeddings: Rows of the position embedding: the longest sequence, in tokens.
        type_vocab_size: Rows of the segment embedding: 2, sentence A and sentence B.
        initializer_range: Standard deviation of the normal distribution that new weights are drawn from.
        layer_norm_eps: Added to the variance in every LayerNorm.
        pad_token_id: Token whose embedding starts at zero and gets no gradient; ``None`` for no such token.
        classifier_dropout: Dropout before the classifier of a fine-tuning head; ``None`` means ``hidden_dropout_prob``.
        attention: ``bidirectional``; or ``left_to_right``, where a token attends to itself and the tokens before it and
            the last token is pooled instead of [CLS]: the ablation of BERT §5.1, Table 5, "LTR & No NSP".
        feature_layers: For token classification: fix the encoder and read the hidden states of these layers, 0 the
            embeddings and -1 the last, with a bidirectional LSTM (BERT §5.3); ``None`` trains the encoder.
        feature_combination: ``concatenate`` these layers, or take their ``weighted_sum`` with weights that are learned.
        feature_lstm_size: Width of that LSTM in each direction; 768 in BERT §5.3.
        tie_word_embeddings: Whether the masked-LM output matrix *is* the token embedding.

    Raises:
        ValueError: A value is impossible. All impossible values are named together.
        huggingface_hub.errors.StrictDataclassFieldValidationError: A value has the wrong type.

    Examples:
        ```python
        config = bertkit.BertConfig(num_hidden_layers=2, hidden_size=128, num_attention_heads=2, intermediate_size=512)
        model = bertkit.BertModel(config)  # new weights
        ```
    """

    model_type: ClassVar[str] = "bertkit"
    # The two parts of the pre-training loss are scalars: an evaluation loop must not gather them as logits.
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["masked_lm_loss", "next_sentence_loss"]

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float | int = 0.1
    attention_probs_dropout_prob: float | int = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float | int = 0.02
    layer_norm_eps: float | int = 1e-12
    pad_token_id: int | None = 0
    classifier_dropout: float | int | None = None
    attention: Literal["bidirectional", "left_to_right"] = "bidirectional"
    feature_layers: list[int] | None = None
    feature_combination: Literal["concatenate", "weighted_sum"] = "concatenate"
    feature_lstm_size: int = 768
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        """Removes the extra keys of a stock ``config.json`` and checks all values."""
        for name in _WITHOUT_MEANING:
            kwargs.pop(name, None)
        super().__post_init__(**kwargs)
        # `strict` runs the validators too, but wraps what they raise in an exception that is no ValueError.
        self.validate_encoder()
        for name in ("is_decoder", "add_cross_attention", "position_embedding_type"):
            self.__dict__.pop(name, None)  # at their only value they need not be written into our checkpoints

    def validate_encoder(self) -> None:
        """Raises one ``ValueError`` that names every invalid value; called on construction and before saving."""
        faults = [
            f"`{name}` is {getattr(self, name)!r}, but bertkit is an encoder with {name}={only!r}"
            for name, only in _FIXED.items()
            if getattr(self, name, only) != only
        ]
        faults += [
            f"`{name}` must be at least 1, got {getattr(self, name)}" for name in _SIZES if getattr(self, name) < 1
        ]
        faults += [
            f"`{name}` must be in [0, 1), got {value}"
            for name in _PROBABILITIES
            if (value := getattr(self, name)) is not None and not 0 <= value < 1
        ]
        faults += [
            f"`{name}` must be above 0, got {getattr(self, name)}"
            for name in ("initializer_range", "layer_norm_eps")
            if not getattr(self, name) > 0
        ]
        if self.num_attention_heads >= 1 and self.hidden_size % self.num_attention_heads:
            faults.append(
                f"`hidden_size` ({self.hidden_size}) must be a multiple of `num_attention_heads` "
                f"({self.num_attention_heads})"
            )
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            faults.append(
                f"`pad_token_id` ({self.pad_token_id}) must be None or in the vocabulary, 0 to {self.vocab_size - 1}"
            )
        if self.feature_layers is not None:
            layers = self.num_hidden_layers
            if not self.feature_layers or not all(-layers - 1 <= layer <= layers for layer in self.feature_layers):
                faults.append(
                    f"`feature_layers` are {self.feature_layers}; expected {-layers - 1} to {layers}, one or more"
                )
        if self.hidden_act not in _USUAL_ACTIVATIONS:
            # Imported here: the table of activations brings most of torch, which takes longer than a prediction.
            from transformers.activations import ACT2FN

            if self.hidden_act not in ACT2FN:
                faults.append(f"`hidden_act` is {self.hidden_act!r}; expected one of {', '.join(sorted(ACT2FN))}")
        if faults:
            raise ValueError("impossible BertConfig: " + "; ".join(faults))

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Saves ``config.json`` and a copy of this file, for Auto classes without bertkit."""
        # Not when this module is imported: it imports the tables of all models, and only saving needs it.
        type(self).register_for_auto_class()
        super().save_pretrained(*args, **kwargs)

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reads ``config.json``; the model type ``bert`` is replaced, since it describes the same network."""
        config_dict, kwargs = super().get_config_dict(*args, **kwargs)
        if config_dict.get("model_type") == "bert":
            config_dict["model_type"] = cls.model_type
        return config_dict, kwargs


BertConfig = BertkitConfig

__all__ = ["BertConfig", "BertkitConfig"]
