"""The one Trace: which block ran where and when, from the simulator and from a GPU alike.

Example: one row per thread block: stage, tile, SM and slot, when it was issued, when it started,
how long it spun on semaphores, when it ended. The header says what everything means, so a trace
needs nothing else to be drawn, measured, compared or replayed.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import OutputError, RecordingError
from wavesim.html_display import html_of
from wavesim.safe_io.annotated import path_of
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.reading import open_data
from wavesim.safe_io.writing import replacing
from wavesim.trace.header import Event, Header
from wavesim.trace.trace_file import (
    FORMAT,
    MOST_PLACES,
    VERSION,
    IntArray,
    header_of,
    narrowed,
    read_arrays,
    read_events,
    read_header,
)

__all__ = ["IntArray", "Trace", "Transfers", "Waits"]

T = TypeVar("T")

MAX_TOTAL_NS = 1 << 62


@dataclass(frozen=True)
class Waits:
    """Single waits: block row, semaphore (an index within its dependency) and when. All arrays (n,)."""

    block: IntArray
    dependency: IntArray
    semaphore: IntArray
    start_ns: IntArray
    end_ns: IntArray


@dataclass(frozen=True)
class Transfers:
    """Bytes that crossed from one device's memory to another's, and when; the block row that sent them.

    All arrays (n,).
    """

    block: IntArray
    source: IntArray
    target: IntArray
    start_ns: IntArray
    end_ns: IntArray
    bytes: IntArray


COLUMNS = ("stage", "x", "y", "z", "sm", "slot", "issue_ns", "start_ns", "wait_ns", "end_ns")
CYCLE_COLUMNS = ("cycles", "wait_cycles")
PART_COLUMNS = ("k_first", "k_upto", "k_of")
OPTIONAL_COLUMNS = (*CYCLE_COLUMNS, *PART_COLUMNS, "device")


@dataclass(frozen=True, eq=False)
class Trace:
    """One row per thread block; every column is an integer array (blocks,).

    `wait_ns` is the time spent spinning on semaphores between `start_ns` and `end_ns`; time zero
    is the first issue. `cycles` are SM cycles from start to end, where measured. Split-K slices
    are rows of their own, and so is each tile of a persistent block, issued when it is fetched. Under
    Stream-K rows are parts of tiles, numbered by z: K iterations `k_first` up to `k_upto` of `k_of`. Of
    several devices `device` has each row's, and `sm` counts through the SMs of all; `transfers` is what
    crossed.
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
    device: IntArray | None = None
    waits: Waits | None = None
    transfers: Transfers | None = None
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
        what = one_line(f"{head.source}: {head.workload}, {head.plan_label}, {head.device.get('name')}")
        return f"<Trace {what}, {len(self)} blocks, {self.makespan_ns / 1000:.1f} us>"

    def _repr_html_(self) -> str:
        return html_of(self)

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
        """Writes a compressed .npz that numpy alone can read (no pickle). Returns the path.

        Another ending than .npz gets that one too. Raises `OutputError`.
        """
        path = path_of("Trace.save", "path", path)
        if not path.name:
            raise OutputError(f"Trace.save: path is '{path}'; it must be the path of a file")
        if path.suffix != ".npz":
            path = path.with_name(f"{path.name}.npz")
        columns = {
            name: getattr(self, name)
            for name in (*COLUMNS, *OPTIONAL_COLUMNS)
            if getattr(self, name) is not None
        }
        packed: dict[str, Any] = {name: narrowed(array) for name, array in columns.items()}
        for kind, beside in (("waits", self.waits), ("transfers", self.transfers)):
            if beside is not None:
                packed |= {f"{kind}_{f.name}": narrowed(getattr(beside, f.name)) for f in fields(beside)}
        head = {
            "format": FORMAT,
            "version": VERSION,
            **asdict(self.header),
            "events": [asdict(e) for e in self.events],
        }
        packed["header"] = np.frombuffer(json.dumps(head, separators=(",", ":")).encode(), dtype=np.uint8)
        with replacing(path) as file:
            np.savez_compressed(file, **packed)
        return path

    @classmethod
    def load(cls, path: str | Path, file: BinaryIO | None = None) -> "Trace":
        """Reads what `save` wrote, from `file` where that is open already and `path` is only its name.

        Raises `RecordingError` naming file and field for anything else.
        """
        path = path_of("Trace.load", "path", path)
        if file is None:
            with open_data(path) as opened:
                arrays = read_arrays(path, opened)
        else:
            arrays = read_arrays(path, file)
        return cls.of_arrays(path, arrays)

    @classmethod
    def of_arrays(cls, path: Path, arrays: dict[str, Any]) -> "Trace":
        """The trace of columns (n,) of 64-bit integers and a header's bytes, as a file of `path` holds them.

        Raises `RecordingError` as `load` does.
        """
        head = read_header(path, arrays)
        events = read_events(head, path)
        for name in COLUMNS:
            if name not in arrays:
                raise RecordingError(f"{path}: column {name!r} is missing; the file is not a complete trace")
        columns = {name: arrays[name] for name in (*COLUMNS, *OPTIONAL_COLUMNS) if name in arrays}
        header, waits, transfers = header_of(head, path), _beside(arrays, Waits), _beside(arrays, Transfers)
        try:
            trace = cls(header, **columns, waits=waits, transfers=transfers, events=events)
        except RecordingError as error:
            raise RecordingError(f"{path}: {error}") from None
        _check_rows(trace, path)
        return trace


