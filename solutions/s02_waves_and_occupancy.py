"""Solutions to notebook 2."""

ANSWERS = {
    # 100 KiB and the reserved 1 KiB go twice into 228 KiB; 132 SMs.
    "2.1": 132 * 2,
    # A third of 233,472 bytes is 77,824; the driver reserves 1,024 of them.
    "2.2": 233_472 // 3 - 1_024,
    # 151 KiB + 21 KiB = 172 KiB; levels are ..., 164, 196, 228 KiB.
    "2.3": 196 * 1024,
}
