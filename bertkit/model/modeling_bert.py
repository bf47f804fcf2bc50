"""BERT in the reading order of the paper: embeddings, attention, layer, encoder, pooler, BertModel, heads.

After Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding"
(arXiv:1810.04805), cited as "BERT §n"; "§A.n" is its appendix. Parameter names are those of the released checkpoints
as transformers writes them, so a stock ``bert`` checkpoint loads unchanged.

Dimensions:
    B  sequences in the batch            S  tokens in a sequence
    H  hidden size                       A  attention heads
    D  width of one head, H / A          I  width of the feed-forward layer
    V  vocabulary                        L  layers
    P  masked or read tokens, per sequence
    C  choices, or labels
    M  labelled tokens in the batch, when they are picked by their labels

In label tensors of integers -100 means "no label here", in those of floats NaN does: such an item adds nothing to the
loss and is not counted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    NextSentencePredictorOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.utils.generic import ModelOutput, can_return_tuple
from transformers.utils.output_capturing import capture_outputs

from .configuration_bert import BertConfig
from .features_bert import BertFeatures
from .labels_bert import IGNORE_INDEX
from .loss_bert import mean_cross_entropy, position_loss, sequence_classification_loss
from .reading_bert import (
    all_positions_read,
    last_token,
    left_to_right_mask,
    rows_of_mask,
    takes_few_queries,
    tokens_at,
)


class EncoderOptions(TypedDict, total=False):
    """Arguments that the heads pass on to `BertModel.forward`, which raises ``TypeError`` for unknown ones."""

    position_ids: Tensor | None
    inputs_embeds: Tensor | None
    output_attentions: bool | None
    output_hidden_states: bool | None


class LayerNorm(nn.LayerNorm):
    """Layer normalization, (..., H) to (..., H) in the same dtype; mean and variance are at least float32.

    Under autocast torch's own gives float32 on GPUs. Then residuals take twice the memory, and each product converts
    its input anew.
    """

    def forward(self, hidden_states: Tensor) -> Tensor:
        dtype = hidden_states.dtype
        if dtype == self.weight.dtype and not torch.is_autocast_enabled():  # that of GPUs
            return super().forward(hidden_states)
        with torch.autocast(hidden_states.device.type, enabled=False):
            weight, bias = self.weight.to(dtype), self.bias.to(dtype)
            return F.layer_norm(hidden_states, self.normalized_shape, weight, bias, self.eps)


class BertEmbeddings(nn.Module):
    """Sum of the token, segment and position embeddings, normalised (BERT §3, Figure 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """Embeds (B, S) as (B, S, H); arguments and errors as in `BertModel.forward`."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of `input_ids` and `inputs_embeds`")
        tokens = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds  # (B, S, H)
        batch_size, length = tokens.shape[:2]
        if position_ids is None:
            limit = self.position_embeddings.num_embeddings
            if length > limit:
                raise ValueError(
                    f"the sequence has {length} tokens, but the model has positions for {limit} "
                    "(`max_position_embeddings`): truncate the text or split it into overlapping pieces"
                )
            # Made here and not kept in a buffer: `from_pretrained` would leave a non-persistent buffer uninitialised.
            position_ids = torch.arange(length, device=tokens.device).unsqueeze(0)  # (1, S)
        if token_type_ids is None:
            token_type_ids = torch.zeros((batch_size, length), dtype=torch.long, device=tokens.device)
        embeddings = tokens + self.token_type_embeddings(token_type_ids) + self.position_embeddings(position_ids)
        return self.dropout(self.LayerNorm(embeddings))


def eager_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Computes scaled dot-product attention explicitly, the only kernel that returns its probabilities.

    Takes query, key and value (B, A, S, D) and a mask that broadcasts to (B, A, S, S): floats to add to the scores, or
    booleans, True = attend. Returns the weighted values (B, S, A, D) and the probabilities (B, A, S, S) before dropout.
    Queries, rows of the mask and results may be those of P read tokens only.
    """
    attention_scores = query @ key.transpose(-1, -2) * scaling  # (B, A, S, S)
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        # The lowest number and not -inf: a row without any token to attend to must not become NaN.
        attention_scores = attention_scores.masked_fill(~attention_mask, torch.finfo(attention_scores.dtype).min)
    elif attention_mask is not None:
        attention_scores = attention_scores + attention_mask
    attention_probs = attention_scores.softmax(dim=-1)
    context = F.dropout(attention_probs, p=dropout, training=module.training) @ value  # (B, A, S, D)
    return context.transpose(1, 2).contiguous(), attention_probs


class BertSelfAttention(nn.Module):
    """Multi-head self-attention, bidirectional (BERT §3, "Model Architecture")."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.is_causal = config.attention == "left_to_right"  # read by transformers' attention functions
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.scaling = self.attention_head_size**-0.5
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Any = None,
        output_attentions: bool = False,
        read_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the concatenated outputs of the heads, (B, S, H) or those of the read tokens, (B, P, H), and, if
        requested, the probabilities, (B, A, S, S)."""
        asking, selects_after = hidden_states, read_positions is not None
        if read_positions is not None and takes_few_queries(self.config._attn_implementation):
            asking, selects_after = tokens_at(hidden_states, read_positions), False  # (B, P, H)
            attention_mask = rows_of_mask(attention_mask, read_positions, hidden_states, self.is_causal)
        by_head = (hidden_states.shape[0], -1, self.config.num_attention_heads, self.attention_head_size)
        query = self.query(asking).view(by_head).transpose(1, 2)  # (B, A, S, D) or (B, A, P, D)
        key = self.key(hidden_states).view(by_head).transpose(1, 2)
        value = self.value(hidden_states).view(by_head).transpose(1, 2)
        attend: Callable[..., tuple[Tensor, Tensor | None]] = eager_attention_forward
        if not output_attentions:
            attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        context, attention_probs = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=self.dropout.p if self.training else 0.0,
            scaling=self.scaling,
        )
        context = context.flatten(2)  # (B, S, H) or (B, P, H)
        if selects_after and read_positions is not None:
            context = tokens_at(context, read_positions)
        return context, attention_probs if output_attentions else None


