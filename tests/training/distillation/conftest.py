"""Settings of short runs with a teacher."""

from __future__ import annotations

RUN = {
    "data.max_seq_length": 16,
    "train.learning_rate": 1e-3,
    "train.max_steps": 4,
    "train.logging_steps": 1,
    "train.global_train_batch_size": 8,
    "train.save_strategy": "no",
    "train.eval_strategy": "no",
    "train.load_best_model_at_end": False,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}
