"""Measured and fitted constants of a device, as its data file in `costs/devices` states them.

Example: `[overheads.boundary_ns]` of h200.toml has a value of 1,080, the unit "ns", where it was measured and
when. A file with an unknown key, a missing unit or source, or a negative value is refused as a whole.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from wavesim.costs.cost_model import FIXED_COSTS
from wavesim.errors import DescriptionError, RecordingError
from wavesim.guard.bounds import shown
from wavesim.guard.documents import read_toml
from wavesim.plan.parsing import SCHEDULES

FOLDER = Path(__file__).parent / "devices"
BACKENDS = "backends"
RATIOS = "tile_time_ratios"
NS, SHARE, TEXT, TEXTS = "ns", "share", "text", "texts"
# Unit of every constant by section. Nanoseconds and bytes are whole numbers, shares lie in 0 to 1.
UNITS: dict[str, dict[str, str]] = {
    "overheads": dict.fromkeys(FIXED_COSTS, NS),
    "kernel_times": {"launch_ns": NS, "host_sync_ns": NS},
    "clock": {"gain": SHARE, "slowdown_share": SHARE},
    "sharing": {
        "sharpness": "exponent",
        "full_demand": "SMs",
        "crowded_demand": "SMs",
        "oldest_first_bias": SHARE,
        "demand": "SMs",
    },
    "memory": {
        "l2_bytes": "bytes",
        "dram_bytes_per_s": "bytes/s",
        "sharpness": "exponent",
        "shared_sharpness": "exponent",
        "scattered_share": SHARE,
    },
    "split_k": {"partial_ns": NS, "shared_partial_ns": NS, "shared_fixup_ns": NS},
    "interval": {"least_points": "points", "startup_ns": NS, "idle_share": SHARE, "dram_share": SHARE},
    "products": {
        "multiply_adds_per_cycle": "1/cycle",
        "cycles_ratio": "ratio",
        "tile_cycles": "cycles",
        "clock_ghz": "GHz",
        "light_clock_ghz": "GHz",
        "l2_bytes_per_cycle": "bytes/cycle",
        "start_ns": NS,
        "partial_ns": NS,
        "fixup_ns": NS,
        "dram_bytes_per_s": "bytes/s",
        "library_dram_bytes_per_s": "bytes/s",
        "library_ratio": "ratio",
        "pass_bytes_per_s": "bytes/s",
        "margin_points": "points",
        "interval_points": "points",
    },
    "scored": {"kernel_times": "kind", "kernel_times_apart": "condition", "kinds": "kinds"},
}
WHOLE_UNITS, TEXT_UNITS, LIST_UNITS = (NS, "bytes"), ("kind", "condition"), ("kinds",)
KEYS = ("value", "unit", "source", "date")


@dataclass(frozen=True)
class Constant:
    """One constant of a device file: `name` is "section.constant", `date` is ISO (2026-11-20)."""

    name: str
    value: Any
    unit: str
    source: str
    date: str
    device: str

    @property
    def section(self) -> str:
        """The part of the name before the first dot."""
        return self.name.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.name} = {self.value:g} {self.unit}, as on {self.device} ({self.date})"


@dataclass(frozen=True)
class DeviceFile:
    """A device's constants by name; `source` says in a line where they come from.

    `stand_in` is the device whose constants replace those it lacks,
    `is_default` marks the file that stands in where no other is named.
    """

    device: str
    constants: Mapping[str, Constant]
    source: str = ""
    stand_in: str = ""
    is_default: bool = False


@cache
def device_files(folder: Path) -> dict[str, DeviceFile]:
    """All files of a folder by device name. Raises `DescriptionError` for the first bad one."""
    return {path.stem: read_device_file(path) for path in sorted(folder.glob("*.toml"))}


def read_device_file(path: Path) -> DeviceFile:
    """One device's constants. Raises `DescriptionError` naming file, field and what to write instead."""
    data = _parsed(path)
    source, stand_in = data.pop("source", ""), data.pop("stand_in", "")
    is_default = data.pop("default", False)
    if not isinstance(source, str) or not isinstance(stand_in, str) or not isinstance(is_default, bool):
        raise DescriptionError(
            f"{path}: source is a text, stand_in is a device name in quotes, default is true or false"
        )
    found = {name: _constant(path, name, unit, entry) for name, unit, entry in _entries(path, data)}
    _require_whole(path, found)
    return DeviceFile(path.stem, found, source, stand_in, is_default)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except RecordingError as error:
        raise DescriptionError(str(error)) from None


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


def _constant(path: Path, name: str, unit: str, entry: Any) -> Constant:
    table = _table(path, name, entry)
    for key in table:
        if key not in KEYS:
            raise _unknown(path, f"{name}.{key}", KEYS)
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
    return Constant(name, table["value"], unit, table["source"], _date(path, name, table["date"]), path.stem)


def _example(key: str, unit: str) -> str:
    return {
        "value": f"value = the constant in {unit}",
        "unit": f'unit = "{unit}"',
        "source": 'source = "how it was measured or fitted"',
        "date": 'date = "2026-11-20"',
    }[key]


def _require_value(path: Path, name: str, unit: str, value: Any) -> None:
    if unit in TEXT_UNITS:
        is_right, wanted = isinstance(value, str) and bool(value), "a text"
    elif unit in LIST_UNITS:
        is_right, wanted = (
            isinstance(value, list) and all(isinstance(v, str) for v in value),
            "a list of texts",
        )
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


def _require_whole(path: Path, found: Mapping[str, Constant]) -> None:
    """Sections that only work as a whole are there as a whole."""
    for section in ("memory", "interval", "products", "scored"):
        have = [key for key in UNITS[section] if f"{section}.{key}" in found]
        lacking = [key for key in UNITS[section] if key not in have]
        if have and lacking:
            raise DescriptionError(
                f"{path}: field '{section}.{lacking[0]}' is missing; give all of [{section}] or none of it"
            )
