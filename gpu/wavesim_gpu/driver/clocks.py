"""Clock and power while kernels run, read from NVML by a thread beside them.

Example: our GEMMs draw so much power that the SM clock falls from 1.98 to 1.3 GHz; a time without its
clock says little.
"""

import statistics
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from wavesim_gpu.driver.device import require_cupy


@dataclass(frozen=True)
class Reading:
    """Medians over the time sampled; None where NVML is missing or refused."""

    clock_mhz: float | None
    power_w: float | None
    samples: int


class Sampler:
    """A context manager: samples from entry to exit, then `reading` tells."""

    def __init__(self, period_s: float = 0.005) -> None:
        # NVML counts all GPUs of the machine, CUDA those it may see: the bus tells which is which.
        self._bus_id = require_cupy().cuda.Device().pci_bus_id
        self._period_s = period_s
        self._clocks: list[float] = []
        self._powers: list[float] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    @property
    def reading(self) -> Reading:
        """What was seen so far."""
        clock = statistics.median(self._clocks) if self._clocks else None
        power = statistics.median(self._powers) if self._powers else None
        return Reading(clock, power, len(self._clocks))

    def _sample(self) -> None:
        try:
            import pynvml  # noqa: PLC0415  # optional

            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByPciBusId(self._bus_id.encode())
            while not self._done.is_set():
                self._clocks.append(float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)))
                self._powers.append(_power_w(pynvml, handle))
                self._done.wait(self._period_s)
        except Exception:  # noqa: BLE001  # NVML is a nicety; its absence must not stop a measurement
            return


def _power_w(pynvml: Any, handle: Any) -> float:
    """The power of this instant where the driver tells it, else its average over the last second."""
    field = getattr(pynvml, "NVML_FI_DEV_POWER_INSTANT", None)
    if field is not None:
        (result,) = pynvml.nvmlDeviceGetFieldValues(handle, [field])
        if result.nvmlReturn == 0:
            return float(result.value.uiVal) / 1000
    return float(pynvml.nvmlDeviceGetPowerUsage(handle)) / 1000
