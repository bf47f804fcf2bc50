"""Trackers of a run: the callbacks of transformers, open from the first check to the last figure of the report.

What the callbacks leave to their callers is added here: the recipe as configuration, a group, a record that a resumed
run continues, the final scores, figures, and an end after these.
"""

from __future__ import annotations

import copy
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    TrackioCallback,
    get_available_reporting_integrations,
)

from bertkit.recipe.files import without_paths
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import RecipeError, TrainingError, described, did_you_mean
from bertkit.runtime.files import read_record, write_json
from bertkit.runtime.json_text import dumps
from bertkit.runtime.placement.processes import environment_variables, is_main_process
from bertkit.runtime.progress import is_score, say
from bertkit.training.runs.directory import at_end_of_run
from bertkit.training.runs.listeners import group_of_runs

RECORDS_FILE = "tracking.json"
"""File of a run directory with what identifies its records: for wandb arguments, for mlflow environment variables."""

_EXTRAS = ("tensorboard", "trackio")
# Modules and packages whose names differ from those of their trackers.
_MODULES = {"azure_ml": "azureml", "flyte": "flytekit", "kubeflow": "transformers"}  # which talks to kubeflow itself
_PACKAGES = {"azure_ml": "azureml-core", "comet_ml": "comet-ml", "flyte": "flytekit"}


def trackers_of(train: Mapping[str, Any]) -> list[str]:
    """Returns the names of the trackers that a ``train`` block selects, each once.

    >>> trackers_of({"report_to": "none"}), trackers_of({"report_to": ["wandb", "trackio", "wandb"]})
    ([], ['wandb', 'trackio'])
    >>> trackers_of({"report_to": ["none", "all"]}) == trackers_of({"report_to": "all"})
    True
    """
    selected = train.get("report_to")
    names = [selected] if isinstance(selected, str) else list(selected or [])
    if "all" in names:
        names = get_available_reporting_integrations()
    return [name for name in dict.fromkeys(names) if name != "none"]


def _pass_on(event: str) -> Callable[..., None]:
    """Returns a method of `Tracking` that calls the method of this name of each tracker."""

    def method(self: Tracking, *now: Any, **given: Any) -> None:
        self._each(lambda _, callback: getattr(callback, event)(*now, **given))

    return method


