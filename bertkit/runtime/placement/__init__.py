"""Placement of a run: devices, precision, processes, and the division of the global batch."""
