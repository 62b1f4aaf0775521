"""Notebook 19: an SM to reckon with, two tiles for the roofline, and what was measured, if anything was.

Example: the lab's SM gets 32 bytes per cycle after 640 cycles, so 20 KiB in flight; 40 warps with one load of
512 bytes each have that.
"""

from wavesim.safe_io.annotated import typed
from wavesim.sm.machine import SmMachine
from wavesim.sm.measured_loads import FILE, MeasuredLoads, shipped_loads
from wavesim.sm.roofline import Roofline, TiledProduct

LAB_SM = SmMachine(latency_cycles=640, bytes_per_cycle=32)
# A GPU of 1000 GFLOP/s and 150 GB/s, whose SMs have 64 KiB of shared memory and 2048 threads.
SMALL_GPU = Roofline(flops_per_s=1000e9, bytes_per_s=150e9)
SMALL_SM_BYTES, SMALL_SM_THREADS = 64 * 1024, 2048
TILES = (TiledProduct(16), TiledProduct(32))
COMMAND = "python -m wavesim_gpu measure labs --only latency --out DIR"


def measured_points() -> str:
    """A table of measured beside simulated bandwidth, or how to measure it."""
    found = shipped_loads()
    if found is None:
        return f"Not measured yet. On a GPU: {COMMAND}, then copy it to wavesim/sm/measured/{FILE.name}"
    return f"{described(found)}\n{found.table()}"


@typed
def described(found: MeasuredLoads) -> str:
    """On what it was measured, and what the simulation was told of it."""
    told = f"{found.latency_ns:.0f} ns and {found.peak_bytes_per_s / 1e12:.2f} TB/s"
    return f"Measured on {found.device}, {found.date}; simulated from {told} ({found.peak_source})"
