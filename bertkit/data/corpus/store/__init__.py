"""Memory-mapped storage of the tokens of a corpus."""
