"""A run of the streams lab on a GPU, and how far the simulator is from it.

Example: a run times "vector add, depth-first" and calibrates the machine; on that machine the simulator
says how many percent more or less it would take. Without a file in `runs/` nothing has been measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.labs.streams.examples import EXAMPLES, StreamExample
from wavesim.model import device as devices
from wavesim.safe_io.bounds import MOST_NS, bounded_text, shown, whole
from wavesim.safe_io.documents import read_measured
from wavesim.sim.streams.engine import simulate_streams
from wavesim.sim.streams.machine import QUEUES, StreamMachine, machine_from
from wavesim.sim.streams.timeline import StreamTimeline

RUNS = Path(__file__).parent / "runs"
FORMAT = "wavesim streams 1"
MOST_BYTES, MOST_PROGRAMS, MOST_ROUNDS = 1 << 24, 256, 1000
HELD_BACK = 1.1  # the operations alone take at most as long as the host sees the whole take
Spans = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class MeasuredProgram:
    """An example's times: the host's from first call to last, its operations' from the first kernel."""

    example: StreamExample
    rounds_ns: tuple[int, ...]
    spans_ns: Spans

    @property
    def median_ns(self) -> float:
        """The middle of the rounds."""
        return median(self.rounds_ns)

    @property
    def is_held_back(self) -> bool:
        """Whether the one run whose copies were timed, between events, took longer than any such program."""
        times = [ns for span in self.spans_ns.values() for ns in span]
        return max(times, default=0) - min(times, default=0) > HELD_BACK * self.median_ns


@dataclass(frozen=True)
class MeasuredStreams:
    """One run of the lab: the machine that it calibrated, and its programs."""

    machine: StreamMachine
    date: str
    commit: str
    programs: tuple[MeasuredProgram, ...]

    @property
    def provenance(self) -> str:
        """On what and when."""
        return f"{self.machine.device.name.upper()}, {self.date[:10]}, commit {self.commit[:7]}"


@dataclass(frozen=True)
class ComparedProgram:
    """Simulated beside measured. `worst_end` is the most by which an operation's end is off, as a fraction of
    the whole measured time; None where the events that time copies held back what stood behind them.
    """

    name: str
    queues: int
    simulated_ns: int
    measured_ns: float
    worst_end: float | None

    @property
    def error(self) -> float:
        """Simulated over measured, less one."""
        return self.simulated_ns / self.measured_ns - 1


def newest_run() -> MeasuredStreams | None:
    """The newest run that is shipped, by its file's name; None where there is none."""
    paths = sorted(RUNS.glob("*.json"))
    return load_measured(paths[-1]) if paths else None


def compared(measured: MeasuredStreams) -> tuple[ComparedProgram, ...]:
    """Each measured program, simulated on the machine of the same run."""
    return tuple(_compared(program, measured.machine) for program in measured.programs)


def _compared(program: MeasuredProgram, machine: StreamMachine) -> ComparedProgram:
    machine = program.example.machine(machine)
    timeline = simulate_streams(program.example.program(machine), machine)
    ends = from_first_kernel(timeline)
    off = [abs(ends[name][1] - end) for name, (_, end) in program.spans_ns.items()]
    worst = None if program.is_held_back else max(off, default=0) / program.median_ns
    return ComparedProgram(
        program.example.name, program.example.queues, timeline.end_ns, program.median_ns, worst
    )


def from_first_kernel(timeline: StreamTimeline) -> Spans:
    """Start and end of each operation, in ns from the start of the first kernel."""
    starts = [operation.start_ns for operation in timeline.operations if operation.kind == "kernel"]
    first_ns = min(starts, default=0)
    return {
        operation.name: (operation.start_ns - first_ns, operation.end_ns - first_ns)
        for operation in timeline.operations
    }


def load_measured(path: str | Path) -> MeasuredStreams:
    """A run's file. Raises `RecordingError`: names file and field."""
    return read_measured(Path(path), MOST_BYTES, "the streams lab", _measured)


def _measured(value: Any) -> MeasuredStreams:
    if value["format"] != FORMAT:
        raise ValueError(f"format is {shown(value['format'])} and must be {FORMAT!r}")
    device = devices.load(devices.catalogue_name(bounded_text("device", value["device"])))
    date, figures, programs = bounded_text("date", value["date"]), value["figures"], value["programs"]
    if type(figures) is not dict:
        raise ValueError("figures must be a table")
    if type(has_queues := figures.get("has_copy_queues", False)) is not bool:
        raise ValueError(f"figures: has_copy_queues is {shown(has_queues)}; it is true or false")
    if type(programs) is not list or len(programs) > MOST_PROGRAMS:
        raise ValueError(f"programs must be a list of at most {MOST_PROGRAMS}")
    source = f"measured on one {device.name.upper()}, {date[:10]}"
    machine = machine_from(device.name, device, {**figures, "source": source})
    read = tuple(_program(program, f"programs[{number}]") for number, program in enumerate(programs))
    return MeasuredStreams(machine, date, bounded_text("commit", value["commit"]), read)


def _program(value: Any, place: str) -> MeasuredProgram:
    known = {entry.name: entry for entry in EXAMPLES}
    name, queues = bounded_text(f"{place}: name", value["name"]), value["queues"]
    if name not in known:
        raise ValueError(f"{place}: no example is called {shown(name)}")
    if queues not in QUEUES:
        raise ValueError(f"{place}: queues is {shown(queues)}; it is one of {QUEUES}")
    whole(f"{place}: times in rounds_ns", len(value["rounds_ns"]), 1, MOST_ROUNDS)
    times = tuple(whole(f"{place}: rounds_ns", entry, 1, MOST_NS) for entry in value["rounds_ns"])
    example = replace(known[name], queues=queues)
    names = {entry.name for entry in example.make(1).operations}
    spans: dict[str, tuple[int, int]] = {}
    for operation, span in value["spans_ns"].items():
        if operation not in names or len(span) != 2:
            raise ValueError(f"{place}: spans_ns of {shown(operation)} is no start and end of it")
        start, end = (whole(f"{place}: {operation}", entry, -MOST_NS, MOST_NS) for entry in span)
        spans[operation] = (start, end)
    return MeasuredProgram(example, times, spans)
