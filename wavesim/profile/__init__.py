"""Profile in, report out: readers of profiler traces, waves, overlap, advice."""
