"""Sentence similarity: encoders whose vectors are close for texts of similar meaning."""
