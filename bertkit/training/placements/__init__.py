"""What a placement asks of the Trainer: FSDP, XLA, a step that runs out of memory."""
