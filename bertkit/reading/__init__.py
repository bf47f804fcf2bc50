"""Bytes → text → rows: UTF-8, compressed files, text, JSON lines, Parquet, data sets of the Hub."""
