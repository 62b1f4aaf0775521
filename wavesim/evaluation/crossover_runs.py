"""Crossovers against measurement: flips and dispatch tables registered first, then all ways timed in turns.

Example: of GPT-3's MLP in 128x256 tiles it was registered that semaphores pay from M = 641 on, and they did:
a factor of 1. At each measured size the registered table's way is compared with the fastest one there.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from wavesim.errors import RecordingError
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.writing import write_text
from wavesim.tuning.crossover.gains import ComparedPlan

MAX_BYTES = 16 << 20
PAYS_POINTS = 1.0  # that semaphores must gain over the better kernel boundary to pay
CLOSE_FACTOR = 1.41  # between the registered and the measured size of a flip
BOUNDARIES = ("stream", "pdl")
COARSE = (1024, 1536, 2048, 3072, 4096)
MOST_BELOW = 12  # sizes measured up to half as much again as the registered flip
BEYOND = 1.5
OFF_ROUND = 64  # rows, by which sizes are measured at most below the top of their cell

Points = Mapping[str, float]


def has_semaphores(word: str) -> bool:
    """Whether a way of that word waits for tiles."""
    return ComparedPlan(word, "row").has_semaphores


def flip_of(sizes: Mapping[int, Points]) -> int | None:
    """The least M at which the best way with semaphores gains `PAYS_POINTS` over the better boundary."""
    for m, points in sorted(sizes.items()):
        boundary = max(value for word, value in points.items() if word in BOUNDARIES)
        synchronised = max((value for word, value in points.items() if has_semaphores(word)), default=-100.0)
        if 100 * (1 - (100 - synchronised) / (100 - boundary)) >= PAYS_POINTS:
            return m
    return None


def sizes_to_measure(cells: Sequence[tuple[int, int]], flip: int | None) -> list[int]:
    """Some M of every cell up to half as much again as the flip, and a coarse grid; off the round numbers."""
    upto = BEYOND * (flip or cells[-1][1] / BEYOND)
    below = [cell for cell in cells if cell[0] <= upto]
    if len(below) > MOST_BELOW:
        step = (len(below) - 1) / (MOST_BELOW - 1)
        below = [below[round(step * index)] for index in range(MOST_BELOW)]
        below += [cell for cell in cells if flip and abs(cell[0] - flip) <= cell[1] - cell[0] + 1]
    coarse = [cell for m in COARSE for cell in cells if cell[0] <= m <= cell[1]]
    wanted = sorted({*below, *coarse})
    return [last - min(last - first, first // OFF_ROUND * 23 % OFF_ROUND) for first, last in wanted]


def register(path: Path, families: Iterable[dict[str, Any]], made_by: Mapping[str, str]) -> str:
    """Writes what was predicted, and its hash into the same file. Returns the hash."""
    entries = list(families)
    stamp = hash_of(entries)
    document = {"sha256": stamp, "made_by": dict(made_by), "families": entries}
    write_text(path, json.dumps(document, separators=(",", ":")) + "\n")
    return stamp


def hash_of(families: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 over the families as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(list(families), sort_keys=True).encode()).hexdigest()


def read_registered(path: Path) -> dict[str, Any]:
    """What `register` wrote. Raises `RecordingError` where it was changed since."""
    found = read_json(path, MAX_BYTES)
    if not isinstance(found, dict) or not isinstance(found.get("families"), list):
        raise RecordingError(f"{path}: 'families' is missing; write it with crossover_run --register")
    if hash_of(found["families"]) != found.get("sha256"):
        raise RecordingError(
            f"{path}: its predictions are not those of its SHA-256; they were changed afterwards"
        )
    return found


@dataclass(frozen=True)
class FamilyScore:
    """One measured family: flips in M, None where semaphores pay nowhere, and the table's regrets in percent.

    `regrets` are by size, over the fastest way there; `unbiased` where the fastest is chosen by one half of
    the rounds and timed by the other. `rivals`: the regret of always taking one way, by its word.
    """

    name: str
    registered_flip: int | None
    measured_flip: int | None
    regrets: Mapping[int, float]
    unbiased: Mapping[int, float]
    rivals: Mapping[str, Mapping[int, float]]

    @property
    def factor(self) -> float:
        """Of the two flips the larger over the smaller; infinite where one is missing."""
        one, other = self.registered_flip, self.measured_flip
        if one is None or other is None:
            return 1.0 if one is other else float("inf")
        return max(one / other, other / one)


def score_family(
    registered: Mapping[str, Any], times_ns: Mapping[int, Mapping[str, Sequence[float]]]
) -> FamilyScore:
    """A registered family against rounds in ns by M and way; ways must include a boundary at each size."""
    cells = [(entry["m_from"], entry["m_to"]) for entry in registered["gains"]]
    medians = {m: {word: median(rounds) for word, rounds in ways.items()} for m, ways in times_ns.items()}
    measured = {
        _first_of(cells, m): {word: 100.0 * (1.0 - ns / ways["stream"]) for word, ns in ways.items()}
        for m, ways in medians.items()
    }
    table = registered["table"]
    chosen = {m: next(row["plan"] for row in table if row["m_from"] <= m <= row["m_to"]) for m in times_ns}
    rivals = {
        word: {m: _regret(ways[word], min(ways.values())) for m, ways in medians.items() if word in ways}
        for word in dict.fromkeys(word for ways in medians.values() for word in ways)
    }
    return FamilyScore(
        registered["name"],
        registered["flip"],
        flip_of(measured),
        {m: _regret(medians[m][chosen[m]], min(medians[m].values())) for m in times_ns},
        {m: _unbiased(times_ns[m], chosen[m]) for m in times_ns},
        rivals,
    )


def _first_of(cells: Sequence[tuple[int, int]], m: int) -> int:
    """The first M of the cell that m is in: what flips are told by."""
    return next(first for first, last in cells if first <= m <= last)


def _regret(chosen_ns: float, best_ns: float) -> float:
    return 100.0 * (chosen_ns / best_ns - 1.0)


def _unbiased(ways: Mapping[str, Sequence[float]], chosen: str) -> float:
    """The mean over both halves of the rounds, the fastest way being that of the other half."""
    found = []
    for judge in (0, 1):
        best = min(ways, key=lambda word: median(ways[word][1 - judge :: 2]))
        found.append(_regret(median(ways[chosen][judge::2]), median(ways[best][judge::2])))
    return fmean(found)


@dataclass(frozen=True)
class CrossoverScore:
    """All measured families, and what failed, in words."""

    families: tuple[FamilyScore, ...]
    failures: tuple[str, ...] = ()

    @property
    def close_share(self) -> float:
        """The share of families whose flip was registered within `CLOSE_FACTOR`."""
        return fmean(family.factor <= CLOSE_FACTOR for family in self.families)

    @property
    def regret_percent(self) -> float:
        """The table's mean regret over all sizes of all families."""
        return _mean(family.regrets for family in self.families)

    @property
    def unbiased_percent(self) -> float:
        """The same where noise does not choose the fastest."""
        return _mean(family.unbiased for family in self.families)

    def always_percent(self, word: str) -> float:
        """The mean regret of always taking one way."""
        return _mean(family.rivals.get(word, {}) for family in self.families)

    def lines(self) -> list[str]:
        """What a report says."""
        sizes = sum(len(family.regrets) for family in self.families)
        words = dict.fromkeys(word for family in self.families for word in family.rivals)
        always = ", ".join(f"{word} {self.always_percent(word):.1f}" for word in words)
        found = [
            f"flip within a factor of {CLOSE_FACTOR}: {self.close_share:.0%} of {len(self.families)}",
            f"regret of the dispatch tables: {self.regret_percent:.2f} % mean over {sizes} sizes",
            f"the same with the fastest way chosen by other rounds: {self.unbiased_percent:.2f} %",
            f"always the same way, percent: {always}",
        ]
        found += [
            f"{one.name}: flip registered {one.registered_flip or 'nowhere'}, measured "
            f"{one.measured_flip or 'nowhere'}; regret {fmean(one.regrets.values()):.2f} %"
            for one in self.families
        ]
        return found + list(self.failures)


