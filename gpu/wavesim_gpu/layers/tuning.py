"""Measures the ways to compute an MLP on the GPU at hand, and keeps the fastest for all later processes.

Example: `mlp(x, w1, w2, tune=True)` times the eight candidates with the least predicted time, and cuBLASLt,
on random operands of the shape, interleaved, and has later calls take the fastest.
"""

from wavesim_gpu.layers.arguments import Layout


def tune(layout: Layout) -> None:
    """Measures a layout's shape; later calls, and later processes, take what was fastest."""
