"""The machine that a stream program runs on: a GPU's SMs, copy engines and queues, and what calls cost.

Example: "textbook" copies 40 bytes a nanosecond in each direction and launches for nothing: its timelines
can be checked by hand. Files are in `machines/`; each figure's source stands there. A machine that was
measured comes from the calibration part of a run (`measured.py`).
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.safe_io.bounds import MOST_NS, real, shown, whole
from wavesim.sim.streams.program import Direction

MACHINES = Path(__file__).parent / "machines"
QUEUES = (1, 2, 4, 8, 16, 32)  # what CUDA_DEVICE_MAX_CONNECTIONS is set to here; CUDA takes 1 to 32
MOST_ENGINES = 3
TEXTBOOK = "textbook"


@dataclass(frozen=True)
class StreamMachine:
    """A GPU and its host, as far as streams are concerned. Rates in bytes per second, times in nanoseconds.

    `queues` is CUDA_DEVICE_MAX_CONNECTIONS: hardware queues between host and device; streams beyond it
    share. With `has_copy_queues` each copy engine has a queue of its own besides, and only kernels, host
    functions and waits share the others. `duplex_share` is what is left of each direction's rate while both
    are busy. `launch_call_ns`, `copy_call_ns` and `event_call_ns` are host time; `submit_ns` passes from
    there to the device; `boundary_ns` between kernels of a stream, `handover_ns` after anything else that is
    waited for; `copy_ns` before a copy's first byte; `synchronize_ns` until the host goes on.
    """

    name: str
    device: Device
    source: str
    queues: int = 8
    copy_engines: int = 2
    has_copy_queues: bool = False
    h2d_bytes_per_s: float = 40e9
    d2h_bytes_per_s: float = 40e9
    d2d_bytes_per_s: float = 1e12
    pageable_h2d_bytes_per_s: float = 10e9
    pageable_d2h_bytes_per_s: float = 10e9
    duplex_share: float = 1.0
    copy_ns: int = 0
    launch_call_ns: int = 0
    copy_call_ns: int = 0
    event_call_ns: int = 0
    submit_ns: int = 0
    boundary_ns: int = 0
    handover_ns: int = 0
    host_function_ns: int = 0
    synchronize_ns: int = 0

    def __post_init__(self) -> None:
        whole(f"machine {self.name}: queues", self.queues, 1, 32)
        whole(f"machine {self.name}: copy_engines", self.copy_engines, 1, MOST_ENGINES)
        real(f"machine {self.name}: duplex_share", self.duplex_share, 0.1, 1)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_bytes_per_s"):
                real(f"machine {self.name}: {field.name}", value, 1e6, 1e15)
            elif field.name.endswith("_ns"):
                whole(f"machine {self.name}: {field.name}", value, 0, MOST_NS)

    def engine(self, direction: Direction) -> int:
        """Which copy engine does it: one per direction, a third within the device, as far as there are."""
        return min(("h2d", "d2h", "d2d").index(direction), self.copy_engines - 1)

    def bytes_per_s(self, direction: Direction, *, is_pinned: bool) -> float:
        """The rate of a copy that has the bus for itself."""
        if direction == "d2d":
            return self.d2d_bytes_per_s
        if direction == "h2d":
            return self.h2d_bytes_per_s if is_pinned else self.pageable_h2d_bytes_per_s
        return self.d2h_bytes_per_s if is_pinned else self.pageable_d2h_bytes_per_s


FIGURES = tuple(
    field.name for field in fields(StreamMachine) if field.name not in ("name", "device", "source")
)


def machine_names() -> tuple[str, ...]:
    """Names that `load_machine` knows, the invented one first."""
    return tuple(sorted((path.stem for path in MACHINES.glob("*.toml")), key=lambda name: name != TEXTBOOK))


@cache
def load_machine(name: str = TEXTBOOK) -> StreamMachine:
    """The machine of that name. Raises `DescriptionError`."""
    if name not in machine_names():
        raise DescriptionError(f"machine is {shown(name)}; known are {', '.join(machine_names())}")
    table = tomllib.loads((MACHINES / f"{name}.toml").read_text(encoding="utf-8"))
    device = devices.load(table["device"])
    return machine_from(name, device.with_sm_count(table.get("sm_count", device.sm_count)), table)


def machine_from(name: str, device: Device, table: Mapping[str, Any]) -> StreamMachine:
    """A machine from its figures; those that are left out are the textbook's. Raises `DescriptionError`."""
    figures = {figure: table[figure] for figure in FIGURES if figure in table}
    return StreamMachine(name, device, str(table["source"]), **figures)
