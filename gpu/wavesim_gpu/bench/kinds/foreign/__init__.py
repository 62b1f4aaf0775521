"""Kernels that share no code with ours, as a user might have written them, and their blind run."""
