"""The occupancy explorer: threads, registers, shared memory and carve-out against blocks per SM and waves.

Example: shared memory goes from 96 to 120 KiB, the second block's bar no longer fits, "1 block per SM"
stands in the title and the grid of 133 blocks takes two waves instead of one. What no SM can run says why.
"""

from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.errors import WavesimError
from wavesim.model import device as devices
from wavesim.model.kernel import Block
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import MOST_BLOCKS, whole
from wavesim.safe_io.escaping import BREAK, Markup, element
from wavesim.view.export import save_html
from wavesim.view.occupancy_scene import KIB, ShownKernel, scene_of_launch
from wavesim.widgets.drawn import DrawnWidget, script
from wavesim.widgets.menus import menu, require_offered
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.words import Words, problem_box, style_sheet

LABEL = {"description_width": "150px"}
LARGEST = "the largest"
THREADS, REGISTERS, SHARED_KIB = (32, 1280), (16, 256), (0, 256)  # what the sliders offer


class OccupancyPicture(DrawnWidget):
    """An SM's resources with the blocks in them, and the waves of the grid."""

    _esm = script("pen.js", "picture.js", "occupancy_picture.js")


class OccupancyExplorer(ipywidgets.VBox):
    """The explorer; keyword arguments are the start values of its controls.

    `shared_kib` is dynamic shared memory per block, `carveout_kib` one of the device's levels or None
    for the largest, `blocks` the grid. Raises `DescriptionError` if the start values cannot run.
    """

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
        for name, value, (low, high) in (
            ("threads", threads, THREADS),
            ("registers", registers, REGISTERS),
            ("shared_kib", shared_kib, SHARED_KIB),
            ("blocks", blocks, (1, MOST_BLOCKS)),
        ):
            whole(name, value, low, high)
        self.device = menu("Device", devices.products(), device or devices.default_device().name, style=LABEL)
        self.threads = _slider("Threads per block", threads, *THREADS, 32)
        self.registers = _slider("Registers per thread", registers, *REGISTERS, 8)
        self.shared_kib = _slider("Shared memory (KiB)", shared_kib, *SHARED_KIB, 4)
        self.carveout = ipywidgets.Dropdown(description="Carve-out", style=LABEL)
        self.blocks = _slider("Blocks of the grid", blocks, 1, max(1056, blocks), 1)
        self._offer_carveouts(carveout_kib)
        self._scene = scene_of_launch(self.launch)
        self.picture = OccupancyPicture(scene=self._scene)
        self.problem = Words()
        self._box = ipywidgets.Box([self.picture])
        self._box.add_class("wavesim-picture")
        self.device.observe(self._device_changed, names="value")
        for control in self.controls[1:]:
            control.observe(lambda _: self.refresh(), names="value")
        grid = ipywidgets.GridBox(self.controls)
        grid.add_class("wavesim-controls")
        super().__init__([style_sheet(), grid, self.problem, self._box, PageWatch()])
        self.add_class("wavesim")

    @property
    def controls(self) -> tuple[Any, ...]:
        """In reading and Tab order."""
        return (self.device, self.threads, self.registers, self.shared_kib, self.carveout, self.blocks)

    @property
    def launch(self) -> ShownKernel:
        """What the controls say. Raises `DescriptionError`."""
        block = Block(
            threads=self.threads.value,
            registers=self.registers.value,
            dynamic_shared_bytes=self.shared_kib.value * KIB,
        )
        level = None if self.carveout.value == LARGEST else self.carveout.value
        return ShownKernel(devices.load(self.device.value), block, self.blocks.value, level)

    def refresh(self) -> None:
        """Shows what the controls say, or why it cannot run beside the last picture that could."""
        try:
            self._scene = scene_of_launch(self.launch)
        except WavesimError as error:
            shown = f"The picture still shows the last setting that ran: {self._scene['subtitle']}."
            words = BREAK.join([str(error), element("i", shown)])
            self.problem.value = problem_box("This cannot run", words)
            self._box.add_class("wavesim-stale")
            return
        self.problem.value = ""
        self._box.remove_class("wavesim-stale")
        self.picture.scene = self._scene

    def html(self) -> Markup:
        """What is shown now, without the controls, for a page that has no kernel."""
        return self.picture.html()

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes the picture to .html, .png or .svg. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)

    def _device_changed(self, _: Any) -> None:
        self._offer_carveouts(None)
        self.refresh()

    def _offer_carveouts(self, chosen_kib: int | None) -> None:
        levels = devices.load(self.device.value).carveouts_bytes
        # Not None for the largest: a drop-down shows that as nothing chosen.
        if chosen_kib is not None:
            require_offered("carveout_kib", chosen_kib, [level // KIB for level in levels])
        options = [(LARGEST, LARGEST), *((f"{level // KIB} KiB", level) for level in levels)]
        self.carveout.options = options
        self.carveout.value = LARGEST if chosen_kib is None else chosen_kib * KIB


def _slider(label: str, value: int, low: int, high: int, step: int) -> ipywidgets.IntSlider:
    return ipywidgets.IntSlider(description=label, value=value, min=low, max=high, step=step, style=LABEL)
