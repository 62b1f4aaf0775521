"""Time in which nothing runs between two kernels: launch gaps, and pauses of the program.

Example: a kernel ends at 100 us, the next starts at 104: a launch gap of 4 us. The one after it starts 20 ms
later: the program read the next batch, which is a pause.
"""

import numpy as np

from wavesim.profile.profile import Profile

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
    place, start, end = place[order], rows.start_ns[order], rows.end_ns[order]
    # The latest end so far on each device, as its rank: later devices come after all ranks of earlier ones.
    by_end = np.argsort(end, kind="stable")
    rank = np.empty_like(by_end)
    rank[by_end] = np.arange(len(end))
    latest = end[by_end[np.maximum.accumulate(place * len(end) + rank) % len(end)]]
    idle = (start[1:] - latest[:-1])[place[1:] == place[:-1]]
    # Pauses of thousands of devices may not fit 64 bits together; below 2^53 the sum is exact.
    pauses = idle[idle > PAUSE_NS].sum(dtype=np.float64)
    return int(idle[(idle > 0) & (idle <= PAUSE_NS)].sum()), int(pauses)
