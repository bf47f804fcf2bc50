"""Pre-training text, in reading order: documents → sentences → tokens on disk → pairs → masks → batch.

documents.py    files → documents → paragraphs
sentences.py    paragraph → sentences
tokenizer.py    text → a WordPiece vocabulary
token_store.py  sentences → token ids, memory-mapped
randomness.py   numbers that depend on (seed, epoch, index) alone
pairs.py        sentence lengths → segments A and B, next_sentence_label
masking.py      input_ids → masked input_ids, masked_positions, labels
settings.py     the numbers that all of this follows
examples.py     one data set over a whole run, and its batches
"""
