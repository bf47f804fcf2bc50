"""Registers bertkit's models with the Auto classes of transformers without importing transformers.

``import bertkit`` has to be fast, and ``AutoModel.from_pretrained`` has to build our classes whether transformers is
imported before or after it. Registration is therefore deferred: `install` adds post-import hooks for modules of
transformers, which register the classes. ``AUTO_CLASSES`` at the end of ``bertkit/model/modeling_bert.py`` maps Auto
classes to model classes; the table is part of the model code, since every checkpoint names these classes too.
"""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType

import wrapt

_AUTO_CONFIG = "transformers.models.auto.configuration_auto"
_AUTO_MODELS = "transformers.models.auto.modeling_auto"
# The Auto classes can be imported during the import of these modules; our classes need them fully imported.
_GROUND = ("transformers.modeling_utils", "transformers.modeling_layers", "bertkit.model.modeling_bert")


def install() -> None:
    """Adds the hooks; they run at once for modules that are already imported, otherwise after their import."""
    wrapt.register_post_import_hook(lambda module: register_config(), _AUTO_CONFIG)
    for name in (_AUTO_MODELS, *_GROUND):
        wrapt.register_post_import_hook(partial(_on_import, name), name)


def _on_import(name: str, _: ModuleType) -> None:
    """Registers the models unless the Auto classes are not imported or a module is partially imported.

    The end of the import of that module calls this function again, so the registration is not missed.
    """
    if _AUTO_MODELS not in sys.modules:
        return
    specs = (getattr(sys.modules.get(other), "__spec__", None) for other in (_AUTO_MODELS, *_GROUND) if other != name)
    if not any(getattr(spec, "_initializing", False) for spec in specs):  # the private flag of the import system
        register_models()


def register_config() -> None:
    """Registers `BertConfig` with ``AutoConfig`` for the model type "bertkit"; idempotent."""
    from transformers.models.auto.configuration_auto import AutoConfig

    from .configuration_bert import BertConfig

    AutoConfig.register(BertConfig.model_type, BertConfig, exist_ok=True)


def register_models() -> None:
    """Registers the model class of every Auto class in ``AUTO_CLASSES``; idempotent."""
    from transformers.models.auto import modeling_auto

    from .configuration_bert import BertConfig
    from .modeling_bert import AUTO_CLASSES

    for auto_class, model in AUTO_CLASSES.items():
        getattr(modeling_auto, auto_class).register(BertConfig, model, exist_ok=True)
