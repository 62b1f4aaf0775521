"""How far two GPUs' clocks are apart, from posts that go to and fro, with bounds that hold for sure.

Example: GPU 0 posts at 1,000 ns and has the answer at 4,000; GPU 1 saw the post at 51,000 by its own clock.
So its clock is 47,000 to 50,000 ns ahead: 48,500 +- 1,500. Each round narrows the bounds; the result's error
is half of what is left.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError, DeviceError
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch
from wavesim_gpu.kernels.collective import SOURCES
from wavesim_gpu.peers.groups import PeerGroup
from wavesim_gpu.peers.layout import PING_PONG_PARAMS
from wavesim_gpu.peers.memory import PeerLayout

SOURCE = SOURCES / "ping_pong.cu"
STEP_NS = 32  # by which the clock moves
ROUNDS, LIMIT_NS = 200, 2_000_000_000


@dataclass(frozen=True)
class ClockOffset:
    """Nanoseconds to take from the other GPU's times, to have them on the first one's clock; how far off."""

    ns: int
    error_ns: int


def offset_of(
    posted: NDArray[np.uint64], answered: NDArray[np.uint64], seen: NDArray[np.uint64]
) -> ClockOffset:
    """From the rounds of a ping-pong: posted and answered on one clock, seen on the other.

    Raises `DescriptionError` for rounds that no offset explains: a clock has moved on at another rate.
    """
    there = seen.astype(np.int64)
    most = int((there - posted.astype(np.int64)).min()) + STEP_NS
    least = int((there - answered.astype(np.int64)).max()) - STEP_NS
    if least > most:
        raise DescriptionError(
            f"clocks: bounds are {least} to {most} ns, in the wrong order; one clock runs "
            "faster. Use fewer rounds"
        )
    return ClockOffset((least + most) // 2, -(-(most - least) // 2))


def measured_offset(group: PeerGroup, rank: int, rounds: int = ROUNDS) -> ClockOffset:
    """How far the clock of `rank` is ahead of rank 0's; one process must drive both. Raises `DeviceError`."""
    memory = group.allocate(PeerLayout({"word": 4}))
    kept = {}
    for own, other in ((0, rank), (rank, 0)):
        with group.on(own) as cupy:
            times = cupy.zeros(rounds * (2 if own == 0 else 1), np.uint64)
            record = np.zeros(1, PING_PONG_PARAMS)[0]
            record["own"], record["other"] = (
                memory.address(own, own, "word"),
                memory.address(own, other, "word"),
            )
            record["times"], record["limit_ns"] = times.data.ptr, LIMIT_NS
            record["rounds"], record["begins"] = rounds, own == 0
            function = load_function(SOURCE, "ping_pong", Build())
            stream, _ = group.streams_of(own)
            cupy.cuda.Device().synchronize()
            launch = DeviceLaunch(function, KernelLaunch("ping_pong", 1, 0, 1), (record,), 0)
            kept[own] = times, stream, launch
    # Both are loaded before either runs: loading may wait for what runs.
    for own, (_, stream, launch) in kept.items():
        with group.on(own):
            launch.enqueue((stream,))
    group.barrier()
    first, there = kept[0][0].get(), kept[rank][0].get()
    if not first.all() or not there.all():
        raise DeviceError(f"clocks: rank {rank} did not answer within {LIMIT_NS / 1e9:g} s. Run it alone")
    return offset_of(first[0::2], first[1::2], there)
