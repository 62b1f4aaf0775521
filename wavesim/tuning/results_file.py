"""The file of a sweep: one JSON line per finished plan, so that a sweep goes on where it was interrupted.

Example: `{"key": "9f3a...", "plan": "row grouped:4", "predicted_ns": 652113}`. The key is a digest of
pipeline, device, costs and plan: the same question finds its answer, any other question does not.
"""

import errno
import json
import os
from pathlib import Path

from wavesim.errors import RecordingError

MAX_BYTES = 200_000_000


class ResultsFile:
    """Finished predictions by key; None for a plan that deadlocks. Opened once, appended to line by line.

    A last line that was cut off, by an interrupt or a full disk, is dropped. Raises `RecordingError`
    for a file that is no results file, or that cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, int | None] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise RecordingError(
                f"{path}: cannot be opened for results ({error.strerror}); give another path"
            ) from error
        try:
            self._complete = self._read()
            self._file.truncate(self._complete)
        except RecordingError:
            self._file.close()
            raise

    def append(self, key: str, plan: str, predicted_ns: int | None) -> None:
        """Adds one result and makes sure that it is in the file as a whole line, or not at all."""
        line = json.dumps({"key": key, "plan": plan, "predicted_ns": predicted_ns}).encode() + b"\n"
        try:
            self._write(line)
        except OSError as error:
            self._drop_torn_line()
            raise RecordingError(
                f"{self.path}: cannot be written ({error.strerror}); its {len(self.known)} complete results "
                "are kept. Make room, or give another path, and run the same command again to go on"
            ) from error
        self._complete += len(line)
        self.known[key] = predicted_ns

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, line: bytes) -> None:
        # Unbuffered: what did not fit must not be written later, behind the next result.
        if self._file.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _read(self) -> int:
        """Fills `known`. Returns how many bytes of the file are complete lines."""
        if os.fstat(self._file.fileno()).st_size > MAX_BYTES:
            raise RecordingError(
                f"{self.path}: larger than {MAX_BYTES:,} bytes, no results file; give another path"
            )
        complete = 0
        for number, line in enumerate(self.path.read_bytes().splitlines(keepends=True), start=1):
            if not line.endswith(b"\n"):
                break
            key, predicted_ns = self._parsed(line, number)
            self.known[key] = predicted_ns
            complete += len(line)
        return complete

    def _parsed(self, line: bytes, number: int) -> tuple[str, int | None]:
        try:
            entry = json.loads(line)
            key, predicted_ns = entry["key"], entry["predicted_ns"]
        except (ValueError, KeyError, TypeError) as error:
            raise RecordingError(
                f"{self.path}: line {number} is no result of a sweep ({error!r}); give another path"
            ) from error
        if not isinstance(key, str) or not (predicted_ns is None or isinstance(predicted_ns, int)):
            raise RecordingError(f"{self.path}: line {number}: key is {key!r}, predicted_ns {predicted_ns!r}")
        return key, predicted_ns

    def _drop_torn_line(self) -> None:
        """Best effort: what is left of it is dropped when the file is opened again."""
        try:
            os.ftruncate(self._file.fileno(), self._complete)
        except OSError:
            return