def _mean(regrets: Iterable[Mapping[int, float]]) -> float:
    return fmean([value for by_size in regrets for value in by_size.values()] or [0.0])


def score_run(registered_path: Path, measured_path: Path) -> CrossoverScore:
    """Scores a measured file. Raises `RecordingError` where it belongs to other predictions."""
    registered, measured = read_registered(registered_path), read_json(measured_path, MAX_BYTES)
    if measured.get("registered_sha256") != registered["sha256"]:
        raise RecordingError(
            f"{measured_path}: was measured against other predictions than {registered_path}"
        )
    by_name = {entry["name"]: entry for entry in registered["families"]}
    families, failures = [], []
    for entry in measured["families"]:
        times = {
            size["m"]: size["rounds_ns"]
            for size in entry["sizes"]
            if not size.get("failed") and "stream" in size["rounds_ns"]
        }
        failures += [
            f"{entry['name']} M={size['m']}: {size['failed']}"
            for size in entry["sizes"]
            if size.get("failed")
        ]
        failures += [
            f"{entry['name']} M={size['m']}: {word} wrong"
            for size in entry["sizes"]
            for word in size.get("wrong", [])
        ]
        if times:
            families.append(score_family(by_name[entry["name"]], times))
    return CrossoverScore(tuple(families), tuple(failures))
