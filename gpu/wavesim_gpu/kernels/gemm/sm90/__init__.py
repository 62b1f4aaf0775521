"""Kernels for sm_90a: TMA and wgmma."""
