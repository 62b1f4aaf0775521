"""After a hang: what a mirror of the semaphores says of who is there, who waits, and what was not posted.

Example: 132 of 384 blocks of gemm2 have started and none of 192 of gemm1; no row of gemm1 is ready. So
gemm2's blocks hold the SMs and wait for gemm1, which has no room.

Counters say how many blocks have started and what was posted, not on which SM a block is: how many SMs a
kernel holds is worked out. Blocks that have started and whose own tiles are not all posted are taken to be
there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from wavesim.safety.hang.facts import SituationFacts, Unmet
from wavesim.safety.hang.mirror import Mirror, MirroredArray
from wavesim.safety.hang.situation import LAUNCH_NUMBER
from wavesim.safety.hang.stuck import Progress, Stuck

if TYPE_CHECKING:
    from wavesim.safety.hang.pools import Pool

MOST_LISTED = 8  # semaphores and waiters of a kind, in a text
STARTED, SEMAPHORES = "started", "semaphores"


@dataclass(frozen=True)
class Autopsy:
    """A mirror's counters set against a situation."""

    facts: SituationFacts
    mirror: Mirror

    @cached_property
    def started(self) -> Mapping[int, int]:
        """Blocks that have started, of operations whose blocks count themselves."""
        counts: dict[int, int] = {}
        for array in self._arrays(STARTED):
            number = self._numbers[array.operation]
            counts[number] = counts.get(number, 0) + int(array.values.sum())
        return {number: min(count, self.facts.pools.size(number)) for number, count in counts.items()}

    @cached_property
    def stuck(self) -> Stuck | None:
        """The state as far as it is known; None where everything that is awaited was posted."""
        progress = [self._progress(number) for number in range(len(self.facts.operations))]
        reasons = {
            number: reason
            for number, state in enumerate(progress)
            if state in (Progress.PARTLY, Progress.WAITING)
            and (reason := self._reason(number, progress)) is not None
        }
        if not reasons:
            return None
        resident = {number: self._resident(number) for number in reasons}
        heads: dict[Pool, int] = {}
        awaited = {reason.producer for reason in reasons.values()}
        for number, state in enumerate(progress):
            pool = self.facts.pools.of[number]
            if number in awaited and pool is not None and state in (Progress.PARTLY, Progress.HALTED):
                heads.setdefault(pool, number)
        return Stuck(progress, resident, reasons, heads)

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Producers all of whose blocks have started, and that did not post all."""
        texts = []
        for array in self._arrays(SEMAPHORES):
            number, short = self._numbers[array.operation], list(_short(array))
            size = self.facts.pools.size(number)
            if short and self.started.get(number) == size:
                posts = sum(awaited - value for _, value, awaited in short)
                lacks = (
                    f"{array.name} lacks {posts:,} post{'s' * (posts > 1)}, the first at number {short[0][0]}"
                )
                texts.append(
                    f"all {size:,} blocks of {array.operation} have started, and {lacks}: a block still "
                    "runs, waits or does not post"
                )
        return tuple(texts)

    @property
    def lines(self) -> tuple[str, ...]:
        """What the counters say, for people."""
        return tuple(self._lines())

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        operations = self.facts.operations
        return {
            "copies": self.mirror.copies,
            "time_ns": self.mirror.time_ns,
            "started": {operations[number].name: count for number, count in self.started.items()},
            "short": [
                {"semaphore": array.name, "index": index, "value": value, "awaited": awaited}
                for array in self._arrays(SEMAPHORES)
                for index, value, awaited in list(_short(array))[:MOST_LISTED]
            ],
            "gave_up": [str(waiter) for waiter in self.mirror.gave_up],
        }

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Operations by name; by its name without its number the latest of many launches of a kernel."""
        numbers = {}
        for number, operation in enumerate(self.facts.operations):
            numbers[operation.name] = number
            numbers[LAUNCH_NUMBER.sub("", operation.name)] = number
        return numbers

    def _arrays_of(self, number: int) -> list[MirroredArray]:
        return self._semaphores.get(number, [])

    @cached_property
    def _semaphores(self) -> dict[int, list[MirroredArray]]:
        by_number: dict[int, list[MirroredArray]] = {}
        for array in self._arrays(SEMAPHORES):
            by_number.setdefault(self._numbers[array.operation], []).append(array)
        return by_number

    def _arrays(self, kind: str) -> list[MirroredArray]:
        return [
            array for array in self.mirror.arrays if array.kind == kind and array.operation in self._numbers
        ]

    def _lines(self) -> Iterator[str]:
        when = datetime.fromtimestamp(self.mirror.time_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        yield f"copy {self.mirror.copies:,} of the counters, {when}"
        for number, count in self.started.items():
            size, name = self.facts.pools.size(number), self.facts.operations[number].name
            yield f"{name}: {count:,} of {size:,} blocks have started"
        for array in self._arrays(SEMAPHORES):
            if array.awaited is not None:
                yield from self._array_lines(array)
        unknown = {array.operation for array in self.mirror.arrays if array.operation not in self._numbers}
        for name in sorted(unknown)[:MOST_LISTED]:
            yield f"{name} has counters and is not among the launches"
        for waiter in self.mirror.gave_up[:MOST_LISTED]:
            yield f"gave up: {waiter}"
        if len(self.mirror.gave_up) > MOST_LISTED:
            yield f"and {len(self.mirror.gave_up) - MOST_LISTED} more gave up"

    def _array_lines(self, array: MirroredArray) -> Iterator[str]:
        short = list(_short(array))
        waiters = f", awaited by {', '.join(array.waiters)}" if array.waiters else ""
        yield f"{array.name}: {len(array.values) - len(short):,} of {len(array.values):,} are ready{waiters}"
        for index, value, awaited in short[:MOST_LISTED]:
            yield f"  number {index} is at {value:,} of {awaited:,}"
        if len(short) > MOST_LISTED:
            yield f"  and {len(short) - MOST_LISTED:,} more"

    def _progress(self, number: int) -> Progress:
        if self._numbers[LAUNCH_NUMBER.sub("", self.facts.operations[number].name)] != number:
            return Progress.ENDED  # the counters are those of its latest launch
        arrays = self._arrays_of(number)
        is_short = any(next(_short(array), None) for array in arrays)
        if any(array.awaited is not None for array in arrays) and not is_short:
            return Progress.ENDED
        count, size = self.started.get(number), self.facts.pools.size(number)
        waits = number in self.facts.unmet
        if count is None:
            # Nobody counts its blocks: that some were posted says that some were there.
            is_seen = any(int(array.values.sum()) for array in arrays) or waits
            return Progress.WAITING if is_seen else Progress.UNISSUED
        if count == 0:
            return Progress.HALTED if self.facts.turns.turns[number].is_free else Progress.UNISSUED
        if count < size:
            return Progress.PARTLY if waits else Progress.HALTED
        return Progress.WAITING if waits or arrays else Progress.ENDED

    def _reason(self, number: int, progress: list[Progress]) -> Unmet | None:
        for unmet in self.facts.unmet.get(number, ()):
            if unmet.producer is None:
                return unmet
            if unmet.until == "start":
                if self.started.get(unmet.producer, unmet.least) < unmet.least:
                    return unmet
            elif progress[unmet.producer] is not Progress.ENDED:
                return unmet
        return None

    def _resident(self, number: int) -> int:
        """Blocks that have started and whose tiles are not all posted, at most."""
        size = self.facts.pools.size(number)
        count = self.started.get(number, size)
        arrays = [array for array in self._arrays_of(number) if array.awaited is not None]
        if arrays:
            array = arrays[0]
            assert array.awaited is not None
            posted, all_posts = int(array.values.sum()), int(array.awaited.sum())
            count -= posted * size // all_posts if all_posts else 0
        return max(0, count)


def _short(array: MirroredArray) -> Iterator[tuple[int, int, int]]:
    """(index, value, awaited) of the semaphores that have not reached what is awaited."""
    if array.awaited is None:
        return
    for index in np.flatnonzero(array.values < array.awaited).tolist():
        yield index, int(array.values[index]), int(array.awaited[index])
