"""Label of unlabelled items; in a separate file so that code without torch can import it."""

IGNORE_INDEX = -100
"""Label of items that contribute nothing to the loss and are not counted: PyTorch's ``ignore_index``."""
