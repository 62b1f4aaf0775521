"""The streams explorer: a program of copies and kernels, its streams, chunks, issue order, queues and memory.

Example: vector add in 4 chunks, depth-first, on one hardware queue takes 1,700 µs; the slider of the queues
goes to 8, the hatched bars of the false dependencies are gone and it takes 1,100.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.errors import WavesimError
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.escaping import BREAK, Markup, element
from wavesim.sim.streams.engine import simulate_streams
from wavesim.sim.streams.examples import EXAMPLES, ISSUES, SmallKernels, VectorAdd, example
from wavesim.sim.streams.machine import QUEUES, TEXTBOOK, StreamMachine, load_machine, machine_names
from wavesim.sim.streams.program import StreamProgram
from wavesim.sim.streams.timeline import StreamTimeline
from wavesim.view.export import save_html
from wavesim.view.streams_scene import scene_of_streams
from wavesim.widgets.drawn import DrawnWidget, script
from wavesim.widgets.menus import LABEL, menu
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.words import Words, problem_box, style_sheet

VECTOR_ADD, SMALL_KERNELS = "vector add in chunks", "chains of small kernels"
PINNED, PAGEABLE = "pinned", "pageable"
MOST_QUEUES = QUEUES[-1]
PRIORITY_TEXT = {"as the others": 0, "greatest": -5}


class StreamsPicture(DrawnWidget):
    """A stream program's timeline, drawn by the browser; arrow keys go from operation to operation."""

    _esm = script("pen.js", "picture.js", "streams_picture.js", "streams_timeline.js")

    def __init__(self, timeline: StreamTimeline) -> None:
        super().__init__(scene=_scene(timeline))

    def show(self, timeline: StreamTimeline) -> None:
        """Draws this timeline in place of what is shown."""
        self.scene = _scene(timeline)


class StreamsExplorer(ipywidgets.VBox):
    """The explorer; keyword arguments are the start values of its controls.

    `program` is one of the two that the controls change, or the name of an example, which has its own. Raises
    `DescriptionError` for a start value that no program can have.
    """

    @typed
    def __init__(
        self,
        *,
        program: str = VECTOR_ADD,
        streams: int = 4,
        chunks: int = 4,
        issue: str = ISSUES[0],
        queues: int = 8,
        memory: str = PINNED,
        priority: str = "as the others",
        on: str = TEXTBOOK,
    ) -> None:
        programs = [VECTOR_ADD, SMALL_KERNELS, *(one.name for one in EXAMPLES)]
        self.program = menu("Program", programs, program)
        self.streams = _slider("Streams", range(1, 9), streams)
        self.chunks = _slider("Chunks", (*range(1, 9), 12, 16, 24, 32), chunks)
        self.issue = menu("Calls", ISSUES, issue)
        self.queues = _slider("Queues", QUEUES, queues)
        self.memory = menu("Host memory", (PINNED, PAGEABLE), memory)
        self.priority = menu("Last stream", list(PRIORITY_TEXT), priority)
        self.machine = menu("Machine", machine_names(), on)
        self.timeline = self._simulated()
        self.picture = StreamsPicture(self.timeline)
        self.problem = Words()
        self._box = ipywidgets.Box([self.picture])
        self._box.add_class("wavesim-picture")
        self._enable()
        for control in self.controls:
            control.observe(lambda _: self.refresh(), names="value")
        grid = ipywidgets.GridBox(self.controls)
        grid.add_class("wavesim-controls")
        super().__init__([style_sheet(), grid, self.problem, self._box, PageWatch()])
        self.add_class("wavesim")

    @property
    def controls(self) -> tuple[Any, ...]:
        """In reading and Tab order."""
        return (
            *(self.program, self.streams, self.chunks, self.issue),
            *(self.queues, self.memory, self.priority, self.machine),
        )

    @property
    def shown_machine(self) -> StreamMachine:
        """The machine, with as many hardware queues as the slider or the example says."""
        chosen = load_machine(self.machine.value)
        if self._is_example:
            return example(self.program.value).machine(chosen)
        return replace(chosen, queues=self.queues.value)

    @property
    def shown_program(self) -> StreamProgram:
        """The program that the controls describe. Raises `DescriptionError`."""
        sms = self.shown_machine.device.sm_count
        if self._is_example:
            return example(self.program.value).make(sms)
        if self.program.value == SMALL_KERNELS:
            return SmallKernels(self.streams.value, min(16, self.chunks.value), self.issue.value).program(sms)
        is_pinned = self.memory.value == PINNED
        priority = PRIORITY_TEXT[self.priority.value]
        add = VectorAdd(self.streams.value, self.chunks.value, self.issue.value, is_pinned, priority)
        return add.program(sms)

    def refresh(self) -> None:
        """Shows what the controls say, or why it cannot run beside the last picture that could."""
        self._enable()
        try:
            self.timeline = self._simulated()
        except WavesimError as error:
            shown = "The picture still shows the last setting that ran."
            self.problem.value = problem_box("This cannot run", BREAK.join([str(error), element("i", shown)]))
            self._box.add_class("wavesim-stale")
            return
        self.problem.value = ""
        self._box.remove_class("wavesim-stale")
        self.picture.show(self.timeline)

    def html(self) -> Markup:
        """What is shown now, without the controls, for a page that has no kernel."""
        return self.picture.html()

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes the picture to .html, .png or .svg. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)

    @property
    def _is_example(self) -> bool:
        return self.program.value not in (VECTOR_ADD, SMALL_KERNELS)

    def _simulated(self) -> StreamTimeline:
        return simulate_streams(self.shown_program, self.shown_machine)

    def _enable(self) -> None:
        """Controls that have no effect now are greyed out."""
        for control in (self.streams, self.chunks, self.issue, self.queues):
            control.disabled = self._is_example
        for control in (self.memory, self.priority):
            control.disabled = self.program.value != VECTOR_ADD
        self.chunks.description = "Kernels each" if self.program.value == SMALL_KERNELS else "Chunks"


def _scene(timeline: StreamTimeline) -> dict[str, Any]:
    alone = replace(timeline.machine, queues=MOST_QUEUES)
    unshared = simulate_streams(timeline.program, alone) if timeline.false_ns else timeline
    return scene_of_streams(timeline, unshared.end_ns)


def _slider(label: str, values: Any, value: int) -> ipywidgets.SelectionSlider:
    options = [(str(one), one) for one in sorted({*values, value})]
    return ipywidgets.SelectionSlider(description=label, options=options, value=value, style=LABEL)