def _beside(arrays: dict[str, IntArray], kind: type[T]) -> T | None:
    """What stands beside the rows, such as waits; None where the file lacks any of its columns."""
    names = [item.name for item in fields(cast("Any", kind))]
    prefix = kind.__name__.lower()
    if any(f"{prefix}_{name}" not in arrays for name in names):
        return None
    return kind(**{name: arrays[f"{prefix}_{name}"] for name in names})


def _limits(trace: Trace) -> Iterator[tuple[str, IntArray, Any]]:
    """Columns of indices and what each stays below, a number or one per row; some rest on those before."""
    head, waits, transfers = trace.header, trace.waits, trace.transfers
    yield "stage", trace.stage, len(head.stages)
    yield "sm", trace.sm, head.sm_count
    yield "slot", trace.slot, MOST_PLACES // head.sm_count
    grid = np.array([info.grid for info in head.stages], dtype=np.int64).reshape(-1, 3)[trace.stage]
    yield "x", trace.x, grid[:, 0]
    yield "y", trace.y, grid[:, 1]
    # Under Stream-K, parts of a tile: no more than it has K iterations.
    yield "z", trace.z, grid[:, 2] if trace.k_of is None else np.maximum(grid[:, 2], trace.k_of)
    if waits is not None:
        yield "waits_block", waits.block, len(trace)
        yield "waits_dependency", waits.dependency, len(head.dependencies)
        counts = np.array([len(info.value_of_semaphore) for info in head.dependencies], dtype=np.int64)
        yield "waits_semaphore", waits.semaphore, counts[waits.dependency]
    if trace.device is not None:
        yield "device", trace.device, head.device_count
    if transfers is not None:
        yield "transfers_block", transfers.block, len(trace)
        yield "transfers_source", transfers.source, head.device_count
        yield "transfers_target", transfers.target, head.device_count


def _check_rows(trace: Trace, path: Path) -> None:
    """Rows that no device could have written: named by field and position."""
    for kind, beside in (("waits", trace.waits), ("transfers", trace.transfers)):
        sizes = {f.name: getattr(beside, f.name).size for f in fields(beside)} if beside is not None else {}
        if len(set(sizes.values())) > 1:
            raise RecordingError(f"{path}: fields '{kind}_...' have different lengths: {sizes}")
    for name, column, bound in _limits(trace):
        bad = np.flatnonzero((column < 0) | (column >= bound))
        if bad.size:
            most = np.broadcast_to(bound, column.shape)[bad[0]] - 1
            raise RecordingError(
                f"{path}: field {name!r}, row {bad[0]}: {column[bad[0]]} is outside 0 to {most}"
            )
    for name in ("issue_ns", "start_ns", "wait_ns", "end_ns"):
        # So that a sum over all rows is a 64-bit integer too.
        bad = np.flatnonzero(np.abs(getattr(trace, name).astype(np.float64)) * len(trace) > MAX_TOTAL_NS)
        if bad.size:
            raise RecordingError(
                f"{path}: field {name!r}, row {bad[0]}: over a century for all rows together"
            )
    for first, then in (("issue_ns", "start_ns"), ("start_ns", "end_ns")):
        bad = np.flatnonzero(getattr(trace, then) < getattr(trace, first))
        if bad.size:
            raise RecordingError(f"{path}: field {then!r}, row {bad[0]}: before {first}")
