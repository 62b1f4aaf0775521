"""Small stream programs for notebook 17, run on the textbook machine and shown.

Example: `run(kernel("k1", "s1"), kernel("k2"), kernel("k3", "s2"))` is a timeline of three kernels, one of
them on the null stream; `picture` draws it.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from wavesim.errors import DescriptionError
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown
from wavesim.sim.streams.engine import simulate_streams
from wavesim.sim.streams.examples import WHOLE_SM, VectorAdd
from wavesim.sim.streams.machine import StreamMachine, load_machine
from wavesim.sim.streams.measured import compared, newest_run
from wavesim.sim.streams.program import (
    CudaStream,
    Direction,
    HostCall,
    HostThread,
    LaunchKernel,
    Memcpy,
    StreamProgram,
)
from wavesim.sim.streams.stream_order import LEGACY
from wavesim.sim.streams.timeline import StreamTimeline
from wavesim.teaching.shown import Shown
from wavesim.widgets.stream_explorers import StreamsPicture

US = 1_000
TEXTBOOK = load_machine()
ONE_QUEUE = replace(TEXTBOOK, queues=1)
# Calls and copies that cost something: 5 us of the host each, and 10 us before a copy's first byte.
WITH_COSTS = replace(
    TEXTBOOK, name="textbook with costs", launch_call_ns=5 * US, copy_call_ns=5 * US, copy_ns=10 * US
)


@typed
def kernel(name: str, stream: str = LEGACY, us: int = 200, until: str = "") -> LaunchKernel:
    """A launch of four blocks, which are half of the textbook machine's SMs."""
    return LaunchKernel(name, stream, 4, us * US, WHOLE_SM, until=until)


@typed
def copy(name: str, direction: Direction, stream: str = LEGACY, us: int = 100) -> Memcpy:
    """A copy from or to pinned memory that takes so long on the textbook machine."""
    return Memcpy(name, direction, us * 40_000, stream)


@typed
def run(
    *calls: HostCall, non_blocking: Collection[str] = (), machine: StreamMachine = TEXTBOOK
) -> StreamTimeline:
    """The calls of one host thread; streams are made as they appear, blocking unless they are named.

    Raises `StreamDeadlockError` and `DescriptionError`.
    """
    streams = [CudaStream(name, name not in non_blocking) for name in stream_names(calls)]
    unknown = set(non_blocking) - {one.name for one in streams}
    if unknown:
        raise DescriptionError(f"non_blocking names {shown(min(unknown))}, a stream that no call uses")
    return simulate_streams(StreamProgram("your calls", streams, [HostThread("host", calls)]), machine)


@typed
def stream_names(calls: Iterable[HostCall]) -> list[str]:
    """Of all but the null stream, as they appear."""
    used = [getattr(call, "stream", LEGACY) for call in calls]
    return [name for name in dict.fromkeys(used) if name != LEGACY]


@typed
def picture(timeline: StreamTimeline) -> StreamsPicture:
    """The timeline, to look at and to step through."""
    return StreamsPicture.of(timeline)


@typed
def vector_add_us(chunks: int, machine: StreamMachine = TEXTBOOK, streams: int = 4) -> float:
    """Time of the vector addition in so many chunks, depth-first."""
    add = VectorAdd(streams, chunks).program(machine.device.sm_count)
    return simulate_streams(add, machine).end_ns / US


def measured_table() -> Shown:
    """Simulated beside measured, of the newest run that is shipped."""
    found = newest_run()
    assert found is not None, "a measured run ships with wavesim"
    cells = [
        (row.name, f"{row.simulated_ns / US:,.0f}", f"{row.measured_ns / US:,.0f}", f"{100 * row.error:+.1f}")
        for row in compared(found)
    ]
    return Shown((found.provenance, "simulated, µs", "measured, µs", "error, %"), tuple(cells))
