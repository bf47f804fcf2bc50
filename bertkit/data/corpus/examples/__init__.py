"""Tokens → segments → masks → batches of pre-training."""
