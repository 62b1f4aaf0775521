"""One decode step as a persistent kernel: its shape, its work lists, its launch."""
