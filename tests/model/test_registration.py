from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from transformers.models.auto import modeling_auto

import bertkit
from bertkit.model import registration

AUTO_CLASSES = {
    name: value
    for name, value in vars(modeling_auto).items()
    if name.startswith("AutoModel") and getattr(value, "_model_mapping", None) is not None
}
SUPPORTED = {
    "AutoModel": "BertModel",
    "AutoModelForTextEncoding": "BertModel",
    "AutoModelForPreTraining": "BertForPreTraining",
    "AutoModelForMaskedLM": "BertForMaskedLM",
    "AutoModelForNextSentencePrediction": "BertForNextSentencePrediction",
    "AutoModelForSequenceClassification": "BertForSequenceClassification",
    "AutoModelForTokenClassification": "BertForTokenClassification",
    "AutoModelForQuestionAnswering": "BertForQuestionAnswering",
    "AutoModelForMultipleChoice": "BertForMultipleChoice",
}


def test_the_walk_over_the_auto_classes_finds_them() -> None:
    assert len(AUTO_CLASSES) > 30
    assert SUPPORTED.keys() <= AUTO_CLASSES.keys()
    assert {"AutoModelForCausalLM", "AutoModelForSeq2SeqLM"} <= AUTO_CLASSES.keys()


@pytest.mark.parametrize("name", AUTO_CLASSES)
def test_every_auto_class_builds_ours_or_refuses(name: str, tiny_config: Any) -> None:
    if name in SUPPORTED:
        assert type(AUTO_CLASSES[name].from_config(tiny_config)) is getattr(bertkit, SUPPORTED[name])
    else:
        with pytest.raises(ValueError, match="Unrecognized configuration class"):
            AUTO_CLASSES[name].from_config(tiny_config)


def test_auto_classes_load_a_checkpoint_as_ours(tiny_config: Any, tmp_path: Path) -> None:
    model = bertkit.BertForPreTraining(tiny_config).eval()
    model.save_pretrained(tmp_path)
    auto_map = {"AutoConfig": "configuration_bert.BertkitConfig"}
    auto_map |= {name: f"modeling_bert.{model}" for name, model in SUPPORTED.items()}
    assert json.loads((tmp_path / "config.json").read_text())["auto_map"] == auto_map
    assert type(transformers.AutoConfig.from_pretrained(tmp_path)) is bertkit.BertConfig
    loaded = transformers.AutoModelForPreTraining.from_pretrained(tmp_path)
    assert type(loaded) is bertkit.BertForPreTraining
    ids = torch.randint(99, (2, 5))
    torch.testing.assert_close(loaded(ids).prediction_logits, model(ids).prediction_logits)
    with pytest.raises(ValueError, match="Unrecognized configuration class"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


def test_installed_code_precedes_that_of_checkpoints(tiny_config: Any, tmp_path: Path) -> None:
    bertkit.BertForMaskedLM(tiny_config).save_pretrained(tmp_path)
    loaded = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path, trust_remote_code=True)
    assert type(loaded) is bertkit.BertForMaskedLM


def test_registering_again_changes_nothing(tiny_config: Any) -> None:
    for _ in range(2):
        registration.install()
        registration.register_config()
        registration.register_models()
    assert type(transformers.AutoModel.from_config(tiny_config)) is bertkit.BertModel
    assert type(transformers.AutoConfig.for_model("bertkit")) is bertkit.BertConfig


def test_transformers_own_bert_is_left_alone(tiny_sizes: dict[str, Any]) -> None:
    model = transformers.AutoModel.from_config(transformers.BertConfig(**tiny_sizes))
    assert type(model) is transformers.BertModel


def test_the_public_names_are_importable_and_listed() -> None:
    assert {"BertConfig", "BertModel", *SUPPORTED.values(), "__version__"} <= set(bertkit.__all__)
    assert sorted(bertkit.__all__) == dir(bertkit)
    for name in bertkit.__all__:
        assert getattr(bertkit, name) is not None
    with pytest.raises(AttributeError, match="BertModle"):
        bertkit.BertModle


def test_names_that_two_threads_use_first_leave_stdout_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    first_begins, second_begins, stdout = Event(), Event(), sys.stdout

    def import_slowly(module: str) -> Any:
        if not first_begins.is_set():
            first_begins.set()
            assert second_begins.wait(10)
        else:
            second_begins.set()
            first.join(10)
        return SimpleNamespace(load=module, evaluate=module)

    monkeypatch.setattr(bertkit, "import_module", import_slowly)
    for name in ("load", "evaluate"):
        monkeypatch.setitem(vars(bertkit), name, None)  # which puts back what is there now
    first = Thread(target=bertkit.__getattr__, args=("load",))
    first.start()
    assert first_begins.wait(10)
    bertkit.__getattr__("evaluate")
    assert sys.stdout is stdout


# ------------------------------------------------------------------------------------------------ in a fresh process


