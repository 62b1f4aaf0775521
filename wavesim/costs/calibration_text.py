"""What a calibration used, what it left at a device's constants, and which of these were measured elsewhere.

Example: "used: tile times of 192 and 384 blocks, 1.6 us between kernels; left at the default: poll 0.9 us".
On a GPU without a data file there follows "not measured on b200: overheads, as on h200 (2026-11-20)".
"""

from collections.abc import Sequence

from wavesim.costs.constants import Constant
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.model.device import Device
from wavesim.trace.trace import Trace

# Overheads that a stream-sync trace cannot show, or that a user may not have measured.
PER_BLOCK = (
    "tile_fetch_ns",
    "poll_ns",
    "wait_ns",
    "ready_poll_ns",
    "refill_ns",
    "post_ns",
    "setup_ns",
    "multi_stream_ns",
)
# Sections of a device file that a calibration may use.
FROM_TRACE = ("overheads", "split_k", "backends", "memory", "clock")
FROM_KERNEL_TIMES = ("overheads", "kernel_times", "clock")


def trace_text(trace: Trace, costs: CostModel) -> str:
    """What `calibrate` took from a trace and what it could not see there."""
    counts = " and ".join(str(int((trace.stage == s).sum())) for s in range(len(trace.header.stages)))
    used = f"used: tile times of {counts} blocks, {costs.boundary_ns / 1_000:.1f} us between kernels"
    if costs.block_ns:
        used += f" and {costs.block_ns / 1_000:.1f} between two blocks of an SM"
    for stage, sums_ns in costs.sums_ns.items():
        used += f", {sums_ns / 1_000:.1f} us to add a split of {stage}"
    if len(costs.sharing) > 1:
        used += f", {_sharing(costs)}"
    defaults = assumed_text(trace_defaults(trace))
    return f"{used}; left at the default: {_overheads(costs)}{defaults}; {_memory(costs)}"


def kernel_times_text(device: Device, costs: CostModel) -> str:
    """What `costs_from_kernel_times` took from the user and what it assumed of the device."""
    shared = f", {_sharing(costs)}" if len(costs.sharing) > 1 else ""
    defaults = assumed_text(kernel_times_defaults(device, costs))
    return (
        f"used: one time per kernel; constants of the device: {_overheads(costs)}{shared}{defaults}; "
        f"{_memory(costs)}{_main_loops(costs)}"
    )


def trace_defaults(trace: Trace) -> tuple[Constant, ...]:
    """Constants measured on another device that a calibration on this trace uses."""
    sections = FROM_TRACE + (("sharing",) if _most(trace) > 1 else ())
    return costs_of(str(trace.header.device.get("name", ""))).defaults_in(*sections)


def kernel_times_defaults(device: Device, costs: CostModel) -> tuple[Constant, ...]:
    """Constants measured on another device that a prediction from kernel times uses."""
    sections = FROM_KERNEL_TIMES + (("sharing",) if len(costs.sharing) > 1 else ())
    return costs_of(device.name).defaults_in(*sections)


def assumed_text(defaults: Sequence[Constant]) -> str:
    """Which parts of the costs were measured on another device, and when; "" where none were.

    Example: "; not measured on this device: overheads, clock, as on h200 (2026-11-20 to 2026-11-21)".
    """
    if not defaults:
        return ""
    texts = []
    for device in dict.fromkeys(default.device for default in defaults):
        theirs = [default for default in defaults if default.device == device]
        sections = ", ".join(dict.fromkeys(default.section.replace("_", " ") for default in theirs))
        dates = sorted({default.date for default in theirs})
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        texts.append(f"{sections}, as on {device} ({when})")
    return f"; not measured on this device: {'; '.join(texts)}"


def _most(trace: Trace) -> int:
    return max(info.blocks_per_sm for info in trace.header.stages)


def _overheads(costs: CostModel) -> str:
    texts = (
        f"{name.removesuffix('_ns').replace('_', ' ')} {getattr(costs, name) / 1_000:g} us"
        for name in PER_BLOCK
    )
    return ", ".join(texts)


def _memory(costs: CostModel) -> str:
    if costs.memory is None:
        return "left out: L2 and DRAM"
    l2_mb, dram_tb = costs.memory.l2_bytes / 1e6, costs.memory.dram_bytes_per_s / 1e12
    return f"tile times are those at an idle DRAM, behind them an L2 of {l2_mb:.3g} MB and {dram_tb:.3g} TB/s"


def _main_loops(costs: CostModel) -> str:
    """What was assumed of kernels whose author has not said how they wait."""
    stages: dict[str, list[str]] = {}
    for stage, loop in costs.main_loops.items():
        words = f"wait {loop.wait_place}, {loop.pipeline_depth} k-blocks in flight"
        stages.setdefault(words, []).append(stage)
    return "".join(f"; assumed of {' and '.join(names)}: {words}" for words, names in stages.items())


def _sharing(costs: CostModel) -> str:
    count = len(costs.sharing)
    speed, lead = costs.sharing[-1], costs.bias(count)
    return f"{count} blocks of an SM at {speed:.2f} of the speed of one, the oldest {lead:.0%} ahead"
