"""Sequence labelling: named entities, chunks, part-of-speech tags."""
