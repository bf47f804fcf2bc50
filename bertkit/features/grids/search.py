"""Sampling of settings with Optuna; the trials are in a journal in the output folder."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.features.grids.definition import Cell, Definition, Record, Setting
from bertkit.features.grids.values import Range
from bertkit.runtime.errors import importing
from bertkit.runtime.files import disk_faults, write_whole

if TYPE_CHECKING:
    import optuna

JOURNAL = "optuna.journal"
_STUDY = "grid"
_SEEDS = 2**32  # the limit of numpy


class Search:
    """Trials of a search: `advance` and `ask` write, and need the lock of the grid; the other methods only read.

    The proposal for a trial depends only on the seed, its number and the other trials, so that a search by one worker
    is repeatable, interrupted or not. The mean score of a setting is reported after each of its runs. Once five trials
    are complete, a setting whose highest mean so far is below the median of theirs after as many runs is pruned: its
    other runs are left out.
    """

    def __init__(self, definition: Definition, folder: Path):
        self.definition, self.folder = definition, folder

    @contextmanager
    def _storage(self) -> Iterator[optuna.storages.JournalStorage]:
        """Yields the trials in the journal; RecipeError if Optuna is missing."""
        with importing(f"{self.folder}: a grid of --search", "search"):  # one that was made elsewhere is read here
            import optuna
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        path = self.folder / JOURNAL
        with warnings.catch_warnings(), disk_faults(path):
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            # The journal keeps the number of a chosen value, so lists are read back as they are.
            warnings.filterwarnings("ignore", "Choices for a categorical distribution")
            # Who writes holds the lock of the grid; that of Optuna would be left behind by a killed process.
            yield JournalStorage(JournalFileBackend(str(path), lock_obj=_no_lock()))

    @contextmanager
    def _study(self, number: int = 0) -> Iterator[optuna.Study]:
        """Yields the study to change, with the sampler of trial ``number``."""
        path = self.folder / JOURNAL
        content = path.read_bytes() if path.is_file() else b""
        if content and not content.endswith(b"\n"):  # a killed process has not written its last line completely
            write_whole(path, content[: content.rfind(b"\n") + 1])
        with self._storage() as storage:
            import optuna

            seed = (self.definition.seeds[0] * 10_007 + number) % _SEEDS
            yield optuna.create_study(
                storage=storage,
                study_name=_STUDY,
                direction="maximize",
                load_if_exists=True,
                sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True),
                pruner=optuna.pruners.MedianPruner(),
            )

    def settings(self) -> list[Setting]:
        """Returns the settings of all trials so far."""
        return [self._setting(trial) for trial in self._trials() if self._is_sampled(trial)]

    def pruned(self) -> set[int]:
        """Returns the numbers of the pruned trials."""
        return {trial.number for trial in self._trials() if trial.state.name == "PRUNED"}

    def failed(self) -> list[Setting]:
        """Returns the settings of trials that ended with a failed run, which a repeated command tries again."""
        trials = [trial for trial in self._trials() if trial.state.name == "FAIL"]
        return [self._setting(trial) for trial in trials if self._is_sampled(trial)]

    def _trials(self) -> list[optuna.trial.FrozenTrial]:
        if not (self.folder / JOURNAL).is_file():
            return []
        with self._storage() as storage:
            import optuna

            if not optuna.get_all_study_names(storage):  # a process was killed before it wrote the first line
                return []
            return optuna.load_study(study_name=_STUDY, storage=storage).get_trials(deepcopy=False)

    def _setting(self, trial: optuna.trial.FrozenTrial) -> Setting:
        return Setting(trial.number, {key: trial.params[key] for key in self.definition.search})

    def _is_sampled(self, trial: optuna.trial.FrozenTrial) -> bool:
        """Returns whether a trial has all its values: a process may be killed before it has written them."""
        return self.definition.search.keys() <= trial.params.keys()

    def advance(self, record_of: Callable[[Cell], Record | None]) -> list[Setting]:
        """Reports finished cells to the study and ends trials; returns the settings that are still running."""
        import optuna
        from optuna.trial import TrialState

        running: list[Setting] = []
        with self._study() as study:
            for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
                if not self._is_sampled(trial):
                    continue
                setting = self._setting(trial)
                records = [record_of(cell) for cell in self.definition.cells(setting)]
                ended = [record for record in records if record is not None]
                if any("error" in record for record in ended):
                    if len(ended) == len(records):
                        study.tell(trial.number, state=TrialState.FAIL)
                    else:
                        running.append(setting)
                    continue
                handle = optuna.Trial(study, trial._trial_id)
                for step in range(records.index(None) if None in records else len(records)):
                    if step not in trial.intermediate_values:
                        handle.report(statistics.mean(record["score"] for record in ended[: step + 1]), step)
                if None not in records:
                    study.tell(trial.number, statistics.mean(record["score"] for record in ended))
                elif records[0] is not None and handle.should_prune():
                    study.tell(trial.number, state=TrialState.PRUNED)
                else:
                    running.append(setting)
        return running

    def ask(self) -> Setting | None:
        """Samples the next setting; None if all trials have begun."""
        import optuna

        trials = self._trials()
        begun = next((trial.number for trial in trials if not self._is_sampled(trial)), None)
        if begun is None and len(trials) >= (self.definition.trials or 0):
            return None
        number = len(trials) if begun is None else begun
        with self._study(number) as study:
            trial = study.ask() if begun is None else optuna.Trial(study, trials[begun]._trial_id)
            values: dict[str, Any] = {}
            for key, space in self.definition.search.items():
                if isinstance(space, Range):
                    suggest: Any = trial.suggest_int if space.is_whole else trial.suggest_float
                    values[key] = suggest(key, space.low, space.high, log=space.log)
                else:
                    values[key] = trial.suggest_categorical(key, space)
            return Setting(number, values)


def _no_lock() -> Any:
    from optuna.storages.journal import JournalFileOpenLock

    class NoLock(JournalFileOpenLock):
        def __init__(self) -> None:
            pass

        def acquire(self) -> bool:
            return True

        def release(self) -> None:
            pass

    return NoLock()
