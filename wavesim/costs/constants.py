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

MEASURED, FITTED = (Path(__file__).parent / name for name in ("devices", "fitted"))
FOLDERS = (MEASURED, FITTED)
BACKENDS = "backends"
RATIOS = "tile_time_ratios"
CONDITIONS = "conditions"
NS, SHARE = "ns", "share"
# Fixed costs that are others where kernels of several kinds follow each other.
LAYER_OVERHEADS = ("setup_ns", "block_ns", "boundary_ns", "dependent_ns", "reset_ns", "post_visibility_ns")
CONVOLUTION_TIMES = (
    *("slot_ns", "poll_ns", "k_block_wait_ns", "wide_k_block_wait_ns", "dependent_ns", "post_ns", "reset_ns"),
    *("memset_ns", "rearm_ns", "partial_ns", "fixup_ns", "post_visibility_ns", "column_visibility_ns"),
    *("persistent_ns", "next_ns", "staying_post_ns", "look_ns"),
    *("light_slot_ns", "light_k_block_wait_ns", "spread_ns", "few_k_blocks_ns"),
)
CONVOLUTION_RATES = {
    **dict.fromkeys(("tap_cycles", "full_cycles", "short_cycles", "short_pixel_cycles"), "cycles"),
    **dict.fromkeys(("crowd_share", "narrow_share"), "ratio"),
    **dict.fromkeys(("overlap_share", "rest_share"), SHARE),
    **dict.fromkeys(("limit_ghz", "most_ghz"), "GHz"),
    "l2_bytes_per_cycle": "bytes/cycle",
}
LAYER_CLOCK = ("limit_ghz", "rest_share", "bf16_share")
TILE_CYCLES = ("tile_cycles", "area_cycles", "activation_cycles", "bf16_bias_cycles", "first_cycles")
FEW_ROWS_COSTS = ("few_rows_ns", "few_rows_ticket_ns", "few_rows_fixup_ns", "few_rows_wait_ns")
# Unit of every constant by section. Nanoseconds and bytes are whole numbers, shares lie in 0 to 1.
UNITS: dict[str, dict[str, str]] = {
    "overheads": dict.fromkeys(FIXED_COSTS, NS),
    "kernel_times": {"launch_ns": NS, "host_sync_ns": NS, "has_memory": "yes or no", "tile_spread": SHARE},
    "clock": {
        "gain": SHARE,
        "slowdown_share": SHARE,
        "full_ghz": "GHz",
        "single_ghz": "GHz",
        "light_ghz": "GHz",
        "full_w": "W",
        "idle_w": "W",
        "limit_ghz": "GHz",
    },
    "sharing": {
        "sharpness": "exponent",
        "full_demand": "SMs",
        "unlike_demand": "SMs",
        "crowded_demand": "SMs",
        "oldest_first_bias": SHARE,
        "demand": "SMs",
        "spin_share": SHARE,
        "sleeping_spin_share": SHARE,
        "tensor_speeds": "shares",
        "fma_speeds": "shares",
        "latency_speeds": "shares",
    },
    "memory": {
        "l2_bytes": "bytes",
        "dram_bytes_per_s": "bytes/s",
        "sharpness": "exponent",
        "shared_sharpness": "exponent",
        "scattered_share": SHARE,
        "copy_bytes_per_s": "bytes/s",
    },
    "l2": {"bytes_per_s": "bytes/s", "near_cycles": "cycles", "far_cycles": "cycles", "copies": "ratio"},
    "semaphore": {"latency_ns": NS},
    "timer": {"step_ns": NS},
    "dispatch": dict.fromkeys(("oldest_first", "breadth_first", "joins_default", "joins_full"), "yes or no"),
    "split_k": {"partial_ns": NS, "shared_partial_ns": NS, "shared_fixup_ns": NS},
    "interval": {
        "least_points": "points",
        "startup_ns": NS,
        **dict.fromkeys(("idle_share", "dram_share", "gain_share"), SHARE),
    },
    "attention": dict.fromkeys(
        ("block_cycles", "small_head_cycles", "tile_cycles", "small_head_tile_cycles"), "cycles"
    ),
    "tiles": {
        "k_block_ratio": "ratio",
        **dict.fromkeys(TILE_CYCLES, "cycles"),
        **dict.fromkeys(FEW_ROWS_COSTS, NS),
        "few_rows_block_bytes_per_s": "bytes/s",
        **dict.fromkeys(("area_dependent_ns", "area_visibility_ns"), NS),
    },
    "persistent": {
        "barrier_ns": NS,
        **dict.fromkeys(("latency_cycles", "reduce_cycles"), "cycles"),
        "tensor_share": SHARE,
        "l2_bytes_per_cycle": "bytes/cycle",
        **dict.fromkeys(("library_cycles", "library_k_block_cycles"), "cycles"),
    },
    "layers": {
        **dict.fromkeys(LAYER_OVERHEADS, NS),
        **dict(zip(LAYER_CLOCK, ("GHz", SHARE, SHARE), strict=True)),
    },
    "convolutions": {**dict.fromkeys(CONVOLUTION_TIMES, NS), **CONVOLUTION_RATES},
    **{
        name: {"bytes_per_s": "bytes/s", "block_bytes_per_s": "bytes/s", "block_ns": NS}
        for name in ("rows", "decode")
    },
    "products": {
        "multiply_adds_per_cycle": "1/cycle",
        "cycles_ratio": "ratio",
        "tile_cycles": "cycles",
        "clock_ghz": "GHz",
        "light_clock_ghz": "GHz",
        "l2_bytes_per_cycle": "bytes/cycle",
        "start_ns": NS,
        "block_ns": NS,
        "partial_ns": NS,
        "fixup_ns": NS,
        "dram_bytes_per_s": "bytes/s",
        "library_dram_bytes_per_s": "bytes/s",
        "library_ratio": "ratio",
        "pass_bytes_per_s": "bytes/s",
        "margin_points": "points",
        "interval_points": "points",
    },
}
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
    found: dict[str, DeviceFile] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            own = read_device_file(path, is_fitted=folder == folders[-1])
            found[path.stem] = own.over(found.get(path.stem))
    return found


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
    found = {
        key: _constant(path, key, unit, entry, device, is_fitted) for key, unit, entry in _entries(path, data)
    }
    _require_whole(path, found, is_fitted=is_fitted)
    return DeviceFile(device, found, source, stand_in, is_default, conditions)


