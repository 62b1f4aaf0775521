"""What crosses the links: each transfer takes a share of its sender's and its receiver's link, first come
first.

Example: a thread block stores 20 GB/s and the link carries 346, so that 17 blocks store at a time and an
eighteenth waits. 132 tiles of 64 KB that a wave ends with are gone after 25 us; the blocks go on one after
the other, and are out of step from then on.
"""

from dataclasses import dataclass
from heapq import heappop, heappush

from wavesim.model.link import Access, Link

FULL = 1.0 + 1e-9


@dataclass(frozen=True)
class Transfer:
    """Bytes on their way from one device's memory to another's, sent by a row of the trace (-1: none)."""

    row: int
    source: int
    target: int
    start_ns: int
    end_ns: int
    bytes: int


class _Direction:
    """One device's link, out or in: shares in use, and until when; nothing starts before what asked
    earlier.
    """

    def __init__(self) -> None:
        self.used = 0.0
        self.last_start = 0
        self.ends: list[tuple[int, float]] = []

    def free_at(self, now: int, share: float) -> int:
        """When so large a share is free; what ends until then is let go."""
        now = max(now, self.last_start)
        while self.ends and (self.ends[0][0] <= now or self.used + share > FULL):
            end, freed = heappop(self.ends)
            self.used -= freed
            now = max(now, end)
        return now

    def take(self, share: float, start: int, end: int) -> None:
        self.used += share
        self.last_start = start
        heappush(self.ends, (end, share))


class Traffic:
    """All links of a host's devices; transfers are kept in `done` in the order in which they were asked
    for.
    """

    def __init__(self, link: Link, devices: int) -> None:
        self._link = link
        self._out = [_Direction() for _ in range(devices)]
        self._in = [_Direction() for _ in range(devices)]
        self._engine_free = [0] * devices
        self.done: list[Transfer] = []

    def store(self, row: int, source: int, target: int, size: int, now: int, access: Access = "write") -> int:
        """When bytes that one thread block moves have arrived."""
        rate = self._link.bytes_per_s(access, 1)
        return self._carry(row, source, target, size, now, rate, rate / self._link.most(access))

    def copy(self, row: int, source: int, target: int, size: int, now: int) -> int:
        """When bytes that the source's copy engine moves have arrived; it moves one thing at a time."""
        begin = max(now, self._engine_free[source])
        end = self._carry(row, source, target, size, begin, self._link.copy_engine_bytes_per_s, 1.0)
        self._engine_free[source] = end
        return end

    def _carry(
        self, row: int, source: int, target: int, size: int, now: int, rate: float, share: float
    ) -> int:
        out, into = self._out[source], self._in[target]
        start = into.free_at(out.free_at(now, share), share)
        end = start + max(1, round(size / rate * 1e9))
        out.take(share, start, end)
        into.take(share, start, end)
        self.done.append(Transfer(row, source, target, start, end, size))
        return end

    def bytes_per_s(self, device: int, now: int) -> float:
        """What comes into and leaves a device's memory now."""
        both = (self._out[device], self._in[device])
        share = sum(share for one in both for end, share in one.ends if end > now)
        return share * self._link.most("write")
