"""The one Trace: which block ran where and when, from the simulator and from a GPU alike.

Example: one row per thread block: stage, tile, SM and slot, when it was issued, when it started,
how long it spun on semaphores, when it ended. The header says what everything means, so a trace
needs nothing else to be drawn, measured, compared or replayed.
"""

import json
import types
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import RecordingError
from wavesim.trace.old_names import with_current_names

FORMAT = "wavesim-trace"
VERSION = 1
MAX_UNPACKED_BYTES = 1 << 30  # a trace of ten million blocks; larger files are refused unread

IntArray = NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True)
class StageInfo:
    """A stage as the trace saw it: grid (x, y, z), resident blocks per SM and the block's threads.

    `backend` is the kernel backend that computed it, "" where none is named.
    """

    name: str
    grid: tuple[int, int, int]
    blocks_per_sm: int
    threads: int
    tile: tuple[int, int] | None = None
    backend: str = ""


@dataclass(frozen=True)
class DependencyInfo:
    """A policy on one dependency. `semaphore_of_tile` is row-major; `value_of_semaphore` means ready."""

    producer: str
    consumer: str
    policy: str
    semaphore_of_tile: tuple[int, ...]
    value_of_semaphore: tuple[int, ...]


@dataclass(frozen=True)
class Header:
    """Everything about a trace that is not a row.

    `plan_data` is the plan (`wavesim.plan.words.plan_data`), empty in recordings of before it was stored;
    `plan` and `plan_label` are for people. `rounds_ns` are unrecorded, interleaved timings of the same plan
    (measured traces); `setup_ns` is the time around the blocks that counts towards the plan's time (simulated
    traces). `timer_step_ns` is the resolution of the clock that stamped the rows; `clock_mhz` and `power_w`
    were read while it ran. `costs` are the cost model's figures (simulated traces).
    """

    source: Literal["simulated", "measured"]
    device: Mapping[str, Any]
    workload: str
    plan: str
    plan_label: str
    stages: tuple[StageInfo, ...]
    plan_data: Mapping[str, Any] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)
    dependencies: tuple[DependencyInfo, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timer_step_ns: int = 1
    rounds_ns: tuple[int, ...] = ()
    setup_ns: int = 0
    clock_mhz: float | None = None
    power_w: float | None = None
    date: str = ""
    commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def sm_count(self) -> int:
        """SMs of the device."""
        return int(self.device["sm_count"])


@dataclass(frozen=True)
class Waits:
    """Single waits: block row, semaphore (an index within its dependency) and when. All arrays (n,)."""

    block: IntArray
    dependency: IntArray
    semaphore: IntArray
    start_ns: IntArray
    end_ns: IntArray


@dataclass(frozen=True)
class Event:
    """Something beside the blocks: a launch, a wait-kernel, a kernel boundary."""

    name: str
    stage: str
    start_ns: int
    end_ns: int


COLUMNS = ("stage", "x", "y", "z", "sm", "slot", "issue_ns", "start_ns", "wait_ns", "end_ns")
CYCLE_COLUMNS = ("cycles", "wait_cycles")
PART_COLUMNS = ("k_first", "k_upto", "k_of")
OPTIONAL_COLUMNS = (*CYCLE_COLUMNS, *PART_COLUMNS)


@dataclass(frozen=True, eq=False)
class Trace:
    """One row per thread block; every column is an integer array (blocks,).

    `wait_ns` is the time spent spinning on semaphores between `start_ns` and `end_ns`; time zero
    is the first issue. `cycles` are SM cycles from start to end, where measured. Split-K slices
    are rows of their own, and so is each tile of a persistent block, issued when it is fetched. Under
    Stream-K rows are parts of tiles, numbered by z: K iterations `k_first` up to `k_upto` of `k_of`.
    """

    header: Header
    stage: IntArray
    x: IntArray
    y: IntArray
    z: IntArray
    sm: IntArray
    slot: IntArray
    issue_ns: IntArray
    start_ns: IntArray
    wait_ns: IntArray
    end_ns: IntArray
    cycles: IntArray | None = None
    wait_cycles: IntArray | None = None
    k_first: IntArray | None = None
    k_upto: IntArray | None = None
    k_of: IntArray | None = None
    waits: Waits | None = None
    events: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        for name in (*COLUMNS, *OPTIONAL_COLUMNS):
            value = getattr(self, name)
            if value is None and name in OPTIONAL_COLUMNS:
                continue
            array = np.asarray(value, dtype=np.int64)
            object.__setattr__(self, name, array)
            if array.shape != self.stage.shape:
                raise RecordingError(
                    f"trace column {name} has shape {array.shape}; stage has {self.stage.shape}"
                )

    def __len__(self) -> int:
        return int(self.stage.size)

    def __repr__(self) -> str:
        head = self.header
        return (
            f"<Trace {head.source}: {head.workload}, {head.plan_label}, {head.device.get('name')}, "
            f"{len(self)} blocks, {self.makespan_ns / 1000:.1f} us>"
        )

    def _repr_html_(self) -> str:
        from wavesim.view.display import trace_html  # noqa: PLC0415  # only where Jupyter shows it

        return trace_html(self)

    @property
    def makespan_ns(self) -> int:
        """From the first issue to the last end."""
        return int(self.end_ns.max() - self.issue_ns.min()) if len(self) else 0

    @property
    def time_ns(self) -> int:
        """The plan's time: the median of unrecorded rounds where measured, else makespan and setup."""
        head = self.header
        return int(np.median(head.rounds_ns)) if head.rounds_ns else self.makespan_ns + head.setup_ns

    def rows_of(self, stage: str) -> NDArray[np.bool_]:
        """Mask of a stage's blocks. Raises `KeyError` for an unknown stage."""
        names = [info.name for info in self.header.stages]
        if stage not in names:
            raise KeyError(f"trace has no stage {stage!r}; it has {names}")
        mask: NDArray[np.bool_] = self.stage == names.index(stage)
        return mask

    def save(self, path: str | Path) -> Path:
        """Writes a compressed .npz that numpy alone can read (no pickle). Returns the path."""
        path = Path(path)
        columns = {
            name: getattr(self, name)
            for name in (*COLUMNS, *OPTIONAL_COLUMNS)
            if getattr(self, name) is not None
        }
        packed: dict[str, Any] = {name: _narrowed(array) for name, array in columns.items()}
        if self.waits is not None:
            packed |= {f"waits_{f.name}": _narrowed(getattr(self.waits, f.name)) for f in fields(Waits)}
        head = {
            "format": FORMAT,
            "version": VERSION,
            **asdict(self.header),
            "events": [asdict(e) for e in self.events],
        }
        packed["header"] = np.frombuffer(json.dumps(head, separators=(",", ":")).encode(), dtype=np.uint8)
        np.savez_compressed(path, **packed)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        """Reads what `save` wrote. Raises `RecordingError` naming file and field for anything else."""
        path = Path(path)
        arrays = _read_arrays(path)
        head = _read_header(path, arrays)
        events = tuple(_built(Event, entry, path, "events") for entry in _listed(head, "events", path))
        for name in COLUMNS:
            if name not in arrays:
                raise RecordingError(f"{path}: column {name!r} is missing; the file is not a complete trace")
        waits = {f.name: arrays[f"waits_{f.name}"] for f in fields(Waits) if f"waits_{f.name}" in arrays}
        columns = {name: arrays[name] for name in (*COLUMNS, *OPTIONAL_COLUMNS) if name in arrays}
        has_waits = len(waits) == len(fields(Waits))
        try:
            trace = cls(
                _header(head, path), **columns, waits=Waits(**waits) if has_waits else None, events=events
            )
        except RecordingError as error:
            raise RecordingError(f"{path}: {error}") from None
        _check_rows(trace, path)
        return trace


def _narrowed(array: IntArray) -> NDArray[Any]:
    """The same integers in 32 bits where they fit, which halves the file."""
    fits = array.size == 0 or (array.min() >= -(2**31) and array.max() < 2**31)
    return array.astype(np.int32) if fits else array


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except FileNotFoundError:
        raise RecordingError(f"{path}: no such file") from None
    except Exception as error:  # noqa: BLE001 - a damaged directory raises many kinds beside BadZipFile
        raise RecordingError(
            f"{path}: not a trace, or truncated: {error}. Expected an .npz that Trace.save wrote"
        ) from None
    if size > MAX_UNPACKED_BYTES:
        raise RecordingError(f"{path}: unpacks to {size} bytes; at most {MAX_UNPACKED_BYTES} are read")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # noqa: BLE001 - zlib, zip and numpy each have their own for damaged files
        raise RecordingError(f"{path}: damaged: {error}") from None
    for name, array in arrays.items():
        is_column = array.ndim == 1 and np.issubdtype(array.dtype, np.integer)
        if not is_column:
            raise RecordingError(
                f"{path}: field {name!r} has shape {array.shape} and type {array.dtype}; expected "
                "integers (n,)"
            )
    return {name: array if name == "header" else array.astype(np.int64) for name, array in arrays.items()}


def _read_header(path: Path, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    if "header" not in arrays:
        raise RecordingError(f"{path}: field 'header' is missing; the file is not a wavesim trace")
    try:
        head = json.loads(arrays["header"].astype(np.uint8).tobytes())
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{path}: field 'header' is not JSON: {error}") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise RecordingError(
            f"{path}: field 'header.format' is not {FORMAT!r}; the file is not a wavesim trace"
        )
    if not isinstance(head.get("version"), int) or not 1 <= head["version"] <= VERSION:
        raise RecordingError(
            f"{path}: field 'header.version' is {head.get('version')!r}; this wavesim reads 1 to "
            f"{VERSION}. Update wavesim"
        )
    return {key: value for key, value in head.items() if key not in ("format", "version")}


def _listed(head: dict[str, Any], name: str, path: Path) -> list[Any]:
    """Takes a list out of the header; a missing one is empty."""
    entries = head.pop(name, [])
    if not isinstance(entries, list):
        raise RecordingError(f"{path}: field 'header.{name}' is {entries!r}; expected a list")
    return entries


def _built(kind: type[T], entry: Any, path: Path, *where: str) -> T:
    """One dataclass from its JSON: unknown fields are left out, so that newer files stay readable."""
    field_path = ".".join(("header", *where))
    if not isinstance(entry, dict):
        raise RecordingError(f"{path}: field '{field_path}' holds {entry!r}; expected an object")
    values = {}
    for name, hint in get_type_hints(kind).items():
        if name not in entry:
            continue
        value = tuple(entry[name]) if isinstance(entry[name], list) else entry[name]
        if not _fits(value, hint):
            shown = repr(entry[name])[:80]
            raise RecordingError(f"{path}: field '{field_path}.{name}' is {shown}; expected {hint}")
        values[name] = value
    try:
        return kind(**values)
    except TypeError as error:
        raise RecordingError(f"{path}: field '{field_path}': {error}") from None


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value from JSON, its lists made tuples, is of an annotated type of this module's."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in args
    if origin is types.UnionType:
        return any(_fits(value, arg) for arg in args)
    if origin is tuple and isinstance(value, tuple):
        hints = args[:1] * len(value) if args[-1] is ... else args
        return len(value) == len(hints) and all(map(_fits, value, hints))
    if origin is not None:
        return isinstance(value, origin)
    kinds = int | float if hint is float else hint
    return isinstance(value, kinds) and not isinstance(value, bool)


def _header(head: dict[str, Any], path: Path) -> Header:
    for name, kind in (("stages", StageInfo), ("dependencies", DependencyInfo)):
        head[name] = [_built(kind, entry, path, name) for entry in _listed(head, name, path)]
    if "costs" in head:
        head["costs"] = with_current_names(head["costs"])
    header = _built(Header, head, path)
    is_device = isinstance(header.device, dict) and isinstance(header.device.get("sm_count"), int)
    if not is_device:
        raise RecordingError(f"{path}: field 'header.device' lacks an integer 'sm_count'")
    return header


def _check_rows(trace: Trace, path: Path) -> None:
    """Rows that no device could have written: named by field and position."""
    limits = [("stage", trace.stage, len(trace.header.stages)), ("sm", trace.sm, trace.header.sm_count)]
    if trace.waits is not None:
        sizes = {f.name: getattr(trace.waits, f.name).size for f in fields(Waits)}
        if len(set(sizes.values())) > 1:
            raise RecordingError(f"{path}: fields 'waits_...' have different lengths: {sizes}")
        limits.append(("waits_block", trace.waits.block, len(trace)))
        limits.append(("waits_dependency", trace.waits.dependency, len(trace.header.dependencies)))
    for name, column, bound in limits:
        bad = np.flatnonzero((column < 0) | (column >= bound))
        if bad.size:
            raise RecordingError(
                f"{path}: field {name!r}, row {bad[0]}: {column[bad[0]]} is outside 0 to {bound - 1}"
            )
    for first, then in (("issue_ns", "start_ns"), ("start_ns", "end_ns")):
        bad = np.flatnonzero(getattr(trace, then) < getattr(trace, first))
        if bad.size:
            raise RecordingError(f"{path}: field {then!r}, row {bad[0]}: before {first}")
