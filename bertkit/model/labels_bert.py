"""Labels that heads learn from; in a separate file so that code without torch can import it."""

IGNORE_INDEX = -100
"""Label of items that contribute nothing to the loss and are not counted: PyTorch's ``ignore_index``."""

PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")
"""Values of ``problem_type`` in a configuration: kinds of labels of a sequence."""
