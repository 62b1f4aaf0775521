"""Kernels whose blocks stay: a grid barrier between steps, or data that say that they are there."""
