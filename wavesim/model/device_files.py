"""The device catalogue's files: one TOML file per device, and the limits that a compute capability sets.

Example: `devices/h200.toml` says 132 SMs of compute capability 9.0 and where each figure comes from;
`compute_capabilities.toml` says what every SM of 9.0 holds. A new device is a new file.
"""

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError, RecordingError
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.documents import read_toml

FOLDER = Path(__file__).parent / "devices"
CAPABILITIES = Path(__file__).parent / "compute_capabilities.toml"
FIGURES = ("sm_count", "l2_bytes", "dram_bytes_per_s", "tensor_flops_per_s", "clock_hz", "power_w")
MARKS = ("compute_capability", "driver_names", "sources", "default", "issue_order")


@cache
def capability_limits() -> dict[str, dict[str, Any]]:
    """What all devices of a compute capability share, by "9.0", with the source of it."""
    return read_toml(CAPABILITIES)


@cache
def catalogue_fields() -> frozenset[str]:
    """Every field of a device file that is the catalogue's, other than `default`."""
    limits = (name for entry in capability_limits().values() for name in entry)
    return frozenset((*FIGURES, *limits, *MARKS)) - {"default", "source"}


def file_data(path: Path) -> dict[str, Any]:
    """What a device file says, or the table `[device]` of a description. Raises `DescriptionError`.

    In a description a figure needs no source of its own: the description is it.
    """
    try:
        data = read_toml(path)
    except RecordingError as error:
        raise DescriptionError(str(error)) from None
    own = data.get("device")
    if not isinstance(own, dict):
        return data
    sources = own.get("sources", {})
    usual = dict.fromkeys((name for name in own if name in _figures()), f"described in {path.name}")
    return {**own, "sources": {**usual, **sources} if isinstance(sources, dict) else sources}


def _figures() -> frozenset[str]:
    return catalogue_fields() - set(MARKS)


def user_entry(path: Path) -> dict[str, Any]:
    """The catalogue's fields of a user's own file, which may hold sections of costs beside them.

    Raises `DescriptionError` naming file and field.
    """
    return _entry(path, may_have_costs=True)


@cache
def device_entries(folder: Path) -> dict[str, dict[str, Any]]:
    """Every device's file as it stands, by name; invented devices first, then by compute capability.

    Raises `DescriptionError` naming file and field for the first bad one.
    """
    found = {path.stem: _entry(path) for path in folder.glob("*.toml")}
    defaults = sorted(name for name, entry in found.items() if entry.get("default"))
    if len(defaults) != 1:
        raise DescriptionError(
            f"{folder}: default = true is in {defaults or 'no file'}; write it in one file"
        )
    return dict(sorted(found.items(), key=lambda item: _place(*item)))


def _place(name: str, entry: dict[str, Any]) -> tuple[Any, ...]:
    return bool(entry["driver_names"]), tuple(entry["compute_capability"]), entry["sm_count"], name


def _entry(path: Path, *, may_have_costs: bool = False) -> dict[str, Any]:
    data = file_data(path)
    if may_have_costs:
        # What is no field of the catalogue is for `costs.constants` to read, and to refuse.
        is_cost = {key for key, value in data.items() if isinstance(value, dict) and key not in MARKS}
        data = {key: value for key, value in data.items() if key not in is_cost | {"source", "stand_in"}}
    capability = data.get("compute_capability")
    if not isinstance(capability, list) or [type(part) for part in capability] != [int, int]:
        raise DescriptionError(
            f"{path}: field 'compute_capability' is {shown(capability)}; write compute_capability = [9, 0]"
        )
    drivers = data.setdefault("driver_names", [])
    if not isinstance(drivers, list) or not all(isinstance(name, str) for name in drivers):
        raise DescriptionError(
            f"{path}: field 'driver_names' is {shown(drivers)}; write driver_names = [\"NVIDIA H200\"]"
        )
    if not isinstance(data.get("default", False), bool):
        raise DescriptionError(f"{path}: field 'default' is {shown(data['default'])}; write default = true")
    _require_seen(path, data.get("issue_order"))
    _require_figures(path, data)
    return data


def _require_seen(path: Path, seen: object) -> None:
    """An observation says where it was made and when."""
    if seen is None:
        return
    texts = seen if isinstance(seen, dict) and seen.keys() == {"source", "date"} else {"source": ""}
    if not all(isinstance(text, str) and text.strip() for text in texts.values()):
        raise DescriptionError(
            f"{path}: field 'issue_order' is {shown(seen)}; write [issue_order] with texts source and date"
        )


def _require_figures(path: Path, data: dict[str, Any]) -> None:
    """Every figure is a number, is known, and has a source."""
    limits = capability_limits().get(".".join(map(str, data["compute_capability"])), {})
    limits = {name: value for name, value in limits.items() if name != "source"}
    wanted: tuple[str, ...] = FIGURES
    if not limits:  # a compute capability that nobody listed: the file itself says what an SM holds
        limits = dict(next(iter(capability_limits().values())))
        limits.pop("source")
        wanted = (*FIGURES, *limits)
    known, sources = (*FIGURES, *limits), data.get("sources", {})
    for name in wanted:
        if name not in data:
            raise DescriptionError(f"{path}: field '{name}' is missing; write {name} = the device's figure")
    for name, value in data.items():
        if name in MARKS:
            continue
        if name not in known:
            raise DescriptionError(f"{path}: field {shown(name)} is unknown; known are {', '.join(known)}")
        _require_number(path, name, value, limits.get(name))
        if (
            not isinstance(sources, dict)
            or not isinstance(sources.get(name), str)
            or not sources[name].strip()
        ):
            raise DescriptionError(f"{path}: field 'sources.{name}' is missing; write where it comes from")
    for name in sources:
        if name not in data and name not in limits:
            raise DescriptionError(
                f"{path}: field {shown('sources.' + name)} is of no figure; known are {', '.join(known)}"
            )


def _require_number(path: Path, name: str, value: object, usual: object) -> None:
    """A figure is a number, or a list of numbers where that of its compute capability is one."""
    values = value if isinstance(usual, list) and isinstance(value, list) else [value]
    if not all(type(one) in (int, float) for one in values):
        what = "a list of numbers" if isinstance(usual, list) else "a number"
        raise DescriptionError(f"{path}: field '{name}' is {shown(value)}; write {what}")


SHORTEST_WORD = 3  # letters by which a device is suggested


def unknown_device(name: str, known: list[str]) -> DescriptionError:
    """The error that says which devices are known, and first those that may be meant."""
    near = nearest_devices(name, known)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    known_text = f"known devices: {', '.join(known)}, or a device file, such as my.toml"
    return DescriptionError(f"unknown device {name!r}; {meant}{known_text}")


def nearest_devices(name: str, known: list[str]) -> list[str]:
    """The known names that this name is a part of, else those that begin with one of its words, else the most
    alike.
    """
    words = [word for word in re.split("[^a-z0-9]+", name.lower()) if len(word) >= SHORTEST_WORD]
    whole = "".join(words)
    return (
        [one for one in known if whole and whole in one.replace("-", "")]
        or [one for one in known if any(one.startswith(word) for word in words)]
        or get_close_matches(name.lower(), known, 1)
    )
