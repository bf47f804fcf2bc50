"""Many runs: grids, seeds, folds and searches; comparisons and ensembles of runs."""
