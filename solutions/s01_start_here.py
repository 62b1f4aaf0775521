"""Solutions to notebook 1."""

ANSWERS = {
    # ceil(6 / 5) = 2 waves per kernel, one after the other; with semaphores 12 tiles on 5 SMs, ceil(12 / 5).
    "1.1": (4, 3),
    # 6 tiles are three full waves of 2 SMs (and two of 3): no last wave is part empty.
    "1.2": 2,
    # 24 x 6 = 144 tiles are 1.09 waves of 132: gemm1's second wave is nearly empty.
    "1.3": 768,
}
