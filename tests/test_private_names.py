"""Private names of libraries that the package uses, each with the reason: a new version of the library may change them.

pyproject.toml bounds the versions of these libraries.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import bertkit

PACKAGE = Path(bertkit.__file__).parent
DOCUMENTED = {"_asdict", "_fields", "_replace", "_exit", "_getframe", "_"}
"""Documented in spite of their names: of NamedTuple, ``os`` and ``sys``."""

_ATTENTION = "interface of models: the choice of an attention"

USED = {
    "transformers": {
        "_attn_implementation": _ATTENTION,
        "_supports_attention_backend": _ATTENTION,
        "_supports_flash_attn": _ATTENTION,
        "_supports_flex_attn": _ATTENTION,
        "_supports_sdpa": _ATTENTION,
        "_can_record_outputs": "interface of models: layers whose hidden states and attentions are returned",
        "_init_weights": "interface of models: draws new weights, also those of a new head",
        "_input_embed_layer": "interface of models: name of the layer of token embeddings",
        "_is_hf_initialized": "weights with this mark are not drawn again by `_init_weights`",
        "_keys_to_ignore_on_save": "interface of models: tied weights, which a checkpoint holds once, are not missing",
        "_keys_to_ignore_on_load_unexpected": "interface of models: names of released checkpoints without a use here",
        "_no_split_modules": "interface of models: layers that FSDP wraps",
        "_tied_weights_keys": "interface of models: the decoder and the token embedding are one tensor",
        "_model_mapping": "families of encoders that an Auto class knows; no public name lists them",
        "_get_eval_sampler": "order of evaluation",
        "_get_train_sampler": "batches are global ones, `GlobalBatches`; `--check` counts them",
        "_init_training_state": "a finished or stopped run that is resumed trains no further step",
        "_load_callback_state": "the sum of losses in a checkpoint is no state of a callback, of which it would warn",
        "_prepare_inputs": "the batch on the device, as the Trainer puts it there",
        "_save_checkpoint": "only complete checkpoints of finite weights, and older ones removed after that",
        "_total_loss_scalar": "sum of the losses, kept in a checkpoint for the mean over a resumed run",
        "_tr_loss": "losses since the last log, checked for finite values",
        "_load_best_model": "FSDP: weights of the best checkpoint go into the sharded model",
        "_load_from_checkpoint": "FSDP: whole weights go into the sharded model",
        "_load_optimizer_and_scheduler": "FSDP: the whole state goes into the sharded optimizer",
        "_prepare_for_training": "FSDP: tied weights stay in the outermost group",
        "_wrap_model": "FSDP: evaluations have float32 weights",
        "_save": "FSDP: writes whole weights",
        "_save_optimizer_and_scheduler": "FSDP: writes whole states",
        "_load_rng_state": "XLA: its random state may be missing from a checkpoint",
        "_n_gpu": "`TrainingArguments` has no option for one GPU of several without DataParallel",
        "_initialized": "Trackio: the record is opened with its group, not by the callback",
        "_space_id": "Trackio: as `_initialized`",
        "_trackio": "Trackio: as `_initialized`",
    },
    "evaluate": {
        "_build_data_dir": "creates a folder, which fails in a read-only cache",
        "_compute": "interface of metrics",
        "_data_dir_root": "as `_build_data_dir`",
        "_finalize": "scoring nothing is an error with a message",
        "_info": "interface of metrics",
    },
    "datasets": {"_fingerprint": "identifies the data of a run that come from the Hub"},
    "optuna": {"_trial_id": "a study opened again continues a trial that has begun; `Trial` takes only this id"},
    "torch": {
        "_C": "whether torch was built with oneDNN",
        "_has_mkldnn": "whether torch was built with oneDNN",
        "_dynamo": "number of graphs of a compiled layer; its only setting, and documented",
        "_flash_attention_forward": "attention of joined sequences; its public form, `varlen`, has no dropout",
        "_foreach_copy_": 'casts many weights by one kernel; torch\'s "foreach functions" have no other names',
        "_forward_hooks": "hooks that keep values of a batch allow one batch at a time",
        "_forward_pre_hooks": "as `_forward_hooks`; a model must not pool windows twice",
        "_linear_pointwise": "products of float32 matrices by oneDNN on CPUs where MKL is slow",
        "_reorder_linear_weight": "weights in the order that `_linear_pointwise` reads",
    },
    "tqdm": {"_instances": "bars that are active at the end are closed"},
    "Python": {"_initializing": "of a module's `__spec__`: classes are not registered while an import is under way"},
}

BY_NAME = {"getattr", "setattr", "hasattr", "delattr", "object"}
"""Functions, ``patch.object`` among them, that take the name of an attribute as second argument."""


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__") and name not in DOCUMENTED


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def defined(tree: ast.AST) -> set[str]:
    """The private names that code gives to what is its own: functions, classes, variables, attributes of ``self``."""
    variables = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    return members(tree) | set(filter(is_private, variables | named))


def members(tree: ast.AST) -> set[str]:
    """The private names of methods and attributes that the classes of a module define, or set on ``self``."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, value=value, ctx=ast.Store()) if is_self(value):
                names.add(name)
            case ast.ClassDef(body=body):
                for part in body:
                    targets = getattr(part, "targets", [getattr(part, "target", part)])
                    names |= {getattr(target, "id", getattr(target, "name", "")) for target in targets}
    return set(filter(is_private, names))


