"""Locks of run directories, complete checkpoints, interruptions, and killed data workers."""
