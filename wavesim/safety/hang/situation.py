"""A situation: what was or will be launched where, and what each kernel's blocks wait for.

Example: 128 workers that fill an SM each and 80 small schedulers, launched on two streams of a GPU with 148
SMs; every block waits until all blocks of both have started. It says nothing about time: whatever order the
device may choose is possible.

What is not known is left out and said in `notes`; a wait that is known to exist, but not for what, has
`is_unknown`. `docs/why-hang.md` has the fields as files have them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wavesim.model.device import Device
from wavesim.sim.streams.stream_order import StreamOperation

LAUNCH_NUMBER = re.compile(r" #\d{1,9}$")  # as the launch recorder numbers them
Until = Literal["start", "end"]
Blocks = Literal["all", "row"] | int


@dataclass(frozen=True)
class DevicePart:
    """The SMs that operations of one name run on: a GPU, or what MPS, MIG or a green context leave of it.

    `device.sm_count` counts the SMs that are seen; `limited_by` says by what, where these are not all.
    `held_sms` are taken for ever by work that is not listed. Blocks of several processes share the SMs only
    where `is_mps`; else the GPU switches between processes in time. `queues` is CUDA_DEVICE_MAX_CONNECTIONS:
    with more streams, one may stand behind another.
    """

    name: str
    device: Device
    limited_by: str = ""
    held_sms: int = 0
    is_mps: bool = False
    queues: int = 8

    @property
    def sm_count(self) -> int:
        """SMs that the listed operations can have."""
        return self.device.sm_count - self.held_sms


@dataclass(frozen=True)
class BlockWait:
    """What every block of `waiter` needs before it can end; a block that waits holds its slot.

    Until `blocks` of `producer` have reached `until`: all, some number of them, or "row": those in the
    waiter's own row, where both grids have `rows`. `producer` may be the waiter itself: a barrier of its
    grid. Or until a `semaphore` has reached `value`. With `is_unknown` it waits for something that is not
    known.
    """

    waiter: str
    producer: str = ""
    blocks: Blocks = "all"
    until: Until = "end"
    rows: int = 1
    semaphore: str = ""
    value: int = 1
    is_unknown: bool = False


@dataclass(frozen=True)
class Post:
    """Each of `blocks` blocks of `producer` (None: all) adds `each`, when it starts or when it ends."""

    producer: str
    each: int = 1
    blocks: int | None = None
    until: Until = "end"


@dataclass(frozen=True)
class PostedSemaphore:
    """A counter in global memory. `initial` is where it starts, `posts` who adds to it."""

    name: str
    posts: Sequence[Post] = ()
    initial: int = 0


@dataclass(frozen=True)
class Situation:
    """Operations in the order in which the host launched them, on the parts of devices that they run on.

    `has_all_waits` is False where waits may be missing, as in a profile: then nothing is ever called safe.
    """

    name: str
    devices: Sequence[DevicePart]
    operations: Sequence[StreamOperation]
    waits: Sequence[BlockWait] = ()
    semaphores: Sequence[PostedSemaphore] = ()
    notes: Sequence[str] = ()
    has_all_waits: bool = True
    source: str = ""

    def operation(self, name: str) -> StreamOperation:
        """The operation of that name. Raises `KeyError`."""
        return next(operation for operation in self.operations if operation.name == name)

    def device(self, name: str) -> DevicePart:
        """The part of that name. Raises `KeyError`."""
        return next(part for part in self.devices if part.name == name)
