"""Collects the operations of a profile in columns while a file is read, with bounds on how many.

Example: 10 million launches are six columns of 80 MB; their names and grids are kept once per shape.
"""

from array import array
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import RecordingError
from wavesim.model.device import Device
from wavesim.profile.profile import (
    CALL_UNKNOWN,
    UNKNOWN_NS,
    IntArray,
    Lane,
    LaunchShape,
    LaunchTable,
    Profile,
)

MAX_LAUNCHES = 10_000_000
MAX_SHAPES = 100_000
MAX_LANES = 10_000
MAX_NAME = 4_096
MAX_NAMES = 4 << 20  # letters of all names together
# Of a time stamp; a start, a duration and the distance of two starts together stay within 64 bits.
MAX_NS = 1 << 61
MAX_STEPS = 10_000
COPY = -1

ShapeKey = tuple[str, int, tuple[int, int, int] | None, int | None, int | None, int | None, float | None]


class ProfileBuilder:
    """Takes operations in any order. Times are absolute nanoseconds of one clock."""

    def __init__(self, path: Path, profiler: str) -> None:
        self.path = path
        self.profiler = profiler
        self.notes: list[str] = []
        self.steps: list[tuple[str, int, int]] = []
        self.skipped = 0
        self.timer_step_ns = 1
        self._shapes: dict[ShapeKey, int] = {}
        self._names: dict[str, str] = {}
        self._letters = 0
        self._lanes: dict[Lane, int] = {}
        self._columns = {name: array("q") for name in ("shape", "lane", "start", "duration", "link")}
        self._gemms: dict[int, tuple[int, int, int]] = {}

    def add(self, key: ShapeKey | None, lane: Lane, start_ns: int, duration_ns: int, link: int) -> int:
        """One kernel, or a copy where `key` is None. Returns its row; `link` leads to what launched it."""
        columns = self._columns
        row = len(columns["shape"])
        if row >= MAX_LAUNCHES:
            raise RecordingError(f"{self.path}: more than {MAX_LAUNCHES:,} operations; profile fewer steps")
        columns["shape"].append(COPY if key is None else self._shape(key))
        columns["lane"].append(self._number(self._lanes, lane, MAX_LANES, "streams"))
        columns["start"].append(start_ns)
        columns["duration"].append(duration_ns)
        columns["link"].append(link)
        return row

    def _shape(self, key: ShapeKey) -> int:
        if key not in self._shapes:
            name = self._names.setdefault(key[0], key[0])
            self._letters += len(name) if name is key[0] else 0
            if self._letters > MAX_NAMES:
                raise RecordingError(f"{self.path}: over {MAX_NAMES >> 20} MB of names; this is no profile")
            key = (name, *key[1:])
        return self._number(self._shapes, key, MAX_SHAPES, "shapes")

    def _number(self, numbers: dict[Any, int], key: Any, most: int, what: str) -> int:
        number = numbers.setdefault(key, len(numbers))
        if number >= most:
            raise RecordingError(f"{self.path}: more than {most:,} different {what}; this is no profile")
        return number

    def column(self, name: str) -> IntArray:
        """A column as it is so far."""
        return np.frombuffer(self._columns[name], dtype=np.int64).copy() if self._columns[name] else _empty()

    def kernel_devices(self) -> set[int]:
        """Numbers of the devices that ran kernels."""
        return {key[1] for key in self._shapes}

    def set_gemm(self, shape: int, gemm: tuple[int, int, int]) -> None:
        """The matrix product that a shape computes."""
        self._gemms[shape] = gemm

    def build(
        self,
        devices: dict[int, Device | None],
        host_ns: IntArray,
        is_replayed: np.ndarray[Any, np.dtype[np.bool_]],
        call: IntArray,
        **facts: Any,
    ) -> Profile:
        """The profile. Raises `RecordingError` if there is no kernel."""
        shape, lane, start = self.column("shape"), self.column("lane"), self.column("start")
        if not (shape >= 0).any():
            raise RecordingError(
                f"{self.path}: no GPU kernels in this {self.profiler} profile; record with CUDA activities on"
            )
        if self.skipped:
            self.notes.append(f"{self.skipped:,} operations lack a start, a duration or a name: left out.")
        duration = self.column("duration")
        if duration.sum(dtype=np.float64) > MAX_NS:
            raise RecordingError(
                f"{self.path}: its operations take over {MAX_NS / 3.2e16:.0f} years; this is no profile"
            )
        zero = int(start.min())
        order = np.lexsort((start, lane))
        known = host_ns != UNKNOWN_NS
        launches = LaunchTable(
            shape[order],
            lane[order],
            start[order] - zero,
            (start - zero + duration)[order],
            np.where(known, host_ns - np.where(known, zero, 0), UNKNOWN_NS)[order],
            is_replayed[order],
            np.where(is_replayed, CALL_UNKNOWN, call)[order],
        )
        return Profile(
            source=self.path.name,
            profiler=self.profiler,
            devices=devices,
            shapes=tuple(
                LaunchShape(*key, gemm=self._gemms.get(number)) for key, number in self._shapes.items()
            ),
            lanes=tuple(self._lanes),
            launches=launches,
            steps=tuple(
                (name, begin - zero, end - zero) for name, begin, end in sorted(self.steps, key=_begin)
            ),
            timer_step_ns=self.timer_step_ns,
            notes=tuple(self.notes),
            facts=facts,
        )


def places_of(wanted: IntArray, ids: "array[int]") -> IntArray:
    """Where each number stands first in `ids`; -1 where it does not."""
    if not ids:
        return np.full(len(wanted), -1)
    known = np.array(ids, dtype=np.int64)
    order = np.argsort(known, kind="stable")
    nearest = order[np.searchsorted(known[order], wanted).clip(max=len(known) - 1)]
    return np.where(known[nearest] == wanted, nearest, -1)


def _begin(step: tuple[str, int, int]) -> int:
    return step[1]


def _empty() -> IntArray:
    return np.zeros(0, dtype=np.int64)
