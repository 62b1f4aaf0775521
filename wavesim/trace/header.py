"""A trace's header: what its rows mean, and what happened beside its blocks.

Example: the header of a simulated trace names the device with its SM count, the plan as data, each stage with
grid and blocks per SM, the semaphores of each dependency, and the costs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class StageInfo:
    """A stage as the trace saw it: grid (x, y, z), resident blocks per SM and the block's threads.

    `backend` is the kernel backend that computed it, "" where none is named.
    """

    name: str
    grid: tuple[int, int, int]
    blocks_per_sm: int
    threads: int
    tile: tuple[int, int] | None = None
    backend: str = ""


@dataclass(frozen=True)
class DependencyInfo:
    """A policy on one dependency. `semaphore_of_tile` is row-major; `value_of_semaphore` means ready."""

    producer: str
    consumer: str
    policy: str
    semaphore_of_tile: tuple[int, ...]
    value_of_semaphore: tuple[int, ...]


@dataclass(frozen=True)
class Header:
    """Everything about a trace that is not a row.

    `plan_data` is the plan (`wavesim.plan.parsing.plan_data`), empty in recordings of before it was stored;
    `plan` and `plan_label` are for people. `rounds_ns` are unrecorded, interleaved timings of the same plan
    (measured traces); `setup_ns` is the time around the blocks that counts towards the plan's time (simulated
    traces). `timer_step_ns` is the resolution of the clock that stamped the rows; `clock_mhz` and `power_w`
    were read while it ran. `costs` are the cost model's figures (simulated traces).
    """

    source: Literal["simulated", "measured"]
    device: Mapping[str, Any]
    workload: str
    plan: str
    plan_label: str
    stages: tuple[StageInfo, ...]
    plan_data: Mapping[str, Any] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)
    dependencies: tuple[DependencyInfo, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timer_step_ns: int = 1
    rounds_ns: tuple[int, ...] = ()
    setup_ns: int = 0
    clock_mhz: float | None = None
    power_w: float | None = None
    date: str = ""
    commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def sm_count(self) -> int:
        """SMs of the device; of several, of all of them."""
        return int(self.device["sm_count"])

    @property
    def device_count(self) -> int:
        """GPUs whose SMs these are, equally many of each."""
        count = self.device.get("count", 1)
        return count if type(count) is int and 1 <= count <= self.sm_count else 1


@dataclass(frozen=True)
class Event:
    """Something beside the blocks: a launch, a wait-kernel, a kernel boundary."""

    name: str
    stage: str
    start_ns: int
    end_ns: int


COSTS = {
    "edge_ns": "prologue_epilogue_ns",
    "counter_ns": "tile_fetch_ns",
    "look_ns": "poll_ns",
    "signal_ns": "post_visibility_ns",
    "fork_ns": "multi_stream_ns",
    "seniority": "oldest_first_bias",
    "draws_by_sm": "fetches_by_sm",
}


def with_current_names(costs: Any) -> Any:
    """The costs of a header by their names of today; what is no table is left as it is."""
    return (
        {COSTS.get(name, name): value for name, value in costs.items()} if isinstance(costs, dict) else costs
    )
