"""The tables of the BERT paper, with the scores of other checkpoints beside the paper's."""
