"""Solutions to notebook 21."""

ANSWERS = {
    # 16 × 256 threads, 16 × 8 warps, 16 blocks, one grid.
    "21.1": (4096, 128, 16, 1),
    # The default pool, and what is left of 3,072.
    "21.2": (2048, 1024),
    # The long child ends at 2 + 20; then 3 and 4 µs, one after the other.
    "21.3": (22, 29),
    # 2^11 = 2,048.
    "21.4": 11,
    # Threads do up to 15 items themselves while others do theirs; one launch for the rest.
    "21.5": ("grid", 16),
}
