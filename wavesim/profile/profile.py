"""A profile: which kernels ran when on which stream, as a profiler saw it; no tiles, only launches.

Example: 1,465 launches of 47 different shapes on one stream of an H100. A shape is a kernel's name with its
grid, threads, registers and shared memory; a launch is a shape, a stream, a start and an end. That is what
PyTorch's profiler and Nsight Systems both record, and all that the advice is made of.

Times are integer nanoseconds from the first operation on any device.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.model.device import Device

IntArray = NDArray[np.int64]
UNKNOWN_NS = int(np.iinfo(np.int64).min)
# How the host launched: not known, by a call without attributes, or by one with (cudaLaunchKernelExC).
CALL_UNKNOWN, CALL_PLAIN, CALL_EXTENDED = -1, 0, 1


def call_kind(name: str) -> int:
    """What a host call's name says: only an extended one can ask for programmatic serialization."""
    if "aunch" not in name or "Graph" in name:
        return CALL_UNKNOWN
    return CALL_EXTENDED if "KernelEx" in name else CALL_PLAIN


@dataclass(frozen=True)
class LaunchShape:
    """A kernel as it is launched; None where the profile does not say.

    `profiler_occupancy` is the profiler's own estimate, 0 to 100, and `gemm` the (m, n, k) of the matrix
    product that launched it, batch included in m, where the profiler recorded operand shapes.
    """

    name: str
    device: int
    grid: tuple[int, int, int] | None
    threads: int | None
    registers: int | None
    shared_bytes: int | None
    profiler_occupancy: float | None = None
    gemm: tuple[int, int, int] | None = None

    @property
    def blocks(self) -> int | None:
        """Thread blocks of one launch."""
        return None if self.grid is None else self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True)
class Lane:
    """A stream of a device in one process (a rank): what runs here runs in order."""

    process: str
    device: int
    stream: str


@dataclass(frozen=True, eq=False)
class LaunchTable:
    """One row per operation in order of lane and start: kernels, and copies with shape -1.

    `host_ns` is when the host launched it, `UNKNOWN_NS` where nothing says;
    `is_replayed` says that a CUDA graph did. `call` is one of `CALL_UNKNOWN`, `CALL_PLAIN`, `CALL_EXTENDED`.
    """

    shape: IntArray
    lane: IntArray
    start_ns: IntArray
    end_ns: IntArray
    host_ns: IntArray
    is_replayed: NDArray[np.bool_]
    call: IntArray

    def __len__(self) -> int:
        return len(self.shape)

    @property
    def is_kernel(self) -> NDArray[np.bool_]:
        """Which rows are kernels."""
        mask: NDArray[np.bool_] = self.shape >= 0
        return mask

    @property
    def duration_ns(self) -> IntArray:
        """Time of each operation."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, eq=False)
class Profile:
    """A profile as read. `steps` are (name, start, end) of the profiler's steps on the same clock.

    `devices` maps the profile's device numbers to what is known of them, None for one that is not NVIDIA's or
    not named. `timer_step_ns` is the resolution of the stamps. `notes` say in whole sentences what the file
    lacks and what was assumed instead.
    """

    source: str
    profiler: str
    devices: Mapping[int, Device | None]
    shapes: tuple[LaunchShape, ...]
    lanes: tuple[Lane, ...]
    launches: LaunchTable
    steps: tuple[tuple[str, int, int], ...] = ()
    timer_step_ns: int = 1
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kernel_count(self) -> int:
        """Kernels that ran."""
        return int(self.launches.is_kernel.sum())

    @property
    def compute_ns(self) -> int:
        """Time of all kernels added up; those that ran at the same time count each."""
        return int(self.launches.duration_ns[self.launches.is_kernel].sum())

    @property
    def span_ns(self) -> int:
        """From the first operation's start to the last one's end."""
        return int(self.launches.end_ns.max() - self.launches.start_ns.min()) if len(self.launches) else 0

    @property
    def device_name(self) -> str:
        """The devices that ran kernels, by name, most used first."""
        used = dict.fromkeys(self.lanes[lane].device for lane in np.unique(self.launches.lane))
        known = {number: self.devices.get(number) for number in used}
        names = [device.name if device else "unknown device" for device in known.values()]
        return " + ".join(dict.fromkeys(names)) or "unknown device"
