"""What a group of microbenchmarks found: constants by the names of a device file, each with its repeats.

Example: `MeasuredConstant("overheads.boundary_ns", [1056, 1056, 1088], "from a kernel's last block to ...")`
has a value of 1,056 ns and a spread of 1.5 %.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_SPREAD = 0.1  # of a constant that is written


@dataclass(frozen=True)
class MeasuredConstant:
    """One constant: what each repeat gave, and which microbenchmark that was; `value` is the median.

    A constant that is no number (a list, yes or no) has it once.
    """

    name: str
    repeats: Sequence[Any]
    source: str

    @property
    def is_number(self) -> bool:
        """Whether repeats can be put in order."""
        return all(type(repeat) in (int, float) for repeat in self.repeats)

    @property
    def value(self) -> Any:
        """The median of numbers, else the last."""
        return statistics.median(self.repeats) if self.is_number else self.repeats[-1]

    @property
    def spread(self) -> float | None:
        """Half of the middle half's range over the value; None where there are fewer than 3 repeats."""
        if not self.is_number or len(self.repeats) < 3 or not self.value:  # for quartiles
            return None
        low, high = np.percentile(np.asarray(self.repeats, float), [25, 75])
        return float((high - low) / 2 / abs(self.value))


def together(runs: Sequence[Sequence[MeasuredConstant]]) -> list[MeasuredConstant]:
    """Each constant once, with the repeats of all runs."""
    repeats: dict[str, list[Any]] = {}
    sources: dict[str, str] = {}
    for run in runs:
        for entry in run:
            repeats.setdefault(entry.name, []).extend(entry.repeats)
            sources[entry.name] = entry.source
    return [MeasuredConstant(name, repeat, sources[name]) for name, repeat in repeats.items()]


def is_steady(constant: MeasuredConstant) -> bool:
    """Whether its repeats agree well enough to say more than what stands in for a lacking constant."""
    return constant.spread is None or constant.spread <= MOST_SPREAD


def difference(runs: Sequence[MeasuredConstant]) -> float | None:
    """How far the runs' values of a constant lie apart, as a share of the largest; of lists, the most.

    None for one run alone.
    """
    if len(runs) < 2:
        return None
    values = [np.atleast_1d(np.asarray(run.value, float)) for run in runs]
    low, high = np.min(values, axis=0), np.max(values, axis=0)
    return float(np.max((high - low) / np.where(high > 0, high, 1.0)))
