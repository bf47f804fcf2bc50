"""Where a run happens: devices, precision, processes, and how the global batch is cut."""
