"""What a stream-sync trace says about blocks that share an SM: speeds, and every block's work.

Picture: a block computed for 233 us as the elder of two, another one for 187 us as the younger and 93 us as
the elder, a third mostly alone. All had the same work, so the elder runs at 0.65 of the speed alone and
the younger at 0.47: least squares, with one unknown for each speed and one for each stage's work.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.trace import Trace

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Regimes:
    """Nanoseconds each block spent (blocks, most) as the eldest, or another, of 1, 2, 3... on its SM."""

    eldest: FloatArray
    other: FloatArray

    @classmethod
    def of(cls, trace: Trace, most: int) -> "Regimes":
        """Time by company and age; with more than `most` blocks on an SM counted as `most`."""
        eldest, other = np.zeros((len(trace), most)), np.zeros((len(trace), most))
        for sm in np.unique(trace.sm):
            # Stages and, within them, rows are in the order of issue; start stamps of one instant are not.
            rows = np.flatnonzero(trace.sm == sm)
            starts, ends = trace.start_ns[rows], trace.end_ns[rows]
            edges = np.unique(np.concatenate([starts, ends]))
            inside = (starts[:, None] <= edges[:-1]) & (ends[:, None] >= edges[1:])
            spans = inside * np.diff(edges)
            company = np.clip(inside.sum(axis=0), 1, most)
            is_first = inside & (inside.cumsum(axis=0) == 1)
            for n in range(1, most + 1):
                eldest[rows, n - 1] = (spans * is_first)[:, company == n].sum(axis=1)
                other[rows, n - 1] = (spans * ~is_first)[:, company == n].sum(axis=1)
        return cls(eldest, other)

    @property
    def alone_share(self) -> float:
        """Share of all block time that blocks spent alone."""
        return float(self.eldest[:, 0].sum() / (self.eldest.sum() + self.other.sum()))

    def work(self, sharing: tuple[float, ...], seniority: float) -> FloatArray:
        """Time each block would have taken alone, (blocks,)."""
        mean = np.array(sharing)
        rank = np.maximum(1, np.arange(len(sharing)))
        is_shared = np.arange(len(sharing)) > 0
        fast, slow = mean * (1 + seniority * is_shared), mean * (1 - seniority * is_shared / rank)
        result: FloatArray = self.eldest @ fast + self.other @ slow
        return result


def fit_speeds(trace: Trace, regimes: Regimes) -> tuple[tuple[float, ...], float]:
    """(mean speed of 1, 2, 3... blocks on an SM, seniority) by least squares; speed alone is 1.

    For block i of stage s: sum of time x speed, over its regimes, = work(s). Companies that the trace does
    not show take the last known speed, shared out among more.
    """
    most = regimes.eldest.shape[1]
    seen = [n for n in range(1, most) if regimes.eldest[:, n].sum() > 0]
    stages = np.arange(len(trace.header.stages))
    member = -(trace.stage[:, None] == stages).astype(float)
    scale = float((regimes.eldest + regimes.other).sum(axis=1).mean())
    system = np.hstack([regimes.eldest[:, seen] / scale, regimes.other[:, seen] / scale, member])
    found = np.linalg.lstsq(system, -regimes.eldest[:, 0] / scale, rcond=None)[0]
    speeds, weights, seniorities = [1.0], [0.0], [0.0]
    for n in range(1, most):
        if n not in seen:
            speeds.append(speeds[-1] * n / (n + 1))
            continue
        fast, slow = found[seen.index(n)], found[len(seen) + seen.index(n)]
        mean = float(fast + n * slow) / (n + 1)
        speeds.append(mean)
        weights.append(float(regimes.eldest[:, n].sum()))
        seniorities.append(float(fast) / mean - 1 if mean > 0 else 0.0)
    seniority = float(np.average(seniorities, weights=weights)) if sum(weights) else 0.0
    return tuple(round(speed, 3) for speed in speeds), round(seniority, 3)
