"""Training of a student on the outputs of a teacher, in fine-tuning and in pre-training."""
