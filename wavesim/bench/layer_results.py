"""A `layers` results file: `mlp` beside the best of torch's forms on MLPs of published sizes.

Example: at one shape torch's best form takes 212 us and `mlp` 205 us: a speed of 1.034. Shapes at which `mlp`
failed or was wrong have no speed; they are counted and named.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.bench.gpu_results import (
    MAX_BYTES,
    MOST_CASES,
    Fields,
    GpuResults,
    TimedCandidate,
    load_results,
)
from wavesim.bench.speedups import Pair, Speedup, Summary, pairs_of
from wavesim.errors import RecordingError
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.documents import read_json

TORCH = "torch "  # how the names of torch's forms begin
FIRST, TUNED, LIBRARY = "mlp", "mlp tuned", "library"
KERNELS, STREAM = "our kernels", "stream sync"  # the best simulated candidate of ours, and its tiles in turn
OURS = {FIRST: "first choice", TUNED: "tuned"}
AS_STORED = "torch's forms on weights as they are stored"  # in place of a contender's name
STORED_CONTESTS = (
    (FIRST, AS_STORED, "first choice, weights as stored"),
    (TUNED, AS_STORED, "tuned, weights as stored"),
)
CONTESTS = (
    (FIRST, LIBRARY, "first choice over cuBLASLt alone"),
    (KERNELS, LIBRARY, "our kernels, whatever is chosen, over cuBLASLt alone"),
    (KERNELS, STREAM, "our kernels over stream sync in the same tiles"),
)
# In the names of torch's forms that have gate and values in one matrix; and the folder of such runs.
PACKED = "packed"
FOLDER = Path("gpu/results/layers")
NUMBER = (int, float)
LISTED_SHAPES = 40


@dataclass(frozen=True, eq=False)
class LayerShapeRow:
    """One shape: everything timed at it that was right, and torch's best form."""

    model: str
    tokens: int
    cases: Pair

    @property
    def name(self) -> str:
        """Such as "Llama 3 8B M=512"."""
        return f"{self.model} M={self.tokens}"

    @property
    def torch(self) -> TimedCandidate | None:
        """The form of torch with the smallest median."""
        return self._best_of_torch("")

    @property
    def torch_as_stored(self) -> TimedCandidate | None:
        """The same without the forms that need weights packed which the model has apart."""
        return self._best_of_torch(PACKED)

    def _best_of_torch(self, without: str) -> TimedCandidate | None:
        names = [name for name in self.cases if name.startswith(TORCH) and not (without and without in name)]
        return min((self.cases[name] for name in names), key=lambda case: case.median_ns, default=None)

    def speed(self, ours: str, theirs: str | None = None) -> Speedup | None:
        """Of a contender over another, torch's best, or its best `AS_STORED`; None without either."""
        forms = {None: self.torch, AS_STORED: self.torch_as_stored}
        mine, other = self.cases.get(ours), forms[theirs] if theirs in forms else self.cases.get(theirs or "")
        return Speedup.of(mine.rounds_ns, other.rounds_ns) if mine and other else None


@dataclass(frozen=True)
class LayerResults:
    """One run. `failures` are (shape, contender, message), wrong results among them.

    `host_ns` are medians of one call's host time, by contender and shape; `first_calls_ms` are first calls
    beyond compilation by shape, `seen_calls` the same, with the number of compilations, in a second process.
    `predicted` are speeds of our kernels over the library's, by shape, registered before. `packed`: the run
    on packed weights that lies beside this one, if there is one.
    """

    results: GpuResults
    rows: tuple[LayerShapeRow, ...]
    failures: tuple[tuple[str, str, str], ...]
    host_ns: Mapping[str, Mapping[str, int]]
    first_calls_ms: Mapping[str, float]
    seen_calls: Mapping[str, tuple[float, int]]
    predicted: Mapping[str, float]
    shapes_sha256: str
    registered_sha256: str
    packed: "LayerResults | None" = None

    @cached_property
    def models(self) -> list[str]:
        """In the order of measuring."""
        return list(dict.fromkeys(row.model for row in self.rows))

    def of(self, model: str) -> list[LayerShapeRow]:
        """A model's shapes, smallest first."""
        return sorted((row for row in self.rows if row.model == model), key=lambda row: row.tokens)

    def speeds(self, ours: str, theirs: str | None = None) -> dict[LayerShapeRow, Speedup]:
        """Of a contender over torch's best, or over another, at every shape that has both."""
        result = {row: row.speed(ours, theirs) for row in self.rows}
        return {row: speed for row, speed in result.items() if speed is not None}

    def summary(self, ours: str, model: str | None = None, theirs: str | None = None) -> Summary | None:
        """Geometric mean, worst and best over all shapes or a model's; None where there are none."""
        speeds = self.speeds(ours, theirs).items()
        return Summary.of(speed.value for row, speed in speeds if model in (None, row.model))


def newest_layers(folder: Path = FOLDER) -> Path | None:
    """The newest file of a folder, if there is one."""
    return max([*folder.glob("*.json"), *folder.glob("*.json.xz")], default=None)


def load_layers(path: Path) -> LayerResults:
    """Reads one file. Raises `RecordingError` that names what is damaged."""
    results, top = load_results(path), Fields(read_json(path, MAX_BYTES), str(path))
    entries = [Fields(entry, f"{path}: cases[{i}]") for i, entry in enumerate(top.get("cases", list))]
    registered = Fields(top.get("registered", dict), f"{path}: registered")
    packed = newest_layers(path.parent / PACKED)
    return LayerResults(
        results=results,
        rows=tuple(_rows(results, entries)),
        failures=tuple(_failures(results, entries)),
        host_ns=_host(entries),
        first_calls_ms=_first_calls(entries),
        seen_calls=_seen(top),
        predicted=_predicted(_entries(registered, "choices")),
        shapes_sha256=top.get("shapes_sha256", str),
        registered_sha256=registered.get("sha256", str),
        packed=load_layers(packed) if packed else None,
    )


