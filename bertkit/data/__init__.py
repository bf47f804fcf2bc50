"""Bytes → rows → tables, and text → sentences → tokens → examples of a pre-training."""
