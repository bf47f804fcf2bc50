"""What people do around a run; each folder is a feature."""
