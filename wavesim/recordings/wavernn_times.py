"""WaveRNN's five tests as a GPU measured them, where a recording of it ships with the package.

Example: `python -m wavesim_gpu measure labs --only wavernn --out DIR` on an H200 writes
the recording; before that `recorded_wavernn()` is None, and whoever shows it says "not measured yet".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.errors import RecordingError
from wavesim.recordings.shipped import FOLDER
from wavesim.safe_io.bounds import bounded_text
from wavesim.safe_io.documents import read_json

FILE = FOLDER / "wavernn.json"
MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class WavernnTimes:
    """One run: nanoseconds of every round by type and way, and what a step's parts had predicted."""

    device: str
    date: str
    commit: str
    rounds_ns: Mapping[str, Mapping[str, tuple[int, ...]]]
    predicted_ns: Mapping[str, Mapping[str, int]]

    def median_ns(self, dtype: str) -> dict[str, float]:
        """Of each way; nothing for a type that was not measured."""
        return {way: median(times) for way, times in self.rounds_ns.get(dtype, {}).items()}

    def errors(self, dtype: str) -> dict[str, float]:
        """Predicted over measured, less 1, of each way that was predicted."""
        measured = self.median_ns(dtype)
        return {way: ns / measured[way] - 1 for way, ns in self.predicted_ns.get(dtype, {}).items()}


def recorded_wavernn(path: Path = FILE) -> WavernnTimes | None:
    """The recording; None where nobody has made one. Raises `RecordingError` for a file that is none."""
    if not path.exists():
        return None
    entry: Any = read_json(path, MAX_BYTES)
    try:
        types = {bounded_text("type", dtype): result for dtype, result in entry["types"].items()}
        rounds = {
            dtype: {way: tuple(map(int, times)) for way, times in result["rounds_ns"].items()}
            for dtype, result in types.items()
        }
        predicted = {
            dtype: {way: int(ns) for way, ns in result["predicted_ns"].items()}
            for dtype, result in types.items()
        }
        device, date, commit = (bounded_text(name, entry[name]) for name in ("device", "date", "commit"))
        times = WavernnTimes(device, date, commit, rounds, predicted)
        for dtype in types:
            times.errors(dtype)
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise RecordingError(f"{path}: not a recording of WaveRNN's tests: {error!r}") from None
    return times
