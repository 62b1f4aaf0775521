"""Reads the synchronisation of compiled kernels: who waits, who posts, and whether order is kept."""
