"""Characterises the GPU at hand: microbenchmarks, a module per group, and the device file made of them."""
