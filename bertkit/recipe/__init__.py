"""Recipes: found, loaded and checked."""
