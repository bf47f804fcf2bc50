"""The data of the paper's tasks below one folder, and which of them are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertkit.features.reproducing.paper import PaperRun
from bertkit.tasks.registry import load_recipe


class MissingError(Exception):
    """A row cannot be reproduced, with the reason; the other ones can."""


def data_values(run: PaperRun, data_dir: Path | None) -> dict[str, Any]:
    """Returns the recipe values, by dotted key, of the data of a run.

    Args:
        run: the run.
        data_dir: folder with the data: that of GLUE, or one with ``glue/``, ``squad/``, ``swag/`` and ``conll2003/``.
            None takes the data from the Hub.

    Raises:
        MissingError: the training or the validation set does not exist; the message names the files.
    """
    if data_dir is None:
        return dict(run.hub or {})
    if run.files is None:
        task = load_recipe(run.recipe).task
        for folder in (data_dir / "glue", data_dir):
            if (folder / task.folder / task.files["train"]).is_file():
                return {"data.data_dir": str(folder)}
        raise MissingError(f"no {task.folder}/{task.files['train']} in {data_dir / 'glue'} or {data_dir}")
    found: dict[str, Any] = {}
    for key, names in run.files.items():
        places = ((folder, name) for folder in (data_dir / run.folder, data_dir) for name in names)
        paths = (path for folder, name in places for path in sorted(folder.glob(name)) if path.is_file())
        if (first := next(paths, None)) is not None:
            found[f"data.{key}"] = str(first)
        elif key != "test_file":
            raise MissingError(f"no {' or '.join(names)} in {data_dir / run.folder} or {data_dir}")
    return found
