"""The classic programs, declared once, as they were run on an H200 in 2026.

Example: `example("four kernels, depth-first")` launches k0.0, k0.1, k0.2, k0.3 on stream s0, then the same on
s1, s2 and s3; with one hardware queue only the end of a stream overlaps the start of the next.
Sources: Professional CUDA C Programming, chapter 6; UIUC ECE 408, lecture 22. Kernels hold their SMs for a
known time, so that a timeline tells of streams and of nothing else.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Block
from wavesim.safe_io.annotated import require_fields, typed
from wavesim.safe_io.bounds import shown, whole
from wavesim.sim.streams.machine import StreamMachine
from wavesim.sim.streams.program import (
    CudaStream,
    Direction,
    HostCall,
    HostThread,
    HostWork,
    LaunchHostFunction,
    LaunchKernel,
    Memcpy,
    RecordEvent,
    StreamProgram,
    SynchronizeDevice,
    WaitEvent,
)
from wavesim.sim.streams.stream_order import LEGACY

Issue = Literal["depth-first", "breadth-first"]
ISSUES: tuple[Issue, ...] = ("depth-first", "breadth-first")
ELEMENTS = 4_000_000  # of each array of the vector addition
ELEMENT_BYTES = 4
ADD_NS = 800_000  # of all chunks' kernels together
SMALL_NS = 200_000  # of each other kernel
LATER_NS = 20_000
MOST_CHUNKS = 64
# One block per SM: by its threads on the toy, by its shared memory on larger GPUs.
WHOLE_SM = Block(1024, dynamic_shared_bytes=120 * 1024)
ONE_WARP = Block(32)
MB = 1_000_000


@dataclass(frozen=True)
class VectorAdd:
    """c = a + b in chunks: each is copied to the device, added and copied back, on the streams in turn.

    `issue` is the order of the calls: all of a chunk, or one step of all chunks of a round. All chunks'
    kernels take `add_ns` together. `last_priority` is that of the last stream, 0 and below.
    """

    streams: int = 4
    chunks: int = 4
    issue: Issue = "depth-first"
    is_pinned: bool = True
    last_priority: int = 0
    is_blocking: bool = False
    add_ns: int = ADD_NS

    def __post_init__(self) -> None:
        require_fields(self)
        whole("streams", self.streams, 1, 32)
        whole("chunks", self.chunks, 1, MOST_CHUNKS)

    def program(self, sm_count: int) -> StreamProgram:
        """The program for a GPU with so many SMs: a kernel fills half of them."""
        names = [f"s{number}" for number in range(self.streams)]
        chunks = [self._steps(chunk, names[chunk % self.streams], sm_count) for chunk in range(self.chunks)]
        calls = in_order(chunks, self.issue, self.streams)
        memory = "pinned" if self.is_pinned else "pageable"
        name = f"vector add: {self.chunks} chunks on {self.streams} streams, {self.issue}, {memory}"
        return _by_one_thread(name, names, calls, is_blocking=self.is_blocking, last=self.last_priority)

    def _steps(self, chunk: int, stream: str, sm_count: int) -> list[HostCall]:
        first, upto = (ELEMENTS * end // self.chunks for end in (chunk, chunk + 1))
        count, blocks = upto - first, max(1, sm_count // 2)

        def copy(array: str, direction: Direction) -> Memcpy:
            return Memcpy(
                f"{array}{chunk}",
                direction,
                count * ELEMENT_BYTES,
                stream,
                is_pinned=self.is_pinned,
                array=array,
                first_byte=first * ELEMENT_BYTES,
            )

        kernel = LaunchKernel(
            f"k{chunk}",
            stream,
            blocks,
            self.add_ns // self.chunks,
            WHOLE_SM,
            elements=count,
            first_element=first,
        )
        return [copy("a", "h2d"), copy("b", "h2d"), kernel, copy("c", "d2h")]


def in_order(chunks: Sequence[Sequence[HostCall]], issue: Issue, streams: int) -> list[HostCall]:
    """The chunks' calls depth-first, chunk by chunk, or breadth-first: one step of as many chunks as there
    are streams, then the next step.

    Raises `DescriptionError` for another word.
    """
    if issue not in ISSUES:
        raise DescriptionError(f"issue is {shown(issue)}; it is {' or '.join(ISSUES)}")
    if issue == "depth-first":
        return [call for chunk in chunks for call in chunk]
    rounds = [chunks[first : first + streams] for first in range(0, len(chunks), streams)]
    return [call for part in rounds for step in zip(*part, strict=True) for call in step]


@dataclass(frozen=True)
class SmallKernels:
    """Chains of kernels of one block each, a chain per stream: enough SMs for all at once.

    With `null_kernels` one of the legacy default stream stands behind each chain's second.
    """

    streams: int = 4
    kernels: int = 4
    issue: Issue = "depth-first"
    null_kernels: bool = False
    is_blocking: bool = True
    kernel_ns: int = SMALL_NS

    def __post_init__(self) -> None:
        require_fields(self)
        whole("streams", self.streams, 1, 32)
        whole("kernels", self.kernels, 1, 16)

    def program(self, sm_count: int) -> StreamProgram:
        """The program; it is the same for GPUs of any size."""
        del sm_count
        names = [f"s{number}" for number in range(self.streams)]
        chains: list[list[HostCall]] = [
            [_small(f"k{chain}.{step}", name, self.kernel_ns) for step in range(self.kernels)]
            for chain, name in enumerate(names)
        ]
        if self.null_kernels:
            for chain, calls in enumerate(chains):
                calls.insert(min(2, self.kernels), _small(f"k{chain}.null", ns=self.kernel_ns))
        calls = in_order(chains, self.issue, self.streams)
        kind = "blocking" if self.is_blocking else "non-blocking"
        null = ", and one each on the null stream" if self.null_kernels else ""
        name = f"{self.kernels} kernels on each of {self.streams} {kind} streams{null}, {self.issue}"
        return _by_one_thread(name, names, calls, is_blocking=self.is_blocking)


def _by_one_thread(
    name: str, streams: Sequence[str], calls: Iterable[HostCall], *, is_blocking: bool = False, last: int = 0
) -> StreamProgram:
    """The calls, and at last a wait for all, by one host thread; `last` is the last stream's priority."""
    made = [CudaStream(stream, is_blocking) for stream in streams]
    made[-1] = replace(made[-1], priority=last)
    return StreamProgram(name, made, [HostThread("host", [*calls, SynchronizeDevice()])])


