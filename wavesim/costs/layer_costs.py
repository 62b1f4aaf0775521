"""Costs of products, convolutions, attention and row kernels that nobody timed, from a device's constants.

Example: on an H200 a layer's QKV tiles take the cycles that `[tiles]` says, attention's what `[attention]`
says of the blocks of keys that each walks through, at the clock that the layer's own load leaves; its norms
take what their bytes take.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.costs.block_times import StageTimes, stage_times, streaming_section
from wavesim.costs.constants import LAYER_OVERHEADS
from wavesim.costs.convolution_costs import convolution_costs_of
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.costs.load_clock import convolution_clock_of, load_clock_of
from wavesim.costs.plan_clock import LoadClock, PlanClock
from wavesim.costs.streaming_costs import streaming_costs_of
from wavesim.costs.tile_costs import TileCosts, tile_costs_of
from wavesim.model.device import Device
from wavesim.model.kernel import MainLoop
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.safe_io.documents import read_toml
from wavesim.work.attention import Attention
from wavesim.work.convolution import Conv2D
from wavesim.work.gemm import Gemm

PERSISTENT = "persistent"  # a schedule's word
CLOCK_ROUNDS = 4  # of a clock that depends on the time that depends on it
ATTENTION_LOOP = MainLoop(1, "producer-warp")
STAYING = Path(__file__).with_name("staying_blocks.toml")
LIKE = Path(__file__).with_name("like_backends.toml")


def costs_of_stages(
    pipeline: Pipeline, device: Device, *, serialises_bias: bool = False, schedule: str = "tile"
) -> CostModel:
    """Each stage's tile times by what it computes, its own overheads, and the device's for all else.

    `serialises_bias`: of older kernels, as `tile_costs_of` says. `schedule`: the plan's, by its word;
    convolutions in persistent kernels have costs of their own. Raises `DescriptionError` for work, or a
    device, of which no constants are known.
    """
    is_persistent = schedule == PERSISTENT
    overheads = overheads_of_stages(pipeline, device, is_persistent=is_persistent)
    # The clock is that of a tile per block: the same tensor work in about the same time.
    ghz = _clock_ghz(pipeline, device, _times(pipeline, device, serialises_bias))
    times = _times(pipeline, device, serialises_bias, is_persistent=is_persistent)
    tile_ns = {name: one.tile_ns(ghz) for name, one in times.items()}
    clock = _plan_clock(pipeline, device, ghz, times)
    return CostModel(tile_ns, sharing=_sharing(pipeline, device), plan_clock=clock, **overheads)


def load_ghz_of(pipeline: Pipeline, device: Device, *, serialises_bias: bool = False) -> float:
    """The clock that `costs_of_stages` takes: what the tensor work leaves in runs that follow each other.

    Raises as it does.
    """
    return _clock_ghz(pipeline, device, _times(pipeline, device, serialises_bias))


def _times(
    pipeline: Pipeline, device: Device, serialises_bias: bool, *, is_persistent: bool = False
) -> dict[str, StageTimes]:
    is_in_l2 = _is_in_l2(pipeline, device)
    return {
        stage.name: stage_times(
            stage, device, is_in_l2=is_in_l2, serialises_bias=serialises_bias, is_persistent=is_persistent
        )
        for stage in pipeline.stages
    }


def _sharing(pipeline: Pipeline, device: Device) -> tuple[float, ...]:
    """Speeds of blocks on one SM: those that move bytes share what an SM can load; others need all of it."""
    known = costs_of(device.name)
    sections = {streaming_section(stage) for stage in pipeline.stages} - {""}
    streaming = [costs for name in sections if (costs := streaming_costs_of(device.name, name)) is not None]
    l2_bytes_per_s = known.values.get("l2.bytes_per_s")
    if not streaming or l2_bytes_per_s is None:
        return (1.0,)
    of_sm = l2_bytes_per_s / device.sm_count
    demand = max(costs.block_bytes_per_s for costs in streaming) / of_sm
    most = max(occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages)
    return known.law.speeds(demand, most)


def overheads_of_stages(pipeline: Pipeline, device: Device, *, is_persistent: bool = False) -> dict[str, Any]:
    """`CostModel`'s overheads: a layer's, else the device's; each stage's own, and whose blocks stay."""
    known, tiles = costs_of(device.name), tile_costs_of(device.name)
    names = {name: f"layers.{name}" for name in LAYER_OVERHEADS}
    layers = {name: known.values[key] for name, key in names.items() if key in known.values}
    shared = {**known.overheads, **layers}
    if (convolution := convolution_costs_of(device.name)) is not None and _are_convolutions(pipeline):
        shared |= {"reset_ns": convolution.own.reset_ns}
    if any(stage.grid.z > 1 and not isinstance(stage.work, Conv2D) for stage in pipeline.stages):
        # Splits take tickets, which are reset before every run, whatever the plan; of convolutions the last
        # split resets them.
        shared |= {"setup_ns": shared["setup_ns"] + shared["reset_ns"], "reset_ns": 0}
    own = {
        stage.name: _own_overheads(stage, device, tiles, shared, is_persistent=is_persistent)
        for stage in pipeline.stages
    }
    stays = frozenset(stage.name for stage in pipeline.stages if stage.backend in _staying())
    return {
        **shared,
        "stage_overheads": {name: one for name, one in own.items() if one},
        "stays": stays,
        "main_loops": _main_loops(pipeline),
    }


def _are_convolutions(pipeline: Pipeline) -> bool:
    return all(isinstance(stage.work, Conv2D) for stage in pipeline.stages)


def _main_loops(pipeline: Pipeline) -> dict[str, MainLoop]:
    """Attention's producer warp looks at semaphores block after block of keys, as it comes to them."""
    return {stage.name: ATTENTION_LOOP for stage in pipeline.stages if isinstance(stage.work, Attention)}


