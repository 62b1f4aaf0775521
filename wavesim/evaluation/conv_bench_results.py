"""What `conv_bench` measured, all files together, and the speeds that are asked of our convolutions.

Example: of pairs of 3 x 3 convolutions at batch 1 the geometric mean of semaphores over stream sync is asked,
each in its own best tiles: 1.10 must be reached, 1.25 is aimed at.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from wavesim.evaluation.conv_runs import CHAIN, STEM, TORCH
from wavesim.evaluation.layer_graphs_table import MOST_BYTES, times_of
from wavesim.safe_io.documents import read_json

FOLDER = Path(__file__).parents[2] / "gpu" / "results" / "convolutions"
FILTERS_FIRST = FOLDER / "filters-first"  # of kernels that load filters before they wait
NEAR_FILTERS = FOLDER / "near-filters"  # and of one k-block ahead only, not of the whole pipeline
PUBLISHED = FOLDER / "published"  # those of filters-first, what the paper's Figure 7 has besides
CLOSELY = (
    FOLDER / "closely"
)  # those of near-filters, where a run's first kernel is launched by dependent launch too
SINGLE, PAIR = "single", "pair"
STREAM, PDL, SEMAPHORES = "stream", "pdl", "semaphores"
PICKED = "picked"  # by predictions alone, before (conv_choices.py)
MANY_CHANNELS, LARGE_BATCH = 128, 32
Case = Mapping[str, Any]


@dataclass(frozen=True)
class AskedSpeed:
    """What is asked of some cases: a speed of ours over another class's, and by which number it is judged."""

    words: str
    ours: str
    theirs: str
    judged: str  # geometric mean, least or most
    must: float
    aim: float
    holds: Callable[[Case], bool]

    def speeds(self, cases: Iterable[Case]) -> dict[str, float]:
        """By case."""
        return {
            case["name"]: times[self.theirs] / times[self.ours]
            for case in cases
            if self.holds(case) and {self.ours, self.theirs} <= (times := times_of(case)).keys()
        }

    def row(self, cases: Iterable[Case]) -> str:
        """Of the table."""
        values = list(self.speeds(cases).values())
        if not values:
            return f"{self._asked} | not measured yet | | |"
        found = JUDGED[self.judged](values)
        reached = "aim" if found >= self.aim else "must" if found >= self.must else "**missed**"
        spread = f"{len(values)}, {min(values):.2f} to {max(values):.2f}"
        return f"{self._asked} | {found:.2f} | {reached} | {spread} |"

    @property
    def _asked(self) -> str:
        return f"| {self.words} | {self.judged} | {self.must:.2f} | {self.aim:.2f}"


JUDGED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "geometric mean": geometric_mean,
    "least": min,
    "most": max,
}


def _is_single(case: Case, kernel_size: int, *, many: bool) -> bool:
    return (
        case["kind"] == SINGLE
        and case["kernel_size"] == kernel_size
        and (kernel_size == 1 or (case["channels"] >= MANY_CHANNELS) == many)
    )


def _is_pair(case: Case) -> bool:
    return bool(case["kind"] == PAIR)


def _is_pair_of_one(case: Case) -> bool:
    return _is_pair(case) and case["images"] == 1


def _is_large_pair(case: Case) -> bool:
    return _is_pair(case) and case["images"] >= LARGE_BATCH


def _is_chain(case: Case) -> bool:
    return bool(case["kind"] == CHAIN)


def _as_picked() -> Iterator[AskedSpeed]:
    """The same of what is picked before, which is what a user gets."""
    for words, theirs, judged, must, aim, holds in (
        ("pairs at batch 1", STREAM, "geometric mean", 1.10, 1.25, _is_pair_of_one),
        ("pairs at batch 32 and more", STREAM, "most", 1.05, 1.12, _is_large_pair),
        ("pairs", PDL, "geometric mean", 1.0, 1.02, _is_pair),
        ("chains of four", STREAM, "least", 0.98, 1.0, _is_chain),
    ):
        name = "stream sync" if theirs == STREAM else "dependent launch"
        yield AskedSpeed(f"{words}, as picked before, over {name}", PICKED, theirs, judged, must, aim, holds)


ASKED = (
    AskedSpeed(
        "one 3x3, 128 channels and more, batch 16 and more, over cuDNN",
        STREAM,
        TORCH,
        "geometric mean",
        0.85,
        1.0,
        lambda case: _is_single(case, 3, many=True),
    ),
    AskedSpeed(
        "one 3x3, 64 channels, over cuDNN",
        STREAM,
        TORCH,
        "geometric mean",
        0.65,
        0.85,
        lambda case: _is_single(case, 3, many=False),
    ),
    AskedSpeed(
        "one 1x1, over cuDNN",
        STREAM,
        TORCH,
        "geometric mean",
        0.9,
        1.0,
        lambda case: _is_single(case, 1, many=True),
    ),
    AskedSpeed(
        "pairs at batch 1, semaphores everywhere, over stream sync",
        SEMAPHORES,
        STREAM,
        "geometric mean",
        1.10,
        1.25,
        _is_pair_of_one,
    ),
    AskedSpeed(
        "pairs at batch 32 and more, semaphores everywhere, over stream sync",
        SEMAPHORES,
        STREAM,
        "most",
        1.05,
        1.12,
        _is_large_pair,
    ),
    AskedSpeed(
        "pairs, semaphores everywhere, over dependent launch",
        SEMAPHORES,
        PDL,
        "geometric mean",
        1.0,
        1.02,
        _is_pair,
    ),
    AskedSpeed(
        "chains of four, semaphores everywhere, over stream sync",
        SEMAPHORES,
        STREAM,
        "least",
        0.98,
        1.0,
        _is_chain,
    ),
    *_as_picked(),
)

# The same of dependent launch alone, with no semaphores.
ASKED_BY_PDL = (
    AskedSpeed(
        "pairs at batch 1, dependent launch alone, over stream sync",
        PDL,
        STREAM,
        "geometric mean",
        1.10,
        1.25,
        _is_pair_of_one,
    ),
    AskedSpeed(
        "chains of four, dependent launch alone, over stream sync", PDL, STREAM, "least", 0.98, 1.0, _is_chain
    ),
)


@dataclass(frozen=True)
class BenchRun:
    """All cases of several files; a case in two files is the newer one's."""

    device: str
    date: str
    commit: str  # of each file, where they differ
    cases: tuple[Case, ...]


def bench_run(folder: Path = FOLDER) -> BenchRun | None:
    """What the files of a folder have of single convolutions, pairs and chains; None of none."""
    found: dict[tuple[str, str], Case] = {}
    heads: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        results = read_json(path, MOST_BYTES)
        cases = [case for case in results["cases"] if case["kind"] in (SINGLE, STEM, PAIR, CHAIN)]
        found |= {(case["kind"], case["name"]): case for case in cases}
        heads += [results] if cases else []
    if not found:
        return None
    name, dates = heads[-1]["device"]["name"], sorted({one["date"][:10] for one in heads})
    commits = ", ".join(dict.fromkeys(one["commit"][:7] for one in heads))
    return BenchRun(name, ", ".join(dates), commits, tuple(found.values()))
