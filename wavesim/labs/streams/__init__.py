"""Programs of copies and kernels on streams, and what a GPU took for them."""
