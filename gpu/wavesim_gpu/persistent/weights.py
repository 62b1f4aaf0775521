"""WaveRNN-896's weights, made up from a seed, and packed as each thread of `wavernn.cu` loads them.

Example: a block of R has the rows of 16 hidden units for all three gates. Packed, each of its 7 warps finds
the weights of its part of K one load after the other, 16 bytes a lane, in the order of `mma.sync`'s A.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

HIDDEN, HALF, CLASSES, GATES = 896, 448, 256, 3
BATCH, BATCHES, STAGES = 8, 5, 5
WARPS, CHUNK_BYTES, TILE_ROWS = 7, 64, 16
UNITS, OUTPUT_ROWS = 16, 64  # of a block of R, and of an output layer
LAYERS = ("r", "o1", "o2", "o3", "o4")
SHAPES = {
    "r": (GATES * HIDDEN, HIDDEN),
    "o1": (HALF, HALF),
    "o2": (CLASSES, HALF),
    "o3": (HALF, HALF),
    "o4": (CLASSES, HALF),
}
DTYPES: Mapping[str, Any] = {"fp16": np.float16, "int8": np.int8}
INT8_ONE = 127  # what is stored for an activation of 1.0

Array = NDArray[Any]


@dataclass(frozen=True)
class Weights:
    """The five matrices (rows, K), by layer; R's rows are the gates u, r and e one after the other.

    A sum of R's times `gate_scale` is what goes into a gate; of O1's and O3's times `inner_scale`, rounded,
    what the next layer reads.
    """

    dtype: str
    matrices: Mapping[str, Array]
    gate_scale: float
    inner_scale: float

    def packed(self) -> Array:
        """All blocks' weights as bytes, stage after stage."""
        r = self.matrices["r"].reshape(GATES, HIDDEN // UNITS, UNITS, HIDDEN)
        blocks = [packed_block(r[:, block].reshape(-1, HIDDEN)) for block in range(HIDDEN // UNITS)]
        for name in LAYERS[1:]:
            rows = self.matrices[name].reshape(-1, OUTPUT_ROWS, HALF)
            blocks += [packed_block(own) for own in rows]
        return np.concatenate(blocks)


def made_up_weights(dtype: str, seed: int = 0) -> Weights:
    """Weights of a size that keeps activations of order one."""
    random = np.random.default_rng(seed)
    if dtype == "int8":
        matrices = {name: random.integers(-127, 128, shape, np.int8) for name, shape in SHAPES.items()}
        deviation = float(matrices["r"].std())
        gate = 2.0 / (INT8_ONE * deviation * HIDDEN**0.5)
        return Weights(dtype, matrices, gate, 1.0 / (deviation * HALF**0.5))
    matrices = {
        name: (random.standard_normal(shape) * 2.0 / shape[1] ** 0.5).astype(np.float16)
        for name, shape in SHAPES.items()
    }
    return Weights(dtype, matrices, 1.0, 1.0)


def first_state(dtype: str, seed: int = 0) -> Array:
    """H before the first step, (batches, 8, hidden), from -1 to 1."""
    values = np.random.default_rng([seed, 1]).uniform(-1, 1, (BATCHES, BATCH, HIDDEN))
    return np.rint(values * INT8_ONE).astype(np.int8) if dtype == "int8" else values.astype(np.float16)


def packed_block(rows: Array) -> Array:
    """One block's rows (tiles * 16, K) as bytes: by warp, chunk, half, tile and lane, 16 bytes each.

    A lane is row `lane // 4` of 8 and quarter `lane % 4` of a chunk of 64 bytes. Its four words are, of its
    half of 8 bytes: the first of its row, the first of the row 8 below, the second of both.
    """
    tiles = len(rows) // TILE_ROWS
    data = np.ascontiguousarray(rows).view(np.uint8)
    parts = data.reshape(tiles, 2, 8, WARPS, -1, 4, 2, 2, 4)
    # tile, below, row, warp, chunk, quarter, half, word, bytes
    #   -> warp, chunk, half, tile, row, quarter, word, below, bytes
    return parts.transpose(3, 4, 6, 0, 2, 5, 7, 1, 8).reshape(-1)
