"""``bertkit quickstart``: the idea of BERT, whole and small, on text that a seeded grammar makes up."""
