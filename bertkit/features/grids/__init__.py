"""Many runs: grids, seeds, folds and searches; comparisons and ensembles of runs; see docs/guides/grids.md
and docs/guides/ablations.md."""

from __future__ import annotations

PUBLIC = {
    "ablations": "ablations:ablations",
    "compare": "compare:compare",
    "ensemble": "best:ensemble",
    "finetune_glue": "glue:finetune_glue",
    "finetune_glue_grid": "glue:finetune_glue_grid",
    "finetune_grid": "grid:finetune_grid",
    "report_grid": "page:report_grid",
}
COMMANDS = {
    "compare": ("Look at the results", "report"),
    "ensemble": ("Experiments", ""),
    "ablations": ("Experiments", "ensemble"),
}
OPTIONS = {"finetune": "command:Grid"}
