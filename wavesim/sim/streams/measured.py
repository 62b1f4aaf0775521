"""A run of the streams lab on a GPU, and how far the simulator is from it.

Example: a run times "vector add, depth-first" and calibrates the machine; on that machine the simulator
says how many percent more or less it would take. Without a file in `runs/` nothing has been measured.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.errors import RecordingError
from wavesim.model import device as devices
from wavesim.safe_io.bounds import MOST_NS, shown
from wavesim.safe_io.reading import read_text
from wavesim.sim.streams.engine import simulate_streams
from wavesim.sim.streams.examples import EXAMPLES, StreamExample
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
    try:
        value = json.loads(read_text(path, MOST_BYTES))
        return _measured(value)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        told = f"{error} is missing" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise RecordingError(f"{path}: {told}; it is no run of the streams lab, or a damaged one") from None


def _measured(value: Any) -> MeasuredStreams:
    if value["format"] != FORMAT:
        raise ValueError(f"format is {shown(value['format'])} and must be {FORMAT!r}")
    device = devices.load(devices.catalogue_name(_text(value, "device")))
    name, date = device.name, _text(value, "date")
    source = f"measured on one {name.upper()}, {date[:10]}"
    machine = machine_from(name, device, {**_figures(value["figures"]), "source": source})
    programs = value["programs"]
    if not isinstance(programs, list) or len(programs) > MOST_PROGRAMS:
        raise ValueError(f"programs must be a list of at most {MOST_PROGRAMS}")
    read = tuple(_program(program, number) for number, program in enumerate(programs))
    return MeasuredStreams(machine, date, _text(value, "commit"), read)


def _figures(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("figures must be a table")  # noqa: TRY004  # bad data, not a bad call
    if not isinstance(value.get("has_copy_queues", False), bool):
        told = shown(value["has_copy_queues"])
        raise ValueError(f"figures: has_copy_queues is {told}; it is true or false")  # noqa: TRY004
    return value


def _program(value: Any, number: int) -> MeasuredProgram:
    known = {entry.name: entry for entry in EXAMPLES}
    name = _text(value, "name")
    if name not in known:
        raise ValueError(f"programs[{number}]: no example is called {shown(name)}")
    rounds = value["rounds_ns"]
    if not isinstance(rounds, list) or not 1 <= len(rounds) <= MOST_ROUNDS:
        raise ValueError(f"programs[{number}]: rounds_ns must hold 1 to {MOST_ROUNDS} times")
    times = tuple(_time(entry, 1, f"programs[{number}]: rounds_ns") for entry in rounds)
    spans = {
        str(operation): tuple(_time(entry, -MOST_NS, f"programs[{number}]: {operation}") for entry in span)
        for operation, span in dict(value["spans_ns"]).items()
    }
    example = replace(known[name], queues=_queues(value["queues"], number))
    names = {entry.name for entry in example.make(1).operations}
    for operation, span in spans.items():
        if operation not in names or len(span) != 2:
            raise ValueError(f"programs[{number}]: spans_ns of {shown(operation)} is no start and end of it")
    return MeasuredProgram(example, times, {name: (span[0], span[1]) for name, span in spans.items()})


def _queues(value: Any, number: int) -> int:
    if value not in QUEUES:
        raise ValueError(f"programs[{number}]: queues is {shown(value)}; it is one of {QUEUES}")
    return int(value)


def _text(value: Any, name: str) -> str:
    if not isinstance(value[name], str):
        raise ValueError(f"{name} is {shown(value[name])}; it is a text")  # noqa: TRY004
    return str(value[name])


def _time(value: Any, least: int, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST_NS:
        raise ValueError(f"{where} holds {shown(value)}; it is a whole number from {least} to {MOST_NS}")
    return value
