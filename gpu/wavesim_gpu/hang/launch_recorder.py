"""Every launch of a process, written down before it is issued, for `wavesim why-hang` after a hang.

Example:
    with record_launches("launches.json") as recorder:
        program.enqueue()  # launches of this package are recorded by themselves
        recorder.launched("reduce", grid=(64,), threads=256, function=kernel.kernel.ptr, stream=stream)
        recorder.wrap(raw_kernel, "mine")((64,), (256,), arguments)  # the same for a CuPy RawKernel

The file is lines of JSON, each with lists that are put together: an operation goes out as one line in one
write, so that a process that is killed leaves all its launches, and at worst the last line is cut off. The
fields are those of `docs/why-hang.md`.
"""

import json
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from wavesim.errors import DescriptionError
from wavesim.safe_io.writing import write_text
from wavesim_gpu.hang.launch_facts import Fields, LaunchFacts
from wavesim_gpu.hang.planned_run import PlannedRun

KEPT = 2_000  # lines, of a run each: where there are twice as many, the older half is left out
_active: list["LaunchRecorder"] = []


class Facts(Protocol):
    """What a recorder asks of the driver: `LaunchFacts`, or what stands in for it."""

    def kernel(self, function: int) -> Fields:
        """Registers, static shared memory and carve-out of a kernel."""

    def stream(self, address: int) -> Fields:
        """Name, kind, priority and device of a stream."""

    def part(self, address: int) -> Fields:
        """The part of a GPU that a stream's kernels run on."""


@contextmanager
def record_launches(path: str | Path, *, has_all_waits: bool = False) -> Iterator["LaunchRecorder"]:
    """Records launches until it is left. `has_all_waits`: what is launched waits for nothing else.

    One at a time. Raises `OutputError` for a path that cannot be written, `DeviceError` without a GPU.
    """
    if _active:
        raise DescriptionError("record_launches is active already; leave that one first")
    recorder = LaunchRecorder(path, LaunchFacts(), has_all_waits=has_all_waits)
    _active.append(recorder)
    try:
        yield recorder
    finally:
        _active.remove(recorder)
        recorder.close()


def active_recorder() -> "LaunchRecorder | None":
    """The one that is recording, if any: whoever launches tells it before."""
    return _active[0] if _active else None


