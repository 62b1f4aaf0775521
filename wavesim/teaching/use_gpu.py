"""Where a notebook's measurements come from: this machine's GPU, or the recordings that ship with wavesim.

Example: `USE_GPU = "auto"` on a laptop prints "recordings (no GPU runner here)"; on a machine with an H200 it
prints "live, on NVIDIA H200"; `"never"` always takes the recordings, and `"require"` fails without a GPU.
"""

from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.recordings.runner import Runner, UseGpu, find_runner
from wavesim.safe_io.annotated import typed
from wavesim.work.gemm import DEFAULT_GEMM_BLOCK


@dataclass(frozen=True)
class Measuring:
    """The runner to hand to `compare`, or None, and the GPU that is measured or was recorded."""

    runner: Runner | None
    device: Device
    words: str

    def __repr__(self) -> str:
        return f"measurements: {self.words}"


@typed
def measuring(use_gpu: UseGpu = "auto") -> Measuring:
    """Resolves USE_GPU. Raises `DeviceError` for "require" without a GPU; `DescriptionError`.

    With "auto" a GPU that cannot run our GEMM's blocks is left alone.
    """
    runner = find_runner(use_gpu)
    if runner is None:
        return _recordings('USE_GPU is "never"' if use_gpu == "never" else "no GPU runner here")
    device: Device = getattr(runner, "device", None) or devices.default_device()
    try:
        occupancy_of(device, DEFAULT_GEMM_BLOCK)
    except DescriptionError as error:
        if use_gpu == "require":
            raise
        return _recordings(f"the kernels need another GPU. {error}")
    return Measuring(runner, device, f"live, on {device.name}")


def _recordings(reason: str) -> Measuring:
    words = f"recordings that ship with wavesim ({reason}); each figure names its own"
    return Measuring(None, devices.default_device(), words)
