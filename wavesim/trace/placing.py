"""Which slot of its SM a measured block had: hardware does not say, its times do.

Example: of three blocks on SM 0, from 0 to 4, 2 to 6 and 4 to 8 us, the third takes the first one's slot, 0.
"""

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray


def slots(sm: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> NDArray[np.int64]:
    """For each block the lowest slot of its SM that is free when it starts."""
    result = np.zeros(len(sm), np.int64)
    busy: dict[int, list[tuple[int, int]]] = {}
    free: dict[int, list[int]] = {}
    for row in np.lexsort((end, start)):
        own_busy, own_free = busy.setdefault(int(sm[row]), []), free.setdefault(int(sm[row]), [])
        while own_busy and own_busy[0][0] <= start[row]:
            heapq.heappush(own_free, heapq.heappop(own_busy)[1])
        slot = heapq.heappop(own_free) if own_free else len(own_busy)
        heapq.heappush(own_busy, (int(end[row]), slot))
        result[row] = slot
    return result
