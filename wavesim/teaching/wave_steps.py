"""Time over the number of blocks: the staircase of waves, and its cousin with blocks that share an SM.

Example: up to 132 blocks take one tile time on 132 SMs, the 133rd doubles it, and nothing changes until 265.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.occupancy import allocation, carveout_level, occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import StreamSync
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.escaping import Markup
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.view.canvas import axis, base_layout, heading
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme

LEFT, RIGHT, BOTTOM, PLOT_HEIGHT = 70, 30, 104, 300
# Of the exercises: two blocks to an SM, and a pair that is to share one.
WIDE = Block(threads=128, registers=128, dynamic_shared_bytes=100 * 1024)
BIG, SMALL = (Block(256, 64, 0, size * 1024) for size in (150, 20))
WANTED_BLOCKS = 3


@typed
def one_kernel(
    count: int, device: Device, block: Block, tile_ns: int, sharing: tuple[float, ...] = (1.0,)
) -> Trace:
    """A kernel of so many blocks, simulated with no cost but `tile_ns` of a block that is alone on its SM."""
    pipeline = Pipeline("one kernel", [Stage("kernel", Kernel("kernel", Grid(count), block))])
    return simulate(pipeline, StreamSync(), device, CostModel({"kernel": tile_ns}, sharing=sharing))


@typed
def staircase(
    counts: Sequence[int],
    device: Device,
    block: Block,
    *,
    tile_ns: int = 50_000,
    sharing: tuple[float, ...] = (1.0,),
    theme: str | Theme = "light",
    width: int = 1000,
) -> go.Figure:
    """Simulated time over the number of blocks, in tile times, beside blocks / slots without the rounding.

    Raises `DescriptionError`.
    """
    if not len(counts):
        raise DescriptionError("staircase: counts is empty; give numbers of blocks, such as range(66, 661)")
    palette = find_theme(theme)
    traces = [one_kernel(count, device, block, tile_ns, sharing) for count in counts]
    slots = device.sm_count * traces[0].header.stages[0].blocks_per_sm
    title, tiles = _words(slots, traces[0].header.stages[0].blocks_per_sm, sharing)
    where = f"{device.name.upper()} with {device.sm_count} SMs"
    below = f"one kernel, {tiles}, simulated on {where}"
    head = heading(title, below, width - LEFT - RIGHT)
    size = (width, head.height + PLOT_HEIGHT + BOTTOM)
    layout = base_layout(palette, head, size, (LEFT, RIGHT, head.height, BOTTOM))
    layout["xaxis"] = axis(palette, "thread blocks")
    layout["yaxis"] = axis(palette, "time (one tile alone on its SM = 1)", rangemode="tozero")
    full = max(trace.makespan_ns for trace in traces if len(trace) <= slots) / tile_ns
    free = f"blocks / {slots} slots{f' × {full:.2g}' if full != 1 else ''}: if work could be cut freely"
    lines = {
        "simulated": ([t.makespan_ns / tile_ns for t in traces], "solid", "hv", palette.stage_colour(0)),
        free: (
            [count / slots * full for count in counts],
            "dash",
            "linear",
            palette.muted,
        ),
    }
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": np.asarray(counts, dtype=np.int32),
            "y": np.asarray(values, dtype=np.float32),
            "line": {"dash": dash, "width": 2.5, "color": colour, "shape": shape},
            "hovertemplate": Markup("%{x} blocks: %{y:.2f} tile times<extra></extra>"),
        }
        for name, (values, dash, shape, colour) in lines.items()
    ]
    return figure_of(data, layout)


def _words(slots: int, per_sm: int, sharing: tuple[float, ...]) -> tuple[str, str]:
    """Title, and what tiles take: blocks that share an SM slow each other."""
    if per_sm == 1 or len(sharing) == 1:
        return (
            f"{slots} slots: every block that starts a new wave costs a whole one",
            "all tiles take equally long",
        )
    return (
        f"{slots} slots: a second block on an SM adds part of a tile time, a new wave a whole one",
        "tiles take equally long but where they share an SM",
    )


def _one_wave(_: int) -> dict[str, Any]:
    """The most blocks of `WIDE` that an H200 runs in one wave."""
    device = devices.default_device()
    found = occupancy_of(device, WIDE)
    slots = device.sm_count * found.blocks_per_sm
    return {
        "sms": device.sm_count,
        "per_sm": found.blocks_per_sm,
        "slots": slots,
        "limiter": found.limiter,
    }


def _shared_bytes(size: int) -> dict[str, Any]:
    """The most dynamic shared memory with which three blocks of 128 threads, 64 registers fit on an SM."""
    device = devices.default_device()
    facts = {
        "per_block": device.shared_bytes_per_block,
        "per_sm": device.shared_bytes_per_sm,
        "third": device.shared_bytes_per_sm // WANTED_BLOCKS,
        "reserved": device.reserved_shared_bytes_per_block,
    }
    if size >= device.shared_bytes_per_block:
        return {**facts, "fit": False, "blocks": 1}
    now, more = (
        occupancy_of(device, Block(128, 64, dynamic_shared_bytes=size + extra)).blocks_per_sm
        for extra in (0, 1)
    )
    return {**facts, "fit": now >= WANTED_BLOCKS, "blocks": now, "are_most": more < WANTED_BLOCKS}


def _carveout(size: int) -> dict[str, Any]:
    """The smallest carve-out level at which `BIG` and `SMALL` share an SM."""
    device = devices.default_device()
    wanted, levels = (
        sum(allocation(device, block).shared_bytes for block in (BIG, SMALL)),
        device.carveouts_bytes,
    )
    facts = {"is_level": size in levels, "levels": levels, "wanted": wanted}
    return {**facts, "level": carveout_level(device, wanted)}


GRADERS = {"2.1": _one_wave, "2.2": _shared_bytes, "2.3": _carveout}
