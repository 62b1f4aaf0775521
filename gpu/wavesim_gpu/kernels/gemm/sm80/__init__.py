"""Kernels for sm_80 and later."""
