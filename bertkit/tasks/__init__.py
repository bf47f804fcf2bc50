"""Training tasks; fine-tuning tasks implement `base.Task`."""
