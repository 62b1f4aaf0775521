"""The functions that every module of Triton text begins with: one look at a semaphore, and a bounded wait.

Example: `_wait(sync, 9, 4, 1, x, y)` returns -0.0 once word 9 of the buffer has reached 4, or NaN.
"""

PRIMITIVES = """
@triton.jit
def _look(sync, word):
    # One thread looks and tells the others, so that all leave a loop together. Acquire: what was stored
    # before the release that this sees is seen by the loads that follow. The result must be used: Triton
    # deletes an acquiring operation whose result is dropped.
    return tl.atomic_add(sync + word, 0, sem="acquire", scope="gpu")


@triton.jit
def _wait(sync, word, awaited, stage, x, y):
    # Until a semaphore has reached a value: -0.0, which changes no number that it is added to, not even
    # another -0.0, or NaN after as many looks as the buffer's first word says.
    # Where one program has given up, the others do too.
    seen = _look(sync, word)
    if seen < awaited:
        looks = tl.load(sync)
        while (seen < awaited) & (looks > 0):
            if looks % 64 == 0:
                looks = tl.where(_look(sync, 1) != 0, 1, looks)
            looks -= 1
            seen = _look(sync, word)
        if seen < awaited:
            if tl.atomic_xchg(sync + 1, 1, sem="relaxed", scope="gpu") == 0:
                tl.store(sync + 2, stage)
                tl.store(sync + 3, x)
                tl.store(sync + 4, y)
                tl.store(sync + 5, word)
                tl.store(sync + 6, seen)
                tl.store(sync + 7, awaited)
    return tl.where(seen < awaited, float("nan"), -0.0)

"""
