"""How the blocks of one SM share it.

Example: two blocks compute on one SM, each at 0.56 of the speed it has alone on average. The older one gets
more of it, 0.65, the younger 0.47: of two that start together one ends after 230 us and the other after
280, and from then on they are out of step. Of four small ones the oldest ends after 168 us, the others after
175, 184 and 196. When a block ends or starts to spin, those left speed up at once, beside one that spins a
little less. Observed on an NVIDIA H200 (docs/mechanisms.md).
"""

from bisect import insort
from collections.abc import Sequence

from simpy import Environment, Event

from wavesim.costs.cost_model import RATE_UNIT, Rates
from wavesim.sim.events import NORMAL, Timer

Age = tuple[int, int]  # when a block was issued, and its row among those issued at once


class Member:
    """A computing block: its age, its work left in ns / RATE_UNIT, and what fires when that is done.

    `is_stalled`: what is left is a latency, which takes as long whoever else is there.
    """

    __slots__ = ("age", "event", "is_stalled", "left")

    def __init__(self, age: Age, left: int, event: Event, *, is_stalled: bool) -> None:
        self.age = age
        self.left = left
        self.event = event
        self.is_stalled = is_stalled

    def __lt__(self, other: "Member") -> bool:
        return self.age < other.age


class SharedSm:
    """Of n computing blocks the i-th oldest progresses at `rates[n - 1][i] / RATE_UNIT`.

    `beside` has these rates by how many blocks spin (`CostModel.rates_beside`); one entry where spinning
    costs the others nothing. Places and companies beyond the last are like the last.
    """

    def __init__(self, env: Environment, beside: Sequence[Rates]) -> None:
        self._env = env
        self._beside = beside
        self._rates = beside[0]
        self._spinning = 0
        self._members: list[Member] = []  # oldest first
        self._since = 0
        self._timer: Timer | None = None

    def compute(self, work_ns: int, age: Age, ahead: int = 0) -> Event:
        """An event that fires, at a whole nanosecond, when a block has had `work_ns` of an SM alone.

        Its value is by how much more than that the block has had, at most 0, in ns / RATE_UNIT: `ahead` for a
        block that computes on at once, so that stops on the way cost nothing.
        """
        return self._join(age, work_ns * RATE_UNIT + ahead, is_stalled=False)

    def stall(self, latency_ns: int, age: Age) -> Event:
        """An event that fires after a latency too short for the SM's other blocks to make use of it."""
        return self._join(age, latency_ns * RATE_UNIT, is_stalled=True)

    def _join(self, age: Age, left: int, *, is_stalled: bool) -> Event:
        self._advance()
        event = Event(self._env)
        insort(self._members, Member(age, left, event, is_stalled=is_stalled))
        self._set_timer()
        return event

    def spin(self) -> None:
        """A block of the SM begins to spin."""
        self._set_spinning(self._spinning + 1)

    def stop_spinning(self) -> None:
        """A block of the SM has stopped spinning."""
        self._set_spinning(self._spinning - 1)

    def _set_spinning(self, spinning: int) -> None:
        self._spinning = spinning
        if len(self._beside) == 1:
            return
        self._advance()
        self._rates = self._beside[spinning]
        if self._members:
            self._set_timer()

    def _advance(self) -> None:
        """Takes what was done since the last change off the work left."""
        now = int(self._env.now)
        elapsed, self._since = now - self._since, now
        if elapsed:  # often nothing: a block comes or goes at the instant at which another has
            for member, rate in zip(self._members, self._rates_now(), strict=False):
                member.left -= elapsed * (RATE_UNIT if member.is_stalled else rate)

    def _rates_now(self) -> tuple[int, ...]:
        """Of the computing blocks, the oldest first; at least as many as there are."""
        count = len(self._members)
        if count <= len(self._rates):
            return self._rates[count - 1]
        return self._rates[-1] + self._rates[-1][-1:] * count

    def _set_timer(self) -> None:
        """One pending alarm per SM: the earliest instant at which a block has had its work."""
        if self._timer is not None:
            self._timer.cancel()
        delay: int | None = None
        for member, rate in zip(self._members, self._rates_now(), strict=False):
            due = -(-member.left // (RATE_UNIT if member.is_stalled else rate))
            if delay is None or due < delay:
                delay = due
        assert delay is not None
        self._timer = Timer(self._env, self._next_end, NORMAL, max(0, delay))

    def _next_end(self, _: Event) -> None:
        self._timer = None
        self._advance()
        members, self._members = self._members, []
        for member in members:
            if member.left > 0:
                self._members.append(member)
            else:
                member.event.succeed(member.left)
        if self._members:
            self._set_timer()
