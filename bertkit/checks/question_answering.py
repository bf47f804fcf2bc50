"""Answers, for the rules of checks."""

from __future__ import annotations

import numpy as np

from bertkit.checks.subject import Checked, checked
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.tasks.question_answering.task import QuestionAnsweringTask
from bertkit.tasks.splits import Columns


@checked.register(QuestionAnsweringTask)
class CheckedAnswers(Checked):
    """Answers, which windows may cut."""

    def lost_labels(self, features: Columns, examples: Columns) -> tuple[int, int] | None:
        """Counts the questions whose answer is in no window as a whole, and those that have an answer."""
        if "start_positions" not in features:
            return None
        owners, starts, cls = (np.asarray(features[name]) for name in ("example", "start_positions", "cls"))
        kept = np.unique(owners[(starts != cls) & (starts != IGNORE_INDEX)])
        answered = [row for row, answers in enumerate(examples["answers"]) if answers["text"]]
        return len(np.setdiff1d(answered, kept)), len(answered)
