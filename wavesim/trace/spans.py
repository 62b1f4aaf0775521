"""Spans of time: those that meet become one.

Example: a copy engine that is busy from 0 to 4, 3 to 6 and 9 to 10 us has two spans, which cover 7 us.
"""

from collections.abc import Iterable
from typing import TypeVar

Time = TypeVar("Time", int, float)


def merged(spans: Iterable[tuple[Time, Time]], gap: Time = 0) -> list[tuple[Time, Time]]:
    """(start, end) of what these cover together, in the order of time; a `gap` so long parts no two."""
    joined: list[tuple[Time, Time]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1] + gap:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
