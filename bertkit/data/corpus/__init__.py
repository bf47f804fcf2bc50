"""Pre-training text, in reading order: documents → sentences → tokens on disk → segments → masks → batch.

sources.py      paths, patterns and Hub ids → sources of text
documents.py    lines → documents → paragraphs
sentences.py    paragraph → sentences
vocabulary/     text → a WordPiece vocabulary
store/          paragraphs → token ids on disk, memory-mapped; shards of large corpora; streams
examples/       tokens → segments A and B → masked inputs → batches of a whole run
settings.py     the settings of examples
"""
