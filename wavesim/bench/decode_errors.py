"""How far off registered predictions of decode steps were, from the raw times of the kernel, and what it
costs to choose by them.

Example: `python -m wavesim.bench.decode_errors gpu/results/decode-steps/2026-11-28
gpu/results/decode/2026-11-28-steps.json` prints predicted and measured microseconds of each case that was
measured, then the median of the errors and what nine in ten stay within. Where many cuts of a case were
measured, the cut of the shortest prediction and the fastest.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from wavesim.bench.registration import registered
from wavesim.safe_io.documents import read_measured
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program

MODELS = {"0_5b": "qwen2.5-0.5b", "1b": "llama-3.2-1b", "8b": "llama-3-8b"}
MOST_BYTES = 1_000_000
MANY = 30  # cuts, from which a choice among them says something
FITTED = "batch 1 keys 512"  # what the constants were fitted to


@dataclass(frozen=True)
class StepError:
    """A case, the cut of its stages where it is not the usual, and microseconds of the whole step."""

    case: str
    cut: str
    predicted: float
    measured: float

    @property
    def percent(self) -> float:
        """By which the prediction is too long."""
        return 100 * (self.predicted / self.measured - 1)


@dataclass(frozen=True)
class CutChoice:
    """Of the cuts measured of a case: the one of the shortest prediction and the fastest."""

    case: str
    cuts: int
    chosen: StepError
    best: StepError

    @property
    def loss(self) -> float:
        """Percent by which the chosen one is slower than the best."""
        return 100 * (self.chosen.measured / self.best.measured - 1)


def errors_of(folder: Path, measured: Path) -> Iterator[StepError]:
    """Of all cases that both have. Raises `RecordingError`."""
    entries = list(registered(folder, "costs").values())
    by_case = {
        (entry.case, ""): entry.time_ns / 1e3 for entry in reversed(entries)
    }  # the usual cut comes first
    known = by_case | {(entry.case, entry.plan): entry.time_ns / 1e3 for entry in entries}
    for row in read_measured(measured, MOST_BYTES, "measure labs --only decode", lambda data: data["rows"]):
        case, cut = _names(row)
        if (case, cut) in known:
            yield StepError(case, cut, known[case, cut], median(row["times_us"]["ours"]))


def in_no_fit(errors: Iterable[StepError]) -> list[float]:
    """Percent off, in size, of the usual cuts of the cases that no constant was fitted to."""
    return [abs(error.percent) for error in errors if FITTED not in error.case and not error.cut]


def choices_of(errors: list[StepError]) -> Iterator[CutChoice]:
    """Of the cases with many cuts."""
    for case in sorted({error.case for error in errors}):
        own = [error for error in errors if error.case == case]
        if len(own) > MANY:
            chosen = min(own, key=lambda error: error.predicted)
            yield CutChoice(case, len(own), chosen, min(own, key=lambda error: error.measured))


def _names(row: Mapping[str, Any]) -> tuple[str, str]:
    case = f"{MODELS[row['model']]} batch {row['batch']} keys {row['keys']} layers {row['layers']}"
    return case, json.dumps(row["cut"], sort_keys=True) if row.get("cut") else ""


def main() -> int:
    """Prints the table."""
    options = _parser().parse_args()
    errors = list(errors_of(options.registered, options.measured))
    sizes, unseen = [abs(error.percent) for error in errors], in_no_fit(errors)
    lines = [_line(error) for error in errors]
    lines += [
        f"{len(of)} {what}: error median {median(of):.1f} %, 90 % within {np.percentile(of, 90):.1f} %"
        for what, of in (("steps", sizes), ("in no fit", unseen))
        if of
    ]
    lines += [
        f"{choice.case}: of {choice.cuts} cuts the simulator picks {choice.chosen.cut}, {choice.loss:.1f} % "
        f"slower than the fastest, {choice.best.cut}"
        for choice in choices_of(errors)
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _line(error: StepError) -> str:
    times = f"{error.predicted:>8.1f}{error.measured:>8.1f}{error.percent:>+8.1f} %"
    return f"{f'{error.case} {error.cut}':<80}{times}"


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="python -m wavesim.bench.decode_errors")
    parser.add_argument("registered", type=Path, help="folder of the predictions")
    parser.add_argument("measured", type=Path, help="raw times of the kernel")
    return parser


if __name__ == "__main__":
    sys.exit(run_program("wavesim.bench.decode_errors", main))
