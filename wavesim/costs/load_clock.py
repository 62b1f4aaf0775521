"""The SM clock that a layer runs at: the more tensor cores work, the lower the power limit holds it.

Example: an H200 whose tensor cores never rest runs at 1.22 GHz. A layer in which they work half of the time
draws half the power for them, and more clock is left: 1.22 / 0.5^(1/3) = 1.54 GHz. Few rows leave it at the
clock of one busy SM, 1.80 GHz. Power is taken to grow with the cube of the clock: voltage follows it.
"""

from dataclasses import dataclass
from functools import cache

from wavesim.costs.device_costs import own_file

POWER_EXPONENT = 3


@dataclass(frozen=True)
class LoadClock:
    """`limit_ghz`: with all tensor cores at work all the time; `most_ghz`: with hardly any."""

    limit_ghz: float
    most_ghz: float

    def ghz(self, tensor_share: float) -> float:
        """At a share, 0 to 1, of all SMs' cycles in which tensor cores work."""
        least = (self.limit_ghz / self.most_ghz) ** POWER_EXPONENT
        return float(self.limit_ghz * max(tensor_share, least) ** (-1 / POWER_EXPONENT))


@cache
def load_clock_of(device_name: str) -> LoadClock | None:
    """That of a device; None where it was not recorded under load."""
    constants = own_file(device_name).constants
    found = [constants.get(f"clock.{key}") for key in ("limit_ghz", "single_ghz")]
    limit, most = (one.value if one is not None else None for one in found)
    return None if limit is None or most is None else LoadClock(limit, most)