def used(tree: ast.AST) -> set[str]:
    """The private names that code reads, sets, deletes or imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name):
                names.add(name)
            case ast.Import() | ast.ImportFrom():
                module = getattr(node, "module", None) or ""
                names |= {part for alias in node.names for part in f"{module}.{alias.name}".split(".")}
            case ast.Call(
                func=ast.Name(id=function) | ast.Attribute(attr=function), args=[_, ast.Constant(value=name), *_]
            ):
                names |= {name} if function in BY_NAME else set()
    return set(filter(is_private, names))


def library_bases(trees: Mapping[str, ast.AST]) -> dict[str, set[type]]:
    """The classes of libraries that classes of each module derive from; what is not installed is left out."""
    bases: dict[str, list[str]] = {}  # name with its module → those of its bases
    for module, tree in trees.items():
        origins = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                origins |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                origins |= {alias.asname or alias.name: alias.name for alias in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = [ast.unparse(base).partition("[")[0].partition(".") for base in node.bases]
                bases[f"{module}.{node.name}"] = [
                    origins.get(first, f"{module}.{first}") + dot + rest for first, dot, rest in names
                ]
    classes: dict[str, set[type]] = {module: set() for module in trees}
    for name in bases:
        todo = [name]
        while todo:
            todo += bases.get(current := todo.pop(), [])
            classes[name.rpartition(".")[0]] |= {*getattr(resolved(current), "__mro__", ())}
    return classes


@cache
def resolved(name: str) -> object:
    """The object of a library that a name with its module means; None for one that there is not, or of bertkit."""
    module, _, attribute = name.rpartition(".")
    if not module or module.partition(".")[0] == "bertkit" or find_spec(module.partition(".")[0]) is None:
        return None
    try:
        return getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return getattr(resolved(module), attribute, None)


@cache
def names_of_class(kind: type) -> set[str]:
    """The private names of a library's class."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # it is not written in Python
        return set()
    return members(ast.parse(source))


def private_names(code: Mapping[str, str]) -> set[str]:
    """The private names in modules, name → source, that are those of libraries."""
    trees = {module: ast.parse(source) for module, source in code.items()}
    own = {module: defined(tree) for module, tree in trees.items()}
    bases = library_bases(trees)
    names: set[str] = set()
    for module, tree in trees.items():
        uses = used(tree)
        inherited = set().union(*map(names_of_class, bases[module]))
        names |= (uses - set().union(*own.values())) | ((uses | members(tree)) & inherited)
    return names


def module_name(path: Path) -> str:
    return ".".join(["bertkit", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")


def test_every_private_name_has_a_reason():
    found = private_names({module_name(path): path.read_text() for path in PACKAGE.rglob("*.py")})
    assert sorted(found) == sorted(name for names in USED.values() for name in names)


def test_private_names_are_seen():
    code = """
import transformers
from library._parts import _one, two

class Mine(transformers.Trainer):
    def _save(self):
        self._own = two._three + getattr(two, "_four") + self._own + self._tr_loss

    def _mine(self):
        self._mine()
"""
    assert private_names({"mine": code}) == {"_parts", "_one", "_three", "_four", "_save", "_tr_loss"}
