"""What makes a checkpoint fit to be shared."""
