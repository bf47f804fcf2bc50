"""Answers that are spans of a text."""
