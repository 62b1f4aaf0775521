"""The blind run's measurer in a process of its own: a kernel that hangs costs one size and not the run."""

from collections.abc import Callable, Sequence
from typing import Any

from wavesim.bench.blind_sizes import BlindSize
from wavesim.trace.trace import Trace
from wavesim_gpu.bench.kinds.gemms import ComparedSize, GpuMeasurer
from wavesim_gpu.bench.measuring_process import STARTING_S, MeasuringProcess

COMPILING_S, MEASURING_S = 120.0, 20.0


class Worker:
    """A measurer with the methods of `GpuMeasurer`, in a process that is replaced when it fails.

    `make` builds the measurer there. All methods raise `WorkerError`, or the `WavesimError` of the other side
    as a `DeviceError` with its words.
    """

    def __init__(
        self, commit: str, make: Callable[[str], Any] = GpuMeasurer, measuring_s: float = MEASURING_S
    ) -> None:
        self._process, self._measuring_s = MeasuringProcess(make, commit), measuring_s

    def facts(self) -> dict[str, Any]:
        """As `GpuMeasurer.facts`."""
        found: dict[str, Any] = self._process.ask(STARTING_S, "facts")
        return found

    def prepare(self, sizes: Sequence[BlindSize]) -> None:
        """As `GpuMeasurer.prepare`."""
        self._process.ask(COMPILING_S, "prepare", sizes)

    def streams(self, size: BlindSize) -> dict[str, Trace]:
        """As `GpuMeasurer.streams`."""
        found: dict[str, Trace] = self._process.ask(self._measuring_s, "streams", size)
        return found

    def compare(self, size: BlindSize, plans: Sequence[str], repeat: int, stamp: str) -> ComparedSize:
        """As `GpuMeasurer.compare`."""
        found: ComparedSize = self._process.ask(self._measuring_s, "compare", size, plans, repeat, stamp)
        return found

    def close(self) -> None:
        """Ends the process; nothing is asked of it afterwards."""
        self._process.close()
