"""What can go wrong, as types: one exception per thing a user can do about it.

Example: a consumer block spins on a semaphore that nobody will post. Whether that happened in
the simulator or on a GPU, the same `DeadlockError` says who waits, where and for what.
"""

from dataclasses import dataclass

OF_LAB = ("anywidget", "ipywidgets", "jupyterlab", "plotly", "traitlets")  # of the extra `lab`


def naming_extra(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The same error; of a package for notebooks and figures it says how to install it."""
    missing = (error.name or "").partition(".")[0]
    if missing not in OF_LAB:
        return error
    words = f"this needs {missing}, which is not installed: pip install {missing}, or 'wavesim-cuda[lab]'"
    return ModuleNotFoundError(words, name=error.name)


class WavesimError(Exception):
    """Base of every error that wavesim raises on purpose."""


class DescriptionError(WavesimError, ValueError):
    """A device, kernel, dependency, order, policy or plan that can't be: names value, bound and fix.

    One line, whatever the names in it hold.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(" ".join(message.splitlines()))


class RecordingError(WavesimError, ValueError):
    """A file from outside that is not a readable trace: names file, field and position."""


class OutputError(WavesimError, OSError):
    """A file that can't be written: names it and says that what was there before is whole."""


class DeviceError(WavesimError, RuntimeError):
    """No usable GPU, or a missing package: names the install line."""


class CompileError(WavesimError, RuntimeError):
    """CUDA source that did not compile: the log with numbered source lines."""


class UnneededStageWarning(UserWarning):
    """A pipeline has a stage that nobody needs and that needs nobody: perhaps a dependency is missing."""


@dataclass(frozen=True)
class Waiter:
    """One block that waits for a semaphore, and the SM slot it holds meanwhile."""

    stage: str
    tile: tuple[int, int, int]
    sm: int
    slot: int
    semaphore: str
    seen: int
    awaited: int

    def __str__(self) -> str:
        return (
            f"{self.stage} block {self.tile} on SM {self.sm} slot {self.slot} waits for {self.semaphore}: "
            f"seen {self.seen}, awaited {self.awaited}"
        )


class DeadlockError(WavesimError, RuntimeError):
    """Blocks wait for semaphores that can never be posted; raised by simulator and GPU runner alike.

    `waiters` hold SM slots while they spin; `starved` says in words which blocks can never be
    issued because of that; `detail` adds what the backend knows besides (a time limit, say). Of a stream
    program `reasons` are sentences, one for each operation and host thread that waits. Without any of these
    it is not known which blocks waited. Raises `TypeError` for waiters that are none, such as a text.
    """

    def __init__(
        self,
        waiters: tuple[Waiter, ...] = (),
        starved: tuple[str, ...] = (),
        detail: str = "",
        reasons: tuple[str, ...] = (),
    ) -> None:
        # A text is a sequence too, and its letters would be listed as blocks.
        if not all(isinstance(waiter, Waiter) for waiter in waiters):
            raise TypeError(f"waiters are {waiters!r:.80}; each must be a Waiter, and words are the `detail`")
        self.waiters = waiters
        self.starved = starved
        self.detail = detail
        self.reasons = reasons
        super().__init__(self._message())

    @property
    def summary(self) -> str:
        """One line: how many blocks wait, and what the first of them waits for."""
        return f"{self.headline}, the first: {self.waiters[0]}" if self.waiters else self.headline

    @property
    def headline(self) -> str:
        """What is stuck, without the blocks."""
        if self.reasons:
            return "deadlock: nothing is left to happen"
        count = f"{len(self.waiters)} " if self.waiters else ""
        return f"deadlock: {count}blocks wait for semaphores that will not be posted"

    def _message(self) -> str:
        shown = [f"  {waiter}" for waiter in self.waiters[:8]]
        if len(self.waiters) > len(shown):
            shown.append(f"  ... and {len(self.waiters) - len(shown)} more")
        lines = [self.headline, *shown, *(f"  {reason}" for reason in self.reasons)]
        lines += [f"never issued: {fact}" for fact in self.starved]
        if self.detail:
            lines.append(self.detail)
        return "\n".join(lines)
