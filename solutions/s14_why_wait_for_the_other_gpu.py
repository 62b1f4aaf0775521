"""Solutions to notebook 14."""

ANSWERS = {
    # 2 bytes × 2,048 × 12,288 are 50.3 MB: twice 1/2 of it leaves a GPU of two, twice 7/8 a GPU of eight.
    "14.2": (50.3, 88.1),
    # 302 of 346 GB/s from 16 blocks that write; 32 that read carry 231 of 344.
    "14.3": (16, 132),
    # 627 over 408 µs.
    "14.1": 1.54,
    # All SMs compute; what arrives is added where the GEMM's blocks have left.
    "14.4": "stores",
}
