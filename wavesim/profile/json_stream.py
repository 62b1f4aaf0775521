"""A JSON file of any size as a stream of its parts, plain or gzipped, in bounded memory.

Example: a profiler trace is one object of 1 GB, nearly all of it the array `traceEvents`. Its events come
out one by one, are looked at and dropped; what is held at any time is a chunk and one event.

ijson parses. It has no limits of its own: a value nested 100,000 deep or a string of 10 GB would fill the
memory before it returned, and so would a small gzip file that unpacks to zeros; and ijson 3.6 crashes on
integers longer than Python converts (4,300 digits). `Guard` sees every chunk first and refuses those. Chunks
are data: nothing of the file is ever evaluated.
"""

import codecs
import gzip
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from wavesim.errors import RecordingError
from wavesim.safe_io.reading import open_data

CHUNK_BYTES = 1 << 18
MAX_UNPACKED_BYTES = 8 << 30
MAX_PACKING, PACKING_FREE_BYTES = 120, 16 << 20  # gzip packs real traces 10 to 40 times
MAX_DEPTH = 100
MAX_VALUE_BYTES = 16 << 20  # one event, with its stack and shapes, is some KB
MAX_TOKEN_BYTES = 2 << 20  # a string; the parser reads one from its start again with each chunk
# Every run of 256 digits covers two neighbouring ones of the bytes 0, 128, 256... of its chunk.
DIGITS_STRIDE = 128
DIGIT_PAIR = re.compile(rb"[0-9](?=[0-9])")
GZIP_MAGIC = b"\x1f\x8b"

NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
ESCAPE = re.compile(rb"\\.", re.DOTALL)
STEP = np.zeros(256, dtype=np.int8)
STEP[list(b"[{")] = 1
STEP[list(b"]}")] = -1

Sink = Callable[[Any], None]


class _Part:
    """One prefix of the file: a parser, and the function that its values go to."""

    def __init__(self, prefix: str, sink: Sink, is_brief: bool) -> None:
        import ijson  # noqa: PLC0415  # a GPU machine reads a trace of its own without it

        self._sink = sink
        self._is_brief = is_brief
        self._received = self._before = 0
        self._parser = ijson.items_coro(self, prefix)

    def send(self, value: Any) -> None:
        """Called by ijson with each value."""
        self._received += 1
        self._sink(value)

    def feed(self, chunk: bytes) -> None:
        """Parses a chunk, unless this is a brief part that has ended: a chunk brought nothing more of it."""
        if self._parser is None:
            return
        self._parser.send(chunk)
        if self._is_brief and self._received and self._received == self._before:
            self._parser = None
        self._before = self._received

    def end(self) -> None:
        """Raises ijson's error if the file stops in the middle."""
        if self._parser is not None:
            self._parser.close()

    def drop(self) -> None:
        """Lets go of the parser: it refers back to this part, and Python's collector cannot see into it."""
        self._parser = None


