"""Loading of models, configurations and tokenizers; properties of encoder families; labels."""
