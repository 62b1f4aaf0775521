"""What notebooks 24 and 25 show of measurements: decode steps and layers of experts on an H200.

Example: of Llama-3.2-1B's layer one read of the bytes takes 28.8 us, PyTorch op by op 104.4.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from wavesim.view.gain_figure import Gain

NAMES = {"llama-3-8b": "8B", "llama-3.2-1b": "1B", "qwen2.5-0.5b": "0.5B"}
PLANS = ("row semaphores", "one kernel")


class DecodeTimes(NamedTuple):
    """Microseconds a layer at 512 keys; `compiled_us` is 0 where it was not measured."""

    model: str
    sequences: int
    read_us: float
    ours_us: float
    torch_us: float
    compiled_us: float


class RegisteredStep(NamedTuple):
    """Microseconds a layer at 2,048 keys: one read, our kernel simulated beforehand and measured."""

    model: str
    sequences: int
    read_us: float
    simulated_us: float
    measured_us: float

    @property
    def percent(self) -> float:
        """By which the simulation is too long."""
        return 100 * (self.simulated_us / self.measured_us - 1)


class ExpertsLayer(NamedTuple):
    """Microseconds of a layer by plan, and the gains in points that were registered before."""

    model: str
    tokens: int
    skew: float
    roof_us: float
    stream_us: float
    row_us: float
    one_kernel_us: float
    row_points: float
    one_kernel_points: float

    @property
    def best_us(self) -> float:
        """Of the faster plan with semaphores."""
        return min(self.row_us, self.one_kernel_us)

    @property
    def gains(self) -> list[Gain]:
        """Of both plans over the same kernels one after the other."""
        both = ((self.row_us, self.row_points), (self.one_kernel_us, self.one_kernel_points))
        return [
            Gain(f"{self.tokens:,}", plan, points, 100 * (1 - us / self.stream_us))
            for plan, (us, points) in zip(PLANS, both, strict=True)
        ]


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def decode_times() -> list[DecodeTimes]:
    """All that were measured at 512 keys."""
    return [DecodeTimes(*row) for row in _table()["decode"]]


def registered_steps() -> list[RegisteredStep]:
    """All at 2,048 keys."""
    return [RegisteredStep(*row) for row in _table()["decode_registered"]]


def experts_layers() -> list[ExpertsLayer]:
    """All 48."""
    return [ExpertsLayer(*row) for row in _table()["experts"]]


def measured_on() -> str:
    """The device and the day."""
    return f"{_table()['device']}, {_table()['date']}"