def _rows(results: GpuResults, entries: Iterable[Fields]) -> Iterable[LayerShapeRow]:
    models = dict.fromkeys(case.workload for case in results.cases)
    same = [
        (entry.get("workload", str), entry.count("tokens"), entry.get("name", str), entry.get("same_as", str))
        for entry in entries
        if entry.maybe("same_as", str) is not None
    ]
    for model in models:
        for tokens, cases in pairs_of(results, model).items():
            here = {name: other for of, size, name, other in same if (of, size) == (model, tokens)}
            aliases = {name: cases[other] for name, other in here.items() if other in cases}
            yield LayerShapeRow(model, tokens, {**cases, **aliases})


def _name(entry: Fields) -> str:
    return f"{entry.get('workload', str)} M={entry.count('tokens')}"


def _failures(results: GpuResults, entries: Iterable[Fields]) -> Iterable[tuple[str, str, str]]:
    for entry in entries:
        message = entry.maybe("failed", str)
        if message is not None:
            yield _name(entry), entry.get("name", str), message
    for case in results.wrong:
        yield f"{case.workload} M={case.tokens}", case.name, "wrong result"


def _host(entries: Iterable[Fields]) -> dict[str, dict[str, int]]:
    host: dict[str, dict[str, int]] = {}
    for entry in entries:
        time_ns = entry.count("host_ns")
        if time_ns is not None:
            host.setdefault(entry.get("name", str), {})[_name(entry)] = time_ns
    return host


def _first_calls(entries: Iterable[Fields]) -> dict[str, float]:
    calls = [(entry, entry.maybe("first_call", dict)) for entry in entries]
    return {
        _name(entry): Fields(call, f"{entry.place}.first_call").get("ms", NUMBER)
        for entry, call in calls
        if call is not None
    }


def _seen(top: Fields) -> dict[str, tuple[float, int]]:
    seen = {}
    for entry in _entries(top, "first_calls_of_second_process"):
        if entry.maybe("failed", str) is None:
            seen[entry.get("name", str)] = entry.get("ms", NUMBER), entry.get("compilations", int)
    return seen


def _predicted(entries: Iterable[Fields]) -> dict[str, float]:
    times = {
        entry.get("name", str): (entry.maybe("library_ns", NUMBER), entry.maybe("ours_ns", NUMBER))
        for entry in entries
    }
    return {name: library / ours for name, (library, ours) in times.items() if library and ours}


def _entries(fields: Fields, name: str) -> list[Fields]:
    values: list[Any] = fields.get(name, list)
    if len(values) > MOST_CASES:
        raise RecordingError(f"{fields.place}: {len(values):,} {name}; at most {MOST_CASES:,} are read")
    for index, value in enumerate(values):
        if not isinstance(value, dict):
            raise RecordingError(f"{fields.place}: {name}[{index}] is {shown(value)}; it must be an object")
    return [Fields(entry, f"{fields.place}: {name}[{index}]") for index, entry in enumerate(values)]


def prediction_lines(layers: LayerResults) -> list[str]:
    """How far the registered gains of our kernels over cuBLASLt were off; nothing where none was timed."""
    measured = layers.speeds(KERNELS, LIBRARY)
    pairs = [
        (layers.predicted[row.name], speed.value)
        for row, speed in measured.items()
        if row.name in layers.predicted
    ]
    if not pairs:
        return []
    errors = [100 * abs(1 / said - 1 / seen) for said, seen in pairs]
    wins = [said for said, seen in pairs if seen > 1]
    off = f"{median(errors):.1f} points (median of {len(errors)} shapes, {max(errors):.1f} at most)"
    expected = sum(said > 1 for said in wins)
    return [
        f"gain of our kernels over cuBLASLt, registered before: off by {off}",
        f"our kernels were faster than cuBLASLt at {len(wins)} shapes, as expected at {expected} of these",
    ]


def summary_lines(layers: LayerResults) -> list[str]:
    """What the run says, misses included, a line for each thing."""
    lines = []
    for ours, words in OURS.items():
        speeds = layers.speeds(ours)
        if not speeds:
            lines.append(f"{words}: no shape measured beside torch")
            continue
        worst = min(speeds, key=lambda row: speeds[row].value)
        lines.append(
            f"{words}: speed over the best of torch's forms {layers.summary(ours)}, {len(speeds)} of "
            f"{LISTED_SHAPES} shapes; worst at {worst.name}"
        )
        lines += [f"  {model}: {layers.summary(ours, model) or 'none'}" for model in layers.models]
    for ours, theirs, words in (*STORED_CONTESTS, *CONTESTS):
        total = layers.summary(ours, theirs=theirs)
        lines += [f"{words}: {total}"] if total else []
    lines += prediction_lines(layers)
    lines += [
        f"host time per call, {name}: {median(times.values()) / 1e3:.1f} us (median of {len(times)} shapes)"
        for name, times in layers.host_ns.items()
    ]
    if layers.first_calls_ms:
        slowest = max(layers.first_calls_ms, key=layers.first_calls_ms.__getitem__)
        times = layers.first_calls_ms
        lines.append(
            f"first call of a shape beyond compilation: {median(times.values()):.1f} ms, "
            f"{times[slowest]:.1f} at most ({slowest})"
        )
    if layers.seen_calls:
        count = sum(compilations for _, compilations in layers.seen_calls.values())
        lines.append(f"second process: {count} compilations at {len(layers.seen_calls)} shapes")
    return lines + [f"{shape}, {name}: {message}" for shape, name, message in layers.failures]
