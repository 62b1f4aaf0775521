"""Kernels that reach another GPU's memory: products that send or receive tiles, sums, copies, signals."""

from pathlib import Path

SOURCES = Path(__file__).parent
