"""Devices: the figures of a GPU that scheduling and a first estimate of time need.

Example: an H200 is 132 SMs; each holds up to 2048 threads, 32 blocks, 65,536 registers and, at
the largest carve-out, 228 KB of shared memory. Figures and their sources are in `devices/h200.toml`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model import device_files
from wavesim.model.device_files import MARKS, capability_limits, unknown_device
from wavesim.model.kernel import WARP_SIZE, require_positive
from wavesim.model.reprs import bytes_text, repr_text
from wavesim.safe_io.bounds import bounded_text

SUB_PARTITIONS = 4
OLDEST_CAPABILITY = (7, 0)
MAX_SMS = 65_536  # simulations keep a list of every SM's blocks; no GPU has a hundredth of these
MIN_FIGURE, MAX_FIGURE = 1.0, 1e21  # of rates and power: products and quotients of them stay finite


@dataclass(frozen=True)
class Device:
    """One GPU. Rates are peaks; `sources` says where each figure comes from.

    `shared_bytes_per_sm` is the largest carve-out, `shared_bytes_per_block` the most that one
    block may ask for (by opt-in), `tensor_flops_per_s` dense fp16 or bf16 with fp32 accumulate,
    `clock_hz` the highest SM clock.
    """

    name: str
    sm_count: int
    compute_capability: tuple[int, int]
    max_threads_per_sm: int
    max_threads_per_block: int
    max_blocks_per_sm: int
    registers_per_sm: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    reserved_shared_bytes_per_block: int
    carveouts_bytes: tuple[int, ...]
    l2_bytes: int
    dram_bytes_per_s: float
    tensor_flops_per_s: float
    clock_hz: int
    power_w: float
    max_registers_per_thread: int = 255
    # A dict is not hashable, and where a figure comes from does not change what the device is.
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Lists come from TOML and JSON; tuples keep the device hashable.
        for name in ("compute_capability", "carveouts_bytes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        self._require_figures()
        self._require_thread_limits()
        self._require_carveouts()

    def __repr__(self) -> str:
        major, minor = self.compute_capability
        return repr_text(
            "Device",
            f"{self.name}: {self.sm_count} SMs, compute capability {major}.{minor}, "
            f"{bytes_text(self.shared_bytes_per_sm)} shared per SM, {self.tensor_flops_per_s / 1e12:.4g} "
            f"Tflop/s, {self.dram_bytes_per_s / 1e9:.4g} GB/s",
        )

    def _require_figures(self) -> None:
        counts = (
            "sm_count max_threads_per_sm max_threads_per_block max_blocks_per_sm registers_per_sm "
            "max_registers_per_thread shared_bytes_per_sm shared_bytes_per_block l2_bytes clock_hz"
        )
        require_positive(f"Device {self.name}", **{name: getattr(self, name) for name in counts.split()})
        if self.sm_count > MAX_SMS:
            raise DescriptionError(
                f"Device {self.name}: sm_count is {self.sm_count}; it must be at most {MAX_SMS:,}"
            )
        for name in ("dram_bytes_per_s", "tensor_flops_per_s", "power_w"):
            if not MIN_FIGURE <= getattr(self, name) <= MAX_FIGURE:
                raise DescriptionError(
                    f"Device {self.name}: {name} is {getattr(self, name)!r}; it must be a number from "
                    f"{MIN_FIGURE:g} to {MAX_FIGURE:g}"
                )
        if self.reserved_shared_bytes_per_block < 0:
            raise DescriptionError(
                f"Device {self.name}: reserved_shared_bytes_per_block is "
                f"{self.reserved_shared_bytes_per_block}; it must be at least 0"
            )
        if self.compute_capability < OLDEST_CAPABILITY:
            raise DescriptionError(
                f"Device {self.name}: compute_capability is {self.compute_capability}; it must be "
                f"(major, minor), {OLDEST_CAPABILITY} or later: older GPUs have no tensor cores"
            )

    def _require_thread_limits(self) -> None:
        if self.max_threads_per_sm % WARP_SIZE or self.registers_per_sm % SUB_PARTITIONS:
            raise DescriptionError(
                f"Device {self.name}: max_threads_per_sm is {self.max_threads_per_sm} and registers_per_sm "
                f"{self.registers_per_sm}; they must be multiples of {WARP_SIZE} and {SUB_PARTITIONS}"
            )
        if self.max_threads_per_block > self.max_threads_per_sm:
            raise DescriptionError(
                f"Device {self.name}: max_threads_per_block is {self.max_threads_per_block}; a block lives "
                f"on one SM, which holds max_threads_per_sm={self.max_threads_per_sm}"
            )

    def _require_carveouts(self) -> None:
        levels = self.carveouts_bytes
        is_rising = list(levels) == sorted(set(levels)) and min(levels, default=-1) >= 0
        if not is_rising or levels[-1] != self.shared_bytes_per_sm:
            raise DescriptionError(
                f"Device {self.name}: carveouts_bytes is {levels}; it must rise from 0 or above and end with "
                f"shared_bytes_per_sm={self.shared_bytes_per_sm}"
            )
        largest_block = self.shared_bytes_per_block + self.reserved_shared_bytes_per_block
        if largest_block > self.shared_bytes_per_sm:
            raise DescriptionError(
                f"Device {self.name}: shared_bytes_per_block is {self.shared_bytes_per_block}; with "
                f"{self.reserved_shared_bytes_per_block} reserved bytes it must fit in "
                f"shared_bytes_per_sm={self.shared_bytes_per_sm}"
            )

    @property
    def max_warps_per_sm(self) -> int:
        """Warps of 32 threads that one SM holds."""
        return self.max_threads_per_sm // WARP_SIZE

    def with_sm_count(self, sm_count: int) -> "Device":
        """The same device with another number of SMs. Nothing else scales, not even bandwidth and peak
        rate.
        """
        sources = {**self.sources, "sm_count": f"what-if: {sm_count} instead of {self.sm_count}"}
        return replace(self, sm_count=sm_count, sources=sources)


def names() -> tuple[str, ...]:
    """Names that `load` knows: invented devices first, then by compute capability."""
    return tuple(_entries())


def products() -> tuple[str, ...]:
    """Names of the catalogued devices that exist."""
    return tuple(name for name, entry in _entries().items() if entry["driver_names"])


def catalogue_name(name: str) -> str:
    """The catalogue's name of a device that goes by this name or this driver name; else the name itself."""
    return name if name in _entries() else _product(name) or name


