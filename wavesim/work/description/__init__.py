"""Kernels described in a TOML file: `reader.load_description` reads it, `writer.write_description` writes it.

Example: a pair of GEMMs, each with its grid or sizes, its block and its measured time, and what one needs.
"""
