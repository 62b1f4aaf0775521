"""Row kernels: add and norm, softmax with dropout, copy."""
