"""Tasks of small files, sets of a Hub that are only tables, and tokenizers that differ in what windows depend on."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertTokenizer, PreTrainedTokenizerFast

from bertkit import BertConfig
from bertkit.data.tables import Table
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.tasks import table_data
from bertkit.tasks.base import Task, task_record
from bertkit.tasks.checkpoints import task_of_checkpoint


@pytest.fixture
def task_of_files(tmp_path: Path) -> Callable[..., Any]:
    """Returns a function that builds a task; its files are given by their contents, such as ``train_csv="text,…"``."""

    def build(task: type[Task], **given: Any) -> Task:
        data, chosen = {}, {}
        for name, value in given.items():
            split, _, kind = name.rpartition("_")
            if kind in ("csv", "tsv", "jsonl", "conll"):
                path = tmp_path / f"{split}.{kind}"
                path.write_text(value, encoding="utf-8")
                data[f"{split}_file"] = str(path)
            else:
                (chosen if name in task.Settings.__dataclass_fields__ else data)[name] = value
        return task(task.Settings(**chosen), task.data_settings(**data))

    return build


def json_lines(**columns: list[Any]) -> str:
    """The content of a file of JSON lines."""
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def refusal(tmp_path: Path) -> Callable[..., str]:
    """Returns a function that gives the message with which a task refuses its files, without their folder."""

    def load(task: Task, splits: Sequence[str] | None = None) -> str:
        with pytest.raises((DataError, RecipeError)) as caught:
            task.load(splits)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return load


@pytest.fixture
def through_checkpoint() -> Callable[..., Any]:
    """Returns a function that gives a task as it comes back from the ``config.json`` of what was trained."""

    def read(task: Task, **data: Any) -> Task:
        config = BertConfig(**task.config(), bertkit_task=task_record(task))
        found = task_of_checkpoint(BertConfig.from_dict(json.loads(config.to_json_string())), "here", **data)
        assert type(found) is type(task)
        return found

    return read


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``hub(class_names, train={…}, …)`` serves columns as the splits of the Hub's set ``org/x``."""

    def serve(class_names: dict[str, list[str]], **splits: dict[str, list[Any]]) -> None:
        tables = {
            name: Table(columns, f"org/x ({name})", "", class_names=class_names) for name, columns in splits.items()
        }
        monkeypatch.setattr(table_data, "hub_splits", lambda name, config: list(tables))
        monkeypatch.setattr(table_data, "load_hub_table", lambda name, config, split: tables[split.partition("[")[0]])

    return serve


# ---- tokenizers -----------------------------------------------------------------------------------------------------

WORDS = "where is the dog in park red house who sings when and a big".split()
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIGNS = [*string.ascii_lowercase, *string.digits, *".,!?é中"]


def bert() -> Any:
    """Words and letters; lower case, accents dropped, every Chinese sign a word."""
    return BertTokenizer(
        vocab={word: index for index, word in enumerate([*SPECIALS, *WORDS, *SIGNS, *(f"##{sign}" for sign in SIGNS)])}
    )


def roberta() -> Any:
    """Bytes: a sign may be several tokens; two separators between question and text, and no types."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(alphabet)]
    backend = Tokenizer(models.BPE(vocab={name: index for index, name in enumerate(names)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, padding_side="left", **names)


def pieces() -> Any:
    """As SentencePiece: the space belongs to the token after it, and [CLS] stands last."""
    vocabulary = [(name, 0.0) for name in SPECIALS]
    vocabulary += [(f"▁{word}", -3.0) for word in WORDS] + [(sign, -6.0) for sign in ["▁", *SIGNS]]
    backend = Tokenizer(models.Unigram(vocabulary, unk_id=1))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.post_processor = processors.TemplateProcessing(
        single="$A [SEP] [CLS]:2", pair="$A [SEP] $B:1 [SEP]:1 [CLS]:2", special_tokens=[("[SEP]", 3), ("[CLS]", 2)]
    )
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, truncation_side="left", **names)


TOKENIZERS: dict[str, Callable[[], Any]] = {"bert": bert, "roberta": roberta, "pieces": pieces}


@pytest.fixture(scope="session", params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    """Each of them."""
    return TOKENIZERS[request.param]()


@pytest.fixture(scope="session", name="bert")
def _bert() -> Any:
    """The first of them."""
    return bert()
