"""Launches to play with: a program of copies and kernels on streams, and kernels that launch kernels.

Example: vector add in 4 chunks, depth-first, on one hardware queue takes 1,700 µs; the slider of the queues
goes to 8, the hatched bars of the false dependencies are gone and it takes 1,100. Where each of 4,096 threads
launches, the device's pool fills, and a part of the work is lost; one launch per block does it all.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wavesim.labs.device_launches.uneven_work import LAUNCHERS, Launcher, UnevenWork, nested
from wavesim.labs.streams.examples import EXAMPLES, ISSUES, SmallKernels, VectorAdd, example
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import whole
from wavesim.sim.streams.device_launch_engine import LaunchTimeline, simulate_launches
from wavesim.sim.streams.device_launches import DeviceGrid, LaunchMachine, load_launch_machine
from wavesim.sim.streams.engine import simulate_streams
from wavesim.sim.streams.machine import QUEUES, TEXTBOOK, StreamMachine, load_machine, machine_names
from wavesim.sim.streams.program import StreamProgram
from wavesim.sim.streams.timeline import StreamTimeline
from wavesim.view.streams_scene import scene_of_launches, scene_of_streams
from wavesim.widgets.drawn import DrawnWidget
from wavesim.widgets.explorer import Explorer, menu, require_offered, stops
from wavesim.widgets.scripts import script

VECTOR_ADD, SMALL_KERNELS = "vector add in chunks", "chains of small kernels"
PINNED, PAGEABLE = "pinned", "pageable"
PRIORITY_TEXT = {"as the others": 0, "greatest": -5}
UNEVEN, NESTED = "threads with uneven work", "each grid launches two"
MOST_LEVELS = 11
LOST, VIRTUALISED = "a launch more is lost (CUDA 12 on)", "a slower pool takes more (before)"
POOLS = (64, 128, 256, 512, 1_024, 2_048, 4_096)
THRESHOLDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048)


class StreamsPicture(DrawnWidget):
    """A stream program's timeline, drawn by the browser; arrow keys go from operation to operation."""

    _esm = script("pen.js", "picture.js", "streams_picture.js", "streams_timeline.js")

    @classmethod
    def of(cls, timeline: StreamTimeline) -> "StreamsPicture":
        """The picture of a timeline."""
        return cls(scene=_scene(timeline))


class StreamsExplorer(Explorer):
    """A program of copies and kernels; keyword arguments are the start values of its controls.

    `program` is one of the two that the controls change, or the name of an example, which has its own. Raises
    `DescriptionError` for a start value that no program can have.
    """

    kinds = (StreamsPicture,)

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
        programs = [VECTOR_ADD, SMALL_KERNELS, *(entry.name for entry in EXAMPLES)]
        controls = {
            "program": menu("Program", programs, program),
            "streams": stops("Streams", range(1, 9), streams),
            "chunks": stops("Chunks", (*range(1, 9), 12, 16, 24, 32), chunks),
            "issue": menu("Calls", ISSUES, issue),
            "queues": stops("Queues", QUEUES, queues),
            "memory": menu("Host memory", (PINNED, PAGEABLE), memory),
            "priority": menu("Last stream", PRIORITY_TEXT, priority),
            "machine": menu("Machine", machine_names(), on),
        }
        super().__init__(controls)

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

    @property
    def _is_example(self) -> bool:
        return self.program.value not in (VECTOR_ADD, SMALL_KERNELS)

    def _scenes(self) -> Sequence[dict[str, Any]]:
        self.timeline: StreamTimeline = simulate_streams(self.shown_program, self.shown_machine)
        return [_scene(self.timeline)]

    def _enable(self) -> None:
        for control in (self.streams, self.chunks, self.issue, self.queues):
            control.disabled = self._is_example
        for control in (self.memory, self.priority):
            control.disabled = self.program.value != VECTOR_ADD
        self.chunks.description = "Kernels each" if self.program.value == SMALL_KERNELS else "Chunks"


def _scene(timeline: StreamTimeline) -> dict[str, Any]:
    alone = replace(timeline.machine, queues=QUEUES[-1])
    unshared = simulate_streams(timeline.program, alone) if timeline.false_ns else timeline
    return scene_of_streams(timeline, unshared.end_ns)


class LaunchPicture(DrawnWidget):
    """The pool, grids and SMs of launches from the device."""

    _esm = script("pen.js", "picture.js", "launch_picture.js")

    @classmethod
    def of(cls, timeline: LaunchTimeline) -> "LaunchPicture":
        """The picture of a run."""
        return cls(scene=scene_of_launches(timeline))


class LaunchExplorer(Explorer):
    """Who launches what uneven threads have to do, or how grids nest, and the pool.

    Keyword arguments are the start values of its controls. Raises `DescriptionError`.
    """

    kinds = (LaunchPicture,)

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
        require_offered("program", program, (UNEVEN, NESTED))
        require_offered("full", full, (LOST, VIRTUALISED))
        UnevenWork(launcher, threshold)  # refuses what cannot be
        whole("levels", levels, 1, MOST_LEVELS)
        whole("pool", pool, 1, 2**20)
        controls = {
            "program": menu("Program", (UNEVEN, NESTED), program),
            "launcher": menu("Who launches", LAUNCHERS, launcher),
            "threshold": stops("Items, at least", THRESHOLDS, threshold),
            "levels": stops("Levels", range(1, MOST_LEVELS + 1), levels),
            "pool": stops("Places in the pool", POOLS, pool),
            "full": menu("When it is full", (LOST, VIRTUALISED), full),
        }
        super().__init__(controls)

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

    def _scenes(self) -> Sequence[dict[str, Any]]:
        return [scene_of_launches(simulate_launches(self.shown_grid, self.shown_machine))]

    def _enable(self) -> None:
        is_nested = self.program.value == NESTED
        self.levels.disabled = not is_nested
        self.launcher.disabled = is_nested
        self.threshold.disabled = is_nested or self.launcher.value == "nobody"
