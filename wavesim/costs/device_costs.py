"""What is known of a device besides its catalogue: overheads, sharing of an SM, what its clock takes back.

Example: on a V100 one wait of CUTLASS's two-stage GEMM costs 1.5 us, on an A100 with three to five stages
half of that; on our H200, with kernels that look at semaphores ahead of need, nothing measurable.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from wavesim.costs.cost_model import OVERHEADS
from wavesim.costs.dram import Memory
from wavesim.costs.sharing import FULL_DEMAND, leads, shared_speeds
from wavesim.costs.weight_prefetch import is_memory_bound
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline

# Two blocks of our portable GEMM on one SM of an H200: median of least squares over the development half of
# the stream-sync recordings (`fit_speeds`). The published rows agree, and show too little to fit their own.
SENIORITY = 0.15

# Fitted to the development half of the published rows, in steps of 250 ns and 0.05 (`wavesim validate`).
LAUNCH_NS = 3_000  # per kernel, without a graph
HOST_SYNC_NS = 8_000  # from a kernel's end to the next launch, where the host waits in between
V100_WAIT_NS, A100_WAIT_NS = 1_500, 750  # per wait of CUTLASS's GEMM
CLOCK_SHARE = 0.25
V100_DEMAND = 0.5  # of one block: its loads go through registers, and it waits for them; in steps of 0.1
# Cycles over nanoseconds of blocks against the share of SMs that compute, our traces, development half: 0.05
# to 0.065 in runs of 0.8 ms. Runs that are at the power limit throughout show less, and have few idle SMs.
# With two blocks per SM, where SMs are seldom idle as a whole, it is 0.01 to 0.02 and left out.
H200_CLOCK_GAIN = 0.05


@dataclass(frozen=True)
class MachineCosts:
    """Costs that come with a device.

    - `overheads`: fields of `CostModel`, in nanoseconds.
    - `kernel_launch_ns`: what the measured time of one kernel contains besides its blocks.
    - `demand`: how much of an SM one block asks for (`shared_speeds`), unless memory is what it waits for;
      None where as many as fit ask for `FULL_DEMAND`.
    - `lead`: of the eldest of the blocks that crowd an SM, over their mean speed.
    - `clock_share`: of the logarithm of the cycles saved, the share that a power-limited clock takes back
      when a plan runs by itself for long; 0 where plans are measured in turns and share a clock. At the
      limit busy SMs x clock^3 is constant, which would be 1/3; power that idle SMs draw makes it less.
    """

    overheads: Mapping[str, Any]
    kernel_launch_ns: int
    clock_share: float
    demand: float | None = None
    lead: float = SENIORITY

    def speeds(self, pipeline: Pipeline, device: Device) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(sharing, seniority) of blocks that share an SM, as `CostModel` has them."""
        most = max(occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages)
        demand = FULL_DEMAND / most if self.demand is None else self.demand
        gemms = [stage.work for stage in pipeline.stages if isinstance(stage.work, Gemm)]
        if gemms and all(is_memory_bound(gemm, device) for gemm in gemms):
            demand = inf
        return shared_speeds(demand, most), leads(demand, most, self.lead)


def machine_of(device: Device) -> MachineCosts:
    """The costs known of a device; those of an H200 for one of which nothing is known."""
    return _KNOWN.get(device.name, _H200)


def memory_of(device: Device) -> Memory | None:
    """The L2 and DRAM of a device on which both were measured; None for others."""
    return _MEMORY.get(device.name)


def memory_behind(pipeline: Pipeline, device: Device) -> tuple[Pipeline, Memory] | None:
    """What `calibrate` is to take DRAM out of the tile times with; None where that is not known."""
    memory = memory_of(device)
    return None if memory is None else (pipeline, memory)


def clock_gain_of(device: Device, blocks_per_sm: int) -> float:
    """`CostModel.clock_gain` of kernels; 0 for devices on which no cycles were recorded."""
    return H200_CLOCK_GAIN if device.name == "h200" and blocks_per_sm == 1 else 0.0


def overheads_of(pipeline: Pipeline) -> Mapping[str, int]:
    """Where the kernels that a pipeline names differ from `OVERHEADS`: fields of `CostModel`, nanoseconds."""
    return _OF_KERNELS.get(str(pipeline.parameters.get("kernels", "")), {})


def is_known(device: Device) -> bool:
    """Whether anything was measured on such a device."""
    return device.name == "h200" or device.name in _KNOWN


def without_constants() -> MachineCosts:
    """Nothing fitted: no overheads, SMs shared with nothing lost or won, the clock by the cube law."""
    return MachineCosts({}, 0, clock_share=1 / 3, demand=inf, lead=0.0)


def with_host_sync(machine: MachineCosts) -> MachineCosts:
    """The same where the host waits for every kernel; the GPU then idles too often for a power limit."""
    each = HOST_SYNC_NS + machine.overheads["boundary_ns"]
    overheads = {**machine.overheads, "boundary_ns": each, "setup_ns": each}
    return MachineCosts(overheads, each, 0.0, machine.demand, machine.lead)


def _by_cutlass(wait_ns: int, demand: float | None = None) -> MachineCosts:
    overheads = {"boundary_ns": LAUNCH_NS, "setup_ns": LAUNCH_NS, "wait_ns": wait_ns}
    return MachineCosts(overheads, LAUNCH_NS, CLOCK_SHARE, demand)


# Half of an L2 of 60 MB, because each half keeps what its own SMs read; and the bandwidth from which GEMMs
# that lose step do not find it again (a copy moves 4.3 TB/s). Sketches, Hopper kernels; development halves.
_MEMORY = {"h200": Memory(l2_bytes=30_000_000, dram_bytes_per_s=3.8e12)}
# Against `OVERHEADS`, those of our first GEMM. Since, the portable one waits and posts without a cost that
# could be told from the compiler's differences between two builds, and without a fork. The loading warp of
# the Hopper one looks ahead: under semaphores its producer's tiles take 1.5 us more than under stream sync,
# its consumer's 0.6. By the errors of the judged run's development half.
_HOPPER = {"counter_ns": 600, "look_ns": 0, "post_ns": 900}
# Of a tile's time this much is hidden where a block goes on with another one; storing a part's sums, and
# adding those of another part, take so much more. By the same errors.
_HOPPER_PER_TILE = {**_HOPPER, "edge_ns": 500, "partial_ns": 5_400, "fixup_ns": 7_200}
_PORTABLE = {"counter_ns": 0, "look_ns": 0, "post_ns": 0, "fork_ns": 0}
_OF_KERNELS = {"hopper": _HOPPER, "hopper-per-tile": _HOPPER_PER_TILE, "portable": _PORTABLE}
_H200 = MachineCosts(OVERHEADS, 0, 0.0)
_KNOWN = {
    "v100": _by_cutlass(V100_WAIT_NS, V100_DEMAND),
    "a100-40gb": _by_cutlass(A100_WAIT_NS),
    "a100-80gb": _by_cutlass(A100_WAIT_NS),
}
