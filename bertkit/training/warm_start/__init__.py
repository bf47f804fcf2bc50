"""Phases before the first step of a fine-tuning: texts of pairs read apart, contrast of classes, a linear probe."""
