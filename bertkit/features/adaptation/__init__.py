"""Adaptation of checkpoints to a text: new words, or a new tokenizer."""
