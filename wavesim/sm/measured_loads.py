"""The latency lab's measurements: bandwidth by warps and loads in flight, beside what is simulated for each.

Example: if 16 warps with two loads each get 60 % of the bandwidth and are simulated at 63, that is 5 % off.
The simulation has the latency of one warp alone, the bandwidth and the number of memory channels, no more.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.safe_io.bounds import bounded_text, real, whole
from wavesim.safe_io.documents import read_measured
from wavesim.sm.loads import LoadLoop, simulated_share
from wavesim.sm.machine import SmMachine, memory_channels

FOLDER = Path(__file__).with_name("measured")
FILE = FOLDER / "latency.json"
MOST_BYTES = 1_000_000
MOST_POINTS = 1_000


@dataclass(frozen=True)
class LoadPoint:
    """One load loop and the bytes/s that all SMs together were measured to get."""

    loop: LoadLoop
    bytes_per_s: float


@dataclass(frozen=True)
class MeasuredLoads:
    """What `latency_lab` wrote on one device: latency, bandwidth, width of the memory's bus, and the points.

    The bandwidth is none of the points': `peak_source` says whose.
    """

    device: str
    date: str
    sms: int
    clock_hz: float
    bus_bits: int
    latency_ns: float
    peak_bytes_per_s: float
    peak_source: str
    points: tuple[LoadPoint, ...]

    @property
    def machine(self) -> SmMachine:
        """All SMs and channels."""
        return SmMachine(
            latency_cycles=round(self.latency_ns * self.clock_hz / 1e9),
            bytes_per_cycle=self.peak_bytes_per_s / self.sms / self.clock_hz,
            channels=memory_channels(self.bus_bits),
            sms=self.sms,
        )

    @cached_property
    def simulated_bytes_per_s(self) -> tuple[float, ...]:
        """For each point, from a few SMs with their part of the channels."""
        part = self.machine.slice_of(self.sms, self.machine.channels)
        return tuple(simulated_share(point.loop, part) * self.peak_bytes_per_s for point in self.points)

    @property
    def errors(self) -> tuple[float, ...]:
        """Simulated over measured, less 1, for each point."""
        pairs = zip(self.simulated_bytes_per_s, self.points, strict=True)
        return tuple(simulated / point.bytes_per_s - 1 for simulated, point in pairs)

    @property
    def shares(self) -> tuple[tuple[int, float], ...]:
        """(bytes in flight on an SM, share of the bandwidth) of each point, as measured."""
        return tuple(
            (point.loop.in_flight_bytes, point.bytes_per_s / self.peak_bytes_per_s) for point in self.points
        )

    def table(self) -> str:
        """A line for each point."""
        lines = ["warps  loads  in flight   measured  simulated   off"]
        rows = zip(self.points, self.simulated_bytes_per_s, self.errors, strict=True)
        for point, simulated, error in rows:
            loop = point.loop
            lines.append(
                f"{loop.warps:5d}  {loop.loads:5d}  {loop.in_flight_bytes / 1024:5.0f} KiB  "
                f"{point.bytes_per_s / 1e12:4.2f} TB/s  {simulated / 1e12:4.2f} TB/s  {100 * error:+4.0f} %"
            )
        return "\n".join(lines)


def read_loads(path: Path) -> MeasuredLoads:
    """A file of `latency_lab`. Raises `RecordingError` naming the file and what is wrong."""
    return read_measured(path, MOST_BYTES, "latency_lab", _loads)


def shipped_loads() -> MeasuredLoads | None:
    """What was measured and is shipped; None as long as nothing was."""
    return read_loads(FILE) if FILE.is_file() else None


def _loads(data: dict[str, Any]) -> MeasuredLoads:
    points = data["points"]
    whole("points", len(points), 1, MOST_POINTS)
    return MeasuredLoads(
        device=bounded_text("device", data["device"]["name"]),
        date=bounded_text("date", data["date"]),
        sms=whole("sm_count", data["device"]["sm_count"], 1, 65_536),
        clock_hz=real("clock_hz", data["device"]["clock_hz"], 1e6, 1e11),
        bus_bits=whole("bus_bits", data["bus_bits"], 1, 1 << 20),
        latency_ns=median(real("latency_ns", ns, 1, 1e6) for ns in data["latency_ns"]),
        peak_bytes_per_s=real("peak_bytes_per_s", data["peak_bytes_per_s"], 1e6, 1e18),
        peak_source=bounded_text("peak_source", data["peak_source"]),
        points=tuple(_point(point) for point in points),
    )


def _point(data: dict[str, Any]) -> LoadPoint:
    time_ns = median(real("rounds_ns", ns, 1, 1e12) for ns in data["rounds_ns"])
    moved = whole("bytes", data["bytes"], 1)
    return LoadPoint(LoadLoop(data["warps"], data["loads"], data["lane_bytes"]), moved / time_ns * 1e9)
