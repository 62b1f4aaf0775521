"""The file of a sweep: one JSON line per finished plan, so that a sweep goes on where it was interrupted.

Example: `{"key": "9f3a...", "plan": "row grouped:4", "predicted_ns": 652113}`. The key is a digest of
pipeline, device, costs and plan: the same question finds its answer, any other question does not.
"""

import json
import os
import re
from pathlib import Path

from wavesim.errors import OutputError, RecordingError
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.writing import append, locked, open_appending

MAX_BYTES = 50_000_000  # half a million results
LONGEST_LINE = 100_000
LONGEST_PLAN = 1_000  # letters, each of twelve bytes at most; the key, not the name, tells plans apart
MOST_NS = 2**63 - 1
# A line of ours. What is cut off at a file's end is taken away only if it is the beginning of one.
TEXT = re.compile(rb"(?:[ -!#-\[\]-~]|\\.?)*+")  # possessive: else each escape doubles the time
NUMBER = re.compile(rb"(?:[0-9]+|n(?:u(?:ll?)?)?|)")
LAYOUT = (b'{"key": "', TEXT, b'", "plan": "', TEXT, b'", "predicted_ns": ', NUMBER, b"}")
WHOLE = re.compile(b"".join(re.escape(part) if isinstance(part, bytes) else part.pattern for part in LAYOUT))


class ResultsFile:
    """Finished predictions by key; None for a plan that deadlocks. Several processes may have one open.

    Opened once, appended to line by line, each under the file's lock, when `known` also learns what others
    have added. A last line that was cut off, by a kill or a full disk, is dropped; any other file is left as
    it is. Raises `RecordingError` for a file that is no results file, or that cannot be read or written, and
    `OutputError` where it cannot be locked or is another user's link.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, int | None] = {}
        self._read_bytes = self._read_lines = 0
        try:
            self._number = open_appending(path)
        except OutputError:
            raise
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise RecordingError(
                f"{one_line(str(path))}: cannot be opened for results ({reason}); give another path"
            ) from error
        try:
            with locked(self._number, path):
                self._catch_up()
        except BaseException:
            self.close()
            raise

    def append(self, key: str, plan: str, predicted_ns: int | None) -> None:
        """Adds one result and makes sure that it is in the file as a whole line, or not at all.

        Of a plan's name its first `LONGEST_PLAN` letters: a line that is too long could not be read again.
        """
        entry = {"key": key, "plan": plan[:LONGEST_PLAN], "predicted_ns": predicted_ns}
        line = json.dumps(entry).encode() + b"\n"
        try:
            with locked(self._number, self.path):
                self._require_in_place()
                self._catch_up()
                append(self._number, line)
                self._read_bytes += len(line)
                self._read_lines += 1
        except OutputError:
            raise
        except OSError as error:
            raise RecordingError(
                f"{self.path}: cannot be written ({error.strerror}); its {len(self.known)} complete results "
                "are kept. Make room, or give another path, and run the same command again to go on"
            ) from error
        self.known[key] = predicted_ns

    def close(self) -> None:
        """Closes the file."""
        if self._number >= 0:
            os.close(self._number)
            self._number = -1

    def _require_in_place(self) -> None:
        try:
            is_in_place = os.path.samestat(os.fstat(self._number), self.path.stat())
        except FileNotFoundError:
            is_in_place = False
        if not is_in_place or os.fstat(self._number).st_size < self._read_bytes:
            raise RecordingError(
                f"{self.path}: was removed, replaced or cut while results were written to it; run the same "
                "command again to go on with what is there"
            )

    def _catch_up(self) -> None:
        """Learns what was added since the last time. Drops a last line that its writer did not finish."""
        size = os.fstat(self._number).st_size
        if size > MAX_BYTES:
            raise RecordingError(
                f"{self.path}: larger than {MAX_BYTES:,} bytes, no results file; give another path"
            )
        if size == self._read_bytes:
            return
        added, whole, lines, rest = self._added()
        if whole + len(rest) < size:
            raise RecordingError(
                f"{self.path}: line {lines + 1} has {LONGEST_LINE:,} bytes or more, as no result of a sweep "
                "has; take it out, or give another path"
            )
        text = rest.rstrip()
        if text and not (_is_cut_off(text) and (self.known or added or LAYOUT[2] in text)):
            raise RecordingError(f"{self.path}: line {lines + 1} is no result of a sweep; give another path")
        # All of it is ours: only now may the file change.
        if rest and (not text or WHOLE.fullmatch(text)):
            added |= self._parsed(rest, lines + 1)
            append(self._number, b"\n")
            whole, lines = whole + len(rest) + 1, lines + 1
        elif rest:
            os.ftruncate(self._number, whole)
        self.known |= added
        self._read_bytes, self._read_lines = whole, lines

    def _added(self) -> tuple[dict[str, int | None], int, int, bytes]:
        """New results, up to which byte and line of the file, and what follows the last line break."""
        times: dict[str, int | None] = {}
        whole, lines = self._read_bytes, self._read_lines
        with os.fdopen(os.dup(self._number), "rb") as file:
            file.seek(whole)
            while (line := file.readline(LONGEST_LINE)).endswith(b"\n"):
                lines += 1
                whole += len(line)
                times |= self._parsed(line, lines)
        return times, whole, lines, line

    def _parsed(self, line: bytes, number: int) -> dict[str, int | None]:
        """A line's result by its key; none for a blank line, such as an editor leaves at the end."""
        if not line.strip():
            return {}
        try:
            entry = json.loads(line)
            key, predicted_ns = entry["key"], entry["predicted_ns"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RecordingError(
                f"{self.path}: line {number} is no result of a sweep ({one_line(repr(error))}); give another "
                "path"
            ) from error
        is_time = type(predicted_ns) is int and 0 <= predicted_ns <= MOST_NS
        if not isinstance(key, str) or not (predicted_ns is None or is_time):
            shown = one_line(f"key is {key!r}, predicted_ns {predicted_ns!r}")
            raise RecordingError(f"{self.path}: line {number}: {shown}; give another path")
        return {key: predicted_ns}


def _is_cut_off(rest: bytes) -> bool:
    """Whether bytes are a line of ours without its line break, or the beginning of one."""
    at = 0
    for part in LAYOUT:
        if isinstance(part, bytes):
            if part.startswith(rest[at:]):
                return True
            if not rest.startswith(part, at):
                return False
            at += len(part)
        elif text := part.match(rest, at):
            at = text.end()
    return False
