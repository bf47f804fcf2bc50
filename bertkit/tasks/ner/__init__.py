"""Tags for the words of sentences."""
