"""What a case gives: a row per way, with its verdict and every round's time and clock."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wavesim.bench.results import ResultRow


@dataclass(frozen=True)
class MeasuredCase:
    """A row per way, traces by (order, plan), why ways are missing, and what else there is to say of ways.

    `document` is what a lab found, for the notebook that reads it.
    """

    rows: Sequence[ResultRow]
    traces: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    document: Mapping[str, Any] | None = None


def row_of(case: str, order: str, way: str, rounds: Any, verdict: Any) -> ResultRow:
    """Without times where the result is wrong; without clocks where a round has none."""
    if not verdict.is_good or rounds is None:
        semaphores = "right" if verdict.has_right_semaphores else "wrong"
        error = f"relative errors {dict(verdict.errors)}, semaphores {semaphores}"
        return ResultRow(case, order, way, correct=False, error=error)
    has_clocks = all(map(math.isfinite, rounds.clocks_ghz))
    clocks = tuple(rounds.clocks_ghz) if has_clocks else ()
    return ResultRow(case, order, way, correct=True, ns=tuple(rounds.times_ns), ghz=clocks)