class LaunchRecorder:
    """Writes operations and waits to a file as they come. Any thread may use it.

    Of this package it sees programs and `mlp` on our kernels, but no graphs of `mlp`; what cuBLASLt, PyTorch
    and others launch it does not see, unless it is told by `launched`. What a stream is, is asked once for
    each address.
    """

    def __init__(
        self, path: str | Path, facts: Facts, *, has_all_waits: bool = False, kept: int = KEPT
    ) -> None:
        self.path, self._facts, self._kept = Path(path), facts, kept
        self._head = {
            "name": self.path.stem,
            "source": f"recorded in process {os.getpid()}",
            "all_waits": has_all_waits,
        }
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._latest: dict[str, str] = {}
        self._parts: dict[str, Fields] = {}
        self._runs: WeakKeyDictionary[PlannedRun, tuple[list[Fields], list[Fields]]] = WeakKeyDictionary()
        self._lines: list[str] = []
        self._left_out = 0
        self._rewrite()

    def launched(
        self,
        name: str,
        *,
        grid: Sequence[int],
        threads: int,
        function: int = 0,
        dynamic_shared_bytes: int = 0,
        stream: Any = 0,
        **others: Any,
    ) -> str:
        """Notes a launch that is about to be made. Returns the operation's name: `name`, numbered.

        `function` is the CUfunction's address, from which registers, shared memory and carve-out are known;
        without it pass `registers`. `stream` is CuPy's or PyTorch's, or an address. `others` are more fields
        of an operation: `cluster`, `cooperative`, `dependent`, `trigger`, `after`.
        """
        address = _address(stream)
        operation = {
            "name": name,
            "grid": list(grid),
            "threads": threads,
            **(self._facts.kernel(function) if function else {}),
            "dynamic_shared_bytes": dynamic_shared_bytes,
            **self._facts.stream(address),
            **others,
        }
        return self.note_run([operation], [address])[name]

    def waits(self, waiter: str, producer: str, **others: Any) -> None:
        """Notes what the blocks of an operation wait for. Both are names of operations, or of their latest.

        `others` are more fields of a wait: `blocks`, `rows`, `until`. A producer that was not launched yet is
        not known: write the wait down after it.
        """
        with self._lock:
            names = self._latest.get(waiter, waiter), self._latest.get(producer, producer)
            self._write({"waits": [{"waiter": names[0], "producer": names[1], **others}]})

    def wrap(self, kernel: Any, name: str = "") -> Callable[..., None]:
        """A CuPy RawKernel that is recorded whenever it is launched, on the current stream."""
        import cupy  # noqa: PLC0415  # whoever has such a kernel has it

        title, function = name or kernel.name, int(kernel.kernel.ptr)

        def launch(grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
            threads = 1
            for size in block:
                threads *= size
            stream = cupy.cuda.get_current_stream()
            self.launched(
                title,
                grid=grid,
                threads=threads,
                function=function,
                dynamic_shared_bytes=shared_mem,
                stream=stream,
            )
            kernel(grid, block, args, shared_mem=shared_mem)

        return launch

    def note_run(
        self, operations: Sequence[Fields], streams: Sequence[int], waits: Sequence[Fields] = ()
    ) -> dict[str, str]:
        """Operations that are about to be launched together, and what their blocks wait for.

        Names in them are numbered from the second launch on, so that each stands for one. `streams` are
        their streams' addresses. Returns the new names by the old.
        """
        with self._lock:
            numbered = [self._numbered(operation["name"]) for operation in operations]
            titles = {operation["name"]: title for operation, title in zip(operations, numbered, strict=True)}
            for operation, stream in zip(operations, streams, strict=True):
                if operation["device"] not in self._parts:
                    self._parts[operation["device"]] = self._facts.part(stream)
                    self._rewrite()
            line: Fields = {
                "operations": [
                    operation | {"name": title} for operation, title in zip(operations, numbered, strict=True)
                ]
            }
            if waits:
                names = ("waiter", "producer")
                line["waits"] = [wait | {name: titles[wait[name]] for name in names} for wait in waits]
            self._write(line)
            self._latest |= titles
            return titles

    def note_planned(self, run: PlannedRun, after: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A run of a plan, which begins after `after`. Returns the last operation of each of its streams."""
        if run not in self._runs:
            self._runs[run] = run.operations(self._facts.stream), run.waits()
        operations, waits = self._runs[run]
        streams = [launch.stream for launch in run.launches]
        if after:
            first = {streams.index(stream) for stream in streams}
            operations = [
                operation | {"after": list(after)} if index in first else operation
                for index, operation in enumerate(operations)
            ]
        titles = self.note_run(operations, [run.addresses[stream] for stream in streams], waits)
        last = {stream: operation["name"] for stream, operation in zip(streams, operations, strict=True)}
        return tuple(titles[name] for name in last.values())

    def close(self) -> None:
        """Ends the file."""
        os.close(self._file)

    def _numbered(self, name: str) -> str:
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        return f"{name} #{number}" if number > 1 else name

    def _write(self, line: Fields) -> None:
        """Appends a line in one write, so that it is there whole, whatever happens next."""
        text = json.dumps(line) + "\n"
        self._lines.append(text)
        try:
            os.write(self._file, text.encode())
        except OSError as error:  # the launch goes on
            warnings.warn(f"{self.path}: a launch is not recorded: {error.strerror}", stacklevel=4)
        if len(self._lines) >= 2 * self._kept:
            self._left_out += len(self._lines) - self._kept
            self._lines = _without_lost(self._lines[-self._kept :])
            self._rewrite()

    def _rewrite(self) -> None:
        """The whole file anew: with another part of a device, or without the oldest launches."""
        notes = [f"{self._left_out:,} older runs are left out"] if self._left_out else []
        head = {**self._head, "devices": list(self._parts.values()), "notes": notes}
        write_text(self.path, "".join([json.dumps(head) + "\n", *self._lines]))
        old, self._file = getattr(self, "_file", None), os.open(self.path, os.O_WRONLY | os.O_APPEND)
        if old is not None:
            os.close(old)


def _without_lost(lines: Sequence[str]) -> list[str]:
    entries = [json.loads(line) for line in lines]
    known = {operation["name"] for line in entries for operation in line.get("operations", ())}
    for line in entries:
        for operation in line.get("operations", ()):
            if "after" in operation:
                operation["after"] = [name for name in operation["after"] if name in known]
        if "waits" in line:
            line["waits"] = [wait for wait in line["waits"] if {wait["waiter"], wait["producer"]} <= known]
    return [json.dumps(line) + "\n" for line in entries if line]


def _address(stream: Any) -> int:
    """A stream's address: of CuPy's or PyTorch's stream, or an integer."""
    for field in ("ptr", "cuda_stream"):
        if hasattr(stream, field):
            return int(getattr(stream, field))
    return int(stream or 0)
