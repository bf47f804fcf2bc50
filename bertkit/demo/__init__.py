"""``bertkit demo``: a page in the browser for a checkpoint, and the same as a Space on the Hub."""
