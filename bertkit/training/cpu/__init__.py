"""Speed-ups of training on CPUs."""