def _own_overheads(
    stage: Stage,
    device: Device,
    tiles: TileCosts | None,
    shared: Mapping[str, int],
    *,
    is_persistent: bool,
) -> dict[str, int]:
    backend = _like().get(stage.backend, stage.backend)
    costs = costs_of(device.name).backends.get((backend, "tile"))
    # What lies between kernels of several kinds is a layer's, not as it was fitted between two products.
    of_layer = {name for name in LAYER_OVERHEADS if isinstance(stage.work, Gemm | Conv2D)}
    own = {} if costs is None else {key: ns for key, ns in costs.overheads.items() if key not in of_layer}
    if tiles is not None and isinstance(stage.work, Gemm):
        own |= tiles.overheads(stage.work, shared)
    if tiles is not None and isinstance(stage.work, Attention):
        own["post_visibility_ns"] = tiles.visibility_ns(stage.work.tile_m * stage.work.head_dim, shared)
    if isinstance(stage.work, Conv2D) and (convolution := convolution_costs_of(device.name)) is not None:
        own |= convolution.overheads(stage.work, device.sm_count, is_persistent=is_persistent)
    return own


@cache
def _like() -> dict[str, str]:
    """By backend the one whose overheads it is taken to have."""
    return read_toml(LIKE)


@cache
def _staying() -> frozenset[str]:
    """Backends whose blocks stay until the kernel ahead has ended."""
    return frozenset(read_toml(STAYING)["backends"])


def _clock_ghz(pipeline: Pipeline, device: Device, times: dict[str, StageTimes]) -> float:
    """The clock that the stages' tensor work leaves, were they to run one after the other."""
    is_layer = not any(isinstance(stage.work, Conv2D) for stage in pipeline.stages)
    clock = load_clock_of(device.name) if is_layer else convolution_clock_of(device.name)
    if clock is None:
        return device.clock_hz / 1e9
    overheads = overheads_of_stages(pipeline, device)
    between_ns = overheads["boundary_ns"] + overheads["block_ns"]
    tensor_cycles = _tensor_cycles(pipeline, clock, times)
    slots = {stage.name: _slots(stage, device) for stage in pipeline.stages}
    ghz = clock.most_ghz
    for _ in range(CLOCK_ROUNDS):
        spans = [
            times[stage.name].span_ns(ghz, stage.grid.size, slots[stage.name]) + between_ns
            for stage in pipeline.stages
        ]
        ghz = clock.ghz(min(1.0, tensor_cycles / (sum(spans) * ghz * device.sm_count)))
    return ghz


def _tensor_cycles(pipeline: Pipeline, clock: LoadClock, times: Mapping[str, StageTimes]) -> float:
    """Of all SMs in which tensor cores work, bf16 weighed."""
    return sum(
        times[stage.name].tensor_cycles * (clock.bf16_share if _dtype(stage) == "bf16" else 1.0)
        for stage in pipeline.stages
    )


def _plan_clock(
    pipeline: Pipeline, device: Device, ghz: float, times: Mapping[str, StageTimes]
) -> PlanClock | None:
    """Of convolutions alone: clocks of layers were fitted to one for all plans."""
    clock = convolution_clock_of(device.name) if _are_convolutions(pipeline) else None
    if clock is None:
        return None
    return PlanClock(clock, ghz, _tensor_cycles(pipeline, clock, times) / device.sm_count)


def _dtype(stage: Stage) -> str:
    return stage.work.dtype if isinstance(stage.work, Gemm | Conv2D) else ""


def _slots(stage: Stage, device: Device) -> int:
    return occupancy_of(device, stage.kernel.block).blocks_per_sm * device.sm_count


def _is_in_l2(pipeline: Pipeline, device: Device) -> bool:
    """Whether the L2 keeps all that the products read from one run to the next."""
    tiles = tile_costs_of(device.name)
    gemms = [stage.work for stage in pipeline.stages if isinstance(stage.work, Gemm)]
    read = sum(2 * (gemm.k * gemm.n + gemm.m * gemm.k) for gemm in gemms)
    return tiles is not None and read <= tiles.l2_bytes
