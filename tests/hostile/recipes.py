"""Recipes of hostile kinds and values: refused before training, in bounded time, or trained."""

from __future__ import annotations

import dataclasses

from .campaign import Case

SCALARS = [
    "!!int foo", "!!float abc", "!!timestamp 2001-99-99", "!!bool maybe", "!!binary '@@'", "!!null x", "!!str 3",
    "!!set {a}", "!!omap [a]", "!!pairs [a]", "!!python/object/apply:os.system ['touch ran']",
    "!!python/name:os.system", "!x y", "!<> z", "2001-01-01", "9" * 5000, "-" + "9" * 400, "1e400", "-1e400", ".nan",
    ".inf", "-.inf", "-1", "0", "1", "2", "7", "0.5", "1e-300", "1e300", "1e10", "-0.0", "1e18", "99999999999",
    "0x10", "0o7", "1_000", "1:30", "true", "'no'", "null", "~", "''", "' '", "x", "a" * 100_000, '"\\0"',
    '"\\e[31m"', '"\\ud800"', '"\\u202e"', "../../x", "/etc/passwd", "~/x", "http://x.invalid/y", "$(touch ran)",
    "os:system", "builtins:exec", "*undefined", "&a [*a]", "[]", "{}", "[[]]", "[1, [2]]", "{a: 1}", "{1: 2}",
    "[.nan]", "{? [a] : b}", "[" * 3000 + "]" * 3000, "{a: " * 300 + "1" + "}" * 300, "&x !!int 3",
    "|\n    a\n    b", "adamw_torch", "adafactor", "lion", "polynomial", "cosine_with_restarts", "steps", "epoch",
    "all", "[all]", "none", "auto", "float16", "gelu",
]  # fmt: skip
STRUCTURES = [
    "", "\n", "#", "[]", "x", "3", "~", "- a\n- b", "\ufeff{base}", "{base}{base}", "{base}---\n{base}",
    "{base}\t x: 1\n", "{base}1: 2\n", "{base}? [a]\n: b\n", "{base}null: x\n", "{base}train: 3\n",
    "{base}'': {{}}\n", "{base}Train: {{}}\n", "{base}unknown:\n  x: 1\n", "%YAML 9.9\n---\n{base}",
    "{base}...\n{base}", "{base}'open", "{base}[", "{base}{{", "{base}\x00", "{base}\x1b[31m: 1\n", "{bomb}",
    "{nested}", "{wide}", "{merge}", "\u2028{base}", "{base}hub: &h\n  <<: *h\n",
    "{base}train:\n  seed: 1\n  seed: 2\n", "{base}train:\n  ? a\n  : b\n", "{base}train:\n  1e3: b\n",
    "{base}data:\n  <<: 3\n",
]  # fmt: skip
# Values of these start processes or compilers; large ones would take the machine, not the recipe.
NOT_TRIED = ("num_processes", "dataloader_num_workers", "torch_compile", "tpu_", "torchdynamo", "dataloader_prefetch")


def _keys() -> list[str]:
    from transformers import TrainingArguments

    from bertkit.model.configuration_bert import BertConfig
    from bertkit.recipe.settings import HubSettings
    from bertkit.runtime.placement.resolve import PlacementSettings
    from bertkit.tasks.registry import TASKS

    task, data = TASKS.settings("classification")
    blocks = {"task": task, "data": data, "model": BertConfig, "train": TrainingArguments, "hub": HubSettings}
    blocks["placement"] = PlacementSettings
    keys = [f"{block}.{field.name}" for block, of in blocks.items() for field in dataclasses.fields(of)]
    keys += "train.global_train_batch_size train.early_stopping_patience model.name_or_path task.kind train.x".split()
    return sorted(key for key in keys if not key.partition(".")[2].startswith(NOT_TRIED))


def _base(case: Case) -> dict[str, dict[str, str]]:
    return {
        "task": {"kind": "classification"},
        "model": {"name_or_path": str(case.made.bert)},
        "data": {"train_file": str(case.made.table), "max_seq_length": "32"},
        "train": {"max_steps": "2", "global_train_batch_size": "8", "warmup_steps": "0"},
        "placement": {"device": "cpu", "mixed_precision": "no"},
        "hub": {},
    }


def _text(blocks: dict[str, dict[str, str]]) -> str:
    lines = []
    for block, values in blocks.items():
        lines += [f"{block}:" if values else f"{block}: {{}}", *(f"  {key}: {value}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _structure(form: str, base: str) -> str:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    more = {
        "bomb": bomb + f"{base}",
        "nested": f"{base}hub:\n  tags: " + "[" * 20_000 + "]" * 20_000,
        "wide": base + "".join(f"k{n}: {{}}\n" for n in range(30_000)),
        "merge": "x: &x {a: 1}\n" + base + "  <<: [*x, *x]\n",
    }
    return form.format(base=base, **more)


def attack(case: Case) -> None:
    keys, path = _keys(), case.work / "hostile.yaml"
    blocks, names = _base(case), ["hostile.yaml"]
    options: list[str] = []
    chosen: list[tuple[str, str]] = []
    kind = case.turn(["value", "value", "structure", "option", "value", "values"])
    if kind == "structure":
        form = case.turn(STRUCTURES, 6)
        text = _structure(form, _text(blocks))
        case.note = f"structure {form[:60]!r}"
    else:
        chosen = [(case.rng.choice(keys), case.rng.choice(SCALARS)) for _ in range(3 if kind == "values" else 1)]
        for key, value in chosen:
            block, _, name = key.partition(".")
            if kind == "option":
                options += ["--set", f"{key}={value.encode(errors='replace').decode()}"]
                names.append(key)
            else:
                blocks[block][name] = value
        text = _text(blocks)
        case.note = f"{kind} " + ", ".join(f"{key}: {value[:40]}" for key, value in chosen)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    limit = 30.0
    valid = case.run("recipes", "validate", path, names=names, limit=limit)
    case.check(not (case.work / "ran").exists(), "a recipe ran a program")
    if valid.code != 0 and kind != "option":
        return
    case.check(valid.code != 0 or valid.out == f"{path}: ok\n", f"validate prints {valid.out[:80]!r}")
    out = case.work / "out"
    # A path or a column names itself.
    given = [value[:60] for key, value in chosen if "/" in value or key.endswith(("_file", "_column", "_path"))]
    culprits = [*names, *(key for key, _ in chosen), *given] if kind != "structure" else [*names, "out"]
    command = ["finetune", "classification", "--recipe", path, *options, "--output-dir", out]
    refused = case.run(*command, names=[*culprits, *(key.partition(".")[2] for key in culprits if "." in key)])
    case.check(not (case.work / "ran").exists(), "a recipe ran a program")
    late = refused.code == 2 and out.exists() and "finite" not in refused.message and "diverge" not in refused.message
    case.check(not late, f"refused after the run has begun; {case.note}: {refused.message[:200]}")
