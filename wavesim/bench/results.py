"""Results of a case list: a line of JSON per case, order and way, after a header that says on what.

Example: a run that was interrupted goes on: `done_cases(path)` names the cases that have all their rows.
Shards of a run on several GPUs are files of their own, which `merged` puts together.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wavesim.errors import RecordingError
from wavesim.safe_io.writing import append_line

HEADER = ("list", "list_sha256", "device", "versions", "commit", "kernel_sources", "date")


@dataclass(frozen=True)
class ResultRow:
    """Rounds of one way of a case: nanoseconds, and the SM clock of each, 0 if unknown.

    `correct`: whether the output was compared with a reference and fits; a time without that is no result.
    `error` says why there are no rounds, `words` how the way went where there was a choice.
    """

    case: str
    order: str
    way: str
    correct: bool
    ns: tuple[int, ...] = ()
    ghz: tuple[float, ...] = ()
    error: str = ""
    words: str = ""


def start(path: Path, header: Mapping[str, Any]) -> None:
    """Begins a file, or goes on with the one of the same list, commit and device.

    Raises `RecordingError` where the header lacks a field, or the file is another run's.
    """
    if missing := [name for name in HEADER if name not in header]:
        raise RecordingError(f"{path}: the header lacks {missing[0]!r}")
    if not path.exists():
        append_line(path, json.dumps({"header": dict(header)}))
        return
    before, _ = read(path)
    for name in ("list_sha256", "commit", "device", "kernel_sources"):
        if before[name] != header[name]:
            raise RecordingError(
                f"{path}: {name} is {before[name]!r}, now {header[name]!r}; use another file"
            )


def append(path: Path, rows: Iterable[ResultRow]) -> None:
    """Adds the rows of one case."""
    for row in rows:
        append_line(path, json.dumps(asdict(row)))


def read(path: Path) -> tuple[dict[str, Any], list[ResultRow]]:
    """Header and rows. A last line that was cut off is left out. Raises `RecordingError`."""
    lines = path.read_text(encoding="utf-8").splitlines()
    entries = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number < len(lines):
                raise RecordingError(f"{path}: line {number} is not JSON: {error.msg}") from None
    if not entries or "header" not in entries[0]:
        raise RecordingError(f"{path}: the first line is no header; it is not a file of results")
    try:
        rows = [ResultRow(**{**row, "ns": tuple(row["ns"]), "ghz": tuple(row["ghz"])}) for row in entries[1:]]
    except (KeyError, TypeError) as error:
        raise RecordingError(f"{path}: a row's fields are not those of a result: {error}") from None
    return dict(entries[0]["header"]), rows


def done_cases(path: Path) -> set[str]:
    """The cases that have rows."""
    return {row.case for row in read(path)[1]} if path.exists() else set()


def merged(paths: Iterable[Path]) -> tuple[dict[str, Any], list[ResultRow]]:
    """One header and all rows of several shards. Raises `RecordingError` where two are of different runs."""
    files = [read(path) for path in paths]
    if not files:
        raise RecordingError("no results file was given")
    first = files[0][0]
    for header, _ in files:
        for name in ("list_sha256", "commit", "device", "kernel_sources"):
            if header[name] != first[name]:
                raise RecordingError(f"{name} differs between shards: {first[name]!r} and {header[name]!r}")
    return first, [row for _, rows in files for row in rows]
