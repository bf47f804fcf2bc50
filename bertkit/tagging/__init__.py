"""Sentences whose words have tags: entities, chunks, parts of speech.

schemes.py    IOB1, IOB2, IOBES, BILOU: detected, checked, converted to IOB2
words.py      raw text → words
pieces.py     words → the pieces of a tokenizer
windows.py    long sentences → overlapping windows; short ones with their neighbours (neighbours.py)
inputs.py     pieces → what the model reads, and where each word is tagged
highlighting.py  entities in colours
"""

from __future__ import annotations
