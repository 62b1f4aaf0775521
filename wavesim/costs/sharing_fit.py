"""What a stream-sync trace says about blocks that share an SM: speeds, and every block's work.

Example: a block computed for 233 us as the older of two, another one for 187 us as the younger and 93 us as
the older, a third mostly alone. All had the same work, so the older runs at 0.65 of the speed alone and
the younger at 0.47. Of four small blocks on an SM hardly one is ever alone: that three get 0.97 of what four
get done says how much of the SM one could use, and so how fast it would be by itself.
"""

from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from wavesim.costs.sharing import SharingLaw
from wavesim.trace.regimes import Regimes
from wavesim.trace.trace import Trace

FloatArray = NDArray[np.float64]
LEAST_SEEN = 0.05  # share of all block time below which a number of blocks does not show their biases
MOST_BIAS = 0.9
LEAST_DEMAND, MOST_DEMAND = 0.1, 4.0  # of an SM; beyond, speeds no longer depend on it
PRECISION = 1e-3  # of the demand's logarithm
KEPT = (sqrt(5) - 1) / 2  # of an interval in which the least is looked for (golden section)


def fit_speeds(trace: Trace, regimes: Regimes, law: SharingLaw) -> tuple[float, tuple[float, ...]]:
    """(demand of one block, oldest_first_bias of 1, 2, 3... blocks on an SM) by least squares.

    For block i of stage s: sum of time x speed, over its regimes, = work(s). A demand gives all mean speeds
    (`SharingLaw.speeds`); the one that leaves the least squares, as a share of the work, is taken.
    """
    low, high = log(LEAST_DEMAND), log(MOST_DEMAND)
    while high - low > PRECISION:
        left, right = high - KEPT * (high - low), low + KEPT * (high - low)
        if _biases(trace, regimes, exp(left), law)[0] < _biases(trace, regimes, exp(right), law)[0]:
            high = right
        else:
            low = left
    demand = exp((low + high) / 2)
    return demand, _biases(trace, regimes, demand, law)[1]


def _biases(
    trace: Trace, regimes: Regimes, demand: float, law: SharingLaw
) -> tuple[float, tuple[float, ...]]:
    """(squares left, biases) with the mean speeds of a demand; 0 for numbers of blocks hardly seen."""
    speeds = np.array(law.speeds(demand, regimes.together.shape[1]))
    seen = [n for n in range(1, speeds.size) if regimes.shares[n] > LEAST_SEEN]
    member = (trace.stage[:, None] == np.arange(len(trace.header.stages))).astype(float)
    work = regimes.together @ speeds
    scale = float(work.mean())
    system = np.hstack([-(regimes.by_age * speeds)[:, seen] / scale, member])
    found = np.linalg.lstsq(system, work / scale, rcond=None)[0]
    biases = np.zeros(speeds.size)
    biases[seen] = np.clip(found[: len(seen)], 0.0, MOST_BIAS)
    squares = float(((work / scale - system @ found) ** 2).sum())
    return squares, tuple(round(float(bias), 3) for bias in biases)
