"""One SM to play with: what it holds of a kernel, what its loads wait for, which banks its lanes meet in.

Example: shared memory goes from 96 to 120 KiB, the second block's bar no longer fits, and 133 blocks take two
waves. From one warp to thirty the memory's row fills. A stride of 32 words puts all lanes into one bank.
"""

from collections.abc import Sequence
from typing import Any

import ipywidgets

from wavesim.model import device as devices
from wavesim.model.kernel import Block
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import MOST_BLOCKS, whole
from wavesim.sm.loads import LANE_BYTES, LoadLoop
from wavesim.sm.machine import SmMachine
from wavesim.sm.measured_loads import MeasuredLoads
from wavesim.view.sm_scenes import (
    KIB,
    PATTERNS,
    STRIDE,
    ShownAccess,
    ShownKernel,
    ShownLoads,
    scene_of_access,
    scene_of_launch,
    scene_of_loads,
)
from wavesim.widgets.drawn import DrawnWidget
from wavesim.widgets.explorer import Explorer, menu, require_offered, slider
from wavesim.widgets.scripts import script

LARGEST, NO_LIMIT = "the largest", "no limit"
THREADS, REGISTERS, SHARED_KIB = (32, 1280), (16, 256), (0, 256)  # what the sliders offer
LIMITS = (8, 16, 32, 64)


class OccupancyPicture(DrawnWidget):
    """An SM's resources with the blocks in them, and the waves of the grid."""

    _esm = script("pen.js", "picture.js", "occupancy_picture.js")


class OccupancyExplorer(Explorer):
    """Threads, registers, shared memory and carve-out against blocks per SM and waves.

    `shared_kib` is dynamic shared memory per block, `carveout_kib` one of the device's levels or None
    for the largest, `blocks` the grid. Raises `DescriptionError` if the start values cannot run.
    """

    kinds = (OccupancyPicture,)

    @typed
    def __init__(
        self,
        *,
        device: str | None = None,
        threads: int = 256,
        registers: int = 64,
        shared_kib: int = 96,
        carveout_kib: int | None = None,
        blocks: int = 133,
    ) -> None:
        whole("threads", threads, *THREADS)
        whole("registers", registers, *REGISTERS)
        whole("shared_kib", shared_kib, *SHARED_KIB)
        whole("blocks", blocks, 1, MOST_BLOCKS)
        chosen = device or devices.default_device().name
        controls = {
            "device": menu("Device", devices.products(), chosen),
            "threads": slider("Threads per block", threads, *THREADS, step=32),
            "registers": slider("Registers per thread", registers, *REGISTERS, step=8),
            "shared_kib": slider("Shared memory (KiB)", shared_kib, *SHARED_KIB, step=4),
            "carveout": menu("Carve-out", *_carveouts(chosen, carveout_kib)),
            "blocks": slider("Blocks of the grid", blocks, 1, 1056),
        }
        super().__init__(controls)

    @property
    def launch(self) -> ShownKernel:
        """What the controls say. Raises `DescriptionError`."""
        shared = self.shared_kib.value * KIB
        block = Block(self.threads.value, self.registers.value, dynamic_shared_bytes=shared)
        level = None if self.carveout.value == LARGEST else self.carveout.value
        return ShownKernel(devices.load(self.device.value), block, self.blocks.value, level)

    def _scenes(self) -> Sequence[dict[str, Any]]:
        return [scene_of_launch(self.launch)]

    def _setting(self) -> str:
        return str(self.picture.scene["subtitle"])

    def _follow(self, change: Any) -> None:
        if change.owner is self.device:
            self.carveout.options, self.carveout.value = _carveouts(self.device.value, None)


