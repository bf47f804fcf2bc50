"""Work over folders of files, shared by several processes of one machine or by the workers of Ray.

folders.py      `predict_folder` and `embed_folder`
inputs.py       folders, patterns and URLs → files → shards, ranges of rows of one file
rows.py         the rows of a shard, one by one, with the reason where one cannot be read
computing.py    the computation of one shard, the same for all engines
tables.py       computed rows → the bytes of a JSON lines or Parquet file
output.py       the output folder: finished shards, rejected rows, the record of the command
pool.py         workers that take shards and are replaced when they die
processes.py    workers that are processes of this machine
ray_actors.py   workers that are actors of Ray
"""
