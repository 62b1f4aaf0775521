"""Time in which nothing runs between two kernels: launch gaps, and pauses of the program.

Example: a kernel ends at 100 us, the next starts at 104: a launch gap of 4 us. The one after it starts 20 ms
later: the program read the next batch, which is a pause.
"""

from itertools import pairwise

import numpy as np

from wavesim.advise.profile import Profile

PAUSE_NS = 1_000_000  # longer gaps are the program doing something else, not launching


def device_gaps(profile: Profile) -> tuple[int, int]:
    """(launch gaps, pauses): time in which nothing runs on a device that has run and will run something."""
    rows = profile.launches
    processes = {
        lane: number
        for number, lane in enumerate(dict.fromkeys((o.process, o.device) for o in profile.lanes))
    }
    place = np.array([processes[lane.process, lane.device] for lane in profile.lanes])[rows.lane]
    order = np.lexsort((rows.start_ns, place))
    edges = np.searchsorted(place[order], np.arange(len(processes) + 1)).tolist()
    gaps = pauses = 0
    for first, last in pairwise(edges):
        mine = order[first:last]
        start, end = rows.start_ns[mine], rows.end_ns[mine]
        idle = start[1:] - np.maximum.accumulate(end)[:-1]
        gaps += int(idle[(idle > 0) & (idle <= PAUSE_NS)].sum())
        pauses += int(idle[idle > PAUSE_NS].sum())
    return gaps, pauses