def _carveouts(device: str, chosen_kib: int | None) -> tuple[list[tuple[str, Any]], Any]:
    """The levels that a device offers, and the one to begin with. Raises `DescriptionError`."""
    levels = devices.load(device).carveouts_bytes
    if chosen_kib is not None:
        require_offered("carveout_kib", chosen_kib, [level // KIB for level in levels])
    # Not None for the largest: a drop-down shows that as nothing chosen.
    options = [(LARGEST, LARGEST), *((f"{level // KIB} KiB", level) for level in levels)]
    return options, LARGEST if chosen_kib is None else chosen_kib * KIB


class LatencyPicture(DrawnWidget):
    """Warps over time, the memory, and the curve."""

    _esm = script("pen.js", "picture.js", "latency_picture.js")


class LatencyExplorer(Explorer):
    """Warps and loads in flight against latency and bandwidth; `loop` and `machine` are the start values.

    `gpu` is how many SMs share how many channels of memory on the curve, `measured` what a GPU's points are
    taken from, None for none.
    """

    kinds = (LatencyPicture,)

    @typed
    def __init__(
        self,
        loop: LoadLoop = LoadLoop(8),  # noqa: B008  # frozen
        machine: SmMachine = SmMachine(880, 17.0),  # noqa: B008  # frozen
        *,
        gpu: tuple[int, int] = (1, 1),
        measured: MeasuredLoads | None = None,
    ) -> None:
        self._gpu, self._measured = gpu, measured
        rate, most = round(machine.bytes_per_cycle, 1), machine.most_loads
        limits = sorted({*LIMITS, *([most] if most else [])})
        offered = [(NO_LIMIT, NO_LIMIT), *((f"at most {limit}", limit) for limit in limits)]
        controls = {
            "warps": slider("Warps on the SM", loop.warps, 1, 64),
            "loads": slider("Loads before a wait", loop.loads, 1, 8),
            "lane_bytes": menu("Bytes per lane", LANE_BYTES, loop.lane_bytes),
            "latency": slider("Latency (cycles)", machine.latency_cycles, 100, 1200),
            "bandwidth": slider("Bytes per cycle", rate, 4.0, 64.0, ipywidgets.FloatSlider, step=0.1),
            "most_loads": menu("Loads in flight", offered, most or NO_LIMIT),
        }
        super().__init__(controls)

    @property
    def shown(self) -> ShownLoads:
        """What the controls say."""
        most = None if self.most_loads.value == NO_LIMIT else self.most_loads.value
        return ShownLoads(
            LoadLoop(self.warps.value, self.loads.value, self.lane_bytes.value),
            SmMachine(self.latency.value, self.bandwidth.value, most),
            self._gpu,
            self._measured,
        )

    def _scenes(self) -> Sequence[dict[str, Any]]:
        return [scene_of_loads(self.shown)]


class BankPicture(DrawnWidget):
    """Lanes, banks with their wavefronts, and a reduction's active threads."""

    _esm = script("pen.js", "picture.js", "bank_picture.js")


class BankExplorer(Explorer):
    """Which banks a warp's lanes meet in, and which threads add in a reduction.

    `pattern` is one of `PATTERNS`, such as "reduction v1". Raises `DescriptionError`.
    """

    kinds = (BankPicture,)

    @typed
    def __init__(self, *, pattern: str = STRIDE, stride: int = 2, padding: int = 0, step: int = 1) -> None:
        first = ShownAccess(pattern, stride, padding, step)
        controls = {
            "pattern": menu("Access", PATTERNS, pattern),
            "stride": slider("Stride (words)", stride, 0, 64),
            "padding": slider("Row padding (words)", padding, 0, 32),
            "step": slider("Step of the reduction", step, 1, len(first.steps) or 8),
        }
        super().__init__(controls)

    def _scenes(self) -> Sequence[dict[str, Any]]:
        return [scene_of_access(ShownAccess(*(control.value for control in self.controls)))]

    def _enable(self) -> None:
        is_reduction = self.pattern.value.startswith("reduction")
        self.stride.disabled = self.pattern.value != STRIDE
        self.padding.disabled = is_reduction or self.pattern.value == STRIDE
        self.step.disabled = not is_reduction