class Tracking(TrainerCallback):
    """Callback that passes a run on to its trackers, in the main process only, and closes their records at its end.

    A tracker that fails after the start is left out with a warning, and the run goes on.
    """

    def __init__(self, recipe: Recipe, output_dir: Path):
        self._recipe, self._folder = recipe, output_dir
        self._callbacks: dict[str, Any] = {}
        self._now: tuple[TrainingArguments, TrainerState, TrainerControl]
        self._model: Any = None
        self._logged: dict[str, Any] = {}

    def check(self) -> None:
        """Checks that the trackers exist and are installed.

        Raises:
            RecipeError: one does not; the message says how to install it.
        """
        known, place = sorted(INTEGRATION_TO_CALLBACK), f"recipe {self._recipe.name}: train.report_to"
        for name in trackers_of(self._recipe.train):
            if name not in INTEGRATION_TO_CALLBACK:
                raise RecipeError(
                    f"{place}: unknown tracker {name!r}; expected {', '.join(known)}, all or none"
                    f"{did_you_mean(name, known)}"
                )
            modules = ("tensorboard", "tensorboardX") if name == "tensorboard" else (_MODULES.get(name, name),)
            if not any(map(find_spec, modules)):
                package = f"'bertkit[{name}]'" if name in _EXTRAS else _PACKAGES.get(name, name)
                raise RecipeError(f"{place}: {name} is not installed: pip install {package}")

    def open(self, trainer: Trainer, resume: bool) -> None:
        """Opens the records, before anything is written to the run directory.

        Raises:
            TrainingError: a tracker rejects the record, for example without a login.
        """
        if not is_main_process():
            return
        self._now, self._model = (trainer.args, trainer.state, trainer.control), trainer.model
        at_end_of_run(lambda: self.close(failed=True))
        group, run_name, folder = group_of_runs(), self._recipe.train.get("run_name"), self._folder.resolve().name
        arguments = self._arguments(trainer.args, folder if group else run_name or folder)
        group = group and (run_name or group)
        known = read_record(self._folder / RECORDS_FILE) if resume else {}
        base = os.environ.get("TENSORBOARD_LOGGING_DIR")
        folders = [base, group, arguments.run_name] if base else [arguments.output_dir, "tensorboard"]
        variables = {"TENSORBOARD_LOGGING_DIR": os.path.join(*filter(None, folders)), **known.get("mlflow", {})}
        if group:
            try:
                tags = {**json.loads(os.environ.get("MLFLOW_TAGS") or "{}"), "group": group}
            except (TypeError, ValueError) as error:
                raise TrainingError(f"MLFLOW_TAGS: expected an object of JSON, as MLflow does: {error}") from error
            variables["MLFLOW_TAGS"] = dumps(tags)
        config, self._model.config = self._model.config, None  # it has paths, and the recipe its changes
        try:
            with environment_variables(variables), redirect_stdout(sys.stderr):
                for name in sorted(trackers_of(self._recipe.train), key="tensorboard".__eq__):  # it writes at once
                    callback = _Trackio(group, resume) if name == "trackio" else INTEGRATION_TO_CALLBACK[name]()
                    self._callbacks[name] = callback
                    if name == "wandb":  # by arguments: it reads its variables once in a process
                        project = os.environ.get("WANDB_PROJECT", arguments.project)
                        importlib.import_module(name).init(
                            project=project, name=arguments.run_name, group=group, **known.get(name, {})
                        )
                    callback.on_init_end(arguments, *self._now[1:], model=self._model)
                    callback.on_train_begin(arguments, *self._now[1:], model=self._model)
        except Exception as error:  # trackers and their connections fail in many ways
            self._callbacks.pop(name, None)  # it may not even begin
            raise TrainingError(f"train.report_to: {name} cannot open a record: {described(error)}") from error
        finally:
            self._model.config = config

    def _arguments(self, arguments: TrainingArguments, name: str) -> TrainingArguments:
        """Returns the arguments that trackers see, with the recipe as configuration: it has no paths."""
        blocks = without_paths(self._recipe.to_dict())
        config = {
            f"{block}.{key}": value
            for block, values in blocks.items()
            if block != "hub"
            for key, value in values.items()
            if value is not None
        }
        seen = copy.copy(arguments)
        seen.run_name, seen.output_dir = name, os.path.abspath(arguments.output_dir)  # wandb warns if they are equal
        seen.to_dict = seen.to_sanitized_dict = lambda: dict(config)
        seen.to_json_string = lambda: dumps(config)
        return seen

    def save(self) -> None:
        """Writes the file by which a resumed run continues its records."""
        records: dict[str, dict[str, str]] = {}
        if "wandb" in self._callbacks:
            records["wandb"] = {"id": importlib.import_module("wandb").run.id, "resume": "allow"}
        if "mlflow" in self._callbacks:
            # Parameters of a record cannot change.
            run = importlib.import_module("mlflow").active_run()
            records["mlflow"] = {"MLFLOW_RUN_ID": run.info.run_id, "MLFLOW_MAX_LOG_PARAMS": "0"}
        if records:
            write_json(self._folder / RECORDS_FILE, read_record(self._folder / RECORDS_FILE) | records)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._now = args, state, control

    on_step_end = _pass_on("on_step_end")
    on_evaluate = _pass_on("on_evaluate")
    on_save = _pass_on("on_save")

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any
    ) -> None:
        self._logged |= logs or {}
        self._each(lambda _, callback: callback.on_log(args, state, control, logs=dict(logs or {}), **kwargs))

    def finish(self, metrics: Mapping[str, float], figures: Path) -> None:
        """Writes the final scores that are not in the records yet and the figures, and closes the records."""
        # The trackers of transformers show keys of predict_ among those of the training, and of test_ apart.
        scores = {
            f"test_{key.removeprefix('predict_')}" if key.startswith("predict_") else key: value
            for key, value in metrics.items()
            if is_score(key) and not key.startswith("train_") and self._logged.get(key) != value
        }
        if scores:
            self._each(lambda _, callback: callback.on_log(*self._now, logs=dict(scores), model=self._model))
        step = self._now[1].global_step

        def add_figure(name: str, callback: Any, path: Path) -> None:
            figure = f"figures/{path.stem}"
            if name in ("trackio", "wandb"):
                library = importlib.import_module(name)
                library.log({figure: library.Image(str(path)), "train/global_step": step})
            elif name == "mlflow":
                importlib.import_module(name).log_artifact(str(path), "figures")
            elif name == "tensorboard":
                import numpy as np
                from PIL import Image

                with Image.open(path) as image:
                    callback.tb_writer.add_image(figure, np.asarray(image.convert("RGB")), step, dataformats="HWC")

        for path in sorted(figures.glob("*.png")):
            self._each(partial(add_figure, path=path))
        self.close()

    def close(self, failed: bool = False) -> None:
        """Closes the records that are still open."""

        def end(name: str, callback: Any) -> None:
            if failed and name == "mlflow":
                importlib.import_module(name).end_run("FAILED")
            callback.on_train_end(*self._now, model=self._model)
            if name == "wandb":  # else the next run of this process would continue the record
                importlib.import_module(name).finish(exit_code=int(failed))

        self._each(end)
        self._callbacks = {}

    def _each(self, call: Callable[..., None]) -> None:
        """Calls a function with name and callback of each tracker; leaves out those that fail."""
        for name, callback in list(self._callbacks.items()):
            try:
                with redirect_stdout(sys.stderr):  # some trackers print to stdout, which is for results
                    call(name, callback)
            except Exception as error:  # trackers and their connections fail in many ways
                del self._callbacks[name]
                say(f"warning: {name} fails, and gets no more of this run: {described(error)}")


class _Trackio(TrackioCallback):
    """Callback whose record has a group, and is continued by a resumed run only, found by its name."""

    def __init__(self, group: str | None, resume: bool):
        super().__init__()
        self._group, self._resume = group, "allow" if resume else "never"

    def setup(self, args: Any, state: Any, model: Any, **kwargs: Any) -> None:
        self._trackio.init(
            project=args.project,
            name=args.run_name,
            group=self._group,
            config=args.to_dict(),
            resume=self._resume,
            space_id=args.trackio_space_id,
            bucket_id=args.trackio_bucket_id,
            private=args.hub_private_repo,
        )
        self._space_id = self._trackio.context_vars.current_space_id.get()
        self._initialized = True
