"""What small panels show, before any of it is drawn: dots in series, panels of series, one scale for all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Dot:
    """One value at the category with this index; `words` are shown at it."""

    at: int
    value: float
    low: float
    high: float
    words: str


@dataclass(frozen=True)
class Series:
    """Dots of one meaning; `colour` is a colour's name in the theme. `shift` is in categories."""

    name: str
    dots: Sequence[Dot]
    colour: str
    symbol: str = "circle"
    shift: float = 0.0


@dataclass(frozen=True)
class Panel:
    """One small plot. `divider` draws a line after that many categories."""

    title: str
    facts: str
    categories: Sequence[str]
    series: Sequence[Series]
    divider: int = 0


@dataclass(frozen=True)
class Scale:
    """The common y axis. `low` and `high` cut off what lies beyond; the shaded side is below `even`."""

    title: str
    low: float
    high: float
    even: float = 1.0
    is_shaded: bool = True
    digits: int = 2
    suffix: str = ""

    def text(self, value: float) -> str:
        """A value in the axis' digits."""
        return f"{value:.{self.digits}f}{self.suffix}".replace("-", "−")


def fitting(title: str, dots: Iterable[Dot], within: tuple[float, float], even: float = 1.0) -> Scale:
    """A scale that holds all dots and `even`, with some room, but never more than `within`."""
    values = [value for dot in dots for value in (dot.low, dot.high)] + [even]
    room = 0.08 * (max(values) - min(values)) or 0.05
    return Scale(title, max(within[0], min(values) - room), min(within[1], max(values) + room), even)
