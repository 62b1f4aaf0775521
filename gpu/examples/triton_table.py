"""The ten registered Triton pairs: what was advised from plain kernels' times, and what tile sync then gave.

Example: `python gpu/examples/triton_table.py` writes gpu/results/triton/table.md and the summary that the
notebook reads; it needs no GPU. It refuses predictions that were changed after the measurement.
"""

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.predict.prediction import improvement_of_rounds
from wavesim.safe_io.writing import write_text

RESULTS = Path(__file__).parents[1] / "results" / "triton"
SUMMARY = Path(__file__).parents[2] / "wavesim" / "recordings" / "triton_pairs.json"
PROMISED_POINTS, MOST_LOST_POINTS = 5.0, 1.0
HEADER = """# Ten Triton pairs, predicted before they were synchronised

Sizes were written down first (`gpu/examples/triton_registered.toml`). Each plain kernel was timed alone; from
that the advice was made, and its SHA-256 written down, before any synchronised kernel ran ({device},
{date}, commit {commit}, Triton {triton}). Then both ran in turns, in CUDA graphs: medians of {rounds} rounds,
the same bits. Points are 1 - t / t_stream against the plain pair in its fastest tile order.

SHA-256 of the predictions: `{stamp}`

| pair | stream sync, us | advice | predicted | interval | measured | quartiles |
|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One pair: predicted and measured improvement of the best plan in points, and whether it was advised."""

    name: str
    stream_us: float
    plan: str
    is_advised: bool
    points: float
    low: float
    high: float
    measured: float
    quarter_low: float
    quarter_high: float

    @property
    def holds(self) -> bool:
        """Whether the advice cost a percent at most, and gave half of what it promised, if that was much."""
        if not self.is_advised:
            return True
        least = self.points / 2 if self.points >= PROMISED_POINTS else -MOST_LOST_POINTS
        return self.measured >= least

    @property
    def text(self) -> str:
        """A line of the table."""
        word = self.plan if self.is_advised else f"leave it ({self.plan})"
        return (
            f"| {self.name} | {self.stream_us:.1f} | {word} | {self.points:+.1f} | {self.low:+.1f} to "
            f"{self.high:+.1f} | {self.measured:+.1f} | {self.quarter_low:+.1f} to {self.quarter_high:+.1f} |"
        )


def load(folder: Path = RESULTS) -> tuple[dict[str, Any], list[Row]]:
    """(facts, rows). Raises `ValueError` if the predictions are not those that were registered."""
    text = (folder / "predictions.json").read_bytes()
    measured = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
    if hashlib.sha256(text).hexdigest() != measured["predictions_sha256"]:
        raise ValueError(f"{folder}: predictions.json is not the one that was registered")
    predicted = json.loads(text)["pairs"]
    return measured, [_row(*both) for both in zip(predicted, measured["pairs"], strict=True)]


def _row(predicted: dict[str, Any], measured: dict[str, Any]) -> Row:
    rounds = measured["rounds_us"]
    found = improvement_of_rounds(rounds["plan"], rounds["stream"])
    return Row(
        predicted["name"],
        median(rounds["stream"]),
        " ".join(predicted["plan"]),
        predicted["is_advised"],
        *(predicted[key] for key in ("points", "low", "high")),
        found.median,
        found.low,
        found.high,
    )


def page(folder: Path = RESULTS) -> str:
    """The table with its heading, and what was wanted of it."""
    facts, rows = load(folder)
    head = HEADER.format(
        device=facts["device"],
        date=facts["date"][:10],
        commit=facts["commit"][:7],
        triton=facts["versions"]["triton"],
        rounds=len(facts["pairs"][0]["rounds_us"]["stream"]),
        stamp=facts["predictions_sha256"],
    )
    promised = [row for row in rows if row.is_advised and row.points >= PROMISED_POINTS]
    left = [row for row in rows if not row.is_advised]
    inside = sum(row.low <= row.measured <= row.high for row in rows)
    end = (
        f"Advice held for {_held(rows)} of {len(rows)} pairs. Promised {PROMISED_POINTS:g} points or more: "
        f"{len(promised)}, of which {_held(promised)} got half of it or more. Left alone: {len(left)}; their "
        f"plan in brackets was measured all the same. Inside the interval: {inside} of {len(rows)}."
    )
    return head + "\n".join(row.text for row in rows) + f"\n\n{end}\n"


def _held(rows: list[Row]) -> int:
    return sum(row.holds for row in rows)


def write(folder: Path = RESULTS, summary: Path = SUMMARY) -> None:
    """The table beside the results, and the summary."""
    facts, rows = load(folder)
    write_text(folder / "table.md", page(folder))
    said = {key: facts[key] for key in ("device", "date", "commit", "versions", "predictions_sha256")}
    write_text(summary, json.dumps({**said, "pairs": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:2]))
    print(page(*map(Path, sys.argv[1:2])))  # noqa: T201  # what it is for