def driver_names(name: str) -> tuple[str, ...]:
    """The driver's names of a catalogued device, or of that of a file; none are known of invented ones."""
    entry = device_files.user_entry(Path(name)) if is_user_file(name) else _entries().get(name, {})
    return tuple(entry.get("driver_names", ()))


def issue_order_seen(name: str = "") -> Mapping[str, Mapping[str, str]]:
    """Devices on which blocks were seen to be issued oldest launch first, wherever an SM has room.

    By name: `source` and `date` of the observation. CUDA does not promise it of any. Those of the catalogue,
    and that of a user's own file where `name` is its path.
    """
    is_own = is_user_file(name) and Path(name).is_file()
    own = {name: device_files.user_entry(Path(name))} if is_own else {}
    entries = {**_entries(), **own}
    return {key: entry["issue_order"] for key, entry in entries.items() if "issue_order" in entry}


def default_device() -> Device:
    """The device that is assumed where none is named: the one whose file says `default = true`."""
    return load(next(name for name, entry in _entries().items() if entry.get("default")))


def load(name: str) -> Device:
    """The catalogued device of that name, or that of one's own file, such as "my.toml".

    The name of a device from a file is its path, by which `costs_of` finds the file's costs, in worker
    processes too. `DescriptionError` lists the known names, or names the file's bad field.
    """
    bounded = bounded_text("device", name)
    if is_user_file(bounded):
        return _described(bounded, device_files.user_entry(Path(bounded)))
    return _load(bounded, device_files.FOLDER)


def is_user_file(name: str) -> bool:
    """Whether a device's name is the path of a file of a user's own."""
    return name.endswith(".toml")


@cache
def _load(name: str, folder: Path) -> Device:
    devices = device_files.device_entries(folder)
    if name not in devices:
        raise unknown_device(name, list(devices))
    return _described(name, devices[name])


def _described(name: str, entry: Mapping[str, Any]) -> Device:
    """The device of a file's fields."""
    own = {key: value for key, value in entry.items() if key not in MARKS}
    capability = tuple(entry["compute_capability"])
    # Where nobody listed the compute capability, the entry has all of it.
    figures, sources = _limits(capability) if _is_listed(capability) else ({}, {})
    seen = sources.get("max_threads_per_block", "the file")
    sources |= {"compute_capability": seen, **entry["sources"]}
    return Device(name=name, sources=sources, compute_capability=capability, **(figures | own))


