"""Measuring in a process of its own, so that a kernel that hangs or faults costs one answer and not the run.

Example: the parent asks "compare this size"; after 20 s without an answer, or a fault that leaves the process
without a usable GPU, it is ended by its process id, and the next question goes to a fresh one.
"""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from wavesim.errors import DeviceError, WavesimError
from wavesim.safe_io.signals import end_with, held_back

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

STARTING_S = 60.0


class WorkerError(WavesimError, RuntimeError):
    """The measuring process hung, died or lost its GPU; the next question gets a fresh one."""


class MeasuringProcess:
    """`make(*arguments)` in a process that is started with the first question, and replaced when it fails."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self._make, self._arguments = make, arguments
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def ask(self, limit_s: float, name: str, *arguments: Any) -> Any:
        """The answer of the method of that name.

        Raises `WorkerError` where none came within `limit_s`, or the `WavesimError` of the other side as a
        `DeviceError` with its words.
        """
        self.send(name, *arguments)
        return self.answer(limit_s)

    def send(self, name: str, *arguments: Any) -> None:
        """Asks, without waiting for the answer. Raises `WorkerError`."""
        try:
            (self._connection or self._start()).send((name, arguments))
        except OSError as error:
            self.close()
            raise WorkerError(f"the measuring process died ({type(error).__name__})") from None

    def answer(self, limit_s: float) -> Any:
        """What the method that was asked for last gives; raises as `ask`."""
        connection = self._connection
        assert connection is not None, "nothing was asked"
        try:
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

    def close(self) -> None:
        """Ends the process; the next question starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, self._make, self._arguments)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
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


def _serve(connection: Connection, make: Callable[..., Any], made_of: tuple[Any, ...]) -> None:
    """Answers questions until the other side closes. After an unknown failure the GPU may be unusable."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a process of its own"
    end_with(parent.join)  # also in the middle of a measurement
    try:
        measurer = make(*made_of)
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
