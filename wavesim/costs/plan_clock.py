"""How fast a power limit lets SMs run: by how much of the time their tensor cores work, plan by plan.

Example: two convolutions run at 1.45 GHz under stream sync. A plan that saves a tenth of the time leaves
tensor cores less of it to rest in, so that all its tiles take a little longer: about 2 % of it.
"""

from dataclasses import dataclass, replace

POWER_EXPONENT = 3


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


@dataclass(frozen=True)
class PlanClock:
    """What a plan's own clock follows from: the longer a run takes, the less of it tensor cores work.

    Tile times are at `ghz`; `tensor_cycles` are those in which a run's tensor cores work, as a mean over the
    SMs, bf16 weighed.
    """

    load: LoadClock
    ghz: float
    tensor_cycles: float

    def ghz_of(self, time_ns: int) -> float:
        """Of runs of `time_ns` each that follow each other."""
        share = self.tensor_cycles / max(1.0, time_ns * self.ghz)
        return self.load.ghz(min(1.0, share))

    def at(self, ghz: float) -> "PlanClock":
        """The same behind runs at another clock."""
        return replace(self, ghz=ghz)
