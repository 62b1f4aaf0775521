"""What is measured on two GPUs, as steps in the order of their worth, and which of them results already hold.

Example: `steps_of((0, 1))` begins with every way's results, then the 66 shapes whose times were registered;
`left_of(step, lines)` are the shapes that no line of results has yet, so that an interrupted run goes on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.errors import RecordingError
from wavesim.model.collective import Collective
from wavesim.safe_io.documents import json_value
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim_gpu.bench.kinds.two_gpus.__main__ import KINDS, SKEWED, TIMED, TRIED, WHOLE, takes
from wavesim_gpu.bench.kinds.two_gpus.cases import shapes
from wavesim_gpu.bench.kinds.two_gpus.variants import variants_of
from wavesim_gpu.peers.regions import layout_of

MOST_BYTES = 1 << 24  # of a file of lines
# What one process may hand out to peers: nothing of it is freed before the process ends.
MEMORY_BYTES = 40e9
RANKS = 2
ROUNDS, CALLS = 7, 10_000
BEGIN_S = 25.0  # two processes, PyTorch, NCCL and the first kernels
SECOND, FIRST, TRIALS, KRAKEN = "second.jsonl", "first.jsonl", "trials.jsonl", "kraken.jsonl"

Size = tuple[int, int, int]


@dataclass(frozen=True)
class MeasuringStep:
    """A part of the measuring command for some shapes: `each_s` is what one is taken to last.

    `file` is where its lines go; `rounds` is of times, `calls` of replays under skew.
    """

    name: str
    part: str
    file: str
    kind: str = "all-reduce"
    shapes_of: str = ""  # the list's name; "": the part's own sizes
    ways: str = ""
    each_s: float = 10.0
    rounds: int = ROUNDS
    calls: int = CALLS

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """(m, k, n) of every shape."""
        if self.shapes_of:
            return tuple(one for one in shapes(self.shapes_of) if takes(self.kind, one))
        if self.part == "right":
            return TRIED.get(self.kind, WHOLE)
        return (SKEWED,)

    @property
    def needs_two(self) -> bool:
        """Whether ranks that share a GPU cannot do it."""
        return self.part in TIMED

    def words(self, sizes: Sequence[Size], seconds: float) -> list[str]:
        """The options of the measuring command, but for where and what is measured."""
        found = ["--only", self.part, "--kind", self.kind, "--rounds", str(self.rounds)]
        found += ["--calls", str(self.calls)]
        if self.ways:
            found += ["--ways", self.ways]
        if self.shapes_of:
            known = shapes(self.shapes_of)
            numbers = ",".join(str(known.index(one)) for one in sizes)
            found += ["--list", self.shapes_of, "--shapes", numbers]
        return [*found, "--seconds", f"{seconds:.0f}"]

    def is_of(self, line: Mapping[str, Any]) -> bool:
        """Whether a line of the step's file is one of its results."""
        part = "times" if self.part in ("times", "alone", "both") else self.part
        ways = list(filter(None, self.ways.split(",")))
        return bool(
            line["part"] == part
            and line["kind"] == self.kind
            and (part == "times" or list(line.get("ways", ())) == ways)
        )


def steps_of(devices: Sequence[int], kraken: str = "", rounds: int = ROUNDS) -> list[MeasuringStep]:
    """In the order of their worth; those that need no link where ranks share a GPU."""
    found = [
        *(MeasuringStep(f"right, {kind}", "right", TRIALS, kind, each_s=15) for kind in KINDS),
        MeasuringStep("second list", "both", SECOND, shapes_of="second", rounds=rounds),
        *(
            MeasuringStep(f"first list, {kind}", "times", FIRST, kind, "first", each_s=8, rounds=rounds)
            for kind in ("all-gather", "reduce-scatter")
        ),
        *_tried("skew", 30, kind="all-reduce", ways=("stores", "exchange", "copies:8")),
        *_tried("skew", 30, kind="all-gather", ways=("copies:1",)),
        *_tried("killed", 10, kind="all-reduce", ways=("stores", "exchange")),
        MeasuringStep(
            "first list, all-reduce", "both", FIRST, "all-reduce", "first", each_s=15, rounds=rounds
        ),
        MeasuringStep("operators", "operators", TRIALS, shapes_of="first", each_s=4, rounds=rounds),
    ]
    if kraken:
        found += [
            MeasuringStep(
                *(f"kraken, {kind}", "times", KRAKEN, kind, "first"),
                ways="sequence,kraken*", each_s=8, rounds=rounds,
            )
            for kind in KINDS
        ]  # fmt: skip
    is_shared = len(set(devices)) < len(devices)
    return [one for one in found if not (is_shared and one.needs_two)]


