"""What a calibration used and what it left at a default, in words.

Example: "used: tile times of 192 and 384 blocks, 1.6 us between kernels; left at the default: look 0.9 us".
"""

from wavesim.costs.cost_model import OVERHEADS, CostModel
from wavesim.costs.device_costs import is_known
from wavesim.model.device import Device
from wavesim.trace.trace import Trace

# Overheads that a stream-sync trace cannot show, or that a user may not have measured.
PER_BLOCK = ("counter_ns", "look_ns", "wait_ns", "post_ns", "setup_ns", "fork_ns")


def words_of_trace(trace: Trace, costs: CostModel) -> str:
    """What `calibrate` took from a trace and what it could not see there."""
    counts = " and ".join(str(int((trace.stage == s).sum())) for s in range(len(trace.header.stages)))
    used = f"used: tile times of {counts} blocks, {costs.boundary_ns / 1_000:.1f} us between kernels"
    if costs.block_ns:
        used += f" and {costs.block_ns / 1_000:.1f} between two blocks of an SM"
    for stage, sums_ns in costs.sums_ns.items():
        used += f", {sums_ns / 1_000:.1f} us to add a slice of {stage}"
    if len(costs.sharing) > 1:
        used += f", {_sharing(costs)}"
    return f"{used}; left at the default: {_overheads(costs)}; {_memory(costs)}"


def words_of_kernel_times(device: Device, costs: CostModel) -> str:
    """What `costs_from_kernel_times` took from the user and what it assumed of the device."""
    source = device.name if is_known(device) else f"an H200, nothing is known of the {device.name}"
    shared = f", {_sharing(costs)}" if len(costs.sharing) > 1 else ""
    return (
        f"used: one time per kernel; assumed, as of {source}: {_overheads(costs)}{shared}; {_memory(costs)}"
    )


def _overheads(costs: CostModel) -> str:
    names = [name for name in PER_BLOCK if getattr(costs, name) or name in OVERHEADS]
    words = (f"{name.removesuffix('_ns')} {getattr(costs, name) / 1_000:g} us" for name in names)
    return ", ".join(words)


def _memory(costs: CostModel) -> str:
    if costs.memory is None:
        return "left out: L2 and DRAM"
    l2_mb, dram_tb = costs.memory.l2_bytes / 1e6, costs.memory.dram_bytes_per_s / 1e12
    return f"tile times are those at an idle DRAM, behind them an L2 of {l2_mb:.0f} MB and {dram_tb:g} TB/s"


def _sharing(costs: CostModel) -> str:
    count = len(costs.sharing)
    speed, lead = costs.sharing[-1], costs.lead(count)
    return f"{count} blocks of an SM at {speed:.2f} of the speed of one, the eldest {lead:.0%} ahead"
