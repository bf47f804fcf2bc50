"""Recipes: search, loading and validation."""
