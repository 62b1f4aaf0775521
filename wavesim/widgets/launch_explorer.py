"""The launch explorer: who launches what uneven threads have to do, or how grids nest, and the pool.

Example: each of 4,096 threads launches: more calls come than the device starts, the pool fills, and a part of
the work is lost. One launch per block, and sixteen grids do it all.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.errors import DescriptionError
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown, whole
from wavesim.safe_io.escaping import Markup
from wavesim.sim.streams.device_launch_engine import simulate_launches
from wavesim.sim.streams.device_launches import DeviceGrid, LaunchMachine, LaunchTimeline, load_launch_machine
from wavesim.sim.streams.uneven_work import LAUNCHERS, Launcher, UnevenWork, nested
from wavesim.view.export import save_html
from wavesim.view.launch_scene import scene_of_launches
from wavesim.widgets.drawn import DrawnWidget, script
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.words import style_sheet

LABEL = {"description_width": "150px"}
UNEVEN, NESTED = "threads with uneven work", "each grid launches two"
PROGRAMS = (UNEVEN, NESTED)
MOST_LEVELS = 11
LOST, VIRTUALISED = "a launch more is lost (CUDA 12 on)", "a slower pool takes more (before)"
POOLS = (64, 128, 256, 512, 1_024, 2_048, 4_096)
THRESHOLDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048)


class LaunchPicture(DrawnWidget):
    """The pool, grids and SMs of launches from the device."""

    _esm = script("pen.js", "picture.js", "launch_picture.js")

    def __init__(self, timeline: LaunchTimeline) -> None:
        super().__init__(scene=scene_of_launches(timeline))

    def show(self, timeline: LaunchTimeline) -> None:
        """Draws this run in place of what is shown."""
        self.scene = scene_of_launches(timeline)


class LaunchExplorer(ipywidgets.VBox):
    """The explorer; keyword arguments are the start values of its controls. Raises `DescriptionError`."""

    @typed
    def __init__(
        self,
        *,
        program: str = UNEVEN,
        launcher: Launcher = "thread",
        threshold: int = 1,
        levels: int = 3,
        pool: int = 2_048,
        full: str = LOST,
    ) -> None:
        for name, value, known in (("program", program, PROGRAMS), ("full", full, (LOST, VIRTUALISED))):
            if value not in known:
                raise DescriptionError(f"{name} is {shown(value)}; choose one of {', '.join(known)}")
        UnevenWork(launcher, threshold)  # refuses what cannot be
        whole("levels", levels, 1, MOST_LEVELS)
        whole("pool", pool, 1, 2**20)
        self.program = _choice("Program", PROGRAMS, program)
        self.launcher = _choice("Who launches", LAUNCHERS, launcher)
        self.threshold = _slider("Items, at least", THRESHOLDS, threshold)
        self.levels = _slider("Levels", range(1, MOST_LEVELS + 1), levels)
        self.pool = _slider("Places in the pool", POOLS, pool)
        self.full = _choice("When it is full", (LOST, VIRTUALISED), full)
        self.timeline = self._simulated()
        self.picture = LaunchPicture(self.timeline)
        self._grey_out()
        for control in self.controls:
            control.observe(lambda _: self.refresh(), names="value")
        grid, box = ipywidgets.GridBox(self.controls), ipywidgets.Box([self.picture])
        grid.add_class("wavesim-controls")
        box.add_class("wavesim-picture")
        super().__init__([style_sheet(), grid, box, PageWatch()])
        self.add_class("wavesim")

    @property
    def controls(self) -> tuple[Any, ...]:
        """In reading and Tab order."""
        return (self.program, self.launcher, self.threshold, self.levels, self.pool, self.full)

    @property
    def shown_machine(self) -> LaunchMachine:
        """The machine of assumed figures with the pool that the controls say."""
        is_virtualised = self.full.value == VIRTUALISED
        return replace(load_launch_machine("assumed"), pool=self.pool.value, is_virtualised=is_virtualised)

    @property
    def shown_grid(self) -> DeviceGrid:
        """What the host launches."""
        if self.program.value == NESTED:
            return nested(self.levels.value)
        return UnevenWork(self.launcher.value, self.threshold.value).grid()

    def refresh(self) -> None:
        """Simulates and draws what the controls say."""
        self._grey_out()
        self.timeline = self._simulated()
        self.picture.show(self.timeline)

    def _simulated(self) -> LaunchTimeline:
        return simulate_launches(self.shown_grid, self.shown_machine)

    def _grey_out(self) -> None:
        is_nested = self.program.value == NESTED
        self.levels.disabled = not is_nested
        self.launcher.disabled = is_nested
        self.threshold.disabled = is_nested or self.launcher.value == "nobody"

    def html(self) -> Markup:
        """What is shown now, without the controls, for a page that has no kernel."""
        return self.picture.html()

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes the picture to .html, .png or .svg. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)


def _choice(label: str, options: Any, value: str) -> ipywidgets.Dropdown:
    return ipywidgets.Dropdown(description=label, options=options, value=value, style=LABEL)


def _slider(label: str, values: Any, value: int) -> ipywidgets.SelectionSlider:
    options = [(f"{one:,}", one) for one in sorted({*values, value})]
    return ipywidgets.SelectionSlider(description=label, options=options, value=value, style=LABEL)
