"""Launches from the device: grids whose blocks launch grids, as CUDA's device runtime of today runs them.

Example: block 0 of a parent launches two children fire-and-forget and one on the tail stream. The children
may start at once; the tail waits until the parent's blocks and both children have ended, and only when the
tail has ended does the parent count as complete. Nothing waits on the device: cudaDeviceSynchronize is gone
there.

Sources: CUDA programming guide, CUDA dynamic parallelism (second version, CUDA 12 and later).
"""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.safe_io.bounds import MOST_NS, shown, whole

MACHINES = Path(__file__).with_name("device_launches.toml")
MOST_GRIDS = 20_000
MOST_GRID_BLOCKS = 2**14
MOST_WARPS = 32  # of a block
Behind = Literal["block", "fire-and-forget", "tail"]
STREAMS: tuple[Behind, ...] = get_args(Behind)


@dataclass(frozen=True)
class LaunchMachine:
    """A GPU, and what its device runtime allows and costs. Times in nanoseconds.

    `pool` launches can be pending: called, and not begun to execute. One more is lost, as in CUDA 12 and
    later; with `is_virtualised`, as before that, it goes through a pool in memory and takes `virtual_ns` more
    to start. A call keeps its warp for `call_ns`, and those of a warp come one after the other. Of all
    launches one starts every `start_ns`, each `latency_ns` after its call at the earliest, and
    `resident_grids` execute at once. A grid that has launched is complete `complete_ns` after the last of its
    own has ended.
    """

    name: str
    device: Device
    source: str
    pool: int = 2_048
    is_virtualised: bool = False
    depth: int = 24
    resident_grids: int = 128
    call_ns: int = 0
    start_ns: int = 0
    latency_ns: int = 0
    virtual_ns: int = 0
    complete_ns: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (("pool", 1, 2**20), ("depth", 1, 24), ("resident_grids", 1, 2**16)):
            whole(f"machine {self.name}: {name}", getattr(self, name), least, most)
        for figure in fields(self):
            if figure.name.endswith("_ns"):
                whole(f"machine {self.name}: {figure.name}", getattr(self, figure.name), 0, MOST_NS)


@cache
def load_launch_machine(name: str = "textbook") -> LaunchMachine:
    """The machine of that name. Raises `DescriptionError`."""
    tables = tomllib.loads(MACHINES.read_text(encoding="utf-8"))
    if name not in tables:
        raise DescriptionError(f"machine is {shown(name)}; known are {', '.join(tables)}")
    table = dict(tables[name])
    device = devices.load(table.pop("device"))
    return LaunchMachine(name, device.with_sm_count(table.pop("sm_count", device.sm_count)), **table)


@dataclass(frozen=True)
class ChildLaunch:
    """A launch that block `block` of the parent calls after `after_ns` of its work.

    `block` is None for the last block to end. `warp` calls beside the block's work and has no other; None is
    the warp that works as long as its block, which calls prolong. On stream "block" children of a block run
    one after the other, "fire-and-forget" ones at once, and those on "tail", again one after the other, when
    the parent and all else that it launched has ended.
    """

    grid: "DeviceGrid"
    block: int | None = 0
    after_ns: int = 0
    stream: Behind = "fire-and-forget"
    warp: int | None = None

    def __post_init__(self) -> None:
        if self.stream not in STREAMS:
            raise DescriptionError(f"stream is {shown(self.stream)}; choose one of {', '.join(STREAMS)}")
        whole(f"launch of {self.grid.name}: after_ns", self.after_ns, 0, MOST_NS)
        if self.warp is not None:
            whole(f"launch of {self.grid.name}: warp", self.warp, 0, MOST_WARPS - 1)


@dataclass(frozen=True)
class DeviceGrid:
    """A grid: the nanoseconds that each of its blocks works, and what they launch."""

    name: str
    blocks_ns: Sequence[int]
    launches: Sequence[ChildLaunch] = ()
    threads: int = 256

    def __post_init__(self) -> None:
        whole(f"grid {self.name}: blocks", len(self.blocks_ns), 1, MOST_GRID_BLOCKS)
        whole(f"grid {self.name}: threads", self.threads, 1, 1_024)
        for block_ns in self.blocks_ns:
            whole(f"grid {self.name}: a block's ns", block_ns, 1, MOST_NS)
        for launch in self.launches:
            if launch.block is not None and not 0 <= launch.block < len(self.blocks_ns):
                raise DescriptionError(
                    f"grid {self.name}: block {shown(launch.block)} launches {launch.grid.name}; there "
                    f"are blocks 0 to {len(self.blocks_ns) - 1}"
                )

    @property
    def all_grids(self) -> Iterator["DeviceGrid"]:
        """The grid itself and all that it and its children launch."""
        waiting = [self]
        while waiting:
            grid = waiting.pop()
            yield grid
            waiting += [launch.grid for launch in grid.launches]