class Guard:
    """Follows nesting and sizes through the chunks of one file. Raises `RecordingError` past a limit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._depth = 0
        self._is_in_string = False
        self._has_open_escape = False
        self._value_start = 0
        self._last_quote = 0
        self._item_depth = 0  # of the array whose items are handed out: 1 in a bare list, else 2

    def check(self, chunk: bytes) -> None:
        """Takes the next chunk into account."""
        if not self._item_depth:
            self._item_depth = 1 if chunk.lstrip()[:1] == b"[" else 2
        self._require(not _has_long_number(chunk), "a number of hundreds of digits")
        depths = self._depths(chunk)
        self._position += len(chunk)
        if depths.size:
            self._require(int(depths.max()) <= MAX_DEPTH, f"values nested deeper than {MAX_DEPTH}")
            self._depth = int(depths[-1])
            if int(depths.min()) <= self._item_depth:
                self._value_start = self._position
        elif self._depth <= self._item_depth:
            self._value_start = self._position
        value, token = self._position - self._value_start, self._position - self._last_quote
        self._require(value <= MAX_VALUE_BYTES, f"one value of more than {MAX_VALUE_BYTES >> 20} MB")
        self._require(token <= MAX_TOKEN_BYTES, f"one text of more than {MAX_TOKEN_BYTES >> 20} MB")

    def _depths(self, chunk: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
        text = chunk
        if self._has_open_escape:
            text = text[1:]
            self._has_open_escape = False
        if b"\\" in text:
            text = ESCAPE.sub(b"", text)
            self._has_open_escape = text.endswith(b"\\")
        parts = text.translate(None, NOT_STRUCTURE).split(b'"')
        if len(parts) > 1:
            self._last_quote = self._position
        outside = b"".join(parts[1::2] if self._is_in_string else parts[::2])
        self._is_in_string ^= len(parts) % 2 == 0
        steps = STEP[np.frombuffer(outside, dtype=np.uint8)]
        return self._depth + np.cumsum(steps, dtype=np.int64)

    def _require(self, is_met: bool, what: str) -> None:
        if not is_met:
            raise RecordingError(f"{self._path}: near byte {self._position}: {what}; no profiler writes that")


def _has_long_number(chunk: bytes) -> bool:
    probes = DIGIT_PAIR.finditer(chunk[::DIGITS_STRIDE])
    starts = (match.start() * DIGITS_STRIDE for match in probes)
    return any(chunk[start : start + DIGITS_STRIDE].isdigit() for start in starts)


def read_json(
    path: Path,
    sinks: Mapping[str, Sink],
    *,
    brief: Collection[str] = (),
    max_bytes: int = MAX_UNPACKED_BYTES,
) -> int:
    """Hands every value at each prefix of `sinks` to its function, in one pass. Returns the bytes unpacked.

    A prefix is ijson's: "traceEvents.item" for the items of the root's array `traceEvents`; one in `brief`
    is a short array that is not looked for again once it is over. Numbers with a fraction come as `Decimal`:
    a time stamp of 16 digits does not fit a float. Raises `RecordingError`.
    """
    import ijson  # noqa: PLC0415  # as above

    guard = Guard(path)
    parts = [_Part(prefix, sink, prefix in brief) for prefix, sink in sinks.items()]
    position = 0
    try:
        for chunk in _chunks(path, max_bytes):
            guard.check(chunk)
            for part in parts:
                part.feed(chunk)
            position += len(chunk)
        for part in parts:
            part.end()
    except (ijson.JSONError, ValueError, UnicodeDecodeError, ArithmeticError, StopIteration) as error:
        if isinstance(error, RecordingError):
            raise
        # The parser's own second line quotes the file.
        reason = " ".join(str(error).partition("\n")[0].split())[:120] or type(error).__name__
        raise RecordingError(f"{path}: not JSON near byte {position}: {reason}") from None
    finally:
        for part in parts:
            part.drop()
    return position


def _chunks(path: Path, max_bytes: int) -> Iterator[bytes]:
    """The file's bytes, unpacked if it is gzip. Raises `RecordingError` naming the file."""
    try:
        with open_data(path) as raw:
            packed = raw.seek(0, 2)
            raw.seek(0)
            is_gzip = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            yield from _limited(path, raw, is_gzip, packed, max_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RecordingError(f"{path}: damaged gzip file: {error}") from None
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}") from None


def _limited(path: Path, raw: BinaryIO, is_gzip: bool, packed: int, max_bytes: int) -> Iterator[bytes]:
    total = 0
    source: Any = gzip.GzipFile(fileobj=raw) if is_gzip else raw
    while chunk := source.read(CHUNK_BYTES):
        total += len(chunk)
        if total > max_bytes:
            raise RecordingError(
                f"{path}: more than {max_bytes >> 20} MB unpacked; profile fewer steps, or pass max_bytes"
            )
        if is_gzip and total > max(PACKING_FREE_BYTES, MAX_PACKING * packed):
            raise RecordingError(
                f"{path}: unpacks to more than {MAX_PACKING} times its size; no profiler trace does"
            )
        yield chunk.removeprefix(codecs.BOM_UTF8) if total == len(chunk) else chunk
