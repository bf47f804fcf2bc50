"""Makes transformers' Auto classes know bertkit's models, without importing transformers for it.

``import bertkit`` is to be quick, and yet enough: ``AutoModel.from_pretrained`` must build our classes whether
transformers was imported before it or is imported after it. So nothing is registered at once. `install` asks to be told
when a module of transformers has been imported, and registration happens then. Which class belongs to which Auto class
is said once, in ``AUTO_CLASSES`` at the end of ``bertkit/model/modeling_bert.py``: the table travels with the model,
since every checkpoint names those classes too.
"""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType

import wrapt

_AUTO_CONFIG = "transformers.models.auto.configuration_auto"
_AUTO_MODELS = "transformers.models.auto.modeling_auto"
# The Auto classes are themselves imported while these are, and half of a module is no ground to build ours on.
_GROUND = ("transformers.modeling_utils", "transformers.modeling_layers", "bertkit.model.modeling_bert")


def install() -> None:
    """Registers with what transformers has imported, and when it imports the rest."""
    wrapt.register_post_import_hook(_on_auto_config, _AUTO_CONFIG)
    for name in (_AUTO_MODELS, *_GROUND):
        wrapt.register_post_import_hook(partial(_on_import, name), name)


def _on_auto_config(_: ModuleType) -> None:
    register_config()


def _on_import(name: str, _: ModuleType) -> None:
    """Registers the models unless the Auto classes are not there yet or something is half imported.

    The import of that something ends with a call of this function too, so none is missed.
    """
    if _AUTO_MODELS in sys.modules and not any(
        _half_imported(other) for other in (_AUTO_MODELS, *_GROUND) if other != name
    ):
        register_models()


def _half_imported(name: str) -> bool:
    """Whether a module is being imported at this moment; the flag is the import system's own."""
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False)


def register_config() -> None:
    """Tells ``AutoConfig`` what a checkpoint of model type "bertkit" is configured by; repeating it changes nothing."""
    from transformers.models.auto.configuration_auto import AutoConfig

    from .model.configuration_bert import BertConfig

    AutoConfig.register(BertConfig.model_type, BertConfig, exist_ok=True)


def register_models() -> None:
    """Tells every Auto class of the table which model to build; repeating it changes nothing."""
    from transformers.models.auto import modeling_auto

    from .model.configuration_bert import BertConfig
    from .model.modeling_bert import AUTO_CLASSES

    for auto_class, model in AUTO_CLASSES.items():
        getattr(modeling_auto, auto_class).register(BertConfig, model, exist_ok=True)
