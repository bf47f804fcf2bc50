"""Learning rate, epochs and kept weights that follow the data and the encoder, for tables of one's own.

The recipes of the paper's tasks name their values. A table of one's own may have a hundred rows, and its encoder a
tenth of BERT's weights: three epochs at BERT's rate then end before anything is learned. What helps is known: more
steps for few examples (Mosbach et al. 2021, "On the Stability of Fine-tuning BERT"), and higher rates for small
encoders (Turc et al. 2019, "Well-Read Students Learn Better", from 3e-5 to 3e-4). The best epoch by a few held-out rows
is mostly an early one with luck, so that the last is kept. `benchmarks/few_rows.py` compares the outcome with what else
can be done with the same rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedConfig

from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import CONTRAST, HEAD, HEAD_RATE, PAIRS, has_steps, usual_epochs
from bertkit.runtime.progress import counted
from bertkit.tasks.folds import MOST_ROWS
from bertkit.training.warm_start.contrast import can_contrast

FITS_DATA = "fit_schedule"
"""Key of the ``train`` block: the values of `FITTED` that a recipe lacks are chosen by `fitted_schedule`."""

FITTED = ("learning_rate", "num_train_epochs", "load_best_model_at_end", "save_steps", HEAD, PAIRS, CONTRAST, HEAD_RATE)

_RATES = ((256, 2e-4), (512, 1e-4), (768, 5e-5), (1024, 3e-5))  # by the hidden size that encoders stay below
_RATE_OF_LARGE = 2e-5

TELLING = 100
"""Scored examples from which on epochs can be told apart."""
_SAVE_STEPS = 50  # steps that a killed run loses at most
MANY_CLASSES = 20
"""Classes above which a random head has hardly learned to tell them apart when the training ends."""

_CONTRAST_STEPS, _CONTRAST_STEPS_OF_MANY = 75, 150
_PAIR_STEPS = 300, 600  # at least and at most: two for each row
_WARM_STEPS, _WARM_EPOCHS = 40, 5.0  # at least, after contrast and a probe
_STEPS_OF_LABELS = 100  # at least for several labels, most of which have few rows
_HEAD_RATE = 10.0  # rate of the last layer behind a probe, or of words, as a multiple of that of the run


def fitted_schedule(
    recipe: Recipe,
    rows: int,
    scored: int | None,
    config: PreTrainedConfig,
    classes: Sequence[int] = (),
    *,
    has_several_labels: bool = False,
    has_pairs: bool = False,
    has_words: bool = False,
) -> tuple[Recipe, str]:
    """Returns the recipe with the values of its schedule that it leaves to the data, and lines on them.

    ==========================  ======================================================================
    ``learning_rate``           by the hidden size: below 256 2e-4, 512 1e-4, 768 5e-5, 1024 3e-5, else 2e-5
    ``num_train_epochs``        as many as make 150 steps, at most 50; at least 10, or as many as make 300
                                steps; at least 3; not with ``max_steps``. With a probe that is chosen where
                                folds score the rows 5, or as many as make 40 steps, 100 for several labels
    ``load_best_model_at_end``  whether at least 100 examples are scored; the last weights are kept otherwise
    ``save_steps``              50, if the last weights are kept
    ``head``                    ``probe`` for classes, of which each text has one, if there are more than 20, or
                                if the rows are scored by models of folds, and two of them have two rows; for
                                several labels of a text; for pairs, if they are up to 1,000 or folds score them
    ``pair_steps``              two for each row, 300 to 600, before such a probe of pairs
    ``contrast_steps``          75 before such a probe of classes or labels, 150 for more than 20 classes, or
                                for labels with a validation set
    ``head_learning_rate``      ten times that of the run, with such a probe, or for classes of words
    ==========================  ======================================================================

    Args:
        recipe: a fine-tuning recipe with `FITS_DATA`.
        rows: number of training examples.
        scored: number of examples of the validation set; None if models of folds score the training examples.
        config: configuration of the encoder.
        classes: rows of each class, of which each text has one; none for other labels.
        has_several_labels: whether a text may have several labels.
        has_pairs: whether the labels are those of pairs of texts.
        has_words: whether the labels are those of words.
    """
    train = {key: value for key, value in recipe.train.items() if key != FITS_DATA}
    chosen: dict[str, Any] = {}
    if "learning_rate" not in train:
        chosen["learning_rate"] = next((rate for size, rate in _RATES if config.hidden_size < size), _RATE_OF_LARGE)
    batches = rows / train["global_train_batch_size"]
    steps = max(1, math.floor(batches)) if train.get("dataloader_drop_last") else math.ceil(batches)
    by_folds, has_many = scored is None, len(classes) > MANY_CLASSES
    are_few_pairs = has_pairs and (by_folds or rows <= MOST_ROWS)
    pays = has_many or has_several_labels or are_few_pairs or (by_folds and can_contrast(classes))
    is_probed = pays and train.get(HEAD) is None
    if "num_train_epochs" not in train and not has_steps(train):
        warm_steps = _STEPS_OF_LABELS if has_several_labels else _WARM_STEPS
        warm_epochs = max(_WARM_EPOCHS, math.ceil(warm_steps / steps))
        chosen["num_train_epochs"] = float(warm_epochs if is_probed and by_folds else usual_epochs(steps))
    best_of = ("load_best_model_at_end", "early_stopping_patience")
    if train.get("eval_strategy", "no") != "no" and all(train.get(key) is None for key in best_of):
        chosen["load_best_model_at_end"] = scored is not None and scored >= TELLING
        if not chosen["load_best_model_at_end"] and "save_strategy" not in train and "save_steps" not in train:
            chosen["save_steps"] = _SAVE_STEPS
    if is_probed:
        chosen[HEAD] = "probe"
        if are_few_pairs and train.get(PAIRS) is None:
            least, most = _PAIR_STEPS
            chosen[PAIRS] = min(max(least, 2 * rows), most)
        if train.get(CONTRAST) is None and (can_contrast(classes) or has_several_labels):
            takes_many = has_many or (has_several_labels and not by_folds)
            chosen[CONTRAST] = _CONTRAST_STEPS_OF_MANY if takes_many else _CONTRAST_STEPS
    if (is_probed or has_words) and train.get(HEAD_RATE) is None:
        chosen[HEAD_RATE] = float(f"{_HEAD_RATE * float(chosen.get('learning_rate') or train['learning_rate']):g}")
    lines = _lines_on(chosen, steps, rows, scored, config)
    if HEAD in chosen:
        phases = [(PAIRS, "on texts read apart"), (CONTRAST, "of contrast")]
        before = " and ".join(f"{counted(chosen[key], 'step')} {what}" for key, what in phases if chosen.get(key))
        before = f" after {before}" if before else ""
        why = f"there are {rows} rows" if rows <= MOST_ROWS else "models of folds score the rows"
        why = f"there are {len(classes)} classes" if has_many else why
        why = "a text may have several labels" if has_several_labels else why
        lines += f"\nstarts from a linear probe{before}, since {why}; --head random does not"
    return dataclasses.replace(recipe, train={**train, **chosen}), lines.lstrip()


def _lines_on(chosen: dict[str, Any], steps: int, rows: int, scored: int | None, config: PreTrainedConfig) -> str:
    """Returns lines on the rate, the epochs and the weights that are chosen; empty if none of them are."""
    parts = []
    if "learning_rate" in chosen:
        parts.append(f"learning rate {chosen['learning_rate']:g} for a hidden size of {config.hidden_size}")
    if "num_train_epochs" in chosen:
        size = f"{counted(steps, 'step')} for {counted(rows, 'example', form=',')}"
        parts.append(f"{chosen['num_train_epochs']:g} epochs of {size}")
    options = {"learning_rate": "--learning-rate", "num_train_epochs": "--num-train-epochs"}
    given = " or ".join(option for key, option in options.items() if key in chosen)
    lines = [f"chosen: {'; '.join(parts)}; give {given} for others"] if parts else []
    if chosen.get("load_best_model_at_end") is False and scored is not None:
        few = counted(scored, "validation example")
        lines.append(f"keeps the last weights, not those of the best epoch: {few} cannot tell epochs apart")
    return "\n".join(lines)
