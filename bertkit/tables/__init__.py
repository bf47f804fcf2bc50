"""Labelled text in rows of named columns, from files and from Hub data sets.

table.py        rows of named columns, with the place of each row in the source
table_files.py  reading of a file by its format, compressed or not
delimited.py    CSV and TSV; json_rows.py and arrow.py: the other formats
hub_tables.py   splits of Hub data sets
columns.py      the columns of texts and labels; labels.py: the labels and their classes
spelling.py     names that look alike
splitting.py    validation sets drawn from the training set
"""

from __future__ import annotations

from bertkit.tables.hub_tables import check_disjoint, hub_splits, load_hub_table
from bertkit.tables.table import Table
from bertkit.tables.table_files import is_table, read_table

__all__ = ["Table", "check_disjoint", "hub_splits", "is_table", "load_hub_table", "read_table"]
