"""A stream program: what host threads call, in order, on streams that they made.

Example: `Memcpy("a0", "h2d", 4_000_000, "s0")`, `LaunchKernel("k0", "s0", blocks=66, block_ns=100_000)` and
`Memcpy("c0", "d2h", 4_000_000, "s0")`, then the same on "s1": a vector addition in two chunks. The simulator
runs a program.

Sources: CUDA runtime API, stream management, event management, API synchronisation behaviour.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Block
from wavesim.safe_io.bounds import MOST_BLOCKS, MOST_NS, shown, whole
from wavesim.sim.streams.stream_order import LEGACY

Direction = Literal["h2d", "d2h", "d2d"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
MOST_CALLS, MOST_STREAMS, MOST_THREADS = 2_000, 128, 8
MOST_BYTES = 1 << 32
PRIORITIES = (-5, 0)  # greatest and least, as cudaDeviceGetStreamPriorityRange says on recent GPUs
USUAL_BLOCK = Block(256)


@dataclass(frozen=True)
class CudaStream:
    """A stream that the program makes: cudaStreamCreateWithPriority.

    With `is_blocking` it waits for the legacy default stream and that for it; without, it was made with
    cudaStreamNonBlocking. A lower `priority` goes first and is clamped to CUDA's range.
    """

    name: str
    is_blocking: bool = True
    priority: int = 0

    @property
    def clamped_priority(self) -> int:
        """What CUDA makes of a priority beyond its range."""
        return min(PRIORITIES[1], max(PRIORITIES[0], self.priority))


@dataclass(frozen=True)
class LaunchKernel:
    """A launch: `blocks` blocks that hold their SM slot for `block_ns` each.

    `until` names an operation: each block spins until that has ended, and then for `block_ns`. With
    `elements` it adds that many elements of arrays a and b into c from `first_element` on, and stays for
    the rest of its time.
    """

    name: str
    stream: str = LEGACY
    blocks: int = 1
    block_ns: int = 100_000
    block: Block = USUAL_BLOCK
    until: str = ""
    elements: int = 0
    first_element: int = 0

    def __post_init__(self) -> None:
        whole(f"kernel {self.name}: blocks", self.blocks, 1, MOST_BLOCKS)
        whole(f"kernel {self.name}: block_ns", self.block_ns, 1, MOST_NS)

    def __str__(self) -> str:
        return f"{self.name}<<<{self.blocks}>>>"


@dataclass(frozen=True)
class Memcpy:
    """cudaMemcpyAsync, or cudaMemcpy where not `is_async`, between host and device.

    Host memory is pinned or, where not `is_pinned`, pageable. `array` and `first_byte` say which bytes.
    """

    name: str
    direction: Direction
    bytes: int
    stream: str = LEGACY
    is_async: bool = True
    is_pinned: bool = True
    array: str = ""
    first_byte: int = 0

    def __post_init__(self) -> None:
        whole(f"copy {self.name}: bytes", self.bytes, 1, MOST_BYTES)
        if self.direction not in DIRECTIONS:
            raise DescriptionError(
                f"copy {self.name}: direction is {shown(self.direction)}; it is {' or '.join(DIRECTIONS)}"
            )
        if not self.is_async and self.stream != LEGACY:
            raise DescriptionError(
                f"copy {self.name}: cudaMemcpy goes to the legacy default stream, and stream is "
                f"{shown(self.stream)}; leave it out, or set is_async=True"
            )

    def __str__(self) -> str:
        return f"cudaMemcpy{'Async' if self.is_async else ''}({self.name})"


@dataclass(frozen=True)
class LaunchHostFunction:
    """cudaLaunchHostFunc: a function of `ns` on a thread of the driver, in the stream's order."""

    name: str
    stream: str = LEGACY
    ns: int = 50_000

    def __post_init__(self) -> None:
        whole(f"host function {self.name}: ns", self.ns, 0, MOST_NS)

    def __str__(self) -> str:
        return f"cudaLaunchHostFunc({self.name})"


@dataclass(frozen=True)
class RecordEvent:
    """cudaEventRecord: the event stands for all that the stream holds now; recorded again, for what it then
    holds.
    """

    event: str
    stream: str = LEGACY

    def __str__(self) -> str:
        return f"cudaEventRecord({self.event}, {self.stream})"


