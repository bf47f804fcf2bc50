"""BERT, its registration with transformers, and checkpoints of any encoder.

Every checkpoint of BERT contains a copy of the files ``*_bert.py``: ``save_pretrained`` copies them next to the
weights, so that a reader without bertkit loads the model with ``trust_remote_code=True``. Therefore they import torch,
transformers with what it needs, and each other only, and raise ``ValueError``, never an error class of bertkit.
"""
