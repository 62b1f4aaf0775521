"""Profile in, report out: readers of profiler traces, waves, overlap, advice, and what may hang."""
