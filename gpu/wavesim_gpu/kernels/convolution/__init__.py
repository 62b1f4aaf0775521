"""Convolutions as implicit GEMMs: the Hopper GEMM with another loader, and a portable kernel."""
