"""Using a checkpoint: the same encode and decode as in training, batched by length, on any device."""
