"""Our kernels: each launcher `x.py` beside its `x.cu`."""
