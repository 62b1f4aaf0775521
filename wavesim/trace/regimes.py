"""How long each block of a trace shared its SM with how many others, and as the older or younger one.

Example: of 233 us a block was for 200 the older of two on its SM, and for 33 alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.trace.trace import Trace

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Regimes:
    """Nanoseconds each block spent (blocks, most) on its SM as one of 1, 2, 3... blocks.

    `by_age` is the same times the block's place among them: from 1, the oldest, to -1, the youngest.
    """

    together: FloatArray
    by_age: FloatArray

    @classmethod
    def of(cls, trace: Trace, most: int) -> "Regimes":
        """Time by number of blocks and age; with more than `most` blocks on an SM counted as `most`."""
        together, by_age = np.zeros((len(trace), most)), np.zeros((len(trace), most))
        for sm in np.unique(trace.sm):
            # Stages and, within them, rows are in the order of issue; start stamps of one instant are not.
            rows = np.flatnonzero(trace.sm == sm)
            starts, ends = trace.start_ns[rows], trace.end_ns[rows]
            edges = np.unique(np.concatenate([starts, ends]))
            inside = (starts[:, None] <= edges[:-1]) & (ends[:, None] >= edges[1:])
            spans = inside * np.diff(edges)
            count = inside.sum(axis=0)
            place = 1 - 2 * (inside.cumsum(axis=0) - 1) / np.maximum(1, count - 1)
            for n in range(1, most + 1):
                is_here = np.clip(count, 1, most) == n
                together[rows, n - 1] = spans[:, is_here].sum(axis=1)
                by_age[rows, n - 1] = (spans * place)[:, is_here].sum(axis=1)
        return cls(together, by_age)

    @property
    def shares(self) -> FloatArray:
        """Share of all block time by number of blocks on the SM, (most,)."""
        return np.asarray(self.together.sum(axis=0) / self.together.sum())

    def work(self, sharing: tuple[float, ...], oldest_first_bias: tuple[float, ...]) -> FloatArray:
        """Time each block would have taken alone, (blocks,)."""
        mean = np.array(sharing)
        last = len(oldest_first_bias) - 1
        bias = np.array([0.0, *(oldest_first_bias[min(n, last)] for n in range(1, mean.size))])
        return np.asarray(self.together @ mean + self.by_age @ (mean * bias))
