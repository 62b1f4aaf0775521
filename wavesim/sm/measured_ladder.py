"""The ladders' measurements: bytes or flops per second of every step, beside the copy of the same rounds.

Example: if v5 of the sum reads 4.0 TB/s where a copy reads and writes 4.2, its share is 95 %.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.safe_io.bounds import bounded_text, real, whole
from wavesim.safe_io.documents import read_measured
from wavesim.sm.measured_loads import FOLDER

FILE = FOLDER / "ladder.json"
MOST_BYTES, MOST_STEPS = 1_000_000, 100
IN_FLOPS = ("matmul",)


@dataclass(frozen=True)
class MeasuredStep:
    """One step: bytes/s, or flop/s of a product, and its relative error against double precision."""

    family: str
    name: str
    per_s: float
    relative_error: float


@dataclass(frozen=True)
class MeasuredLadder:
    """What `ladder` wrote on one device; `copy_bytes_per_s` is the copy's of each family's rounds."""

    device: str
    date: str
    copy_bytes_per_s: dict[str, float]
    steps: tuple[MeasuredStep, ...]

    def of(self, family: str) -> tuple[MeasuredStep, ...]:
        """A family's steps, in order."""
        return tuple(step for step in self.steps if step.family == family)

    def share(self, step: MeasuredStep) -> float:
        """Of the copy's bytes per second, read and written; for steps in bytes."""
        return step.per_s / self.copy_bytes_per_s[step.family]

    def table(self) -> str:
        """A line for each step."""
        return "\n".join(self._line(step) for step in self.steps)

    def _line(self, step: MeasuredStep) -> str:
        if step.family in IN_FLOPS:
            return f"{step.family:12s}{step.name:10s}{step.per_s / 1e12:6.2f} TFLOP/s"
        share = f"{100 * self.share(step):4.0f} % of a copy"
        return f"{step.family:12s}{step.name:10s}{step.per_s / 1e12:6.2f} TB/s   {share}"


def read_ladder(path: Path) -> MeasuredLadder:
    """A file of `ladder`. Raises `RecordingError` naming the file and what is wrong."""
    return read_measured(path, MOST_BYTES, "ladder", _ladder)


def _ladder(data: Any) -> MeasuredLadder:
    families = data["families"]
    return MeasuredLadder(
        bounded_text("device", data["device"]["name"]),
        bounded_text("date", data["date"]),
        {name: _rate(family["copy"], "bytes") for name, family in families.items()},
        tuple(_step(name, step) for name, family in families.items() for step in _listed(family["steps"])),
    )


def shipped_ladder() -> MeasuredLadder | None:
    """What was measured and is shipped; None as long as nothing was."""
    return read_ladder(FILE) if FILE.is_file() else None


def _listed(steps: list[Any]) -> list[Any]:
    whole("steps", len(steps), 1, MOST_STEPS)
    return steps


def _step(family: str, data: dict[str, Any]) -> MeasuredStep:
    error = real("relative_error", data["relative_error"], 0, 1)
    return MeasuredStep(bounded_text("family", family), data["name"], _rate(data, "work"), error)


def _rate(data: dict[str, Any], work: str) -> float:
    return (
        whole(work, data[work], 1) / median(real("rounds_ns", ns, 1, 1e12) for ns in data["rounds_ns"]) * 1e9
    )
