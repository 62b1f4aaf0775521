"""The device catalogue's files: one TOML file per device, and the limits that a compute capability sets.

Example: `devices/h200.toml` says 132 SMs of compute capability 9.0 and where each figure comes from;
`compute_capabilities.toml` says what every SM of 9.0 holds. A new device is a new file.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError

FOLDER = Path(__file__).parent / "devices"
CAPABILITIES = Path(__file__).parent / "compute_capabilities.toml"
FIGURES = ("sm_count", "l2_bytes", "dram_bytes_per_s", "tensor_flops_per_s", "clock_hz", "power_w")
MARKS = ("compute_capability", "driver_names", "sources", "default")


@cache
def capability_limits() -> dict[str, dict[str, Any]]:
    """What all devices of a compute capability share, by "9.0", with the source of it."""
    return tomllib.loads(CAPABILITIES.read_text(encoding="utf-8"))


@cache
def device_entries(folder: Path) -> dict[str, dict[str, Any]]:
    """Every device's file as it stands, by name; invented devices first, then by compute capability.

    Raises `DescriptionError` naming file and field for the first bad one.
    """
    found = {path.stem: _entry(path) for path in folder.glob("*.toml")}
    return dict(sorted(found.items(), key=lambda item: _place(*item)))


def _place(name: str, entry: dict[str, Any]) -> tuple[Any, ...]:
    return bool(entry["driver_names"]), tuple(entry["compute_capability"]), entry["sm_count"], name


def _entry(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DescriptionError(f"{path}: not TOML: {error}") from None
    capability = data.get("compute_capability")
    if not isinstance(capability, list) or [type(part) for part in capability] != [int, int]:
        raise DescriptionError(
            f"{path}: field 'compute_capability' is {capability!r}; write compute_capability = [9, 0]"
        )
    if not isinstance(data.setdefault("driver_names", []), list):
        raise DescriptionError(
            f"{path}: field 'driver_names' is no list; write driver_names = [\"NVIDIA H200\"]"
        )
    _require_figures(path, data)
    return data


def _require_figures(path: Path, data: dict[str, Any]) -> None:
    """Every figure is a number, is known, and has a source."""
    limits = capability_limits().get(".".join(map(str, data["compute_capability"])), {})
    known, sources = (*FIGURES, *limits), data.get("sources", {})
    for name in FIGURES:
        if name not in data:
            raise DescriptionError(f"{path}: field '{name}' is missing; write {name} = the device's figure")
    for name, value in data.items():
        if name in MARKS:
            continue
        if name not in known:
            raise DescriptionError(f"{path}: field '{name}' is unknown; known are {', '.join(known)}")
        if type(value) not in (int, float, list):
            raise DescriptionError(f"{path}: field '{name}' is {value!r}; write a number")
        if not isinstance(sources, dict) or not sources.get(name):
            raise DescriptionError(f"{path}: field 'sources.{name}' is missing; write where it comes from")
