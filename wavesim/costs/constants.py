"""Measured and fitted constants of a device, as its data files state them.

Example: `[overheads.boundary_ns]` of devices/h200.toml has a value of 1,080, the unit "ns", where it was
measured and when. A file of `devices` is made by `characterise` and replaced as a whole; what was fitted
to recordings stands in a file of the same name in `fitted`, which goes before it. A user's own file may hold
both. A file with an unknown key, a missing unit or source, or a negative value is refused as a whole.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from wavesim.costs.cost_model import FIXED_COSTS
from wavesim.errors import DescriptionError
from wavesim.model.device_files import catalogue_fields, file_data
from wavesim.plan.parsing import SCHEDULES
from wavesim.safe_io.bounds import shown
from wavesim.work.attention.law import AttentionCosts
from wavesim.work.convolution.law import ConvolutionCosts
from wavesim.work.gemm.law import GemmCosts
from wavesim.work.gemm.products import ProductCosts
from wavesim.work.rows.law import DecodeCosts, StreamingCosts
from wavesim.work.streamed.law import MegakernelCosts

MEASURED, FITTED = (Path(__file__).parent / name for name in ("devices", "fitted"))
FOLDERS = (MEASURED, FITTED)
BACKENDS = "backends"
RATIOS = "tile_time_ratios"
CONDITIONS = "conditions"
NS, SHARE, YES_OR_NO = "ns", "share", "yes or no"
# Fixed costs that are others where kernels of several kinds follow each other.
LAYER_OVERHEADS = ("setup_ns", "block_ns", "boundary_ns", "dependent_ns", "reset_ns", "post_visibility_ns")
LAWS = (
    GemmCosts,
    ConvolutionCosts,
    AttentionCosts,
    StreamingCosts,
    DecodeCosts,
    ProductCosts,
    MegakernelCosts,
)
# Constants by section; of a law, its fields.
NAMES: dict[str, tuple[str, ...]] = {
    "overheads": FIXED_COSTS,
    "kernel_times": ("launch_ns", "host_sync_ns", "has_memory", "tile_spread"),
    "clock": (
        *("gain", "slowdown_share", "full_ghz", "single_ghz", "light_ghz", "full_w", "idle_w", "limit_ghz"),
    ),
    "sharing": (
        *("sharpness", "full_demand", "unlike_demand", "crowded_demand", "oldest_first_bias", "demand"),
        *("spin_share", "sleeping_spin_share", "tensor_speeds", "fma_speeds", "latency_speeds"),
    ),
    "memory": (
        *("l2_bytes", "dram_bytes_per_s", "sharpness", "shared_sharpness", "scattered_share"),
        "copy_bytes_per_s",
    ),
    "l2": ("bytes_per_s", "near_cycles", "far_cycles", "copies"),
    "semaphore": ("latency_ns",),
    "timer": ("step_ns",),
    "dispatch": ("oldest_first", "breadth_first", "joins_default", "joins_full"),
    "split_k": ("partial_ns", "shared_partial_ns", "shared_fixup_ns"),
    "interval": ("least_points", "startup_ns", "idle_share", "dram_share", "gain_share"),
    "persistent": (
        *("barrier_ns", "latency_cycles", "reduce_cycles", "tensor_share", "l2_bytes_per_cycle"),
        *("library_cycles", "library_k_block_cycles"),
    ),
    "layers": (*LAYER_OVERHEADS, "limit_ghz", "rest_share", "bf16_share"),
    **{law.section: law.names() for law in LAWS},
}
NAMES["tiles"] += ("bf16_bias_cycles",)  # of kernels until 2026-11-23
# What a name ends with says its unit. Nanoseconds and bytes are whole numbers, shares lie in 0 to 1.
ENDINGS = {
    "bytes_per_s": "bytes/s",
    "bytes_per_cycle": "bytes/cycle",
    "_per_cycle": "1/cycle",
    "_ns": NS,
    "_ghz": "GHz",
    "_w": "W",
    "_cycles": "cycles",
    "_share": SHARE,
    "_bias": SHARE,
    "_bytes": "bytes",
    "_points": "points",
    "demand": "SMs",
    "_speeds": "shares",
    "_ratio": "ratio",
    "sharpness": "exponent",
}
OTHER_UNITS = {
    **dict.fromkeys(("kernel_times.tile_spread", "clock.gain"), SHARE),
    **dict.fromkeys(("l2.copies", "convolutions.crowd_share", "convolutions.narrow_share"), "ratio"),
    **dict.fromkeys(
        ("kernel_times.has_memory", *(f"dispatch.{name}" for name in NAMES["dispatch"])), YES_OR_NO
    ),
}


def _unit(section: str, name: str) -> str:
    ending = next((unit for end, unit in ENDINGS.items() if name.endswith(end)), "")
    return OTHER_UNITS.get(f"{section}.{name}", ending)


UNITS = {section: {name: _unit(section, name) for name in names} for section, names in NAMES.items()}
WHOLE_UNITS = (NS, "bytes")
KEYS, OPTIONAL_KEYS = ("value", "unit", "source", "date"), ("spread",)
# Sections of which a file has all of these constants or none.
WHOLE: dict[str, tuple[str, ...]] = {
    name: tuple(UNITS[name])
    for name in (
        "interval",
        "products",
        "attention",
        "rows",
        "decode",
        "tiles",
        "layers",
        "persistent",
        "convolutions",
        "megakernel",
    )
}
WHOLE["memory"] = ("l2_bytes", "dram_bytes_per_s", "scattered_share")
# What a section is of no use without. Of a fit they may stand in the measured file beside it.
NEEDS = {"tiles": ("products.multiply_adds_per_cycle", "memory.dram_bytes_per_s", "memory.l2_bytes")}


def unit_of(name: str) -> str:
    """The unit of a constant, by its name in a device file ("overheads.post_ns")."""
    section, _, key = name.partition(".")
    if section == BACKENDS:
        return "ratio" if f".{RATIOS}." in name else NS
    return UNITS[section][key]


@dataclass(frozen=True)
class Constant:
    """One constant of a device file: `name` is "section.constant", `date` is ISO (2026-11-20).

    `spread` is half the range of the middle half of its repeats, as a share of the value; None where unknown.
    `is_fitted` tells what was fitted to recordings from what a microbenchmark measured. `scaled_by` is the
    catalogue's figure by which it was scaled from `device` to another one; "" where it was not.
    """

    name: str
    value: Any
    unit: str
    source: str
    date: str
    device: str
    spread: float | None = None
    is_fitted: bool = False
    scaled_by: str = ""

    @property
    def section(self) -> str:
        """The part of the name before the first dot."""
        return self.name.partition(".")[0]

    def __str__(self) -> str:
        is_number = type(self.value) in (int, float)
        value = f"{self.value:g}" if is_number else shown(self.value)
        origin = f"scaled by {self.scaled_by} from" if self.scaled_by else "as on"
        return f"{self.name} = {value} {self.unit}, {origin} {self.device} ({self.date})"


@dataclass(frozen=True)
class DeviceFile:
    """A device's constants by name; `source` says in a line where they come from.

    `stand_in` is the device whose constants replace those it lacks,
    `is_default` marks the file that stands in where no other is named. `conditions`: of the measurement, such
    as the driver and a clock that was held down.
    """

    device: str
    constants: Mapping[str, Constant]
    source: str = ""
    stand_in: str = ""
    is_default: bool = False
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def over(self, other: "DeviceFile | None") -> "DeviceFile":
        """Both files' constants; this one's where both have one of a name."""
        if other is None:
            return self
        return DeviceFile(
            self.device,
            {**other.constants, **self.constants},
            other.source or self.source,
            self.stand_in or other.stand_in,
            self.is_default or other.is_default,
            {**other.conditions, **self.conditions},
        )


@cache
def device_files(folders: tuple[Path, ...]) -> dict[str, DeviceFile]:
    """All devices' constants by name, a later folder's before an earlier one's; those of the last are fitted.

    Raises `DescriptionError` for the first bad file.
    """
    files: dict[str, DeviceFile] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            own = read_device_file(path, is_fitted=folder == folders[-1])
            files[path.stem] = own.over(files.get(path.stem))
    return files


def read_device_file(path: Path, name: str = "", *, is_fitted: bool = False) -> DeviceFile:
    """One device's constants, under `name` or the file's; figures of the catalogue in the file are left out.

    Raises `DescriptionError` naming file, field and what to write instead.
    """
    data = {key: value for key, value in file_data(path).items() if key not in catalogue_fields()}
    conditions = _conditions(path, data.pop(CONDITIONS, {}))
    source, stand_in = data.pop("source", ""), data.pop("stand_in", "")
    is_default = data.pop("default", False)
    if not isinstance(source, str) or not isinstance(stand_in, str) or not isinstance(is_default, bool):
        raise DescriptionError(
            f"{path}: source is a text, stand_in is a device name in quotes, default is true or false"
        )
    device = name or path.stem
    file = {
        key: _constant(path, key, unit, entry, device, is_fitted) for key, unit, entry in _entries(path, data)
    }
    _require_whole(path, file, is_fitted=is_fitted)
    return DeviceFile(device, file, source, stand_in, is_default, conditions)


def _conditions(path: Path, table: object) -> dict[str, Any]:
    """What a measurement was made under: texts, numbers, yes and no, by names of its own."""
    conditions = _table(path, CONDITIONS, table)
    for key, value in conditions.items():
        if not isinstance(value, str | int | float):
            raise DescriptionError(
                f"{path}: field '{CONDITIONS}.{key}' is {shown(value)}; write a text or a number"
            )
    return dict(conditions)


def _entries(path: Path, data: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """(name, unit, table) of every constant in the file."""
    for section, table in data.items():
        if section == BACKENDS:
            for backend, schedules in _table(path, section, table).items():
                for schedule, own in _table(path, f"{section}.{backend}", schedules).items():
                    if schedule not in SCHEDULES:
                        raise _unknown(path, f"{section}.{backend}.{schedule}", SCHEDULES)
                    yield from _backend_entries(path, f"{section}.{backend}.{schedule}", own)
            continue
        known = UNITS.get(section)
        if known is None:
            raise _unknown(path, section, (*UNITS, BACKENDS))
        for key, entry in _table(path, section, table).items():
            if key not in known:
                raise _unknown(path, f"{section}.{key}", known)
            yield f"{section}.{key}", known[key], entry


def _backend_entries(path: Path, where: str, table: Any) -> Iterator[tuple[str, str, Any]]:
    for key, entry in _table(path, where, table).items():
        if key == RATIOS:
            for case, ratio in _table(path, f"{where}.{key}", entry).items():
                yield f"{where}.{key}.{case}", "ratio", ratio
        elif key in FIXED_COSTS:
            yield f"{where}.{key}", NS, entry
        else:
            raise _unknown(path, f"{where}.{key}", (*FIXED_COSTS, RATIOS))


def _table(path: Path, where: str, table: Any) -> Mapping[str, Any]:
    if not isinstance(table, dict):
        raise DescriptionError(f"{path}: field '{where}' is {shown(table)}; write a table, [{where}]")
    return table


def _unknown(path: Path, where: str, known: Any) -> DescriptionError:
    return DescriptionError(f"{path}: field {shown(where)} is unknown; known are {', '.join(known)}")


def _constant(path: Path, name: str, unit: str, entry: Any, device: str, is_fitted: bool) -> Constant:
    table = _table(path, name, entry)
    for key in table:
        if key not in (*KEYS, *OPTIONAL_KEYS):
            raise _unknown(path, f"{name}.{key}", (*KEYS, *OPTIONAL_KEYS))
    for key in KEYS:
        if key not in table:
            raise DescriptionError(f"{path}: field '{name}.{key}' is missing; write {_example(key, unit)}")
    if table["unit"] != unit:
        raise DescriptionError(f"{path}: field '{name}.unit' is {shown(table['unit'])}; write {unit!r}")
    if not isinstance(table["source"], str) or not table["source"].strip():
        raise DescriptionError(
            f"{path}: field '{name}.source' is {shown(table['source'])}; write {_example('source', unit)}"
        )
    _require_value(path, name, unit, table["value"])
    made, spread = _date(path, name, table["date"]), _spread(path, name, table.get("spread"))
    return Constant(name, table["value"], unit, table["source"], made, device, spread, is_fitted)


def _example(key: str, unit: str) -> str:
    return {
        "value": f"value = the constant in {unit}",
        "unit": f'unit = "{unit}"',
        "source": 'source = "how it was measured or fitted"',
        "date": 'date = "2026-11-20"',
    }[key]


def _spread(path: Path, name: str, value: object) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not value >= 0:  # type: ignore[operator]  # a number by then
        raise DescriptionError(
            f"{path}: field '{name}.spread' is {shown(value)}; write a share of the value, 0 or more"
        )
    return float(value)  # type: ignore[arg-type]  # as above


def _require_value(path: Path, name: str, unit: str, value: Any) -> None:
    if unit == YES_OR_NO:
        is_right, wanted = isinstance(value, bool), "true or false"
    elif unit == "shares":
        is_right = isinstance(value, list) and all(
            type(entry) in (int, float) and 0 <= entry <= 1 for entry in value
        )
        wanted = "a list of numbers from 0 to 1"
    elif unit in WHOLE_UNITS:
        is_right, wanted = type(value) is int and value >= 0, "an integer of at least 0"
    else:
        is_right = type(value) in (int, float) and isfinite(value) and value >= 0
        wanted = "a number of at least 0"
        if unit == SHARE:
            is_right, wanted = is_right and value <= 1, "a number from 0 to 1"
    if not is_right:
        raise DescriptionError(f"{path}: field '{name}.value' is {shown(value)}; write {wanted}")


def _date(path: Path, name: str, value: Any) -> str:
    """The date as ISO text, whether the file has a TOML date or a text."""
    try:
        return date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise DescriptionError(
            f"{path}: field '{name}.date' is {shown(value)}; write {_example('date', '')}"
        ) from None


def _require_whole(path: Path, constants: Mapping[str, Constant], *, is_fitted: bool) -> None:
    """Sections that only work as a whole are there as a whole; a fit may replace one constant of a memory."""
    for section, keys in WHOLE.items():
        if is_fitted and section == "memory":
            continue
        have = [key for key in keys if f"{section}.{key}" in constants]
        lacking = [key for key in keys if key not in have]
        if have and lacking:
            raise DescriptionError(
                f"{path}: field '{section}.{lacking[0]}' is missing; give all of [{section}] "
                f"({', '.join(keys)}) or none of it"
            )
    for section, needed in () if is_fitted else NEEDS.items():
        missing = [name for name in needed if name not in constants]
        if missing and any(name.startswith(f"{section}.") for name in constants):
            raise DescriptionError(f"{path}: field '{missing[0]}' is missing; [{section}] goes with it")