def _small(name: str, stream: str = LEGACY, ns: int = SMALL_NS) -> LaunchKernel:
    return LaunchKernel(name, stream, block_ns=ns, block=ONE_WARP)


@typed
def priorities(sm_count: int, priority: int = -1) -> StreamProgram:
    """Two long kernels of three waves each on two streams, and a little later a short one with priority."""
    long = LaunchKernel("long0", "s0", 3 * sm_count, SMALL_NS, WHOLE_SM)
    urgent = LaunchKernel("urgent", "urgent", max(1, sm_count // 2), SMALL_NS // 2, WHOLE_SM)
    calls = (long, replace(long, name="long1", stream="s1"), HostWork(LATER_NS), urgent)
    name = f"a kernel of priority {priority} beside two long ones"
    return _by_one_thread(name, ("s0", "s1", "urgent"), calls, last=priority)


def join(sm_count: int, *, is_recorded_first: bool = True) -> StreamProgram:
    """A kernel that joins three streams by events; one that is recorded only later holds nothing back."""
    del sm_count
    names = ("s0", "s1", "s2")
    first = [_small(f"k{n}", name, SMALL_NS * (n + 1)) for n, name in enumerate(names)]
    records: list[HostCall] = [RecordEvent(f"e{name}", name) for name in names]
    waits: list[HostCall] = [WaitEvent(f"e{name}", "last") for name in names]
    events = records + waits if is_recorded_first else waits + records
    calls = (*first, *events, _small("joined", "last"))
    return _by_one_thread("three streams joined by events", (*names, "last"), calls)


def host_functions(sm_count: int) -> StreamProgram:
    """Two streams of kernel, host function, kernel: the functions share one thread of the driver."""
    del sm_count
    calls: list[HostCall] = []
    for name in ("s0", "s1"):
        function = LaunchHostFunction(f"f.{name}", name, SMALL_NS)
        calls += [_small(f"k.{name}", name), function, _small(f"l.{name}", name)]
    return _by_one_thread("host functions", ("s0", "s1"), calls)


def both_directions(sm_count: int) -> StreamProgram:
    """Two copies to the device and two back on four streams: one engine a direction, both at once."""
    del sm_count
    calls = [
        Memcpy(f"{direction}{number}", direction, 16 * MB, f"s{number}")
        for number, direction in enumerate[Direction](("h2d", "h2d", "d2h", "d2h"))
    ]
    return _by_one_thread("copies in both directions", [call.stream for call in calls], calls)


@dataclass(frozen=True)
class StreamExample:
    """A program of the lab: how it is made for a GPU's number of SMs, and how many hardware queues it has."""

    name: str
    make: Callable[[int], StreamProgram]
    queues: int = 8

    def program(self, machine: StreamMachine) -> StreamProgram:
        """The program for the machine."""
        return self.make(machine.device.sm_count)

    def machine(self, machine: StreamMachine) -> StreamMachine:
        """The machine with as many hardware queues as the example has."""
        return replace(machine, queues=self.queues)


EXAMPLES = (
    StreamExample("vector add on one stream", VectorAdd(1, 1).program),
    StreamExample("vector add, depth-first", VectorAdd(4, 4).program),
    StreamExample("vector add, breadth-first", VectorAdd(4, 4, "breadth-first").program),
    StreamExample("vector add, depth-first, one queue", VectorAdd(4, 4).program, 1),
    StreamExample("vector add, pageable memory", VectorAdd(4, 4, is_pinned=False).program),
    StreamExample("four kernels, depth-first, one queue", SmallKernels().program, 1),
    StreamExample("four kernels, breadth-first, one queue", SmallKernels(issue="breadth-first").program, 1),
    StreamExample("four kernels, depth-first", SmallKernels().program),
    StreamExample("eight streams, depth-first, four queues", SmallKernels(streams=8).program, 4),
    StreamExample("null stream between blocking streams", SmallKernels(null_kernels=True).program),
    StreamExample(
        "null stream between non-blocking streams", SmallKernels(null_kernels=True, is_blocking=False).program
    ),
    StreamExample("a kernel with priority", priorities),
    StreamExample("the same without priority", lambda sm_count: priorities(sm_count, 0)),
    StreamExample("three streams joined by events", join),
    StreamExample("host functions", host_functions),
    StreamExample("copies in both directions", both_directions),
)


def example(name: str) -> StreamExample:
    """The example of that name. Raises `DescriptionError`."""
    for example in EXAMPLES:
        if example.name == name:
            return example
    raise DescriptionError(
        f"example is {shown(name)}; known are: {'; '.join(example.name for example in EXAMPLES)}"
    )
