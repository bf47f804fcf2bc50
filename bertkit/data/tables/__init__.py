"""Labelled text in rows of named columns, from files and from Hub data sets.

table.py        rows of named columns, with the place of each row in the source
table_files.py  a table from a file by its format, compressed or not, or from a folder
delimited.py    CSV and TSV: separators and quoting; encodings.py: text that is not UTF-8; sheets.py: Excel
typed_rows.py   JSON and Arrow; objects.py: pandas, polars, Arrow, datasets and dictionaries in Python
documents.py    folders whose files are one text each: plain text, mails, HTML (html.py)
stored_columns.py  text of large tables, mapped from disk
splits.py       splits of Hub data sets; folds.py: folds, and validation sets drawn from the training set
columns.py      which columns have the texts and the labels; annotated.py: labels as annotation tools write them
labels.py       what the labels are; classes.py: classes and their ids, names that look alike
"""

from __future__ import annotations

from bertkit.data.tables.splits import check_disjoint, hub_splits, load_hub_table
from bertkit.data.tables.table import Table
from bertkit.data.tables.table_files import is_table, read_table

__all__ = ["Table", "check_disjoint", "hub_splits", "is_table", "load_hub_table", "read_table"]
