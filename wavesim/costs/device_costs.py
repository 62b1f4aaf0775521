"""What is known of a device besides its catalogue: overheads, how its SMs are shared, its memory and clock.

Example: on a V100 one wait of CUTLASS's two-stage GEMM costs 1.75 us, on an A100 with three to five stages
less than half of that. Nothing was measured on a B200: an H200's constants stand in, and `defaults` names
each of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, TypeVar, cast

from wavesim.costs.constants import (
    BACKENDS,
    FOLDERS,
    RATIOS,
    UNITS,
    Constant,
    DeviceFile,
    device_files,
    read_device_file,
)
from wavesim.costs.dram_slowdown import Memory
from wavesim.costs.scaling import scaled_constants
from wavesim.costs.sharing import SharingLaw
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.kinds import kind_of
from wavesim.work.law import CostLaw

L = TypeVar("L", bound=CostLaw)
# Nothing stands in for another device's memory and products; the default device's clock, host and the demand
# of its kernels say nothing of other devices either. A device that lacks these has none, or what `scaling`
# makes of the default device's.
OWN = ("memory", "l2", "dispatch", "products", "attention", "rows", "decode", "tiles", "layers", "megakernel")
# How sharply tiles bend from compute- to DRAM-bound is the kernels' more than the device's.
SHAPES = ("memory.sharpness", "memory.shared_sharpness")
READINGS = tuple(
    f"clock.{key}" for key in ("full_ghz", "single_ghz", "light_ghz", "full_w", "idle_w", "limit_ghz")
)
READINGS += tuple(f"sharing.{key}" for key in ("tensor_speeds", "fma_speeds", "latency_speeds"))
NEVER = (
    *(name for section in OWN for key in UNITS[section] if (name := f"{section}.{key}") not in SHAPES),
    *READINGS,
)
NOT_BY_DEFAULT = (
    *NEVER,
    "clock.gain",
    "sharing.demand",
    "kernel_times.host_sync_ns",
    "kernel_times.has_memory",
)


@dataclass(frozen=True)
class BackendCosts:
    """Where the kernels of one backend under one schedule differ from the device's overheads.

    `overheads` are fields of `CostModel`, in ns; `tile_time_ratios` is, by tile and policy ("128x256 tile"),
    the time of a consumer's tile in the build for that policy over its time in the stream-sync build.
    """

    overheads: Mapping[str, int] = field(default_factory=dict)
    tile_time_ratios: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SpreadCosts:
    """What makes a prediction hard, weights of the variances that `spread_points` adds up."""

    least_points: float = 1.0
    startup_ns: int = 0
    idle_share: float = 0.0
    dram_share: float = 0.0
    gain_share: float = 0.0


@dataclass(frozen=True)
class DeviceCosts:
    """Costs that come with a device.

    - `overheads`: fields of `CostModel`, in nanoseconds.
    - `kernel_launch_ns`: what the measured time of one kernel contains besides its blocks.
    - `law`: how blocks share an SM. `demand`: SMs that one block could use unless it is bound by memory; None
      where as many as fit use `law.full_demand`.
    - `clock_share`: of the logarithm of the cycles saved, the share lost again to a lower clock when a
      plan runs by itself for long at the power limit; 0 where plans are measured in turns and share a clock.
      At the limit busy SMs x clock^3 is constant, which would be 1/3; power that idle SMs draw makes it less.
    - `clock_gain`: `CostModel.clock_gain` of kernels with one block per SM.
    - `memory`: None where L2 and DRAM were not measured; tiles then take their time whatever runs beside.
    - `has_timed_memory`: whether tile times that follow from kernel times are times at an idle DRAM too.
    - `host_sync_ns`: from a kernel's end to the next launch where the host waits in between; None: unknown.
    - `split_k`: what of storing and adding sums calibrated tile times do not contain, in ns.
    - `spread`: how hard predictions are, by `intervals.spread_points`.
    - `defaults`: the constants of another device that stand in.
    - `values`: every constant by its name ("semaphore.latency_ns"), the device's own or one that stands in.
    """

    overheads: Mapping[str, Any]
    kernel_launch_ns: int
    clock_share: float
    law: SharingLaw
    demand: float | None = None
    clock_gain: float = 0.0
    memory: Memory | None = None
    host_sync_ns: int | None = None
    split_k: Mapping[str, int] = field(default_factory=dict)
    backends: Mapping[tuple[str, str], BackendCosts] = field(default_factory=dict)
    spread: SpreadCosts = field(default_factory=SpreadCosts)
    defaults: tuple[Constant, ...] = ()
    has_timed_memory: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)

    def speeds(self, pipeline: Pipeline, device: Device) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(sharing, oldest_first_bias) of blocks that share an SM, as `CostModel` has them."""
        fitting = [occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages]
        most = max(fitting)
        demand = self.law.demand(fitting) if self.demand is None else self.demand
        if _all_memory_bound(pipeline, device):
            demand = inf
        return self.law.speeds(demand, most), self.law.biases(demand, most)

    def timed_memory(self, pipeline: Pipeline, device: Device) -> Memory | None:
        """The memory behind tile times that follow from kernel times.

        None where it was not fitted to such, and where all kernels are bound by it: their blocks share it as
        they share an SM (`speeds`).
        """
        return self.memory if self.has_timed_memory and not _all_memory_bound(pipeline, device) else None

    def defaults_in(self, *sections: str) -> tuple[Constant, ...]:
        """Constants of these sections of a device file that were measured on another device."""
        return tuple(default for default in self.defaults if default.section in sections)

    def gain(self, blocks_per_sm: int) -> float:
        """`CostModel.clock_gain` of kernels; 0 where several blocks keep an SM busy most of the time."""
        return self.clock_gain if blocks_per_sm == 1 else 0.0

    def backend(self, pipeline: Pipeline, schedule: str) -> BackendCosts:
        """What is known of the backend that all stages name, under a schedule's word; nothing for others."""
        named = {stage.backend for stage in pipeline.stages}
        return (
            self.backends.get((min(named), schedule), BackendCosts()) if len(named) == 1 else BackendCosts()
        )


