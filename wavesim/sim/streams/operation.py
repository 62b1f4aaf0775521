"""One operation of a stream: a kernel, a copy or a host function, as the host launched it.

Example: a kernel of 128 blocks on a non-blocking stream, behind an event of another stream. It says nothing
about time; what must come before an operation follows from its stream, in `turns.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wavesim.model.kernel import Block, Carveout

Kind = Literal["kernel", "copy", "host"]
Trigger = Literal["start", "end"]
LEGACY = "legacy"
ONE_THREAD = Block(1)


@dataclass(frozen=True)
class StreamOperation:
    """A kernel, a copy or a host function in a stream. Only kernels have blocks, and only they hold SMs.

    `blocks` counts the grid; `cluster` of them are issued together, and all of a `is_cooperative` launch.
    `stream` "legacy" is the legacy default stream: it waits for all blocking streams of its process and
    device, and they for it; `is_blocking` is False for a stream made with cudaStreamNonBlocking. A lower
    `priority` goes first, as in CUDA. A `is_dependent` launch (programmatic dependent launch) may start once
    all blocks of the operation before it in its stream have triggered: at their `trigger`, "start" or "end".
    `after`: operations that end first, by an event; `host_after`: the host waits for their end before it
    makes this launch and all later ones of its process. `after_start`: its turn comes once all blocks of
    these have started, as behind a wait-kernel.
    """

    name: str
    device: str = ""
    kind: Kind = "kernel"
    blocks: int = 1
    block: Block = ONE_THREAD
    carveout: Carveout = "default"
    cluster: int = 1
    stream: str = LEGACY
    is_blocking: bool = True
    process: str = ""
    priority: int = 0
    is_cooperative: bool = False
    is_dependent: bool = False
    trigger: Trigger = "end"
    after: Sequence[str] = ()
    host_after: Sequence[str] = ()
    after_start: Sequence[str] = ()

    @property
    def is_kernel(self) -> bool:
        """Whether it has blocks."""
        return self.kind == "kernel"
