"""Costs of products, convolutions, attention and row kernels that nobody timed, from a device's constants.

Example: on an H200 a layer's QKV tiles take the cycles that `[tiles]` says, attention's what `[attention]`
says of the blocks of keys that each walks through, at the clock that the layer's own load leaves; its norms
take what their bytes take.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from wavesim.costs.attention_costs import attention_costs_of
from wavesim.costs.constants import LAYER_OVERHEADS
from wavesim.costs.convolution_costs import ConvolutionCosts, convolution_costs_of
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.costs.load_clock import load_clock_of
from wavesim.costs.streaming_costs import streaming_costs_of
from wavesim.costs.tile_costs import FEW_ROWS, TileCosts, tile_costs_of
from wavesim.errors import DescriptionError
from wavesim.guard.documents import read_toml
from wavesim.model.attention import Attention, AttentionDecode
from wavesim.model.convolution import Conv2D
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm, MainLoop
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.rows import Copy, Norm, Softmax
from wavesim.model.stage import Stage

CLOCK_ROUNDS = 4  # of a clock that depends on the time that depends on it
ATTENTION_LOOP = MainLoop(1, "producer-warp")
STAYING = Path(__file__).with_name("staying_blocks.toml")
LIKE = Path(__file__).with_name("like_backends.toml")


@dataclass(frozen=True)
class StageTimes:
    """Of a stage's blocks: `cycles` at the load's clock and `least_ns` whatever the clock, the longer counts.

    `tensor_cycles`: of all its blocks, in which tensor cores work.
    """

    cycles: float | list[float] = 0.0
    least_ns: float = 0.0
    tensor_cycles: float = 0.0

    def tile_ns(self, ghz: float) -> int | list[int]:
        """Of each block, or of all alike."""
        if isinstance(self.cycles, list):
            return [round(max(each / ghz, self.least_ns)) for each in self.cycles]
        return round(max(self.cycles / ghz, self.least_ns))

    def span_ns(self, ghz: float, blocks: int, slots: int) -> float:
        """From the first block's start to the last one's end, as blocks fill the slots."""
        times = self.tile_ns(ghz)
        if isinstance(times, int):
            return float(ceil(blocks / slots) * times)
        return max(*times, sum(times) / slots)


def costs_of_stages(pipeline: Pipeline, device: Device) -> CostModel:
    """Each stage's tile times by what it computes, its own overheads, and the device's for all else.

    Raises `DescriptionError` for work, or a device, of which no constants are known.
    """
    overheads = overheads_of_stages(pipeline, device)
    is_in_l2 = _is_in_l2(pipeline, device)
    times = {stage.name: _times(stage, device, is_in_l2=is_in_l2) for stage in pipeline.stages}
    ghz = _clock_ghz(pipeline, device, times, overheads["boundary_ns"] + overheads["block_ns"])
    tile_ns = {name: one.tile_ns(ghz) for name, one in times.items()}
    return CostModel(tile_ns, sharing=_sharing(pipeline, device), **overheads)


def _sharing(pipeline: Pipeline, device: Device) -> tuple[float, ...]:
    """Speeds of blocks on one SM: those that move bytes share what an SM can load; others need all of it."""
    known = costs_of(device.name)
    sections = {_streaming_section(stage) for stage in pipeline.stages} - {""}
    streaming = [costs for name in sections if (costs := streaming_costs_of(device.name, name)) is not None]
    l2_bytes_per_s = known.values.get("l2.bytes_per_s")
    if not streaming or l2_bytes_per_s is None:
        return (1.0,)
    of_sm = l2_bytes_per_s / device.sm_count
    demand = max(costs.block_bytes_per_s for costs in streaming) / of_sm
    most = max(occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages)
    return known.law.speeds(demand, most)


def _streaming_section(stage: Stage) -> str:
    """The section of a device's file with the constants of work that moves bytes; "" of other work."""
    if isinstance(stage.work, AttentionDecode):
        return "decode"
    return "rows" if isinstance(stage.work, Norm | Softmax | Copy) else ""


def overheads_of_stages(pipeline: Pipeline, device: Device) -> dict[str, Any]:
    """`CostModel`'s overheads: a layer's, else the device's; each stage's own, and whose blocks stay."""
    known, tiles = costs_of(device.name), tile_costs_of(device.name)
    names = {name: f"layers.{name}" for name in LAYER_OVERHEADS}
    layers = {name: known.values[key] for name, key in names.items() if key in known.values}
    shared = {**known.overheads, **layers}
    if any(stage.grid.z > 1 for stage in pipeline.stages):
        # Splits take tickets, which are reset before every run, whatever the plan.
        shared |= {"setup_ns": shared["setup_ns"] + shared["reset_ns"], "reset_ns": 0}
    own = {stage.name: _own_overheads(stage, device, tiles) for stage in pipeline.stages}
    stays = frozenset(stage.name for stage in pipeline.stages if stage.backend in _staying())
    return {
        **shared,
        "stage_overheads": {name: one for name, one in own.items() if one},
        "stays": stays,
        "main_loops": _main_loops(pipeline),
    }


def _main_loops(pipeline: Pipeline) -> dict[str, MainLoop]:
    """Attention's producer warp looks at semaphores block after block of keys, as it comes to them."""
    return {stage.name: ATTENTION_LOOP for stage in pipeline.stages if isinstance(stage.work, Attention)}


