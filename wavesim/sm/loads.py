"""Little's law on an SM: what loads in flight give, simulated and in closed form.

Every warp issues some independent loads, waits for all of them, and begins again. Bytes in flight are bytes
per cycle times cycles of latency, so that either the latency or the bandwidth decides.

Example: 17 bytes per cycle for 600 cycles are 10 KB. Twenty warps with one load of 512 bytes each have that
in flight; so have five warps with four.
"""

from dataclasses import dataclass
from math import sqrt

from wavesim.errors import DescriptionError
from wavesim.model.kernel import WARP_SIZE
from wavesim.sm.machine import SmMachine
from wavesim.sm.sm_simulation import simulate_sm
from wavesim.sm.warp_program import AwaitLoads, GlobalLoad, SmKernel, WarpProgram

ROUNDS = 32  # of each warp, of which the middle half is counted
LANE_BYTES = (4, 8, 16)
MOST_WARPS, MOST_LOADS_OF_A_WARP = 64, 32


@dataclass(frozen=True)
class LoadLoop:
    """Warps on one SM, the independent loads that each issues before it waits, bytes per lane of a load."""

    warps: int
    loads: int = 1
    lane_bytes: int = 16

    def __post_init__(self) -> None:
        for name, most in (("warps", MOST_WARPS), ("loads", MOST_LOADS_OF_A_WARP)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise DescriptionError(f"{name} is {value!r}; it must be a whole number from 1 to {most}")
        if self.lane_bytes not in LANE_BYTES:
            raise DescriptionError(f"lane_bytes is {self.lane_bytes!r}; a lane loads 4, 8 or 16 bytes")

    @property
    def load_bytes(self) -> int:
        """Of one load of a warp."""
        return WARP_SIZE * self.lane_bytes

    @property
    def in_flight_bytes(self) -> int:
        """At most, on one SM."""
        return self.warps * self.loads * self.load_bytes

    def program(self, rounds: int) -> WarpProgram:
        """One warp's instructions."""
        issued: WarpProgram = (GlobalLoad(self.load_bytes),) * self.loads
        return (*issued, AwaitLoads()) * rounds

    def kernel(self, rounds: int) -> SmKernel:
        """A block of all its warps, which go their rounds."""
        return SmKernel((self.program(rounds),) * self.warps)


def in_flight_bytes(loop: LoadLoop, machine: SmMachine) -> int:
    """What an SM has on its way when all its warps wait: no more than its loads in flight may be."""
    if machine.most_loads is None:
        return loop.in_flight_bytes
    return min(loop.in_flight_bytes, machine.most_loads * loop.load_bytes)


def littles_share(flying_bytes: float, machine: SmMachine) -> float:
    """Of the bandwidth, what so many bytes in flight on each SM give by Little's law: an upper bound."""
    return min(1.0, flying_bytes / (machine.latency_cycles * machine.bytes_per_cycle))


def queued_share(flying_bytes: float, load_bytes: int, machine: SmMachine) -> float:
    """The same where loads of all SMs meet at channels at random, and wait there for each other.

    A channel that is busy a share u of the time has u a loads under way, a being latency over service, and
    u^2 / 2 (1 - u) that wait (M/D/1, Pollaczek and Khinchine); together they are the loads per channel.
    """
    each = flying_bytes / load_bytes * machine.sms / machine.channels
    ratio = machine.latency_cycles / machine.service_cycles(load_bytes)
    # (ratio - 1/2) u^2 - (ratio + each) u + each = 0, by the form that holds at ratio = 1/2 too
    total = ratio + each
    return min(1.0, 2 * each / (total + sqrt(total * total - 4 * (ratio - 0.5) * each)))


def simulated_share(loop: LoadLoop, machine: SmMachine, seed: int = 0) -> float:
    """The same, simulated warp by warp, without the first rounds and the last."""
    laps = simulate_sm(loop.kernel(ROUNDS), machine, seed=seed).laps
    (start, before), (end, after) = laps[ROUNDS // 4], laps[3 * ROUNDS // 4]
    return (after - before) / (end - start) / machine.sms / machine.bytes_per_cycle


def warps_to_fill(machine: SmMachine, loads: int = 1, lane_bytes: int = 16) -> int:
    """The fewest warps that have bandwidth times latency in flight."""
    wanted = machine.bytes_per_cycle * machine.latency_cycles
    return -int(-wanted // (loads * WARP_SIZE * lane_bytes))
