"""Blind runs: stream sync measured first, then predictions written and hashed, then the plans measured.

Example: a folder holds run.json (device, versions, commit), a stream-sync trace per case,
predictions.json and its SHA-256, comparisons.jsonl (every round of all plans in turns, a line per size and
repeat), and a trace of every overlapped plan that carries the hash: it was written before they ran.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import wavesim
from wavesim.bench.blind_sizes import BASELINE, BlindSize, all_sizes
from wavesim.errors import RecordingError
from wavesim.plan.parsing import plan_data
from wavesim.recordings.shipped import FOLDER
from wavesim.safe_io.reading import read_bytes, read_packed
from wavesim.trace.trace import Trace
from wavesim.trace.trace_archive import has_trace, load_trace

RUNS = FOLDER / "blind"
Basis = Literal["trace", "kernel-times", "profile"]
BASES: tuple[Basis, ...] = ("trace", "kernel-times")  # of our own kernels
MAX_BYTES = 1 << 26  # of a run's file
SHARD = "shard-"  # the folder of a part of a run that a GPU of its own measured
STAMP = "predictions"  # in the versions of a trace's header: the hash of what was written before it ran
MODEL = (
    *("model", "plan", "trace", "costs", "sim", "workloads", "predict"),
    *("bench/blind_predictions.py", "bench/foreign_pairs.py", "bench/foreign_runs.py"),
)


@dataclass(frozen=True)
class RegisteredPrediction:
    """One prediction: plan and order of a size, points of improvement with its 80 % interval, nanoseconds.

    `basis` says what was known: the whole stream-sync trace, the kernels' times alone, or these without what
    only a kernel's author knows, its profile. Where it is not half
    a width either way, the interval is `low` to `high`; `scored` is False where no score covered such
    predictions. `error` says why there is none; the numbers are 0 then.
    """

    size: str
    order: str
    plan: str
    improvement_points: float = 0.0
    half_width_points: float = 0.0
    time_ns: int = 0
    stream_ns: int = 0
    error: str = ""
    basis: Basis = "trace"
    low: float | None = None
    high: float | None = None
    scored: bool = True

    @property
    def interval(self) -> tuple[float, float]:
        """From and to, in points."""
        points, half = self.improvement_points, self.half_width_points
        return (
            points - half if self.low is None else self.low,
            points + half if self.high is None else self.high,
        )


@dataclass(frozen=True)
class PlanRounds:
    """Unrecorded rounds of one plan: nanoseconds, and the SM clock in GHz while each ran, 0 if unknown."""

    ns: tuple[int, ...]
    ghz: tuple[float, ...]


@dataclass(frozen=True)
class MeasuredComparison:
    """All plans of a size measured in turns, once: rounds by (order, plan). `repeat` counts from 0."""

    size: str
    repeat: int
    rounds: Mapping[tuple[str, str], PlanRounds]
    power_w: float | None = None


def trace_path(folder: Path, size: BlindSize, order: str, plan: str) -> Path:
    """Where the trace of a plan is."""
    return folder / f"{size.stem}_{order.replace(':', '')}_{plan}.npz"


def as_measured(size: BlindSize, order: str, stream: Trace) -> Trace:
    """A stream-sync trace under the plan that ran: recordings without one all say "stream"."""
    if stream.header.plan_data:
        return stream
    plan = size.plan(BASELINE, order)
    header = replace(stream.header, plan=plan.name, plan_label=plan.label, plan_data=plan_data(plan))
    return replace(stream, header=header)


def model_sources(package: Path | None = None) -> str:
    """Sixteen hex digits over all that predictions are made of: names and contents of the package's files."""
    root = Path(wavesim.__file__).parent if package is None else package
    files = sorted(
        path
        for name in MODEL
        for path in ((root / name).rglob("*") if (root / name).is_dir() else [root / name])
        if path.suffix in (".py", ".toml")
    )
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class BlindRun:
    """One run's folder. All that reads it raises `RecordingError` naming file and field."""

    folder: Path

    @property
    def name(self) -> str:
        """What reports call it; a shard is told by its run's name and its own."""
        name = self.folder.name
        return f"{self.folder.parent.name} {name}" if name.startswith(SHARD) else name

    @cached_property
    def facts(self) -> dict[str, Any]:
        """run.json: device, versions, commit, date, what could not be measured and why."""
        result = _read_json(self.folder / "run.json")
        if not isinstance(result, dict) or not isinstance(result.get("device"), str):
            raise RecordingError(f"{self.folder / 'run.json'}: 'device' is missing; not a blind run")
        return result

    @cached_property
    def stamp(self) -> str:
        """The SHA-256 of predictions.json. Raises if it is not the one that was written beside it."""
        path = self.folder / "predictions.json"
        hexdigest = hashlib.sha256(_read_bytes(path)).hexdigest()
        written = _read_bytes(self.folder / "predictions.sha256").decode(errors="replace").split()
        if written[:1] != [hexdigest]:
            raise RecordingError(
                f"{path}: SHA-256 is {hexdigest[:16]}..., written before the measurement was "
                f"{' '.join(written[:1])[:16] or 'nothing'}...; the predictions were changed afterwards"
            )
        return hexdigest

    @property
    def predictions(self) -> dict[tuple[str, str, str], RegisteredPrediction]:
        """What was predicted from the traces before, by size, order and plan; checked against its hash."""
        return self.predictions_from("trace")

    def predictions_from(self, basis: Basis) -> dict[tuple[str, str, str], RegisteredPrediction]:
        """The same from traces or from kernel times."""
        return {
            (entry.size, entry.order, entry.plan): entry for entry in self._registered if entry.basis == basis
        }

    @cached_property
    def _registered(self) -> list[RegisteredPrediction]:
        assert self.stamp
        path = self.folder / "predictions.json"
        try:
            return [RegisteredPrediction(**entry) for entry in _read_json(path)["predictions"]]
        except (KeyError, TypeError) as error:
            raise RecordingError(f"{path}: a prediction is damaged: {error}") from None

    @cached_property
    def made_by(self) -> dict[str, str]:
        """Commit and sources of what predicted."""
        made = _read_json(self.folder / "predictions.json").get("made_by", {})
        return {str(key): str(value) for key, value in made.items()}

    @cached_property
    def comparisons(self) -> dict[str, list[MeasuredComparison]]:
        """By size, in the order of their repeats."""
        path = self.folder / "comparisons.jsonl"
        comparisons: dict[str, list[MeasuredComparison]] = {}
        for number, line in enumerate(_read_bytes(path).decode(errors="replace").splitlines(), start=1):
            try:
                comparison = _comparison(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise RecordingError(f"{path}: line {number} is damaged: {error!r}") from None
            comparisons.setdefault(comparison.size, []).append(comparison)
        return comparisons

    def sizes(self) -> list[BlindSize]:
        """Those that were compared, in the order of the list."""
        known = {size.name: size for size in all_sizes()}
        for name in self.comparisons:
            if name not in known:
                raise RecordingError(f"{self.folder}: size {name!r} is not in all_sizes()")
        return [size for name, size in known.items() if name in self.comparisons]

    def stream(self, size: BlindSize, order: str) -> Trace:
        """The stream-sync trace that a case was predicted from."""
        return as_measured(size, order, load_trace(trace_path(self.folder, size, order, BASELINE)))

    def trace(self, size: BlindSize, order: str, plan: str) -> Trace | None:
        """The trace of an overlapped plan, None if it left none. Raises if it ran before the predictions."""
        path = trace_path(self.folder, size, order, plan)
        if not has_trace(path):
            return None
        trace = load_trace(path)
        seen = str(trace.header.versions.get(STAMP, ""))
        if seen != self.stamp:
            raise RecordingError(
                f"{path}: carries the predictions' hash {seen[:16] or 'none'}, the run's is {self.stamp[:16]}"
            )
        return trace


def find_runs(folder: Path | None = None) -> list[BlindRun]:
    """The runs that ship with wavesim, or those of another folder, by name; each shard is a run."""
    where = RUNS if folder is None else folder
    paths = [*where.glob("*/run.json"), *where.glob(f"*/{SHARD}*/run.json")]
    return [BlindRun(path.parent) for path in sorted(paths)]


def _comparison(entry: Mapping[str, Any]) -> MeasuredComparison:
    rounds = {
        (key.split(" ")[0], key.split(" ")[1]): PlanRounds(
            tuple(int(ns) for ns in item["ns"]), tuple(float(ghz) for ghz in item["ghz"])
        )
        for key, item in entry["rounds"].items()
    }
    return MeasuredComparison(str(entry["size"]), int(entry["repeat"]), rounds, entry.get("power_w"))


def pooled(comparisons: Sequence[MeasuredComparison], order: str, plan: str) -> PlanRounds:
    """The rounds of a plan in all repeats, one after the other."""
    parts = [comparison.rounds[order, plan] for comparison in comparisons]
    return PlanRounds(
        tuple(ns for part in parts for ns in part.ns), tuple(ghz for part in parts for ghz in part.ghz)
    )


def _read_bytes(path: Path) -> bytes:
    """The file, or what its packed form beside it holds."""
    packed = path.with_name(f"{path.name}.xz")
    return read_packed(packed, MAX_BYTES) if packed.is_file() else read_bytes(path, MAX_BYTES)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(_read_bytes(path))
    except ValueError as error:
        raise RecordingError(f"{path}: not JSON: {error}") from None
