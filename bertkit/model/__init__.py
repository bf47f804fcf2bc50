"""Configuration and code of the model of the paper; every checkpoint contains a copy of these files.

The folder is flat, and its files import torch, transformers and each other only: ``save_pretrained`` copies them next
to the weights, so that a reader without bertkit loads the model with ``trust_remote_code=True``. For the same reason
they raise ``ValueError``, never an error class of bertkit.
"""
