"""The label of what has no label; a file of its own so that code without torch can import it."""

IGNORE_INDEX = -100
"""An item with this label adds nothing to the loss and is not counted: PyTorch's ``ignore_index``."""
