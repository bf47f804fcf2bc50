"""Vocabularies: their training, WordPiece and byte-level BPE, and the ids that examples of pre-training are made of."""
