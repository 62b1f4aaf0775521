"""What one SM has, and its share of the memory behind it, in cycles of its clock.

Example: at 17 bytes per cycle and a latency of 600 cycles, a load of 512 bytes comes back 600 cycles after it
was issued, and the next one 30 cycles later at the earliest.
"""

from dataclasses import dataclass, replace
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.device import SUB_PARTITIONS, Device
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.documents import read_toml

FIGURES = Path(__file__).with_name("figures.toml")
MOST_SLICE_SMS = 12
LIMITS = {
    "latency_cycles": (1, 1_000_000),
    "bytes_per_cycle": (0.01, 100_000),
    "channels": (1, 65_536),
    "sms": (1, 65_536),
}


@dataclass(frozen=True)
class SmMachine:
    """Some SMs that share memory, alike.

    - `latency_cycles`: from the issue of a load to its arrival, with nothing else on its way.
    - `bytes_per_cycle`: one SM's share of the memory's bandwidth.
    - `most_loads`: loads that an SM has in flight at most (its MSHRs, miss status holding registers); None
      for no limit.
    - `channels`: of the memory, for all `sms` together. A load goes to one of them, at random.
    - `arithmetic_cycles`, `shared_cycles`: from the issue of an instruction to that of the one that needs
      its result; of shared memory with one wavefront.
    """

    latency_cycles: int
    bytes_per_cycle: float
    most_loads: int | None = None
    channels: int = 1
    sms: int = 1
    arithmetic_cycles: int = 4
    shared_cycles: int = 30
    schedulers: int = SUB_PARTITIONS

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int | float) or not low <= value <= high:
                raise DescriptionError(
                    f"{name} is {shown(value)}; it must be a number from {low:g} to {high:,}"
                )
        most = self.most_loads
        if most is not None and not (isinstance(most, Integral) and most >= 1):
            raise DescriptionError(f"most_loads is {shown(most)}; give at least 1, or None for no limit")

    def service_cycles(self, size_bytes: int) -> float:
        """Cycles for which a load keeps its channel busy."""
        return size_bytes * self.channels / (self.bytes_per_cycle * self.sms)

    def slice_of(self, sms: int, channels: int) -> "SmMachine":
        """A few SMs with their part of a GPU's channels: what is simulated in place of all of them.

        Raises `DescriptionError` for a GPU without SMs or channels.
        """
        if sms < 1 or channels < 1:
            raise DescriptionError(f"slice_of: {sms} SMs and {channels} channels; give at least one of each")
        counts = range(1, min(MOST_SLICE_SMS, sms) + 1)
        best = min(counts, key=lambda count: abs(_rounded(count, sms, channels) * sms / count - channels))
        return replace(self, sms=best, channels=_rounded(best, sms, channels))


def _rounded(count: int, sms: int, channels: int) -> int:
    return max(1, round(channels * count / sms))


@cache
def assumed_figures() -> dict[str, Any]:
    """Figures that stand in, or that standards give, each with its source."""
    return read_toml(FIGURES)


@typed
def machine_of(device: Device, latency_ns: float | None = None, peak: float | None = None) -> SmMachine:
    """One SM of a device. `latency_ns` and `peak`, bytes/s, are measured.

    Without them the latency of `figures.toml` and the data sheet's bandwidth stand in.
    """
    figures = assumed_figures()
    rate = device.dram_bytes_per_s if peak is None else peak
    latency = figures["latency_ns"]["value"] if latency_ns is None else latency_ns
    return SmMachine(
        latency_cycles=round(latency * device.clock_hz / 1e9),
        bytes_per_cycle=rate / device.sm_count / device.clock_hz,
        arithmetic_cycles=figures["arithmetic_cycles"]["value"],
        shared_cycles=figures["shared_cycles"]["value"],
    )


def memory_channels(bus_bits: int) -> int:
    """Channels of a memory by the width of its bus, as the driver reports it."""
    return max(1, bus_bits // int(assumed_figures()["channel_bits"]["value"]))
