"""Trackers: how the record of a run is opened, continued, given figures and closed.

The callbacks of transformers write losses and scores. The classes here add what those leave to their callers: the
recipe as configuration, a group, a record that a resumed run continues, figures, and an end after the last score.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK, TrackioCallback

from bertkit.json_text import dumps

TENSORBOARD_FOLDER = "tensorboard"


@dataclass(frozen=True)
class Record:
    """Facts about the record of a run.

    Attributes:
        name: name of the run.
        group: name of the grid or suite that the run is part of; None for a single run.
        config: the recipe by dotted key, without paths.
        folder: the run directory.
        known: what `Tracker.open` returned when the run was started, if it is resumed; empty otherwise.
        arguments: arguments of the Trainer.
    """

    name: str
    group: str | None
    config: Mapping[str, Any]
    folder: Path
    known: Mapping[str, Any]
    arguments: TrainingArguments

    @property
    def project(self) -> str:
        return str(self.arguments.project)


class Tracker:
    """Record in any tracker of transformers, as its callback writes it.

    A resumed run continues the record only in the subclasses.

    Args:
        name: name of the tracker, as in ``train.report_to``.
        record: facts about the record.
    """

    def __init__(self, name: str, record: Record):
        self.name, self.record = name, record
        self.callback = self.new_callback()

    def new_callback(self) -> TrainerCallback:
        """Returns the callback of transformers."""
        return INTEGRATION_TO_CALLBACK[self.name]()

    def open(self) -> dict[str, Any]:
        """Opens the record; returns what identifies it, as JSON, for a run that continues it."""
        return {}

    def begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any, **kwargs: Any
    ) -> None:
        """Calls the callback at the start of the training, with the recipe in place of all arguments.

        The arguments and the configuration of the model hold paths of this machine.
        """
        shown = copy.copy(args)
        shown.run_name = self.record.name
        shown.output_dir = os.path.abspath(args.output_dir)  # wandb warns if it is the name
        config = dict(self.config())
        shown.to_dict = shown.to_sanitized_dict = lambda: config
        shown.to_json_string = lambda: dumps(config)
        of_model, model.config = model.config, None
        try:
            self.callback.on_init_end(shown, state, control, model=model, **kwargs)
            self.callback.on_train_begin(shown, state, control, model=model, **kwargs)
        finally:
            model.config = of_model

    def config(self) -> Mapping[str, Any]:
        """Returns the configuration to write."""
        return self.record.config

    def figures(self, paths: Iterable[Path], step: int) -> None:
        """Adds figures, PNG files."""
        for path in paths:
            self.figure(path, step)

    def figure(self, path: Path, step: int) -> None:
        """Adds one figure; without effect for trackers whose records have none."""

    def close(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Closes the record of a finished run."""
        self.callback.on_train_end(args, state, control, **kwargs)

    def abandon(self) -> None:
        """Closes the record of a run that has failed or was interrupted."""


class TensorBoard(Tracker):
    """Event files in ``tensorboard/`` of the run directory, or in a folder of its name below
    ``TENSORBOARD_LOGGING_DIR``."""

    def open(self) -> dict[str, Any]:
        return {"name": self.record.name}

    def begin(self, args: TrainingArguments, state: TrainerState, *rest: Any, **kwargs: Any) -> None:
        base = os.environ.get("TENSORBOARD_LOGGING_DIR")
        parts = [part for part in (self.record.group, self.record.name) if part]
        folder = Path(base).expanduser().joinpath(*parts) if base else self.record.folder / TENSORBOARD_FOLDER
        # A resumed run repeats the steps after its checkpoint; TensorBoard hides the earlier ones.
        repeated = state.global_step + 1 if self.record.known else None
        self.callback.tb_writer = self.callback._SummaryWriter(log_dir=str(folder), purge_step=repeated)
        super().begin(args, state, *rest, **kwargs)

    def figure(self, path: Path, step: int) -> None:
        import numpy as np
        from PIL import Image

        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
        self.callback.tb_writer.add_image(f"figures/{path.stem}", pixels, step, dataformats="HWC")
        self.callback.tb_writer.flush()

    def abandon(self) -> None:
        if self.callback.tb_writer is not None:
            self.callback.tb_writer.close()


