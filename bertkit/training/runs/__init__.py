"""Runs: fine-tuning, pre-training and distillation, each the story of a run on one page, and its directory."""
