"""Training of WordPiece vocabularies."""
