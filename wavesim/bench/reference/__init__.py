"""The reference simulator: the semantics once more as a heapq loop, to check the SimPy model against."""
