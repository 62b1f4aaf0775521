"""A lighter simpy process: a generator that yields events, started at once and awaited by nobody.

Example: what a thread block does is a generator; a simpy Process would add an event for its start and
one for its end, which nothing looks at, to the one or two that matter.
"""

from collections.abc import Generator
from typing import Any

from simpy import Event

Process = Generator[Event, Any, None]


class Task:
    """Runs a generator up to its first event now, and on from each event that it yields.

    The events must not have been processed yet: nothing is handed on from one that is over.
    """

    __slots__ = ("_process",)

    def __init__(self, process: Process) -> None:
        self._process = process
        self._resume()

    def _resume(self, _: Event | None = None) -> None:
        for event in self._process:
            event.callbacks.append(self._resume)
            return
