"""Sums, convolutions and products step by step, from the plainest kernel to one that waits for memory."""
