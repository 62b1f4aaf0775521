"""What a way launches: kernels per device and stream, what their tiles wait for, post and send.

Example: under "stores:8" each of two GPUs has a kernel of 8 blocks that add, on a stream of its own, and a
persistent GEMM of 124 blocks. Tile (3, 0) of the GEMM on GPU 0 is sent to GPU 1, which owns odd columns, and
posts its semaphore there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from wavesim.costs.peer_costs import PeerCosts
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Tile
from wavesim.sim.peers.way import PeerWay
from wavesim.work.collective.host import Host
from wavesim.work.gemm import Gemm

COMPUTE, COMMUNICATE = 0, 1  # streams of a device
Sender = Literal["none", "block", "epilogue", "copy-engine"]


@dataclass(frozen=True)
class Send:
    """Bytes for another device, and the semaphores that are posted there once they have arrived."""

    target: int
    bytes: int
    posts: tuple[int, ...]


@dataclass(frozen=True)
class PeerItem:
    """A tile, or a chunk of them, as a block handles it: semaphores to wait for, then work, posts and sends.

    `arrives`: posted as soon as a block takes the item, before it waits: how the blocks of a library's
    collective meet those of all ranks. `adds`: what it waits for after its work, before it posts and sends.
    `until`: what the block waits for besides before the item ends, and `retire_ns` later it does.
    """

    tile: Tile
    arrives: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    posts: tuple[int, ...] = ()
    sends: tuple[Send, ...] = ()
    adds: tuple[int, ...] = ()
    until: tuple[int, ...] = ()
    retire_ns: int = 0


@dataclass(frozen=True)
class PeerKernel:
    """A launch on its stage's device: `blocks` blocks that take the items in order, one or one after another.

    - `tile_ns`: an item's work, alone on its SM; `bytes_per_s` what the whole kernel takes of the DRAM's.
    - `sender`: nobody; the block, which waits until all has arrived; its epilogue, which goes on and waits
    only
      before it sends again; or the copy engine, which needs no SM.
    - `after`: kernels, by index, that have to end first, besides the one before in its stream.
    """

    stage: Stage
    stream: int
    blocks: int
    items: Sequence[PeerItem]
    tile_ns: int
    sender: Sender = "none"
    after: tuple[int, ...] = ()
    bytes_per_s: float = 0.0


@dataclass(frozen=True)
class PeerSemaphore:
    """A counter in one device's memory: ready at `awaited` posts. `name` says of which tiles."""

    name: str
    device: int
    awaited: int


class PeerSemaphores(list[PeerSemaphore]):
    """All of a program, by their numbers."""

    def add(self, name: str, device: int, awaited: int) -> int:
        """One more: its number."""
        self.append(PeerSemaphore(name, device, awaited))
        return len(self) - 1


@dataclass(frozen=True)
class PeerProgram:
    """A pipeline on a host in a way: all kernels in launch order, and all semaphores."""

    pipeline: Pipeline
    host: Host
    way: PeerWay
    kernels: Sequence[PeerKernel]
    semaphores: Sequence[PeerSemaphore]


@dataclass(frozen=True)
class PeerTimes:
    """What the kernels take: `tile_ns` of our persistent kernels by stage, `library` (ns, SMs in use) of the
    library's GEMMs, of one chunk each, by stage. `link_factor`: of a what-if link, over the
    one that the collectives ran on.
    """

    tile_ns: Mapping[str, int]
    library: Mapping[str, tuple[int, int]]
    costs: PeerCosts
    link_factor: float = 1.0


def dram_bytes_per_s(gemm: Gemm, taken_ns: float) -> float:
    """What a GEMM that takes so long wants of the DRAM: every matrix once."""
    moved = gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.columns
    return 2 * moved / max(1.0, taken_ns) * 1e9
