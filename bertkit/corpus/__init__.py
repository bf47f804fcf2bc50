"""Pre-training text, in reading order: documents → sentences → tokens on disk → segments → masks → batch.

sources.py      what a user gave → sources of text
text_files.py   files by kind, packed or not; row_files.py, rows of files; hub_sets.py, data sets of the Hub
documents.py    text → documents → paragraphs
sentences.py    paragraph → sentences
tokenizer.py    text → a WordPiece vocabulary; likelihood.py, another rule of merging
encoding.py     paragraphs → token ids, in several processes
store_writer.py sources → a store; store_draft.py, a store while it grows
token_store.py  all tokens, memory-mapped
streaming.py    a store of a few documents at a time
randomness.py   numbers that depend on (seed, epoch, index) alone
objectives.py   sentence lengths → segments A and B, next_sentence_label
truncation.py   segments → segments that fit
pairs.py        the examples of an epoch
masking.py      input_ids → masked input_ids, masked_positions, labels
settings.py     the numbers that all of this follows
examples.py     one data set over a whole run, and its batches
phases.py       one run over several sequence lengths
"""