@dataclass(frozen=True)
class WaitEvent:
    """cudaStreamWaitEvent: what is launched into the stream later waits. An event that was never recorded
    is complete: the call does nothing.
    """

    event: str
    stream: str = LEGACY

    def __str__(self) -> str:
        return f"cudaStreamWaitEvent({self.stream}, {self.event})"


@dataclass(frozen=True)
class SynchronizeStream:
    """cudaStreamSynchronize: the host waits for all that the stream holds."""

    stream: str = LEGACY

    def __str__(self) -> str:
        return f"cudaStreamSynchronize({self.stream})"


@dataclass(frozen=True)
class SynchronizeEvent:
    """cudaEventSynchronize: the host waits for the event; not at all for one that was never recorded."""

    event: str

    def __str__(self) -> str:
        return f"cudaEventSynchronize({self.event})"


@dataclass(frozen=True)
class SynchronizeDevice:
    """cudaDeviceSynchronize: the host waits for everything."""

    def __str__(self) -> str:
        return "cudaDeviceSynchronize()"


@dataclass(frozen=True)
class HostWork:
    """The host computes for so long and calls nothing."""

    ns: int

    def __post_init__(self) -> None:
        whole("HostWork: ns", self.ns, 0, MOST_NS)

    def __str__(self) -> str:
        return "host work"


Operation = LaunchKernel | Memcpy | LaunchHostFunction
HostCall = (
    Operation | RecordEvent | WaitEvent | SynchronizeStream | SynchronizeEvent | SynchronizeDevice | HostWork
)


@dataclass(frozen=True)
class HostThread:
    """A thread of the host and what it calls, one after the other."""

    name: str
    calls: Sequence[HostCall]


@dataclass(frozen=True)
class StreamProgram:
    """Streams and the calls of host threads. Streams get their connections in the order of `streams`.

    Raises `DescriptionError` for a stream that was not made, an operation that stands twice, and a kernel
    that waits `until` one that does not exist.
    """

    name: str
    streams: Sequence[CudaStream]
    threads: Sequence[HostThread]
    question: str = ""

    def __post_init__(self) -> None:
        whole(f"{self.name}: streams", len(self.streams), 0, MOST_STREAMS)
        whole(f"{self.name}: host threads", len(self.threads), 1, MOST_THREADS)
        whole(f"{self.name}: calls", sum(len(thread.calls) for thread in self.threads), 1, MOST_CALLS)
        self._require_known_streams()
        self._require_known_operations()

    @property
    def calls(self) -> Iterator[HostCall]:
        """Of all threads, thread by thread."""
        for thread in self.threads:
            yield from thread.calls

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Kernels, copies and host functions, thread by thread."""
        return tuple(call for call in self.calls if isinstance(call, Operation))

    def stream(self, name: str) -> CudaStream:
        """The stream of that name. Raises `KeyError`."""
        if name == LEGACY:
            return CudaStream(LEGACY)
        return next(stream for stream in self.streams if stream.name == name)

    def _require_known_streams(self) -> None:
        names = [stream.name for stream in self.streams]
        for name, following in pairwise(sorted(names)):
            if name == following:
                raise DescriptionError(f"{self.name}: two streams are called {shown(name)}; rename one")
        if LEGACY in names:
            raise DescriptionError(
                f"{self.name}: {LEGACY} is the default stream, which is always there; rename yours"
            )
        for call in self.calls:
            used = getattr(call, "stream", LEGACY)
            if used != LEGACY and used not in names:
                made = ", ".join(names) or "none"
                raise DescriptionError(
                    f"{self.name}: {call} is on stream {shown(used)}, which is not made; made are {made}"
                )

    def _require_known_operations(self) -> None:
        seen: set[str] = set()
        for operation in self.operations:
            if operation.name in seen:
                raise DescriptionError(
                    f"{self.name}: two operations are called {shown(operation.name)}; rename one"
                )
            seen.add(operation.name)
        for operation in self.operations:
            if isinstance(operation, LaunchKernel) and operation.until and operation.until not in seen:
                raise DescriptionError(
                    f"{self.name}: kernel {shown(operation.name)} spins until {shown(operation.until)} has "
                    "ended, and no operation is called so"
                )
