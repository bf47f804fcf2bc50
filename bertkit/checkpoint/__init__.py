"""Loading of models, configurations and tokenizers; what differs between families of encoders; labels."""
