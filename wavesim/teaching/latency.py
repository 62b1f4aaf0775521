"""Notebook 19: an SM to reckon with, two tiles for the roofline, and what was measured.

Example: the lab's SM gets 32 bytes per cycle after 640 cycles, so 20 KiB in flight; 40 warps with one load of
512 bytes each have that.
"""

from typing import Any

from wavesim.sm.loads import LoadLoop, littles_share, simulated_share, warps_to_fill
from wavesim.sm.machine import SmMachine
from wavesim.sm.measured_loads import shipped_loads
from wavesim.sm.roofline import Roofline, TiledProduct

LAB_SM = SmMachine(latency_cycles=640, bytes_per_cycle=32)
# A GPU of 1000 GFLOP/s and 150 GB/s, whose SMs have 64 KiB of shared memory and 2048 threads.
SMALL_GPU = Roofline(flops_per_s=1000e9, bytes_per_s=150e9)
SMALL_SM_BYTES, SMALL_SM_THREADS = 64 * 1024, 2048
TILES = (TiledProduct(16), TiledProduct(32))
FEW_WARPS, ENOUGH, MOST_FLYING = 12, 0.95, 48  # of the exercises


def measured_points() -> str:
    """A table of measured beside simulated bandwidth, on what, and what the simulation was told of it."""
    found = shipped_loads()
    assert found is not None, "measured loads ship with wavesim"
    told = f"{found.latency_ns:.0f} ns and {found.peak_bytes_per_s / 1e12:.2f} TB/s"
    where = f"Measured on {found.device}, {found.date}; simulated from {told} ({found.peak_source})"
    return f"{where}\n{found.table()}"


def _warps(warps: int) -> dict[str, Any]:
    """The fewest warps with one load of 512 bytes each that fill the lab's SM."""
    share = littles_share(LoadLoop(warps).in_flight_bytes, LAB_SM)
    return {"needed": warps_to_fill(LAB_SM), "share": share}


def _loads(loads: int) -> dict[str, Any]:
    """The fewest loads of each of twelve warps that fill it."""
    fewer, share = (littles_share(FEW_WARPS * count * 512, LAB_SM) for count in (loads - 1, loads))
    return {"share": share, "fill": share >= 1, "are_fewest": fewer < 1}


def _mix(warps: int, loads: int) -> dict[str, Any]:
    """(warps, loads) that reach 95 %, simulated, with at most twelve warps and 48 loads in flight."""
    flying, share = warps * loads, simulated_share(LoadLoop(warps, loads), LAB_SM)
    late = " That would be enough, but a warp begins again only when its last load is there."
    facts = {"warps": warps, "flying": flying, "share": share, "are_few": warps <= FEW_WARPS}
    facts |= {"fly": flying <= MOST_FLYING, "fill": share >= ENOUGH}
    return {**facts, "late": late if flying >= warps_to_fill(LAB_SM) else ""}


def _roofline() -> dict[str, float]:
    """GFLOP/s that tiles of 16 x 16 and of 32 x 32 reach at most."""
    small, large = (SMALL_GPU.attainable(tile.intensity) / 1e9 for tile in TILES)
    return {"roof": 1000, "small": small, "large": large}


def _blocks() -> dict[str, int]:
    """Blocks per SM with tiles of 16 x 16 and of 32 x 32, and those that shared memory alone allows."""
    facts = {"pending": TILES[0].pending_loads(SMALL_SM_BYTES, SMALL_SM_THREADS)}
    for name, tile in zip(("small", "large"), TILES, strict=True):
        facts[name] = tile.blocks_per_sm(SMALL_SM_BYTES, SMALL_SM_THREADS)
        facts[f"{name}_bytes"] = SMALL_SM_BYTES // tile.shared_bytes
    return facts


GRADERS = {"19.1": _warps, "19.2": _loads, "19.3": _mix, "19.4": _roofline, "19.5": _blocks}
