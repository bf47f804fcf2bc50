"""Export, model card and upload of a checkpoint."""
