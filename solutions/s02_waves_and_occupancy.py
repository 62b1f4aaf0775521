"""Solutions to notebook 2."""

ANSWERS = {
    # 100 KB and the reserved 1 KB go twice into 228 KB; 132 SMs.
    "2.1": 132 * 2,
    # A third of 233,472 bytes is 77,824; the driver reserves 1,024 of them.
    "2.2": 233_472 // 3 - 1_024,
    # 151 KB + 21 KB = 172 KB; levels are ..., 164, 196, 228 KB.
    "2.3": 196 * 1024,
}
