"""Costs of products, convolutions, attention and row kernels that nobody timed, from a device's constants.

Example: on an H200 a layer's QKV tiles take the cycles that `[tiles]` says, attention's what `[attention]`
says of the blocks of keys that each walks through, at the clock that the layer's own load leaves; its norms
take what their bytes take.

The more tensor cores work, the lower the power limit holds the clock. An H200 whose tensor cores never rest
runs at 1.16 GHz in fp16. Where they work half of the time, 0.30 of the power, drawn whether they work or not,
remains: 1.16 / (0.30 + 0.70 / 2)^(1/3) = 1.34 GHz. In bf16, whose significands have 8 bits and not 11, they
draw 0.77 as much. Power is taken to grow with the cube of the clock: voltage follows it.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.costs.constants import LAYER_OVERHEADS
from wavesim.costs.cost_model import CostModel, PlanClock
from wavesim.costs.device_costs import costs_of, law_of_stage, own_file
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.safe_io.documents import read_toml
from wavesim.work.law import CostLaw, LoadClock, RunSetting, StageTimes

PERSISTENT = "persistent"  # a schedule's word
CLOCK_ROUNDS = 4  # of a clock that depends on the time that depends on it
LAYER_CLOCK = ("layers.limit_ghz", "clock.single_ghz", "layers.rest_share", "layers.bf16_share")
STAYING = Path(__file__).with_name("staying_blocks.toml")
LIKE = Path(__file__).with_name("like_backends.toml")


def costs_of_stages(pipeline: Pipeline, device: Device, *, schedule: str = "tile") -> CostModel:
    """Each stage's tile times by what it computes, its own overheads, and the device's for all else.

    `schedule`: the plan's, by its word; convolutions in persistent kernels have costs of their own. Raises
    `DescriptionError` for work, or a device, of which no constants are known.
    """
    is_persistent = schedule == PERSISTENT
    overheads = overheads_of_stages(pipeline, device, is_persistent=is_persistent)
    # The clock is that of a tile per block: the same tensor work in about the same time.
    ghz = load_ghz_of(pipeline, device)
    times = _times(pipeline, device, is_persistent=is_persistent)
    tile_ns = {name: time.tile_ns(ghz) for name, time in times.items()}
    clock = _plan_clock(pipeline, device, ghz, times)
    return CostModel(tile_ns, sharing=_sharing(pipeline, device), plan_clock=clock, **overheads)


def load_ghz_of(pipeline: Pipeline, device: Device) -> float:
    """The clock that `costs_of_stages` takes: what the tensor work leaves in runs that follow each other.

    Raises as it does.
    """
    return _clock_ghz(pipeline, device, _times(pipeline, device))


def _times(pipeline: Pipeline, device: Device, *, is_persistent: bool = False) -> dict[str, StageTimes]:
    read = sum(stage.work.read_bytes for stage in pipeline.stages)
    l2_bytes = own_file(device.name).constants.get("memory.l2_bytes")
    setting = RunSetting(device, l2_bytes is not None and read <= l2_bytes.value, is_persistent)
    return {stage.name: _law(stage, device).times(stage, setting) for stage in pipeline.stages}


def _law(stage: Stage, device: Device) -> CostLaw:
    law = law_of_stage(stage, device)
    if law is None:
        raise DescriptionError(
            f"stage {stage.name} is a {type(stage.work).__name__}, of which no costs are known on "
            f"{device.name}; give its time (kernel_us), or use a device whose file has them"
        )
    return law


def _laws(pipeline: Pipeline, device: Device) -> list[CostLaw]:
    """Of all stages of which one is known."""
    laws = (law_of_stage(stage, device) for stage in pipeline.stages)
    return [law for law in laws if law is not None]


def _sharing(pipeline: Pipeline, device: Device) -> tuple[float, ...]:
    """Speeds of blocks on one SM: those that move bytes share what an SM can load; others need all of it."""
    known = costs_of(device.name)
    moved = max(law.most_bytes_per_s for law in _laws(pipeline, device))
    l2_bytes_per_s = known.values.get("l2.bytes_per_s")
    if not moved or l2_bytes_per_s is None:
        return (1.0,)
    demand = moved / (l2_bytes_per_s / device.sm_count)
    most = max(occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages)
    return known.law.speeds(demand, most)


def overheads_of_stages(pipeline: Pipeline, device: Device, *, is_persistent: bool = False) -> dict[str, Any]:
    """`CostModel`'s overheads: a layer's, else the device's; each stage's own, and whose blocks stay."""
    known = costs_of(device.name)
    names = {name: f"layers.{name}" for name in LAYER_OVERHEADS}
    layers = {name: known.values[key] for name, key in names.items() if key in known.values}
    shared = {**known.overheads, **layers}
    laws = _laws(pipeline, device)
    if len(laws) == len(pipeline.stages) and all(law.run_overheads for law in laws):
        shared |= laws[0].run_overheads
    if any(stage.grid.z > 1 and not stage.work.resets_tickets for stage in pipeline.stages):
        # Splits take tickets, which are reset before every run, whatever the plan.
        shared |= {"setup_ns": shared["setup_ns"] + shared["reset_ns"], "reset_ns": 0}
    setting = RunSetting(device, is_persistent=is_persistent)
    own = {stage.name: _own_overheads(stage, setting, shared) for stage in pipeline.stages}
    stays = frozenset(stage.name for stage in pipeline.stages if stage.backend in _staying())
    loops = {stage.name: stage.work.main_loop for stage in pipeline.stages}
    return {
        **shared,
        "stage_overheads": {name: entry for name, entry in own.items() if entry},
        "stays": stays,
        "main_loops": {name: loop for name, loop in loops.items() if loop is not None},
    }


def _own_overheads(stage: Stage, setting: RunSetting, shared: Mapping[str, int]) -> dict[str, int]:
    backend = _like().get(stage.backend, stage.backend)
    costs = costs_of(setting.device.name).backends.get((backend, "tile"))
    # What lies between kernels of several kinds is a layer's, not as it was fitted between two products.
    of_layer = set(LAYER_OVERHEADS) if stage.work.multiplies_weights else set()
    own = {} if costs is None else {key: ns for key, ns in costs.overheads.items() if key not in of_layer}
    law = law_of_stage(stage, setting.device)
    return own if law is None else own | law.overheads(stage.work, setting, shared)


@cache
def _like() -> dict[str, str]:
    """By backend the one whose overheads it is taken to have."""
    return read_toml(LIKE)


@cache
def _staying() -> frozenset[str]:
    """Backends whose blocks stay until the kernel ahead has ended."""
    return frozenset(read_toml(STAYING)["backends"])


@cache
def load_clock_of(device_name: str) -> LoadClock | None:
    """Of layers on a device; None where none were recorded under load."""
    constants = own_file(device_name).constants
    clock = [float(constants[key].value) for key in LAYER_CLOCK if key in constants]
    return LoadClock(*clock) if len(clock) == len(LAYER_CLOCK) else None


def _clock_ghz(pipeline: Pipeline, device: Device, times: dict[str, StageTimes]) -> float:
    """The clock that the stages' tensor work leaves, were they to run one after the other."""
    clocks = (law.clock for law in _laws(pipeline, device))
    clock = next((own for own in clocks if own is not None), load_clock_of(device.name))
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
        times[stage.name].tensor_cycles
        * (clock.bf16_share if getattr(stage.work, "dtype", "") == "bf16" else 1.0)
        for stage in pipeline.stages
    )


def _plan_clock(
    pipeline: Pipeline, device: Device, ghz: float, times: Mapping[str, StageTimes]
) -> PlanClock | None:
    """Of kinds that have a clock of their own: clocks of layers were fitted to one for all plans."""
    clocks = [law.clock for law in _laws(pipeline, device)]
    clock = clocks[0]
    if clock is None or None in clocks:
        return None
    return PlanClock(clock, ghz, _tensor_cycles(pipeline, clock, times) / device.sm_count)


def _slots(stage: Stage, device: Device) -> int:
    return occupancy_of(device, stage.kernel.block).blocks_per_sm * device.sm_count
