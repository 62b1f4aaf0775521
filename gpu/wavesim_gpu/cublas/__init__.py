"""Products by cuBLAS and cuBLASLt: what ours are compared with and fall back on."""
