"""Plans: who computes a tile, when a kernel starts, what a tile waits for, in which order."""
