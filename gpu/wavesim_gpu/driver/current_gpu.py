"""Whether the GPU at hand is the one that is meant, whole, idle and at its own clocks.

Example: `require_gpu("h200")` on an H100 says in one line that the GPU is another one; on an H200 of which an
MPS limit leaves 66 SMs, which another process uses, or whose clock somebody holds down, it says that.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wavesim.errors import DeviceError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim_gpu.driver.device import query, require_cupy, whole_sm_count

# Held by a user: application clocks, and the clock-sync and display bits that hold clocks as well.
HELD_REASONS = {0x2: "application clocks", 0x10: "a sync boost group", 0x100: "a display's clocks"}
BUSY_PERCENT, LOOKS, PAUSE_S = 10, 6, 0.25
# The driver and a data sheet round differently: 4,814 and 4,800 GB/s.
L2_TOLERANCE, DRAM_TOLERANCE = 0.01, 0.03


@dataclass(frozen=True)
class GpuState:
    """The GPU as the driver reports it, and what NVML says of its use; None where NVML says nothing.

    `device` has the SMs that this process may use, `whole_sm_count` all that the GPU, or its slice, has.
    `busy_percent` is the least of a second's samples. `other_pids` are processes with a context.
    """

    device: Device
    whole_sm_count: int
    is_mig: bool = False
    busy_percent: int | None = None
    other_pids: tuple[int, ...] = ()
    clock_reasons: int = 0
    most_clock_mhz: int | None = None
    readings: dict[str, Any] = field(default_factory=dict)

    @property
    def held_clock(self) -> str:
        """Who holds the SM clock below its highest, "" if nobody is known to."""
        held = [who for bit, who in HELD_REASONS.items() if self.clock_reasons & bit]
        return f"{' and '.join(held)} hold the SM clock" if held else ""


def require_gpu(
    name: str | None = None, *, may_be_held: bool = False, may_be_disturbed: bool = False
) -> GpuState:
    """The state of the GPU at hand. Call it before anything runs there.

    Raises `DeviceError` in one line: the GPU is not the named device, as far as the driver tells; the process
    may use a part of it only, or another process keeps it busy, unless it `may_be_disturbed`; or, unless it
    `may_be_held`, its clocks are held.
    """
    state = gpu_state()
    wrong = differences(state.device, name) if name else []
    if not may_be_disturbed:
        wrong += disturbances(state)
    if not may_be_held and state.held_clock:
        wrong.append(
            f"{state.held_clock}: reset it (nvidia-smi -rac), or characterise under it with --as-found"
        )
    if wrong:
        raise DeviceError("; ".join(wrong))
    return state


def differences(device: Device, name: str) -> list[str]:
    """In what the GPU at hand differs from the device of that name, or of that file."""
    meant, known = devices.load(name), devices.driver_names(name)
    if known and device.name not in known:
        return [f"the GPU is {device.name}; {name} is {' or '.join(known)}: name the device that is there"]
    wrong = []
    if device.sm_count != meant.sm_count:
        wrong.append(
            f"the GPU has {device.sm_count} SMs for this process, {name} has {meant.sm_count}: a MIG slice, "
            "a green context or an MPS limit needs a device file of its own (characterise)"
        )
    for what, own, other, tolerance in (
        ("bytes of L2", device.l2_bytes, meant.l2_bytes, L2_TOLERANCE),
        ("bytes/s of DRAM", device.dram_bytes_per_s, meant.dram_bytes_per_s, DRAM_TOLERANCE),
    ):
        if abs(own / other - 1) > tolerance:
            wrong.append(
                f"the GPU has {own:,.0f} {what}, {name} has {other:,.0f}: it is another GPU, or a slice"
            )
    return wrong


def disturbances(state: GpuState) -> list[str]:
    """What would be measured besides one's own work."""
    wrong = []
    if state.device.sm_count < state.whole_sm_count:
        wrong.append(
            f"this process may use {state.device.sm_count} of the GPU's {state.whole_sm_count} SMs (MPS or a "
            "green context), and others may use the rest: measure on the whole GPU"
        )
    if state.busy_percent is not None and state.busy_percent >= BUSY_PERCENT:
        pids = f" (processes {', '.join(map(str, state.other_pids))})" if state.other_pids else ""
        wrong.append(f"the GPU is {state.busy_percent} % busy with other work{pids}: wait for it, or end it")
    return wrong


def gpu_state() -> GpuState:
    """As the driver and NVML tell it now. Raises `DeviceError` where there is no GPU."""
    told = _by_nvml()  # before this process has a context, which NVML would count
    device = query()
    return GpuState(
        device,
        whole_sm_count(),
        bool(told.get("is_mig")) or " MIG " in device.name,
        told.get("busy_percent"),
        tuple(told.get("other_pids", ())),
        told.get("clock_reasons", 0),
        told.get("most_clock_mhz"),
        told,
    )


def _by_nvml() -> dict[str, Any]:
    try:
        import pynvml  # noqa: PLC0415  # optional

        pynvml.nvmlInit()
        bus = require_cupy().cuda.Device().pci_bus_id
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus.encode())
    except DeviceError:
        raise
    except Exception:  # noqa: BLE001  # NVML is a nicety; its absence must not stop a measurement
        return {}
    return _answers(_questions(pynvml, handle))


def _questions(pynvml: Any, handle: Any) -> dict[str, Callable[[], Any]]:
    reasons = getattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    reasons = reasons or pynvml.nvmlDeviceGetCurrentClocksThrottleReasons
    return {
        "power_limit_w": lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "usual_power_limit_w": lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000,
        "most_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "application_clock_mhz": lambda: pynvml.nvmlDeviceGetApplicationsClock(handle, pynvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
        "clock_reasons": lambda: int(reasons(handle)),
        "is_mig": lambda: bool(pynvml.nvmlDeviceGetMigMode(handle)[0]),
        "other_pids": lambda: _other_pids(pynvml, handle),
        "busy_percent": lambda: _least_busy(lambda: int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
        "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(handle, 0),
    }


def _answers(questions: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    answers = {}
    for name, ask in questions.items():
        try:
            answers[name] = ask()
        except Exception:  # noqa: BLE001, S112  # one answer that this driver or this GPU does not have
            continue
    return answers


def _other_pids(pynvml: Any, handle: Any) -> list[int]:
    running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return [int(process.pid) for process in running if int(process.pid) != os.getpid()]


def _least_busy(busy_percent: Callable[[], int]) -> int:
    """The least of a second's samples: what ended a moment ago still shows in the first."""
    least = busy_percent()
    for _ in range(LOOKS):
        if least < BUSY_PERCENT:
            break
        time.sleep(PAUSE_S)
        least = min(least, busy_percent())
    return least
