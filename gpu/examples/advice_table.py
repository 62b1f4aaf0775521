"""What `wavesim advise` says of the profiled pairs beside what tile sync gave them: a table, no GPU needed.

Example: a pair of 470 us; advised: 52 us, 40 to 64; measured: 58 us; inside. `python
gpu/examples/advice_table.py` writes gpu/results/advice/table.md.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from wavesim.profile.advice import Advice, Pair, advise
from wavesim.profile.profile_file import load_profile

RESULTS = Path(__file__).parents[1] / "results" / "advice"
HEADER = """# Advice from a profile, and what tile sync then gave

Each pair was profiled on one stream ({device}, {date}, commit {commit}), before anything was
rewritten, and then timed in turns with a semaphore per tile row: medians of {rounds} rounds. `wavesim
advise` saw the profile alone, and the user's word that the second kernel reads the first. Savings in
microseconds per pair.

| pair | one stream | advised | interval | measured | inside |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One pair, in nanoseconds: advised from its profile, with the interval, and measured.

    `unmarked_low_ns` is the interval's lower end where nobody said that the second reads the first.
    """

    name: str
    stream_ns: float
    likely_ns: float
    low_ns: float
    high_ns: float
    measured_ns: float
    unmarked_low_ns: float

    @property
    def is_inside(self) -> bool:
        """Whether the measured saving lies in the interval."""
        return self.low_ns <= self.measured_ns <= self.high_ns

    @property
    def is_inside_unmarked(self) -> bool:
        """The same without the user's word."""
        return self.unmarked_low_ns <= self.measured_ns <= self.high_ns

    @property
    def text(self) -> str:
        """A line of the table."""
        likely, low, high, measured = (
            f"{value / 1000:.1f}" for value in (self.likely_ns, self.low_ns, self.high_ns, self.measured_ns)
        )
        cells = (self.name, f"{self.stream_ns / 1000:.0f}", likely, f"{low} to {high}", measured)
        return f"| {' | '.join(cells)} | {'yes' if self.is_inside else 'no'} |"


def rows(folder: Path = RESULTS) -> list[Row]:
    """Every measured pair beside the advice of its profile."""
    measured = json.loads((folder / "measured.json").read_text())
    return [_row(case, folder / f"{case['name']}.json.gz") for case in measured["cases"]]


def _row(case: dict[str, Any], profile: Path) -> Row:
    advice = advise(load_profile(profile))
    pair = _pair(advice)
    unmarked_low = pair.saving.low_ns / pair.count
    pair = advice.marked({pair.number: True}).pair(pair.number)
    stream, row = median(case["stream_ns"]), median(case["row_ns"])
    likely, low, high = (
        value / pair.count for value in (pair.saving.likely_ns, pair.saving.low_ns, pair.saving.high_ns)
    )
    return Row(case["name"], stream, likely, low, high, stream - row, unmarked_low)


def _pair(advice: Advice) -> Pair:
    """The pair as launched: of the two orders in which its kernels alternate, the one that came first.

    A kernel that ran once only held the GPU while the host queued ahead.
    """
    launches, shapes = advice.profile.launches, advice.profile.shapes
    repeated = launches.is_kernel & (np.bincount(np.maximum(launches.shape, 0))[launches.shape] > 1)
    first = shapes[int(launches.shape[repeated][launches.start_ns[repeated].argmin()])]
    return next(pair for pair in advice.visible_pairs if pair.producer.shape == first)


def page(folder: Path = RESULTS) -> str:
    """The table with its heading and the count."""
    measured = json.loads((folder / "measured.json").read_text())
    found = rows(folder)
    head = HEADER.format(
        device=measured["device"],
        date=measured["date"],
        commit=measured["commit"][:7],
        rounds=len(measured["cases"][0]["stream_ns"]),
    )
    inside, unmarked = sum(row.is_inside for row in found), sum(row.is_inside_unmarked for row in found)
    lines = "\n".join(row.text for row in found)
    count = (
        f"Inside its interval: {inside} of {len(found)}; without the user's word {unmarked} of {len(found)}."
    )
    return f"{head}{lines}\n\n{count}\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    (folder / "table.md").write_text(page(folder))
    print(page(folder))  # noqa: T201  # what it is for
