"""Launches from the device: threads with uneven work, and what a GPU took for it."""
