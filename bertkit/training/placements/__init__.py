"""Trainers of placements that need more than the one of `bertkit.training.trainer`: FSDP and XLA."""