def _own_overheads(stage: Stage, device: Device, tiles: TileCosts | None) -> dict[str, int]:
    backend = _like().get(stage.backend, stage.backend)
    costs = costs_of(device.name).backends.get((backend, "tile"))
    # What lies between kernels of several kinds is a layer's, not as it was fitted between two products.
    shared = {name for name in LAYER_OVERHEADS if isinstance(stage.work, Gemm | Conv2D)}
    own = {} if costs is None else {key: ns for key, ns in costs.overheads.items() if key not in shared}
    if tiles is not None and isinstance(stage.work, Gemm):
        own |= tiles.overheads(stage.work)
    if isinstance(stage.work, Conv2D) and (convolution := convolution_costs_of(device.name)) is not None:
        own |= convolution.overheads(stage.work)
    return own


@cache
def _like() -> dict[str, str]:
    """By backend the one whose overheads it is taken to have."""
    return read_toml(LIKE)


@cache
def _staying() -> frozenset[str]:
    """Backends whose blocks stay until the kernel ahead has ended."""
    return frozenset(read_toml(STAYING)["backends"])


def _clock_ghz(pipeline: Pipeline, device: Device, times: dict[str, StageTimes], between_ns: int) -> float:
    """The clock that the stages' tensor work leaves, were they to run one after the other."""
    clock = load_clock_of(device.name)
    if clock is None:
        return device.clock_hz / 1e9
    tensor_cycles = sum(one.tensor_cycles for one in times.values())
    slots = {stage.name: _slots(stage, device) for stage in pipeline.stages}
    ghz = clock.most_ghz
    for _ in range(CLOCK_ROUNDS):
        spans = [
            times[stage.name].span_ns(ghz, stage.grid.size, slots[stage.name]) + between_ns
            for stage in pipeline.stages
        ]
        ghz = clock.ghz(min(1.0, tensor_cycles / (sum(spans) * ghz * device.sm_count)))
    return ghz


def _slots(stage: Stage, device: Device) -> int:
    return occupancy_of(device, stage.kernel.block).blocks_per_sm * device.sm_count


def _is_in_l2(pipeline: Pipeline, device: Device) -> bool:
    """Whether the L2 keeps all that the products read from one run to the next."""
    tiles = tile_costs_of(device.name)
    gemms = [stage.work for stage in pipeline.stages if isinstance(stage.work, Gemm)]
    read = sum(2 * (gemm.k * gemm.n + gemm.m * gemm.k) for gemm in gemms)
    return tiles is not None and read <= tiles.l2_bytes


def _times(stage: Stage, device: Device, *, is_in_l2: bool) -> StageTimes:
    work, name = stage.work, device.name
    tiles, attention = tile_costs_of(name), attention_costs_of(name)
    if isinstance(work, Gemm) and tiles is not None:
        return _product_times(work, tiles, device, is_in_l2=is_in_l2)
    if isinstance(work, Attention) and attention is not None:
        adds = sum(work.items(0, y, 0) for y in range(work.grid.y)) * work.grid.x * work.tile_m * work.tile_n
        rate = tiles.multiply_adds_per_cycle if tiles is not None else float("inf")
        return StageTimes(attention.cycles(work), tensor_cycles=2 * adds * work.head_dim / rate)
    if isinstance(work, Conv2D) and (convolution := convolution_costs_of(name)) is not None:
        return _convolution_times(stage, work, convolution, device)
    streaming = streaming_costs_of(name, section) if (section := _streaming_section(stage)) else None
    if streaming is not None:
        return StageTimes(least_ns=streaming.tile_ns(stage.kernel, device))
    raise DescriptionError(
        f"stage {stage.name} is a {type(work).__name__}, of which no costs are known on {name}; give its "
        "time (kernel_us), or use a device whose file has them"
    )


def _convolution_times(stage: Stage, conv: Conv2D, costs: ConvolutionCosts, device: Device) -> StageTimes:
    """Raises `DescriptionError` for blocks that share an SM: of such kernels nothing is known."""
    if occupancy_of(device, stage.kernel.block).blocks_per_sm > 1:
        raise DescriptionError(
            f"stage {stage.name}: several of its blocks share an SM of {device.name}; costs of convolutions "
            "are known of blocks that fill one. Give its time (kernel_us)"
        )
    is_in_l2 = sum(matrix.bytes for matrix in conv.operands.values()) <= costs.tiles.l2_bytes
    least_ns = costs.memory_ns(conv, device.sm_count, is_in_l2=is_in_l2)
    tensor = costs.tensor_cycles(conv) * conv.grid.size
    return StageTimes(costs.cycles(conv), least_ns=least_ns, tensor_cycles=tensor)


def _product_times(gemm: Gemm, tiles: TileCosts, device: Device, *, is_in_l2: bool) -> StageTimes:
    tensor = tiles.tensor_cycles(gemm) * gemm.grid.size
    if gemm.m > FEW_ROWS:
        return StageTimes(tiles.cycles(gemm), tensor_cycles=tensor)
    weights_ns = tiles.weights_ns(gemm, device.sm_count, is_in_l2=is_in_l2)
    return StageTimes(tiles.tensor_cycles(gemm), least_ns=weights_ns, tensor_cycles=tensor)
