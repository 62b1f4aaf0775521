"""Time over the number of blocks: the staircase of waves, and its cousin with blocks that share an SM.

Example: up to 132 blocks take one tile time on 132 SMs, the 133rd doubles it, and nothing changes until 265.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel
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
