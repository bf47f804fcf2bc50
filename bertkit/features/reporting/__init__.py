"""Reports of runs: ``report.html`` and its figures."""
