"""Damaged, hostile and unfit checkpoints, for every command that reads one."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from . import damage
from .campaign import Case
from .rule import valid_json
from .running import Outcome

TEXTS = ["the cat sees a dog", "a small red house", "x"]
EVIL = "import pathlib\npathlib.Path({marker!r}).touch()\nclass Evil:\n    def __init__(self, *a, **k):\n        pass\n"
AUTO = ["AutoConfig", "AutoTokenizer", "AutoModel", "AutoModelForSequenceClassification", "AutoModelForMaskedLM"]


def _weights(path: Path) -> tuple[dict, bytearray]:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), bytearray(content[8 + length :])


def _write(path: Path, header: dict, tensors: bytes) -> None:
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + tensors)


def not_a_number(case: Case, folder: Path) -> str:
    """Makes every weight NaN."""
    header, tensors = _weights(folder / "model.safetensors")
    tensors[:] = struct.pack("<f", float("nan")) * (len(tensors) // 4)
    _write(folder / "model.safetensors", header, tensors)
    return "all weights NaN"


def other_header(case: Case, folder: Path) -> str:
    """Renames a tensor, gives it another shape or type, or takes it away."""
    path = folder / "model.safetensors"
    header, tensors = _weights(path)
    name = case.rng.choice(sorted(set(header) - {"__metadata__"}))
    entry, change = header[name], case.rng.choice(["rename", "remove", "shape", "dtype", "offsets", "type"])
    if change in ("rename", "remove"):
        header["other" if change == "rename" else "__metadata__"] = header.pop(name) if change == "rename" else {}
        header.pop(name, None)
    elif change == "shape":
        entry["shape"] = [*entry["shape"][::-1], 1]
    elif change == "dtype":
        entry["dtype"] = case.rng.choice(["F16", "I32", "F64", "BOOL", "X9"])
    elif change == "offsets":
        entry["data_offsets"] = [0, 10**12]
    else:
        header[name] = []
    _write(path, header, tensors)
    return f"tensor {name}: {change}"


def other_code(case: Case, folder: Path) -> str:
    """Names code of the checkpoint's own, which must not run."""
    (folder / "evil.py").write_text(EVIL.format(marker=str(case.folder / "ran")))
    file = case.rng.choice(["config.json", "tokenizer_config.json"])
    content = json.loads((folder / file).read_text())
    content["auto_map"] = {
        name: ["evil.Evil", "evil.Evil"] if name == "AutoTokenizer" else "evil.Evil" for name in AUTO
    }
    removed = case.rng.choice(["", "model_type", "tokenizer_class", "architectures"])
    content.pop(removed, None)
    content |= case.rng.choice([{}, {"model_type": "evil"}, {"tokenizer_class": "Evil"}])
    (folder / file).write_text(json.dumps(content))
    return f"auto_map in {file}, without {removed or 'nothing'}"


def other_values(case: Case, folder: Path) -> str:
    """Puts a hostile value into one of the JSON files."""
    file = case.rng.choice(["config.json", "config.json", "tokenizer_config.json", "tokenizer.json"])
    return f"{file}: {damage.hostile_entry(folder / file, case.rng)}"


def one_field(case: Case, folder: Path) -> str:
    """Gives a field of the configuration a value that another model would have."""
    content = json.loads((folder / "config.json").read_text())
    fields = {
        "vocab_size": [1, 5, 10**6, 10**12, -1], "hidden_size": [17, 32, 0, 10**9],
        "num_attention_heads": [0, 3, 16], "num_hidden_layers": [0, 2, 10**6],
        "max_position_embeddings": [1, 8, 10**9], "hidden_act": ["evil", 3, None],
        "quantization_config": [{}, {"quant_method": "bitsandbytes", "load_in_4bit": True}, {"quant_method": "x"}, 7],
        "id2label": [{}, {"0": "a"}, {"x": "y"}, {str(n): "same" for n in range(9)}, {"0": "\x1b[31m"}, [], 5],
        "bertkit_task": [None, {}, [], 7, "x", {"kind": "x"}, {"kind": "ner"}, {"kind": "classification"}],
        "model_type": ["gpt2", "t5", "x", "", None, 3], "type_vocab_size": [0, 1, -3],
        "pad_token_id": [-5, 10**9, "x"], "architectures": [[], ["X"], "X", None, [3]],
        "dtype": ["x", "float64", "int8", 3], "torch_dtype": ["float16", []],
        "layer_norm_eps": [float("nan"), -1.0, "x"], "problem_type": ["x", "regression", 3],
        "is_decoder": [True, "x"],
    }  # fmt: skip
    field = case.rng.choice(sorted(fields))
    content[field] = case.rng.choice(fields[field])
    (folder / "config.json").write_text(json.dumps(content))
    return f"config.json: {field}={str(content[field])[:60]}"


def damaged(case: Case, folder: Path) -> str:
    """Damages one of the files that a model is read from."""
    file = case.rng.choice(
        ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "model.safetensors"]
    )
    kind = case.rng.choice(damage.JSON_FILE if file.endswith(".json") else damage.ANY_FILE)
    kind(folder / file, case.rng)
    return f"{file}: {kind.__name__}"


KINDS = [damaged, one_field, other_values, other_header, damaged, one_field, not_a_number, other_code]


def attack(case: Case) -> None:
    made = case.made
    name = case.turn(["classifier", "tagger", "reader", "bert"], len(KINDS))
    folder = damage.copy_of(getattr(made, name), case.work / "damaged")
    change = case.turn(KINDS)
    case.note = f"{name}: {change(case, folder)}"
    training = made.training("classification", made.table, schedule=False)
    commands = {
        "predict": ["predict", folder, *TEXTS, "--json"],
        "embed": ["embed", folder, *TEXTS, "--output", "vectors.jsonl", "--json"],
        "export": ["export", folder, "exported", "--json"],
        "fill-mask": ["fill-mask", folder, "the [MASK] sees", "--json"],
        "finetune": [*training, "--model", folder, "--output-dir", "out", "--json"],
        "evaluate": ["evaluate", folder, "--validation-file", made.table, "--json"],
    }  # fmt: skip
    if name == "reader":
        commands["predict"] = ["predict", folder, "--question", "what?", "--context", TEXTS[0], "--json"]
    files = {"tagger": made.tagged, "reader": made.questions}
    commands["evaluate"][3] = files.get(name, made.table)
    usable = [each for each in commands if each != ("predict" if name == "bert" else "fill-mask")]
    command = case.rng.choice(["evaluate", "predict"] if change is not_a_number and name != "bert" else usable)
    texts = len(TEXTS) if command == "predict" and name != "reader" else None
    must = "refuse" if change is not_a_number and command in ("evaluate", "predict") else None

    def right(outcome: Outcome) -> str | None:
        try:
            got = valid_json(outcome.out)
        except ValueError as error:
            return f"not JSON: {error}"
        if texts and len(got["predictions"]) != texts:
            return f"{len(got['predictions'])} predictions for {texts} texts"
        return None

    case.run(*commands[command], names=["damaged"], must=must, answer=right)
    case.check(not (case.folder / "ran").exists(), "code of the checkpoint was run")
    if case.outcomes[-1].code == 2:
        for out in ("vectors.jsonl", "exported", "out"):
            case.check(not (case.work / out).exists(), f"a refused command has written {out}")
