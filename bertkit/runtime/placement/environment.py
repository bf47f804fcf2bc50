"""Description of this machine and its packages for a bug report, without paths, names of users or secrets."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import Any

from bertkit.runtime.placement.processes import usable_cores
from bertkit.runtime.placement.processor import cpu_features, processor
from bertkit.runtime.version import __version__

_PACKAGES = (
    *("torch", "transformers", "datasets", "accelerate", "evaluate", "tokenizers", "huggingface-hub", "safetensors"),
    *("numpy", "scikit-learn", "pyarrow"),
)
# Variables whose values are numbers and words, never paths or secrets.
_VARIABLES = (
    *("MKL_CBWR", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"),
    *("CUDA_VISIBLE_DEVICES", "WORLD_SIZE", "TOKENIZERS_PARALLELISM", "PYTHONUTF8"),
    *("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "WANDB_MODE", "NO_COLOR"),
)
_PLAIN = re.compile(r"[\w.,+-]{0,64}")


def environment() -> dict[str, Any]:
    """Returns what a bug report needs, flat and as JSON: versions, processor, devices, extras and settings.

    ``bertkit env`` prints it. It has no paths, no names of users and machines, and no tokens.

    Returns:
        Name → text, number, list or None for what is not known.

    Examples:
        ```python
        facts = bertkit.environment()
        facts["torch"], facts["processor"]
        ```
    """
    import psutil
    import torch

    found: dict[str, Any] = {
        "bertkit": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "c_library": " ".join(platform.libc_ver()).strip() or None,
        **{name: _version(name) for name in _PACKAGES},
        "processor": processor(),
        "cpu_features": cpu_features(),
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch_threads": torch.get_num_threads(),
        "cores": usable_cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        "cuda": torch.version.cuda if torch.cuda.is_available() else None,
        "torch_xla": _version("torch-xla"),
    }
    for name, packages in extras().items():
        missing = [package for package in packages if _version(package) is None]
        found[f"extra_{name}"] = f"without {', '.join(missing)}" if missing else "installed"
    set_here = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    return {**found, **{name: value for name, value in set_here.items() if _PLAIN.fullmatch(value)}}


def extras() -> dict[str, list[str]]:
    """Returns the packages of each extra of bertkit that this Python and system need for it.

    An extra without packages is left out, and ``dev``, which is for work on bertkit itself. There are none if bertkit
    is not installed, as where a folder of its source is in Python's path.
    """
    from packaging.requirements import Requirement

    if _version("bertkit") is None:
        return {}
    found: dict[str, list[str]] = {name: [] for name in metadata("bertkit").get_all("Provides-Extra") or ()}
    for line in requires("bertkit") or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": ""}):  # of the core
            continue
        for name in found:
            if marker.evaluate({"extra": name}):
                found[name].append(requirement.name)
    return {name: packages for name, packages in sorted(found.items()) if packages and name != "dev"}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
