"""Choice of a checkpoint to start from, without training one; see `bertkit.features.choosing.choose`."""
