"""One row of the results: who, on what, every round's time and clock, and whether the result was right."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wavesim_gpu.driver.clocks import Sampler
from wavesim_gpu.run.runner import OutputCheck
from wavesim_gpu.run.timing import HEAD_START_NS, WARM_UP_S, Contender, Rounds, interleaved

RESULTS = Path(__file__).parents[2] / "results"
# To choose by, in two steps; the figures come from later rounds. Of many candidates over few rounds the
# fastest is often the luckiest: the fastest few are screened again.
SCREENING_ROUNDS, SHORTLIST_ROUNDS, SCREENING_WARM_UP_S = 5, 12, 0.05


def time_together(
    contenders: Mapping[str, Contender],
    rounds: int,
    warm_up_s: float = WARM_UP_S,
    head_start_ns: int = HEAD_START_NS,
) -> tuple[dict[str, Rounds], Sampler]:
    """Rounds of all contenders in turns, by name, and the clock and power while they ran."""
    with Sampler() as sampler:
        found = interleaved(list(contenders.values()), rounds, warm_up_s, head_start_ns)
    return dict(zip(contenders, found, strict=True)), sampler


def describe_case(
    name: str, tags: Mapping[str, Any], rounds: Rounds, verdict: OutputCheck | None, sampler: Sampler | None
) -> dict[str, Any]:
    """One row. Without a verdict there is nothing to be right about, as for a copy by the driver.

    Without clocks where a round has none, because no SM left both stamps: readers take all or none.
    """
    has_clocks = all(math.isfinite(clock) for clock in rounds.clocks_ghz)
    judged = None if verdict is None else {**asdict(verdict), "is_good": verdict.is_good}
    return {
        "name": name,
        **tags,
        "rounds_ns": rounds.times_ns,
        "clocks_ghz": rounds.clocks_ghz if has_clocks else [],
        "verdict": judged,
        **(asdict(sampler.reading) if sampler is not None else {}),
    }
