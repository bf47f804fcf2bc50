"""The inside of a checkpoint: its pieces, attention, predictions and their reasons, as arrays and as one page."""
