"""Measuring in a process of its own, so that a kernel that hangs or faults costs one size and not the run.

Example: the parent asks "compare this size"; after 20 s without an answer, or a fault that leaves the process
without a usable GPU, it is ended by its process id, and the next question goes to a fresh one.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from wavesim.errors import DeviceError, WavesimError
from wavesim.evaluation.blind_sizes import BlindSize
from wavesim.guard.signals import end_with, held_back
from wavesim.trace.trace import Trace
from wavesim_gpu.evaluation.blind_measuring import ComparedSize, GpuMeasurer

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

STARTING_S, COMPILING_S, MEASURING_S = 60.0, 120.0, 20.0


class WorkerError(WavesimError, RuntimeError):
    """The measuring process hung, died or lost its GPU; the next question gets a fresh one."""


class Worker:
    """A measurer with the methods of `GpuMeasurer`, in a process that is replaced when it fails.

    `make` builds the measurer there. All methods raise `WorkerError`, or the `WavesimError` of the other side
    as a `DeviceError` with its words.
    """

    def __init__(
        self, commit: str, make: Callable[[str], Any] = GpuMeasurer, measuring_s: float = MEASURING_S
    ) -> None:
        self._commit, self._make, self._measuring_s = commit, make, measuring_s
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def facts(self) -> dict[str, Any]:
        """As `GpuMeasurer.facts`."""
        found: dict[str, Any] = self._ask(STARTING_S, "facts")
        return found

    def prepare(self, sizes: Sequence[BlindSize]) -> None:
        """As `GpuMeasurer.prepare`."""
        self._ask(COMPILING_S, "prepare", sizes)

    def streams(self, size: BlindSize) -> dict[str, Trace]:
        """As `GpuMeasurer.streams`."""
        found: dict[str, Trace] = self._ask(self._measuring_s, "streams", size)
        return found

    def compare(self, size: BlindSize, plans: Sequence[str], repeat: int, stamp: str) -> ComparedSize:
        """As `GpuMeasurer.compare`."""
        found: ComparedSize = self._ask(self._measuring_s, "compare", size, plans, repeat, stamp)
        return found

    def close(self) -> None:
        """Ends the process; nothing is asked of it afterwards."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None

    def _ask(self, limit_s: float, name: str, *arguments: Any) -> Any:
        connection = self._connection or self._start()
        try:
            connection.send((name, arguments))
            if not connection.poll(limit_s):
                self.close()
                raise WorkerError(f"no answer within {limit_s:g} s: a kernel hung; the process was ended")
            kind, answer = connection.recv()
        except (EOFError, OSError) as error:
            self.close()
            raise WorkerError(f"the measuring process died ({type(error).__name__})") from None
        if kind == "broken":
            self.close()
            raise WorkerError(str(answer))
        if kind == "refused":
            raise DeviceError(str(answer))
        return answer

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._make, self._commit), daemon=True)
        with held_back():  # Ctrl-C is for this side, which then ends the other
            self._process.start()
        theirs.close()
        if not self._connection.poll(STARTING_S):
            self.close()
            raise WorkerError(f"the measuring process was not ready within {STARTING_S:g} s")
        kind, words = self._connection.recv()
        if kind != "ready":
            self.close()
            raise WorkerError(str(words))
        return self._connection


def _serve(connection: Connection, make: Callable[[str], Any], commit: str) -> None:
    """Answers questions until the other side closes. After an unknown failure the GPU may be unusable."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a process of its own"
    end_with(parent.join)  # also in the middle of a measurement
    try:
        measurer = make(commit)
        connection.send(("ready", ""))
        while True:
            name, arguments = connection.recv()
            try:
                connection.send(("done", getattr(measurer, name)(*arguments)))
            except WavesimError as error:
                connection.send(("refused", str(error)))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001  # CUDA errors are of many types, and of this process only
        connection.send(("broken", f"{type(error).__name__}: {error}"))
