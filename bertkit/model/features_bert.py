"""Feature-based approach: a new bidirectional LSTM on frozen hidden states of selected layers (BERT §5.3)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import PreTrainedModel

from .configuration_bert import BertConfig


class BertFeatures(nn.Module):
    """Combines hidden states of ``config.feature_layers`` and reads them with a two-layer bidirectional LSTM.

    B sequences, S tokens, H the encoder's hidden size, F ``config.feature_lstm_size``.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layers = list(config.feature_layers or [])
        width = config.hidden_size
        if config.feature_combination == "concatenate":
            width *= len(self.layers)
            self.layer_weights = None
        else:
            self.layer_weights = nn.Parameter(torch.zeros(len(self.layers)))
        self.lstm = nn.LSTM(width, config.feature_lstm_size, num_layers=2, bidirectional=True, batch_first=True)

    def forward(
        self,
        encoder: PreTrainedModel,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        *inputs: Any,
        **options: Any,
    ) -> BaseModelOutput:
        """Encodes sequences without gradients, and reads the states.

        Args:
            encoder: The frozen encoder.
            input_ids, attention_mask, inputs, options: Its arguments.

        Returns:
            The outputs of the encoder, with the features, (B, S, 2F), in place of ``last_hidden_state``.
        """
        requested = options.pop("output_hidden_states", None)
        with torch.no_grad():
            outputs = encoder(input_ids, attention_mask, *inputs, output_hidden_states=True, **options)
        outputs.last_hidden_state = self.read(outputs.hidden_states, attention_mask)
        if not (encoder.config.output_hidden_states if requested is None else requested):
            outputs.hidden_states = None
        return outputs

    def read(self, hidden_states: tuple[Tensor, ...], attention_mask: Tensor | None = None) -> Tensor:
        """Combines the hidden states and applies the LSTM to each sequence up to its padding.

        Args:
            hidden_states: L + 1 tensors (B, S, H), embeddings first.
            attention_mask: (B, S), 1 for tokens and 0 for padding, which must be on the right; None for no padding.

        Returns:
            (B, S, 2F), forward and backward states concatenated; 0 on padding.
        """
        chosen = [hidden_states[layer] for layer in self.layers]
        if self.layer_weights is None:
            features = torch.cat(chosen, dim=-1)
        else:
            weights = self.layer_weights.softmax(dim=0)
            features = torch.stack([weight * states for weight, states in zip(weights, chosen, strict=True)]).sum(dim=0)
        features = features.to(next(self.lstm.parameters()).dtype)  # autocast leaves them in half precision
        with torch.autocast("cpu", enabled=False):  # oneDNN has no LSTM in bf16 for CPUs without AVX512
            if attention_mask is None:
                return self.lstm(features)[0]
            lengths = attention_mask.sum(dim=-1).cpu()
            packed = pack_padded_sequence(features, lengths, batch_first=True, enforce_sorted=False)
            return pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=features.shape[1])[0]
