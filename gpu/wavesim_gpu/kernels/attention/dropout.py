"""Which attention weights are dropped: a function of seed, head, query and key alone, as dropout.cuh has it.

Example: `kept(numpy, seed=7, p=0.1, heads=4, rows=8, keys=64)` is a boolean array (4, 8, 64), the same for
every kernel, tile and order; `dropout_params(7, 0.1)` is what a kernel gets.
"""

import math
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError

# dropout.cuh, Dropout.
DROPOUT = np.dtype([("seed_low", "<u4"), ("seed_high", "<u4"), ("threshold", "<u4"), ("scale", "<f4")])
assert DROPOUT.itemsize == 16

WORD = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def threshold_of(p: float) -> int:
    """Words below it are dropped: ceil(p 2^32). Raises `DescriptionError` unless p is in [0, 1 - 2^-32]."""
    if not 0.0 <= p <= 1.0 - 2.0**-32:  # also refuses NaN
        raise DescriptionError(f"dropout is {p!r}; it is a share of the weights, at least 0 and below 1")
    return math.ceil(p * 2**32)


def dropout_params(seed: int, p: float) -> np.ndarray[Any, np.dtype[np.void]]:
    """A kernel's `Dropout`. Raises `DescriptionError` for a share outside [0, 1) or a seed over 64 bits."""
    if not 0 <= seed < 2**64:
        raise DescriptionError(f"dropout's seed is {seed}; it has 64 bits, so 0 to 2**64 - 1")
    threshold = threshold_of(p)
    return np.array((seed & WORD, seed >> 32, threshold, 1.0 / (1.0 - p)), DROPOUT)


def philox(counter: tuple[Any, Any, Any, Any], seed: int) -> tuple[Any, Any, Any, Any]:
    """Four random words for each counter of four words, of arrays of uint64 that hold 32 bits.

    Source: Philox-4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    x, y, z, w = counter
    key = [seed & WORD, seed >> 32]
    for _ in range(ROUNDS):
        of_x, of_z = x * MULTIPLIERS[0], z * MULTIPLIERS[1]
        x, y, z, w = (of_z >> 32) ^ y ^ key[0], of_z & WORD, (of_x >> 32) ^ w ^ key[1], of_x & WORD
        key = [(word + step) & WORD for word, step in zip(key, KEY_STEPS, strict=True)]
    return x, y, z, w


def kept(xp: Any, seed: int, p: float, heads: int, rows: int, keys: int) -> Any:
    """Whether a weight is kept, a boolean array (heads, rows, keys) of `xp`, which is numpy or cupy.

    `heads` counts over all sequences (sequence * heads + head), `rows` the queries of a sequence, `keys` the
    cached ones too. Kept weights are scaled by 1 / (1 - p).
    """
    threshold, quads = threshold_of(p), -(-keys // 4)
    head, row, quad = xp.meshgrid(
        *(xp.arange(count, dtype=xp.uint64) for count in (heads, rows, quads)), indexing="ij"
    )
    words = xp.stack(philox((quad, row, head, xp.zeros_like(head)), seed), axis=-1)
    return words.reshape(heads, rows, 4 * quads)[:, :, :keys] >= threshold