def run(code: str, directory: Path, *arguments: str) -> str:
    """Returns the output of a new interpreter; a failure shows the warnings and errors of transformers."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(bertkit.__file__).parents[1]),
        "HF_HOME": str(directory / "hf"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=directory, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_bertkit_imports_neither_transformers_nor_torch(tmp_path: Path) -> None:
    """So it takes a tenth of a second; ``benchmarks/start_up.py`` measures it."""
    heavy = ("torch", "transformers", "numpy", "huggingface_hub", "datasets", "evaluate")
    code = f"import sys; import bertkit; print(sorted({set(heavy)} & set(sys.modules)))"
    assert run(code, tmp_path).strip() == "[]"


LOAD = """
import sys, torch
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoTokenizer
where, ids = sys.argv[-1], torch.arange(6).unsqueeze(0)
assert AutoConfig.from_pretrained(where).model_type == "bertkit"
for auto in (AutoModel, AutoModelForMaskedLM):
    assert type(auto.from_pretrained(where)).__module__ == "bertkit.model.modeling_bert", auto
logits = AutoModelForMaskedLM.from_pretrained(where)(ids).logits
# Not bit for bit: another number of threads sums in another order.
assert torch.allclose(logits, torch.load(where + "/logits.pt"), atol=1e-6), "other logits"
assert AutoTokenizer.from_pretrained(where)("ab")["input_ids"] == [2, 5, 3]
print("same")
"""

ORDERS = [
    "import bertkit",
    "from transformers import AutoModel, Trainer; import bertkit",
    "import bertkit; from transformers import Trainer, pipeline",
    "import bertkit; import transformers.models.bert.modeling_bert",
    "import transformers.modeling_utils; import bertkit",
]
QUICK_ORDER = ORDERS[0]


@pytest.fixture
def checkpoint(tiny_config: Any, tmp_path: Path) -> Path:
    """A saved masked LM with its tokenizer and, in ``logits.pt``, what it answers to the ids 0 to 5."""
    folder = tmp_path / "checkpoint"
    model = bertkit.BertForMaskedLM(tiny_config).eval()
    model.save_pretrained(folder)
    vocab = {token: index for index, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ab"])}
    transformers.BertTokenizer(vocab=vocab).save_pretrained(folder)
    assert json.loads((folder / "tokenizer_config.json").read_text())["tokenizer_class"] == "BertTokenizer"
    with torch.no_grad():
        torch.save(model(torch.arange(6).unsqueeze(0)).logits, folder / "logits.pt")
    return folder


@pytest.mark.parametrize(
    "order", [pytest.param(order, marks=() if order == QUICK_ORDER else pytest.mark.slow) for order in ORDERS]
)
def test_auto_classes_load_in_any_import_order(order: str, checkpoint: Path) -> None:
    assert run(f"{order}\n{LOAD}", checkpoint.parent, str(checkpoint)) == "same\n"


REMOTE = """
import sys
sys.modules["bertkit"] = None  # what import does where bertkit is not installed
import torch, transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM
from transformers import AutoModelForSequenceClassification
where, ids = sys.argv[-1], torch.arange(6).unsqueeze(0)

def load(auto, folder=where):
    return auto.from_pretrained(folder, trust_remote_code=True).eval()

model = load(AutoModelForMaskedLM)
assert type(model).__module__.startswith("transformers_modules."), type(model)
expected = torch.load(where + "/logits.pt")
assert torch.allclose(model(ids).logits, expected, atol=1e-6), "other logits"
for auto, name in [(AutoModel, "BertModel"), (AutoModelForSequenceClassification, "BertForSequenceClassification")]:
    other = load(auto)
    assert type(other).__name__ == name and type(other).__module__.startswith("transformers_modules."), type(other)
    assert torch.equal(other.get_input_embeddings().weight, model.get_input_embeddings().weight)
try:
    load(AutoModelForCausalLM)
except ValueError as error:
    assert "Unrecognized configuration class" in str(error)
else:
    raise AssertionError("a masked LM loaded as a causal one")

model.save_pretrained(where + "-again")  # from remote code, and a second time into the same place
model.save_pretrained(where + "-again")
assert torch.allclose(load(AutoModelForMaskedLM, where + "-again")(ids).logits, expected, atol=1e-6)
load(AutoModel, where + "-again")
print("same")
"""


def test_every_head_loads_without_bertkit(checkpoint: Path) -> None:
    assert run(REMOTE, checkpoint.parent, str(checkpoint)) == "same\n"
    again = checkpoint.with_name("checkpoint-again")
    for name in ("configuration_bert.py", "modeling_bert.py", "loss_bert.py", "labels_bert.py"):
        assert (again / name).read_bytes() == (checkpoint / name).read_bytes()
    first, second = (json.loads((folder / "config.json").read_text()) for folder in (checkpoint, again))
    assert first == second