def _entries() -> dict[str, dict[str, Any]]:
    return device_files.device_entries(device_files.FOLDER)


def from_attributes(
    driver_name: str, compute_capability: tuple[int, int], attributes: Mapping[str, Any]
) -> Device:
    """The device that a driver reports, under the name the driver gives it.

    `attributes` maps `Device` fields to values. Fields it lacks come from the catalogued product
    of that driver name, and limits that no driver reports (the carve-outs) from the compute
    capability; of one newer than all in the catalogue the largest carve-out alone is known. A product
    outside the catalogue whose `tensor_flops_per_s` is not given gets that of a catalogued one of its
    compute capability, or of the newest, per SM and clock.

    Raises `DescriptionError` for a compute capability outside the catalogue or a figure still missing.
    """
    figures, sources = _limits_or_guess(compute_capability, attributes)
    product = _product(driver_name)
    if product is not None:
        known = load(product)
        figures |= {name: getattr(known, name) for name in _figure_names()}
        sources |= known.sources
    figures |= {"compute_capability": compute_capability, **attributes}
    sources |= dict.fromkeys((*attributes, "compute_capability"), "as the driver reports")
    if "tensor_flops_per_s" not in figures:
        figures["tensor_flops_per_s"], sources["tensor_flops_per_s"] = _scaled_peak(driver_name, figures)
    missing = [name for name in _figure_names() if name not in figures]
    if missing:
        listed = ", ".join(missing)
        raise DescriptionError(f"{driver_name}: {listed} not reported and not catalogued; give a value")
    return Device(name=driver_name, sources=sources, **figures)


def _figure_names() -> tuple[str, ...]:
    return tuple(item.name for item in fields(Device) if item.name not in ("name", "sources"))


def _limits(compute_capability: tuple[int, int]) -> tuple[dict[str, Any], dict[str, str]]:
    """Figures shared by all devices of a compute capability, and the source of each."""
    key = ".".join(str(part) for part in compute_capability)
    limits = capability_limits()
    if key not in limits:
        raise DescriptionError(
            f"compute capability {key} is not in the catalogue; known: {', '.join(limits)}. "
            f"Describe the device with wavesim.model.device.Device"
        )
    figures = {name: value for name, value in limits[key].items() if name != "source"}
    return figures, dict.fromkeys(figures, limits[key]["source"])


def _is_listed(compute_capability: tuple[int, ...]) -> bool:
    return ".".join(map(str, compute_capability)) in capability_limits()


def _limits_or_guess(
    compute_capability: tuple[int, int], attributes: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """`_limits`, or, of a compute capability that came later, what can be told from the attributes."""
    newest = max(tuple(map(int, key.split("."))) for key in capability_limits())
    if compute_capability <= newest or "shared_bytes_per_sm" not in attributes:
        return _limits(compute_capability)
    figures, _ = _limits((newest[0], newest[1]))
    guessed = {
        "carveouts_bytes": (attributes["shared_bytes_per_sm"],),
        "max_registers_per_thread": figures["max_registers_per_thread"],
        "max_blocks_per_sm": figures["max_blocks_per_sm"],
        "reserved_shared_bytes_per_block": figures["reserved_shared_bytes_per_block"],
    }
    text = f"a guess: compute capability {'.'.join(map(str, compute_capability))} is not in the catalogue"
    return guessed, dict.fromkeys(guessed, text)


def _product(driver_name: str) -> str | None:
    return next((name for name, entry in _entries().items() if driver_name in entry["driver_names"]), None)


def _scaled_peak(driver_name: str, figures: Mapping[str, Any]) -> tuple[float, str]:
    capability = tuple(figures["compute_capability"])
    known = [load(name) for name in products()]
    same = [one for one in known if one.compute_capability == capability]
    newest = max(known, key=lambda one: one.compute_capability)
    alike = same or ([newest] if newest.compute_capability < capability else [])
    if not alike or not {"sm_count", "clock_hz"} <= figures.keys():
        raise DescriptionError(
            f"{driver_name}: tensor_flops_per_s is not known; give the dense fp16 rate with fp32 accumulate"
        )
    like = alike[0]
    per_cycle = like.tensor_flops_per_s / (like.sm_count * like.clock_hz)
    return per_cycle * figures["sm_count"] * figures["clock_hz"], f"scaled from {like.name}, per SM and clock"
