"""Inference with a checkpoint: the encode and decode of training, batched by length, on any device."""
