"""What BERT is trained for: one file a task, each providing what `base.Task` asks."""
