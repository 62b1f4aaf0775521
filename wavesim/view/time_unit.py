"""The unit a figure's time axis is drawn in: whole tiles where all tiles take equally long, else µs or ms.

Example: the toy's axis reads 0, 1, 2, 3 (one tile = one wave); a GEMM pair on an H200 reads 0 to 500 µs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.trace.trace import IntArray


@dataclass(frozen=True)
class TimeUnit:
    """`ns` nanoseconds make one unit; `symbol` follows a number, `axis` titles the axis."""

    ns: float
    symbol: str
    axis: str

    def of(self, time_ns: IntArray | int) -> NDArray[np.float64]:
        """Times in this unit."""
        return np.asarray(time_ns, dtype=np.float64) / self.ns

    def text(self, time_ns: float) -> str:
        """A time as a person reads it: "4", "3.5", "483.2 µs"."""
        value = time_ns / self.ns
        digits = 0 if value >= 1_000 else 1 if value >= 10 else 2
        text = f"{value:,.{digits}f}"
        if not self.symbol:
            text = f"{value:g}" if abs(value - round(value, 2)) < 1e-9 else f"{value:.2f}"
        return f"{text} {self.symbol}" if self.symbol else text


MICROSECONDS = TimeUnit(1_000.0, "µs", "time (µs)")
MILLISECONDS = TimeUnit(1_000_000.0, "ms", "time (ms)")


def unit_for(makespans_ns: Sequence[int], waves: Sequence[float | None]) -> TimeUnit:
    """The unit that suits these traces: tiles if `waves` is known for all and their tiles agree."""
    longest = max(makespans_ns, default=0)
    known = [wave for wave in waves if wave]
    if known and len(known) == len(waves):
        tiles = {round(span / wave) for span, wave in zip(makespans_ns, known, strict=True)}
        if len(tiles) == 1:
            return TimeUnit(float(tiles.pop()), "", "time (one tile = one wave)")
    return MILLISECONDS if longest >= 10_000_000 else MICROSECONDS
