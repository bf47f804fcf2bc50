"""Bytes → text → rows: UTF-8, compressed files, text, JSON lines, Parquet, Hub data sets."""
