"""Pre-training and fine-tuning through transformers' ``Trainer``."""
