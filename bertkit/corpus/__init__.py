"""Pre-training text, in reading order: documents → sentences → tokens on disk → segments → masks → batch.

sources.py      paths, patterns and Hub ids → sources of text
documents.py    lines → documents → paragraphs
sentences.py    paragraph → sentences
vocabulary/     text → a WordPiece vocabulary
store/          paragraphs → token ids, in several processes → all tokens, memory-mapped; or a stream of blocks
examples/       tokens → segments A and B → masked inputs → batches of a whole run
settings.py     the settings of examples
"""
