"""All tokens of a corpus on disk, memory-mapped."""
