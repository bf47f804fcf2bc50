"""Choice of a checkpoint to start from, without training one; see `bertkit.choosing.choose`."""