class BertOutput(nn.Module):
    """Projects to the hidden size, adds the residual and normalises: (B, S, .) to (B, S, H)."""

    def __init__(self, config: BertConfig, input_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(input_size, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: Tensor, residual: Tensor) -> Tensor:
        hidden_states = self.dropout(self.dense(hidden_states))
        return self.LayerNorm(hidden_states + residual.to(hidden_states.dtype))


class BertAttention(nn.Module):
    """Self-attention with its projection, residual and LayerNorm: (B, S, H) to (B, S, H), or to (B, P, H)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = BertSelfAttention(config)
        self.output = BertOutput(config, config.hidden_size)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Any = None,
        output_attentions: bool = False,
        read_positions: Tensor | None = None,
    ) -> Tensor:
        context, _ = self.self(hidden_states, attention_mask, output_attentions, read_positions)
        read = hidden_states if read_positions is None else tokens_at(hidden_states, read_positions)
        return self.output(context, read)


class BertIntermediate(nn.Module):
    """First half of the feed-forward layer: (B, S, H) to (B, S, I)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate_act_fn = ACT2FN[config.hidden_act]

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.intermediate_act_fn(self.dense(hidden_states))


class BertLayer(GradientCheckpointingLayer):
    """Transformer layer, attention then feed-forward: (B, S, H) to (B, S, H), or to (B, P, H) for read tokens."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config, config.intermediate_size)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Any = None,
        output_attentions: bool = False,
        read_positions: Tensor | None = None,
    ) -> Tensor:
        attention_output = self.attention(hidden_states, attention_mask, output_attentions, read_positions)
        return self.output(self.intermediate(attention_output), attention_output)


class BertEncoder(nn.Module):
    """L Transformer layers: (B, S, H) to (B, S, H), or to (B, P, H) for read tokens.

    Attributes:
        skips_unread: The last layer leaves out what is not read; False where hooks read all of it.
    """

    skips_unread = True

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Any = None,
        output_attentions: bool = False,
        read_positions: Tensor | None = None,
    ) -> Tensor:
        # Positional: with reentrant checkpointing only positional arguments keep their gradient.
        for layer in self.layer[:-1]:
            hidden_states = layer(hidden_states, attention_mask, output_attentions)
        return self.layer[-1](hidden_states, attention_mask, output_attentions, read_positions)


class BertPooler(nn.Module):
    """Sequence representation: the hidden state of [CLS] through a dense layer and tanh, (B, S, H) to (B, H).

    With left-to-right attention [CLS] attends to itself only; the last token takes its place.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.pools_last = config.attention == "left_to_right"
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        pooled = last_token(hidden_states, attention_mask) if self.pools_last else hidden_states[:, 0]
        return self.activation(self.dense(pooled))


class BertPreTrainedModel(PreTrainedModel):
    """Base class of all models: initialisation, loading and saving."""

    config: BertConfig
    config_class = BertConfig
    base_model_prefix = "bert"
    _input_embed_layer = "word_embeddings"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    # Modules whose outputs transformers keeps if `output_hidden_states` or `output_attentions` ask for them.
    _can_record_outputs = {"hidden_states": BertLayer, "attentions": BertSelfAttention}  # noqa: RUF012
    _no_split_modules = ["BertEmbeddings", "BertLayer"]  # noqa: RUF012 - transformers declares it as a plain attribute
    # Checkpoints of older transformers versions carry the position numbers, which are no parameters.
    _keys_to_ignore_on_load_unexpected = [r"(^|\.)position_ids$"]  # noqa: RUF012
    # Every loss here divides by `num_items_in_batch`, so transformers' Trainer may pass it.
    accepts_loss_kwargs = True

    @property
    def classifier_dropout(self) -> float:
        """Dropout rate before a classifier: ``classifier_dropout`` of the configuration, or ``hidden_dropout_prob``."""
        own = self.config.classifier_dropout
        return self.config.hidden_dropout_prob if own is None else own

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialises weights from N(0, ``initializer_range``), biases to 0, LayerNorms to 1 and 0, the padding
        embedding to 0."""
        super()._init_weights(module)
        if isinstance(module, BertLMPredictionHead):
            init.zeros_(module.bias)
        elif isinstance(module, nn.LSTM):
            for parameter in module.parameters():  # as torch draws them
                init.uniform_(parameter, -(module.hidden_size**-0.5), module.hidden_size**-0.5)
        elif isinstance(module, BertFeatures) and module.layer_weights is not None:
            init.zeros_(module.layer_weights)

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> None:
        """Saves as transformers does, with the classes of this module in ``auto_map`` for *every* Auto class.

        transformers would record this model's class only, so that ``AutoModelForSequenceClassification`` could not load
        a pre-training checkpoint without bertkit.
        """
        self.config.auto_map = {
            "AutoConfig": f"configuration_bert.{BertConfig.__name__}",
            **{auto_class: f"modeling_bert.{model.__name__}" for auto_class, model in AUTO_CLASSES.items()},
        }
        super().save_pretrained(save_directory, *args, **kwargs)


class BertModel(BertPreTrainedModel):
    """Encoder of BERT §3 without a head; has a pooler unless ``add_pooling_layer`` is false.

    Examples:
        ```python
        tokenizer = transformers.AutoTokenizer.from_pretrained("my-bert")
        model = bertkit.BertModel.from_pretrained("my-bert")
        outputs = model(**tokenizer("a lovely film", return_tensors="pt"))
        outputs.last_hidden_state, outputs.pooler_output  # 1, tokens, hidden size; 1, hidden size
        ```
    """

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.post_init()

    @capture_outputs(tie_last_hidden_states=False)  # `last_hidden_state` may have the read tokens only
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        *,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,  # read by `capture_outputs`
        read_positions: Tensor | tuple[()] | None = None,
    ) -> BaseModelOutputWithPooling:
        """Encodes sequences; the arguments have the same meaning in every head.

        Args:
            input_ids: (B, S) int64, ids of WordPieces in [0, V).
            attention_mask: (B, S), 1 = token, 0 = padding, which is never attended to. None: no padding.
            token_type_ids: (B, S) int64, 0 = sentence A, 1 = sentence B. None: all A.
            position_ids: (B, S) or (1, S) int64. None: 0 to S - 1.
            inputs_embeds: (B, S, H) float, token embeddings in place of ``input_ids``.
            output_attentions: Whether to return the attention probabilities, L tensors (B, A, S, S).
            output_hidden_states: Whether to return the hidden states, L + 1 tensors (B, S, H), embeddings first.
            read_positions: (B, P) or (1, P) int64 in [0, S), the tokens of ``last_hidden_state``; () for none besides
                the pooled one, of a model with a pooler. The last layer computes no others, unless all hidden states or
                attention probabilities are requested. None: all.

        Returns:
            ``last_hidden_state`` (B, S, H), or (B, P, H) of the read tokens, ``pooler_output`` (B, H) or None,
            ``hidden_states`` and ``attentions`` if requested. With ``return_dict=False`` every model returns a tuple of
            the values that are not None.

        Raises:
            ValueError: Not exactly one of ``input_ids`` and ``inputs_embeds``, a sequence longer than
                ``max_position_embeddings``, or attention probabilities from a kernel that does not have them.
        """
        output_attentions = bool(self.config.output_attentions if output_attentions is None else output_attentions)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        implementation = self.config._attn_implementation
        # sdpa's mask serves the written-out attention too, so for that call it stands in; other kernels' masks do not.
        if output_attentions and implementation not in ("eager", "sdpa"):
            raise ValueError(
                f"`output_attentions=True`: attention {implementation!r} never forms the probabilities; "
                'call model.set_attn_implementation("eager") first'
            )
        embeddings = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)
        # Without padding no mask is needed; to ask for it, devices other than a CPU would finish all their work first.
        may_skip = attention_mask is None or attention_mask.device.type == "cpu"
        if self.config.attention == "left_to_right":
            mask = left_to_right_mask(self.config, embeddings, attention_mask, may_skip and not output_attentions)
        else:
            mask = create_bidirectional_mask(
                config=self.config,
                inputs_embeds=embeddings,
                attention_mask=attention_mask,
                allow_is_bidirectional_skip=may_skip,
            )
        if read_positions is None:
            sequence_output = self.encoder(embeddings, mask, output_attentions)
            pooled = None if self.pooler is None else self.pooler(sequence_output, attention_mask)
            return BaseModelOutputWithPooling(last_hidden_state=sequence_output, pooler_output=pooled)
        read = all_positions_read(self.config, embeddings, attention_mask, self.pooler is not None, read_positions)
        if self.encoder.skips_unread and not output_attentions and not output_hidden_states:
            sequence_output = self.encoder(embeddings, mask, output_attentions, read)
        else:
            sequence_output = tokens_at(self.encoder(embeddings, mask, output_attentions), read)
        if self.pooler is None:
            return BaseModelOutputWithPooling(last_hidden_state=sequence_output)
        pooled = self.pooler(sequence_output[:, :1])  # the pooled token is the first one that is read
        return BaseModelOutputWithPooling(last_hidden_state=sequence_output[:, 1:], pooler_output=pooled)


class BertPredictionHeadTransform(nn.Module):
    """Dense layer, activation and LayerNorm before the vocabulary matrix, as in the released code: H to H."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.transform_act_fn = ACT2FN[config.hidden_act]
        self.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.LayerNorm(self.transform_act_fn(self.dense(hidden_states)))


class BertLMPredictionHead(nn.Module):
    """Vocabulary logits, (..., H) to (..., V); the output matrix is the token embedding, with a separate bias."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        # Released checkpoints name the decoder's bias twice; `_tied_weights_keys` makes the two one tensor. Without
        # `tie_word_embeddings` this one has no effect, as in transformers.
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.decoder(self.transform(hidden_states))


class BertPreTrainingHeads(nn.Module):
    """Container of one or both pre-training heads, with the parameter names of the released checkpoints."""

    def __init__(self, config: BertConfig, masked_lm: bool = True, next_sentence: bool = True) -> None:
        super().__init__()
        if masked_lm:
            self.predictions = BertLMPredictionHead(config)
        if next_sentence:
            self.seq_relationship = nn.Linear(config.hidden_size, 2)


class _MaskedLMModel(BertPreTrainedModel):
    """Base class of models with a masked-LM head: tied output matrix, and selection of the predicted tokens."""

    _tied_weights_keys = {  # noqa: RUF012 - transformers declares it as a plain attribute
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    def get_output_embeddings(self) -> nn.Linear:
        """Returns the output matrix with its bias, H to V."""
        return self.cls.predictions.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replaces the output matrix, and the bias under both of its names."""
        self.cls.predictions.decoder, self.cls.predictions.bias = new_embeddings, new_embeddings.bias

    def masked_lm(
        self, sequence_output: Tensor, labels: Tensor | None, masked_positions: Tensor | None, num_items: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Computes the masked-LM logits and loss; see `BertForPreTraining.forward` for arguments and layouts."""
        expected = sequence_output.shape[:2]
        if labels is not None and labels.shape != expected:
            name = "the input" if masked_positions is None else "`masked_positions`"
            raise ValueError(f"`labels` have shape {tuple(labels.shape)}, but {name} has {tuple(expected)}")
        if masked_positions is None and labels is not None:
            chosen = labels != IGNORE_INDEX
            sequence_output, labels = sequence_output[chosen], labels[chosen]  # (M, H), (M)
        logits = self.cls.predictions(sequence_output)
        return logits, None if labels is None else mean_cross_entropy(logits, labels, num_items)


@dataclass
class BertForPreTrainingOutput(ModelOutput):
    """Output of `BertForPreTraining`: the sum of the losses and each loss, 0-d; logits; requested states and
    attentions.

    ``prediction_logits`` are (B, P, V), (M, V) or (B, S, V), see `BertForPreTraining.forward`;
    ``seq_relationship_logits`` are (B, 2), index 0 = B follows A, 1 = B is random.
    """

    loss: Tensor | None = None
    masked_lm_loss: Tensor | None = None
    next_sentence_loss: Tensor | None = None
    prediction_logits: Tensor | None = None
    seq_relationship_logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class BertForPreTraining(_MaskedLMModel):
    """BERT with both pre-training heads, masked LM and next sentence prediction (BERT §3.1, §A.2).

    Examples:
        ```python
        tokenizer = transformers.AutoTokenizer.from_pretrained("my-bert")
        model = bertkit.BertForPreTraining.from_pretrained("my-bert")
        outputs = model(**tokenizer("a [MASK] film", return_tensors="pt"))
        outputs.prediction_logits, outputs.seq_relationship_logits  # 1, tokens, vocabulary; 1, 2
        ```
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.cls = BertPreTrainingHeads(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        masked_positions: Tensor | None = None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        num_pairs_in_batch: Tensor | int | None = None,
        **options: Unpack[EncoderOptions],
    ) -> BertForPreTrainingOutput:
        """Predicts masked tokens and whether B follows A; the first three arguments are `BertModel.forward`'s.

        Only the predicted tokens, about a seventh, are multiplied by the vocabulary matrix. There are two ways to
        select them; the first has fixed shapes, as compiled models and TPUs require:

        1. ``masked_positions`` (B, P), with ``labels`` (B, P): logits are (B, P, V).
        2. ``labels`` (B, S) alone: logits are (M, V), one row for each label that is not -100, in row-major order of
           the batch, so they line up with ``labels[labels != -100]``.

        Without either, all tokens are predicted and logits are (B, S, V). Each loss needs its own labels only; BERT's
        loss is the sum of the two means (BERT §A.2).

        Args:
            masked_positions: (B, P) int64 in [0, S); unused slots point at 0 and have label -100.
            labels: (B, P) or (B, S) int64, the original tokens; -100 ignored.
            next_sentence_label: (B) or (B, 1) int64, 0 = B follows A, 1 = B is random; -100 ignored.
            num_items_in_batch: Labelled tokens in the global batch; None for those of this batch.
            num_pairs_in_batch: Labelled pairs in the global batch; None for those of this batch.
            **options: `EncoderOptions`.

        Raises:
            ValueError: ``labels`` do not have the shape of what they label.
        """
        inputs = (input_ids, attention_mask, token_type_ids)
        outputs = self.bert(*inputs, return_dict=True, read_positions=masked_positions, **options)
        prediction_logits, masked_lm_loss = self.masked_lm(
            outputs.last_hidden_state, labels, masked_positions, num_items_in_batch
        )
        seq_relationship_logits = self.cls.seq_relationship(outputs.pooler_output)  # (B, 2)
        next_sentence_loss = None
        if next_sentence_label is not None:
            next_sentence_loss = mean_cross_entropy(seq_relationship_logits, next_sentence_label, num_pairs_in_batch)
        losses = [loss for loss in (masked_lm_loss, next_sentence_loss) if loss is not None]
        return BertForPreTrainingOutput(
            loss=sum(losses[1:], start=losses[0]) if losses else None,
            masked_lm_loss=masked_lm_loss,
            next_sentence_loss=next_sentence_loss,
            prediction_logits=prediction_logits,
            seq_relationship_logits=seq_relationship_logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class BertForMaskedLM(_MaskedLMModel):
    """BERT with a masked-LM head (BERT §3.1, Task #1).

    Examples:
        ```python
        tokenizer = transformers.AutoTokenizer.from_pretrained("my-bert")
        model = bertkit.BertForMaskedLM.from_pretrained("my-bert")
        logits = model(**tokenizer("a [MASK] film", return_tensors="pt")).logits  # 1, tokens, vocabulary
        ```
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.cls = BertPreTrainingHeads(config, next_sentence=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        masked_positions: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **options: Unpack[EncoderOptions],
    ) -> MaskedLMOutput:
        """Predicts masked tokens; arguments and the layouts of the logits as in `BertForPreTraining.forward`."""
        inputs = (input_ids, attention_mask, token_type_ids)
        outputs = self.bert(*inputs, return_dict=True, read_positions=masked_positions, **options)
        logits, loss = self.masked_lm(outputs.last_hidden_state, labels, masked_positions, num_items_in_batch)
        return MaskedLMOutput(loss, logits, outputs.hidden_states, outputs.attentions)


class BertForNextSentencePrediction(BertPreTrainedModel):
    """BERT with a next-sentence head: sentence B follows sentence A, or not (BERT §3.1, Task #2).

    Examples:
        ```python
        tokenizer = transformers.AutoTokenizer.from_pretrained("my-bert")
        model = bertkit.BertForNextSentencePrediction.from_pretrained("my-bert")
        inputs = tokenizer("the plot is lovely", "a good film", return_tensors="pt")
        model(**inputs).logits  # 1, 2: follows, random
        ```
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.cls = BertPreTrainingHeads(config, masked_lm=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **options: Unpack[EncoderOptions],
    ) -> NextSentencePredictorOutput:
        """Scores both answers, logits (B, 2); ``labels`` (B) int64, 0 = B follows A, 1 = B is random, -100 ignored."""
        inputs = (input_ids, attention_mask, token_type_ids)
        outputs = self.bert(*inputs, return_dict=True, read_positions=(), **options)
        logits = self.cls.seq_relationship(outputs.pooler_output)  # (B, 2)
        loss = None if labels is None else mean_cross_entropy(logits, labels, num_items_in_batch)
        return NextSentencePredictorOutput(loss, logits, outputs.hidden_states, outputs.attentions)


class BertForSequenceClassification(BertPreTrainedModel):
    """BERT with a linear classifier or regressor on the pooled output (BERT §4.1, Figure 4a, 4b).

    Examples:
        ```python
        tokenizer = transformers.AutoTokenizer.from_pretrained("my-reviews")
        model = bertkit.BertForSequenceClassification.from_pretrained("my-reviews")
        logits = model(**tokenizer("a lovely film", return_tensors="pt")).logits  # 1, classes
        model.config.id2label  # {0: 'bad', 1: 'good'}
        ```
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.dropout = nn.Dropout(self.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **options: Unpack[EncoderOptions],
    ) -> SequenceClassifierOutput:
        """Computes label logits (B, C); `loss_bert.problem_type` determines the form of ``labels`` and the loss."""
        inputs = (input_ids, attention_mask, token_type_ids)
        outputs = self.bert(*inputs, return_dict=True, read_positions=(), **options)
        logits = self.classifier(self.dropout(outputs.pooler_output))  # (B, C)
        loss = None if labels is None else sequence_classification_loss(self.config, logits, labels, num_items_in_batch)
        return SequenceClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)


class BertForTokenClassification(BertPreTrainedModel):
    """BERT with a linear classifier on every token, such as for named entities (BERT §5.3, Figure 4d).

    With ``config.feature_layers`` the encoder is frozen and `BertFeatures` precede the classifier (BERT §5.3, Table 7).

    Examples:
        ```python
        tokenizer = transformers.AutoTokenizer.from_pretrained("my-bert")
        model = bertkit.BertForTokenClassification.from_pretrained("my-bert", num_labels=3)  # the head is new
        logits = model(**tokenizer("a lovely film", return_tensors="pt")).logits  # 1, tokens, 3
        ```
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.features = None if config.feature_layers is None else BertFeatures(config)
        self.dropout = nn.Dropout(self.classifier_dropout)
        width = config.hidden_size if self.features is None else 2 * config.feature_lstm_size
        self.classifier = nn.Linear(width, config.num_labels)
        self.post_init()
        self.train()  # freezes the encoder

    def train(self, mode: bool = True) -> "BertForTokenClassification":
        """Sets the training mode; a frozen encoder stays in evaluation mode without gradients."""
        super().train(mode)
        if self.features is not None:
            self.bert.eval().requires_grad_(False)  # loading, which undoes it, calls this again
        return self

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **options: Unpack[EncoderOptions],
    ) -> TokenClassifierOutput:
        """Scores each label of each token, logits (B, S, C); ``labels`` (B, S) int64 in [0, C), -100 ignored."""
        encode = self.bert if self.features is None else partial(self.features, self.bert)
        outputs = encode(input_ids, attention_mask, token_type_ids, return_dict=True, **options)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))  # (B, S, C)
        loss = None if labels is None else mean_cross_entropy(logits, labels, num_items_in_batch)
        return TokenClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)


