"""Stock checkpoints as others publish them: each family's own classes of transformers, tiny, with random weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TEXTS = (
    "My name is Wolfgang and I live in Berlin",
    "Hugging Face is a company in New York City",
    "a lovely film with an awful plot",
    "Élise met Zoë Müller near the river Seine",
    "unbelievable stories about nothing at all",
)
POSITIONS = 64
# Of each family: the tokenizer's class and its special tokens (unknown, first, last, padding, mask).
_BERTS = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
_ROBERTAS = ("<unk>", "<s>", "</s>", "<pad>", "<mask>")
FAMILIES = {
    "bert": ("BertTokenizer", _BERTS),
    "distilbert": ("DistilBertTokenizer", _BERTS),
    "electra": ("ElectraTokenizer", _BERTS),
    "mpnet": ("MPNetTokenizer", ("[UNK]", *_ROBERTAS[1:])),
    "roberta": ("RobertaTokenizer", _ROBERTAS),
    "longformer": ("RobertaTokenizer", _ROBERTAS),
    "deberta": ("DebertaTokenizer", _BERTS),
    "modernbert": ("PreTrainedTokenizerFast", _BERTS),
    "albert": ("AlbertTokenizer", ("<unk>", "[CLS]", "[SEP]", "<pad>", "[MASK]")),
    "deberta-v2": ("DebertaV2Tokenizer", _BERTS),
    "xlm-roberta": ("XLMRobertaTokenizer", _ROBERTAS),
}
_WORD_PIECE = ("bert", "distilbert", "electra", "mpnet")
_BYTE_LEVEL = ("roberta", "longformer", "deberta", "modernbert")
_MASKS_WITH_BLANK = (*_BYTE_LEVEL, "mpnet", "albert", "xlm-roberta")  # the blank before the mask is part of it
_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_DISENTANGLED = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}
OWN: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 16},
    "deberta": {**_DISENTANGLED, "type_vocab_size": 0, "pooler_hidden_size": 32},
    "deberta-v2": {**_DISENTANGLED, "type_vocab_size": 0, "pooler_hidden_size": 32, "position_buckets": 8},
    "distilbert": {"hidden_dim": 64, "intermediate_size": None},
    "electra": {"embedding_size": 16},
    "longformer": {"max_position_embeddings": POSITIONS + 2, "attention_window": [8, 8]},
    "modernbert": {"num_hidden_layers": 3, "local_attention": 8},
    "mpnet": {"max_position_embeddings": POSITIONS + 2},
    "roberta": {"max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1},
    "xlm-roberta": {"max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1},
}


def stock_checkpoint(
    folder: Path, family: str, auto_class: str, labels: Sequence[str] | None = None, seed: int = 0, **fields: Any
) -> Path:
    """Writes a checkpoint with plain transformers.

    Args:
        folder: where to; made if it does not exist.
        family: one of `FAMILIES`.
        auto_class: the head, such as ``AutoModelForSequenceClassification``.
        labels: names of the labels, in the order of their ids; None for those of the family's configuration.
        seed: of the weights.
        fields: more fields of the configuration.
    """
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    tokenizer = stock_tokenizer(family)
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS, "initializer_range": 0.5, **_SIZES}
    ids = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("pad", "cls", "sep", "bos", "eos")}
    sizes |= {name: number for name, number in ids.items() if number is not None}
    names = {} if labels is None else {"id2label": dict(enumerate(labels)), "label2id": _ids(labels)}
    given: dict[str, Any] = {**sizes, **OWN.get(family, {}), **names, **fields}
    config = CONFIG_MAPPING[family](**{name: value for name, value in given.items() if value is not None})
    torch.manual_seed(seed)
    model = getattr(transformers, auto_class).from_config(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _ids(labels: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(labels)}


def stock_tokenizer(family: str) -> Any:
    """A tokenizer of the family's own class with a vocabulary of `TEXTS`."""
    import transformers
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    class_name, special = FAMILIES[family]
    unknown, first, last, padding, mask = special
    roles = {"unk_token": unknown, "cls_token": first, "sep_token": last, "pad_token": padding, "mask_token": mask}
    roles |= {"bos_token": first, "eos_token": last} if special[1] == "<s>" else {}
    if family in _MASKS_WITH_BLANK:
        roles["mask_token"] = AddedToken(mask, lstrip=True)
    tokens = [padding, unknown, first, last, mask]
    tokenizer_class = getattr(transformers, class_name)
    if family in _WORD_PIECE:
        # Not trained: of pieces that are as frequent, the trainer takes others each time.
        words = [word for text in TEXTS for word in normalizers.BertNormalizer().normalize_str(text).split()]
        signs = sorted({*"".join(words)})
        pieces = [*tokens, *signs, *(f"##{sign}" for sign in signs), *(word[:4] for word in words)]
        pieces += [f"##{word[4:]}" for word in words if len(word) > 4]
        vocab = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
        return tokenizer_class(vocab=vocab, model_max_length=POSITIONS, **roles)
    if family in _BYTE_LEVEL:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=450,
            special_tokens=[*tokens[:-1], roles["mask_token"]],
            show_progress=False,
            initial_alphabet=alphabet,
        )
        tokenizer.train_from_iterator(TEXTS, trainer)
        if class_name == "PreTrainedTokenizerFast":
            tokenizer.decoder = decoders.ByteLevel()
            ends = [(token, tokenizer.token_to_id(token)) for token in (first, last)]
            tokenizer.post_processor = processors.TemplateProcessing(
                single=f"{first} $A {last}", pair=f"{first} $A {last} $B {last}", special_tokens=ends
            )
            return tokenizer_class(tokenizer_object=tokenizer, model_max_length=POSITIONS, **roles)
        state = tokenizer.model.__getstate__()
        merges = [tuple(each) for each in json.loads(state)["merges"]]
        return tokenizer_class(vocab=tokenizer.get_vocab(), merges=merges, model_max_length=POSITIONS, **roles)
    words = [word for text in TEXTS for word in (*text.split(), *text.lower().split())]
    # Each character is a piece too, as in vocabularies of SentencePiece; else unknown ones are split in other ways.
    pieces = ["\u2581", *(f"\u2581{word[:4]}" for word in words), *(word[4:] for word in words if len(word) > 4)]
    pieces += [f"{space}{sign}" for sign in sorted({*"".join(words), *".,()'"}) for space in ("", "\u2581")]
    vocabulary = [(token, 0.0) for token in tokens] + [(piece, -len(pieces) / 9) for piece in dict.fromkeys(pieces)]
    return tokenizer_class(vocab=vocabulary, model_max_length=POSITIONS, **roles)
