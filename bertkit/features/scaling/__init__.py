"""Work over folders of files, shared by several processes of one machine or by the workers of Ray; see
docs/guides/scale.md.

folders.py      `predict_folder` and `embed_folder`
inputs.py       folders, patterns and URLs → files → shards, ranges of rows of one file
rows.py         the rows of a file, one by one, with the reason where one cannot be read
shard_rows.py   the rows of shards, without reading a file from its start for each
computing.py    the computation of one shard and the bytes of its results, the same for all engines
output.py       the output folder: finished shards, rejected rows, the record of the command

Workers are those of `bertkit.runtime.placement.pool` and `bertkit.runtime.placement.workers`.
"""

from __future__ import annotations

PUBLIC = {"embed_folder": "folders:embed_folder", "predict_folder": "folders:predict_folder"}
OPTIONS = {"texts": "command:Folder"}
