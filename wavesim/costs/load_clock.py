"""The SM clock that a layer runs at: the more tensor cores work, the lower the power limit holds it.

Example: an H200 whose tensor cores never rest runs at 1.16 GHz in fp16. Where they work half of the time,
0.30 of the power, drawn whether they work or not, remains: 1.16 / (0.30 + 0.70 / 2)^(1/3) = 1.34 GHz. In
bf16, whose significands have 8 bits and not 11, they draw 0.77 as much. Few rows leave it at 1.73 GHz.
Power is taken to grow with the cube of the clock: voltage follows it.
"""

from functools import cache

from wavesim.costs.device_costs import own_file
from wavesim.costs.plan_clock import LoadClock

MOST_GHZ = "clock.single_ghz"
CONVOLUTION_CLOCK = tuple(f"convolutions.{key}" for key in ("limit_ghz", "most_ghz", "rest_share"))
LAYER_CLOCK = ("layers.limit_ghz", MOST_GHZ, "layers.rest_share", "layers.bf16_share")


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
    found = [constants.get(key) for key in CONVOLUTION_CLOCK]
    if any(one is None for one in found):
        return None
    return LoadClock(*(float(one.value) for one in found if one is not None))
