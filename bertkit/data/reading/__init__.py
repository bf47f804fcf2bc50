"""Rows of JSON and Parquet files, and data sets of the Hub."""