def _tried(part: str, each_s: float, *, kind: str, ways: Iterable[str]) -> list[MeasuringStep]:
    return [
        MeasuringStep(f"{part}, {kind}, {way}", part, TRIALS, kind, ways=way, each_s=each_s) for way in ways
    ]


def lines_of(folder: Path, file: str) -> list[dict[str, Any]]:
    """What a file of results holds so far; none where it is not there.

    A last line that was cut off is left out. Raises `RecordingError` for another that is no result.
    """
    path = folder / file
    if not path.exists():
        return []
    rows = read_text(path, MOST_BYTES).split("\n")
    whole = [(at, row) for at, row in enumerate(rows[:-1], 1) if row]
    found = []
    for at, row in whole:
        line = json_value(row, f"{path}, line {at}")
        if not isinstance(line, dict) or not {"part", "kind", "size", "commit"} <= set(line):
            raise RecordingError(f"{path}, line {at} is no result of the measuring command; take it out")
        found.append(line)
    return found


def mend(path: Path) -> None:
    """Takes off a last line that was cut off, before others are added. Raises `OutputError`."""
    if path.exists():
        text = read_text(path, MOST_BYTES)
        if not text.endswith("\n"):
            write_text(path, text[: text.rfind("\n") + 1])


def require_one_commit(lines: Iterable[Mapping[str, Any]], commit: str) -> None:
    """Raises `RecordingError` where results are of other kernels."""
    for line in lines:
        if line["commit"] != commit:
            raise RecordingError(
                f"a result there is of commit {line['commit'][:8]}, and these kernels are of {commit[:8]}. "
                "Give another folder or, where the kernels are the same, --commit as it was"
            )


def left_of(step: MeasuringStep, lines: Iterable[Mapping[str, Any]]) -> list[Size]:
    """Its shapes that no line has."""
    done = {tuple(line["size"]) for line in lines if step.is_of(line)}
    return [one for one in step.sizes if one not in done]


def expected_s(step: MeasuringStep, sizes: Sequence[Size], lines: Iterable[Mapping[str, Any]]) -> float:
    """What these shapes are expected to last: by those that are done, where there are any."""
    seen = [line["seconds"] for line in lines if step.needs_two and step.is_of(line) and "seconds" in line]
    return BEGIN_S * len(batches(step, sizes)) + len(sizes) * (median(seen) if seen else step.each_s)


def batches(step: MeasuringStep, sizes: Sequence[Size]) -> list[list[Size]]:
    """Shapes that one process can take: it frees nothing of what peers may reach."""
    found: list[list[Size]] = []
    room = 0.0
    for one in sizes:
        needed = _bytes_of(step, one)
        if not found or needed > room:
            found.append([])
            room = MEMORY_BYTES
        found[-1].append(one)
        room -= needed
    return found


def _bytes_of(step: MeasuringStep, size: Size) -> int:
    if step.part not in ("times", "alone", "both"):
        return 0  # one program, or a few small ones
    ways = variants_of(size, Collective(step.kind), RANKS)  # type: ignore[arg-type]  # one of KINDS
    return sum(layout_of(one.problem, one.options.way).bytes for found in ways.values() for one in found)
