"""Solutions to notebook 19."""

ANSWERS = {
    # 32 bytes × 640 cycles = 20,480 bytes in flight; a load of a warp is 32 × 16 = 512 of them.
    "19.1": 40,
    # 40 loads over 12 warps, rounded up.
    "19.2": 4,
    # 44 loads in flight; 40 would do if no warp had to wait for the last of its loads.
    "19.3": (11, 4),
    # 4 and 8 flops per byte at 150 GB/s, under a roof of 1000.
    "19.4": (600, 1000),
    # 2048 threads in blocks of 256 or 1024; shared memory alone would allow 32 and 8.
    "19.5": (8, 2),
}
