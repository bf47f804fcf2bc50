"""Pre-training: its examples, its objective, its first steps, and the start of tokenizer and weights."""
