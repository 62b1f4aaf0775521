"""Where slots stand empty and where nothing runs at all: last waves, launch gaps, pauses of the program.

Example: a GEMM's last wave leaves half of its slots empty for 40 us, and a kernel on a second stream, large
enough for the whole device, runs for 30 of them: three quarters of the empty slots are filled. An all-reduce
of 8 blocks on 132 SMs beside it fills 6 %. The next kernel starts 4 us after both, a launch gap; 20 ms would
be a pause.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wavesim.profile.kernel_facts import KernelFacts
from wavesim.profile.profile import IntArray, Profile

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


FloatArray = NDArray[np.float64]


def filled_shares(profile: Profile, facts: Sequence[KernelFacts]) -> FloatArray:
    """(shapes,) 0 to 1: of the empty slots of each shape's last waves, what other streams' kernels filled."""
    rows = profile.launches
    shares = np.zeros(len(facts))
    kernels = np.flatnonzero(rows.is_kernel)
    shape = rows.shape[kernels]
    counts = [1.0 if fact.waves is None else float(fact.waves.rounds) for fact in facts]  # may pass 64 bits
    rounds = np.array(counts)[shape]
    weight = np.array([_device_share(fact) for fact in facts])[shape]
    start, end = _without_overlap(rows.start_ns[kernels], rows.end_ns[kernels], rows.lane[kernels])
    last_ns = np.maximum(1.0, (end - start) / rounds)
    places = _places(profile)[rows.lane[kernels]]
    filled = np.zeros(len(kernels))
    for place in np.unique(places):
        here = np.flatnonzero(places == place)
        if len(np.unique(rows.lane[kernels[here]])) > 1:
            busy = _busy(start[here], end[here], weight[here], end[here] - last_ns[here])
            filled[here] = busy - weight[here] * last_ns[here]
    np.add.at(shares, shape, np.maximum(0.0, filled))
    total = np.bincount(shape, weights=last_ns, minlength=len(facts))
    return np.clip(shares / np.maximum(1.0, total), 0.0, 1.0)


def _device_share(kernel: KernelFacts) -> float:
    """How much of a device a kernel fills while it runs: its blocks over its slots, at most all."""
    if kernel.waves is not None:
        return min(1.0, kernel.waves.blocks / kernel.waves.slots)
    if kernel.device is None or kernel.shape.blocks is None:
        return 1.0
    return min(1.0, kernel.shape.blocks / kernel.device.sm_count)


def _without_overlap(start: IntArray, end: IntArray, lane: IntArray) -> tuple[FloatArray, FloatArray]:
    """(start, end) with each kernel over when the next of its own stream begins: rows are in that order."""
    cut = end.astype(float)
    follows = lane[1:] == lane[:-1]
    cut[:-1] = np.where(follows, np.minimum(cut[:-1], start[1:]), cut[:-1])
    return start.astype(float), cut


def _places(profile: Profile) -> IntArray:
    devices = dict.fromkeys((lane.process, lane.device) for lane in profile.lanes)
    numbers = {device: number for number, device in enumerate(devices)}
    return np.array([numbers[lane.process, lane.device] for lane in profile.lanes])


def _busy(start: FloatArray, end: FloatArray, weight: FloatArray, begin: FloatArray) -> FloatArray:
    """Of each kernel from `begin` to its end: the time that all kernels together ran, each by its weight."""
    at_ns = np.concatenate([start, end])
    order = np.argsort(at_ns, kind="stable")
    at_ns = at_ns[order]
    running = np.cumsum(np.concatenate([weight, -weight])[order])
    total = np.concatenate([[0.0], np.cumsum(running[:-1] * np.diff(at_ns))])
    return np.asarray(np.interp(end, at_ns, total) - np.interp(begin, at_ns, total))
