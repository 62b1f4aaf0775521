"""A user's own PyTorch model, tried with its MLPs swapped and without: compared, timed in turns, undone."""
