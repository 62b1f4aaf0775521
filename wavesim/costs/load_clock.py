"""The SM clock that a layer runs at: the more tensor cores work, the lower the power limit holds it.

Example: an H200 whose tensor cores never rest runs at 1.16 GHz in fp16. Where they work half of the time,
0.30 of the power, drawn whether they work or not, remains: 1.16 / (0.30 + 0.70 / 2)^(1/3) = 1.34 GHz. In
bf16, whose significands have 8 bits and not 11, they draw 0.77 as much. Few rows leave it at 1.73 GHz.
Power is taken to grow with the cube of the clock: voltage follows it.
"""

from dataclasses import dataclass
from functools import cache

from wavesim.costs.device_costs import own_file

POWER_EXPONENT = 3
MOST_GHZ = "clock.single_ghz"
LAYER_CLOCK = ("layers.limit_ghz", MOST_GHZ, "layers.rest_share", "layers.bf16_share")


@dataclass(frozen=True)
class LoadClock:
    """`limit_ghz`: with all tensor cores at work all the time; `most_ghz`: with hardly any.

    `rest_share`: of the power at `limit_ghz`, what is drawn whether tensor cores work or not. `bf16_share`:
    of what they draw in fp16, what they draw in bf16.
    """

    limit_ghz: float
    most_ghz: float
    rest_share: float = 0.0
    bf16_share: float = 1.0

    def ghz(self, tensor_share: float) -> float:
        """At a share, 0 to 1, of all SMs' cycles in which tensor cores work, bf16 weighed."""
        least = (self.limit_ghz / self.most_ghz) ** POWER_EXPONENT
        power = self.rest_share + (1.0 - self.rest_share) * tensor_share
        return float(self.limit_ghz * max(power, least) ** (-1 / POWER_EXPONENT))


@cache
def load_clock_of(device_name: str) -> LoadClock | None:
    """Of layers on a device; None where none were recorded under load."""
    constants = own_file(device_name).constants
    found = [constants.get(key) for key in LAYER_CLOCK]
    if any(one is None for one in found):
        return None
    return LoadClock(*(float(one.value) for one in found if one is not None))


@cache
def convolution_clock_of(device_name: str) -> LoadClock | None:
    """Of convolutions on a device; None where it was not recorded under load."""
    constants = own_file(device_name).constants
    found = [constants.get(key) for key in ("convolutions.limit_ghz", MOST_GHZ)]
    limit, most = (one.value if one is not None else None for one in found)
    return None if limit is None or most is None else LoadClock(limit, most)