def _all_memory_bound(pipeline: Pipeline, device: Device) -> bool:
    result = [stage.work.is_memory_bound(device) for stage in pipeline.stages]
    known = [is_bound for is_bound in result if is_bound is not None]
    return bool(known) and all(known)


def costs_of(name: str) -> DeviceCosts:
    """The costs known of a device, by its name in the catalogue, its driver's name or the path of a file.

    What its data files lack is taken from the device that stands in for it, and named in `defaults`; memory
    and clock gain are scaled from the default device's.
    """
    return _costs_of(devices.catalogue_name(name), FOLDERS, _state_of(name))


def default_device() -> str:
    """The device whose constants stand in for others', by its name in the catalogue."""
    return _default_name(device_files(FOLDERS))


def own_file(name: str) -> DeviceFile:
    """The constants measured on a device itself, or fitted to what was; none where nothing was."""
    return _own_file(devices.catalogue_name(name), FOLDERS) or DeviceFile(name, {})


def _own_file(name: str, folders: tuple[Path, ...]) -> DeviceFile | None:
    if devices.is_user_file(name) and Path(name).is_file():
        return read_device_file(Path(name), name)
    return device_files(folders).get(name)


def _state_of(name: str) -> tuple[int, int] | None:
    """What changes when a user's own file does; None for other devices, and for a file that is gone."""
    if not devices.is_user_file(name) or not Path(name).is_file():
        return None
    status = Path(name).stat()
    return status.st_mtime_ns, status.st_size


def law_of(law: type[L], device_name: str) -> L | None:
    """How long blocks take on a device by a law; None where its constants are not known: none stand in."""
    return cast("L | None", _law_of(law, device_name))  # type: ignore[arg-type]  # a class can be hashed


@cache
def _law_of(law: Any, device_name: str) -> CostLaw | None:
    own = {name: constant.value for name, constant in own_file(device_name).constants.items()}
    cost_law: CostLaw | None = law.of(own, costs_of(device_name).values)
    return cost_law


def law_of_stage(stage: Stage, device: Device) -> CostLaw | None:
    """The same by what a stage computes; None also for kernels of no kind."""
    kind = kind_of(stage.work)
    return None if kind is None or kind.law is None else law_of(kind.law, device.name)


def without_constants() -> DeviceCosts:
    """Nothing fitted: no overheads, SMs shared with nothing lost or won, the clock by the cube law."""
    law = costs_of(default_device()).law
    return DeviceCosts({}, 0, clock_share=1 / 3, law=replace(law, oldest_first_bias=0.0), demand=inf)