class _OpenTrackio(TrackioCallback):
    """Callback for a record that is open already; that of transformers would open it without its group."""

    def setup(self, args: Any, state: Any, model: Any, **kwargs: Any) -> None:
        self._space_id = self._trackio.context_vars.current_space_id.get()
        self._initialized = True


class Trackio(Tracker):
    """Record in a project of trackio, ``train.project``; it continues a record by its name."""

    def new_callback(self) -> TrainerCallback:
        return _OpenTrackio()

    def open(self) -> dict[str, Any]:
        import trackio

        known, arguments = self.record.known, self.record.arguments
        project = known.get("project", self.record.project)
        run = trackio.init(
            project=project,
            name=known.get("name") or _unused(trackio, project, self.record.name),
            group=self.record.group,
            config=dict(self.record.config),
            resume="allow" if known else "never",
            space_id=arguments.trackio_space_id,
            bucket_id=arguments.trackio_bucket_id,
            private=arguments.hub_private_repo,
        )
        return {"project": project, "name": run.name}

    def figure(self, path: Path, step: int) -> None:
        import trackio

        trackio.log({f"figures/{path.stem}": trackio.Image(str(path)), "train/global_step": step})

    def abandon(self) -> None:
        import trackio

        trackio.finish()


def _unused(trackio: Any, project: str, name: str) -> str:
    """Returns the name, with a number if a run on this machine has it: a resumed run is found by its name."""
    try:
        taken = {run.name for run in trackio.Api().runs(project)}
    except ValueError:  # there is no such project yet
        return name
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)


class Wandb(Tracker):
    """Record in Weights & Biases, in the project ``WANDB_PROJECT`` or ``train.project``."""

    def open(self) -> dict[str, Any]:
        import wandb

        project = self.record.known.get("project") or os.environ.get("WANDB_PROJECT", self.record.project)
        run = wandb.init(
            project=project,
            name=self.record.name,
            group=self.record.group,
            id=self.record.known.get("id"),
            resume="allow" if self.record.known else None,
        )
        return {"project": project, "id": run.id}

    def figure(self, path: Path, step: int) -> None:
        import wandb

        wandb.log({f"figures/{path.stem}": wandb.Image(str(path)), "train/global_step": step})

    def close(self, *args: Any, **kwargs: Any) -> None:
        import wandb

        super().close(*args, **kwargs)
        wandb.finish()

    def abandon(self) -> None:
        import wandb

        wandb.finish(exit_code=1)


class Mlflow(Tracker):
    """Record in MLflow, at ``MLFLOW_TRACKING_URI`` and in the experiment ``MLFLOW_EXPERIMENT_NAME``."""

    def new_callback(self) -> TrainerCallback:
        import mlflow  # noqa: F401 - before the callback, whose destructor fails if this does

        return super().new_callback()

    def open(self) -> dict[str, Any]:
        import mlflow

        if uri := os.environ.get("MLFLOW_TRACKING_URI"):
            mlflow.set_tracking_uri(uri)
        if experiment := os.environ.get("MLFLOW_EXPERIMENT_NAME"):
            mlflow.set_experiment(experiment)
        tags = {"group": self.record.group} if self.record.group else None
        known = self.record.known.get("run_id")
        run = mlflow.start_run(run_id=known) if known else mlflow.start_run(run_name=self.record.name, tags=tags)
        return {"run_id": run.info.run_id}

    def config(self) -> Mapping[str, Any]:
        return {} if self.record.known else self.record.config  # parameters of a record cannot change

    def figure(self, path: Path, step: int) -> None:
        import mlflow

        mlflow.log_artifact(str(path), "figures")

    def close(self, *args: Any, **kwargs: Any) -> None:
        import mlflow

        super().close(*args, **kwargs)
        mlflow.end_run()

    def abandon(self) -> None:
        import mlflow

        mlflow.end_run("FAILED")


_CLASSES: dict[str, type[Tracker]] = {
    "mlflow": Mlflow,
    "tensorboard": TensorBoard,
    "trackio": Trackio,
    "wandb": Wandb,
}


def tracker(name: str, record: Record) -> Tracker:
    """Returns the tracker of a name of ``train.report_to``, which is installed."""
    return _CLASSES.get(name, Tracker)(name, record)
