"""Labelled text in rows of named columns, from files and from data sets of the Hub.

table.py        rows, and where each of them stands
table_files.py  a file by its kind, packed or not
delimited.py    CSV and TSV; json_lines.py and arrow.py, the other kinds
hub_tables.py   splits of data sets on the Hub
columns.py      which columns hold texts and labels; labels.py, what the labels are
splitting.py    a validation set from the training set
"""

from __future__ import annotations

from bertkit.tables.hub_tables import hub_splits, load_hub_table
from bertkit.tables.table import Table
from bertkit.tables.table_files import is_table, read_table

__all__ = ["Table", "hub_splits", "is_table", "load_hub_table", "read_table"]
