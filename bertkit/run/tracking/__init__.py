"""Records of runs in experiment trackers, written by the integrations of transformers."""