class BertForQuestionAnswering(BertPreTrainedModel):
    """BERT with a span head for the start and end of an answer in a passage (BERT §4.2, Figure 4c).

    Examples:
        ```python
        tokenizer = transformers.AutoTokenizer.from_pretrained("my-bert")
        model = bertkit.BertForQuestionAnswering.from_pretrained("my-bert")  # the head is new
        outputs = model(**tokenizer("what is lovely?", "the plot is lovely", return_tensors="pt"))
        outputs.start_logits, outputs.end_logits  # 1, tokens each
        ```
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **options: Unpack[EncoderOptions],
    ) -> QuestionAnsweringModelOutput:
        """Scores every token as start and as end of the answer, ``start_logits`` and ``end_logits`` (B, S).

        ``start_positions`` and ``end_positions``, the answer's first and last token, are (B) or (B, 1) int64; values
        outside [0, S) are ignored. The loss is the mean of both; giving only one raises ``ValueError``.
        """
        if (start_positions is None) != (end_positions is None):
            raise ValueError("give both `start_positions` and `end_positions`, or neither")
        outputs = self.bert(input_ids, attention_mask, token_type_ids, return_dict=True, **options)
        start_logits, end_logits = self.qa_outputs(outputs.last_hidden_state).unbind(dim=-1)  # (B, S) each
        loss = None
        if start_positions is not None and end_positions is not None:
            start_loss = position_loss(start_logits, start_positions, num_items_in_batch)
            loss = (start_loss + position_loss(end_logits, end_positions, num_items_in_batch)) / 2
        return QuestionAnsweringModelOutput(loss, start_logits, end_logits, outputs.hidden_states, outputs.attentions)


class BertForMultipleChoice(BertPreTrainedModel):
    """BERT for multiple choice among C continuations, each scored by a linear layer on its pooled output (BERT
    §4.4).

    Examples:
        ```python
        model = bertkit.BertForMultipleChoice.from_pretrained("my-bert")  # the head is new
        ids = torch.randint(5, 50, (2, 4, 16))  # questions, choices, tokens
        model(input_ids=ids).logits  # 2, 4
        ```
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.dropout = nn.Dropout(self.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **options: Unpack[EncoderOptions],
    ) -> MultipleChoiceModelOutput:
        """Scores each choice, logits (B, C), from inputs of shape (B, C, S); ``labels`` (B) int64, -100 ignored."""
        tokens = input_ids if input_ids is not None else options.get("inputs_embeds")
        num_choices = 1 if tokens is None else tokens.shape[1]
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids, **options}
        flat = {name: value.flatten(0, 1) if isinstance(value, Tensor) else value for name, value in inputs.items()}
        outputs = self.bert(return_dict=True, read_positions=(), **flat)
        logits = self.classifier(self.dropout(outputs.pooler_output)).view(-1, num_choices)  # (B, C)
        loss = None if labels is None else mean_cross_entropy(logits, labels, num_items_in_batch)
        return MultipleChoiceModelOutput(loss, logits, outputs.hidden_states, outputs.attentions)


# The one table of Auto classes: bertkit registers these, and every checkpoint names them in its `auto_map`.
AUTO_CLASSES: dict[str, type[BertPreTrainedModel]] = {
    "AutoModelForTextEncoding": BertModel,
    "AutoModel": BertModel,
    "AutoModelForPreTraining": BertForPreTraining,
    "AutoModelForMaskedLM": BertForMaskedLM,
    "AutoModelForNextSentencePrediction": BertForNextSentencePrediction,
    "AutoModelForSequenceClassification": BertForSequenceClassification,
    "AutoModelForTokenClassification": BertForTokenClassification,
    "AutoModelForQuestionAnswering": BertForQuestionAnswering,
    "AutoModelForMultipleChoice": BertForMultipleChoice,
}
for _auto_class, _model in AUTO_CLASSES.items():
    _model.register_for_auto_class(_auto_class)

__all__ = ["AUTO_CLASSES", "BertForPreTrainingOutput", *(model.__name__ for model in AUTO_CLASSES.values())]
