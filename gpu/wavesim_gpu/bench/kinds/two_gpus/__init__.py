"""Products across two GPUs beside what libraries do: right results first, then times in turns."""