def _conditions(path: Path, table: object) -> dict[str, Any]:
    """What a measurement was made under: texts, numbers, yes and no, by names of its own."""
    found = _table(path, CONDITIONS, table)
    for key, value in found.items():
        if not isinstance(value, str | int | float):
            raise DescriptionError(
                f"{path}: field '{CONDITIONS}.{key}' is {shown(value)}; write a text or a number"
            )
    return dict(found)


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
    if unit == "yes or no":
        is_right, wanted = isinstance(value, bool), "true or false"
    elif unit == "shares":
        is_right = isinstance(value, list) and all(
            type(one) in (int, float) and 0 <= one <= 1 for one in value
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


def _require_whole(path: Path, found: Mapping[str, Constant], *, is_fitted: bool) -> None:
    """Sections that only work as a whole are there as a whole; a fit may replace one constant of a memory."""
    for section, keys in WHOLE.items():
        if is_fitted and section == "memory":
            continue
        have = [key for key in keys if f"{section}.{key}" in found]
        lacking = [key for key in keys if key not in have]
        if have and lacking:
            raise DescriptionError(
                f"{path}: field '{section}.{lacking[0]}' is missing; give all of [{section}] "
                f"({', '.join(keys)}) or none of it"
            )
    for section, needed in () if is_fitted else NEEDS.items():
        missing = [name for name in needed if name not in found]
        if missing and any(name.startswith(f"{section}.") for name in found):
            raise DescriptionError(f"{path}: field '{missing[0]}' is missing; [{section}] goes with it")
