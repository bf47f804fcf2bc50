"""Training of vocabularies: WordPiece and byte-level BPE."""
