"""Pre-training: the recipe, the trainer, and the source of tokenizer and weights."""