def with_host_sync(known: DeviceCosts) -> DeviceCosts:
    """The same where the host waits for every kernel; the GPU then idles too often for a power limit."""
    if known.host_sync_ns is None:
        raise DescriptionError("kernel_times.host_sync_ns is not known; add it to the device's data file")
    each = known.host_sync_ns + known.overheads["boundary_ns"]
    overheads = {**known.overheads, "boundary_ns": each, "setup_ns": each}
    return replace(known, overheads=overheads, kernel_launch_ns=each, clock_share=0.0)


def _default_name(files: Mapping[str, DeviceFile]) -> str:
    result = [name for name, file in files.items() if file.is_default]
    if len(result) != 1:
        raise DescriptionError(
            f"{FOLDERS[-1]}: default = true is in {result or 'no file'}; write it in one file"
        )
    return result[0]


@cache
def _costs_of(name: str, folders: tuple[Path, ...], _state: tuple[int, int] | None) -> DeviceCosts:
    files, own = device_files(folders), _own_file(name, folders)
    constants = dict(own.constants) if own else {}
    stand_ins = [own.stand_in] if own and own.stand_in else _products_of(name)
    for other in (*stand_ins, _default_name(files)):
        if other not in files:
            raise DescriptionError(
                f"{folders[-1] / name}.toml: stand_in is {other!r}; known are {', '.join(files)}"
            )
        left_out = NEVER if other in stand_ins else NOT_BY_DEFAULT
        theirs = {key: constant for key, constant in files[other].constants.items() if key not in left_out}
        constants = theirs | constants
    default = _default_name(files)
    if own is None or devices.is_user_file(name):  # the files that ship say all that is known of their device
        scaled = scaled_constants(name, default, files[default].constants)
        constants |= {key: entry for key, entry in scaled.items() if key not in constants}
    defaults = tuple(constant for constant in constants.values() if constant.device != name)
    return _built({key: constant.value for key, constant in constants.items()}, defaults)


def _products_of(name: str) -> list[str]:
    """The catalogued product that a user's own file is of, where anything is known of one."""
    if not devices.is_user_file(name) or not Path(name).is_file():
        return []
    products = {devices.catalogue_name(driver) for driver in devices.driver_names(name)}
    return sorted(products & device_files(FOLDERS).keys())[:1]


def _built(values: Mapping[str, Any], defaults: tuple[Constant, ...]) -> DeviceCosts:
    def section(name: str) -> dict[str, Any]:
        return {key: values[f"{name}.{key}"] for key in UNITS[name] if f"{name}.{key}" in values}

    sharing, memory, interval = map(section, ("sharing", "memory", "interval"))
    law = SharingLaw(**{item.name: sharing[item.name] for item in fields(SharingLaw)})
    own_memory = {item.name: memory[item.name] for item in fields(Memory) if item.name in memory}
    return DeviceCosts(
        section("overheads"),
        values["kernel_times.launch_ns"],
        values["clock.slowdown_share"],
        law,
        sharing.get("demand"),
        values.get("clock.gain", 0.0),
        Memory(**own_memory) if "l2_bytes" in memory else None,
        values.get("kernel_times.host_sync_ns"),
        section("split_k"),
        _backends(values),
        SpreadCosts(**interval),
        defaults,
        bool(values.get("kernel_times.has_memory")),
        values,
    )


def _backends(values: Mapping[str, Any]) -> dict[tuple[str, str], BackendCosts]:
    """Costs by backend and schedule, from names such as "backends.NAME.tile.post_ns"."""
    backend_costses: dict[tuple[str, str], BackendCosts] = {}
    for name, value in values.items():
        section, _, rest = name.partition(".")
        if section == BACKENDS:
            backend, schedule, key = rest.split(".", 2)
            kept = backend_costses.setdefault((backend, schedule), BackendCosts({}, {}))
            group, _, case = key.partition(".")
            if group == RATIOS:
                backend_costses[backend, schedule] = replace(
                    kept, tile_time_ratios={**kept.tile_time_ratios, case: value}
                )
            else:
                backend_costses[backend, schedule] = replace(kept, overheads={**kept.overheads, key: value})
    return backend_costses
