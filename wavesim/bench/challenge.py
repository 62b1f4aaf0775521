"""The blind challenge: 60 pairs whose stream-sync runs are public, and whose gain anybody may predict.

Example: of pair P07 you are given both kernels' grids, the time of every tile under stream sync and nothing
else; you write down how many points its time falls under row semaphores. `scores_of` sets your 60 numbers
beside wavesim's, registered before the semaphores had run, "no gain" and the formula that counts waves.

The measured rounds ship with wavesim, for the score is computed from them: the challenge rests on honour.
Nothing has to be believed: `challenge.json` holds the hash of each pair's measured rounds, and the
hash of our predictions stands in the recordings.
"""

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.bench.blind_runs import BlindRun, find_runs, pooled
from wavesim.bench.blind_sizes import BASELINE, BlindSize, shuffled
from wavesim.bench.scored_case import ceil_formula
from wavesim.errors import DescriptionError, RecordingError
from wavesim.predict.prediction import improvement_of_rounds
from wavesim.recordings.split import split_of
from wavesim.safe_io.bounds import real, shown
from wavesim.safe_io.reading import read_text
from wavesim.trace.trace import Trace
from wavesim.view.wording import device_text

FILE = Path(__file__).with_name("challenge.json")
COUNT = 60
ORDER, PLAN = "row", "row"  # what is asked: row semaphores, tiles in row-major order
COLUMNS = ("pair", "points")
MOST_BYTES = 1 << 16
LEAST_POINTS, MOST_POINTS = -1_000.0, 100.0
NEAR_POINTS = 2.0
YOURS, OURS = "you", "wavesim, before measuring"


@dataclass(frozen=True)
class ChallengePair:
    """One pair: its number from P01, the blind run that measured it, and the hash of what was measured."""

    number: str
    run: BlindRun
    size: BlindSize
    answer_sha256: str

    @cached_property
    def stream(self) -> Trace:
        """What is public: the stream-sync run, with the time of every tile."""
        return self.run.stream(self.size, ORDER)

    @property
    def registered(self) -> float:
        """What wavesim predicted before the plan had run, in points."""
        return self.run.predictions[self.size.name, ORDER, PLAN].improvement_points

    def gain(self, repeat: int | None = None) -> float:
        """The measured improvement in points: of all rounds, or of one repeat.

        Raises `RecordingError` where the rounds are not those that were sealed.
        """
        result = self.run.comparisons[self.size.name]
        if answer_hash(self.run, self.size) != self.answer_sha256:
            raise RecordingError(
                f"{self.number}: the measured rounds are not those that {FILE.name} has the hash of; "
                "install wavesim anew"
            )
        some = result if repeat is None else result[repeat : repeat + 1]
        plan, stream = (pooled(some, ORDER, word).ns for word in (PLAN, BASELINE))
        return improvement_of_rounds(plan, stream).median

    def facts(self) -> dict[str, Any]:
        """What a row of the list says, plain values."""
        starts, stages = self.stream.issue_ns, self.stream.header.stages
        spans = [
            int(self.stream.end_ns[self.stream.stage == i].max() - starts[self.stream.stage == i].min())
            for i in range(len(stages))
        ]
        return {
            "pair": self.number,
            "size": self.size.name,
            "grids": ["x".join(map(str, info.grid)) for info in stages],
            "blocks_per_sm": [info.blocks_per_sm for info in stages],
            "sm_count": self.stream.header.sm_count,
            "kernel_ns": spans,
            "stream_ns": self.stream.time_ns,
        }


@dataclass(frozen=True)
class ChallengeScore:
    """Somebody's 60 predictions against the measurement, errors in points of improvement.

    `near` counts pairs within 2 points; `closer_than_ours` those where the error is smaller than wavesim's.
    """

    name: str
    median_error: float
    p90_error: float
    worst_error: float
    near: int
    closer_than_ours: int


def answer_hash(run: BlindRun, size: BlindSize) -> str:
    """SHA-256 of every measured round, in ns, of the plan and of stream sync: too many to be guessed."""
    rounds = {word: pooled(run.comparisons[size.name], ORDER, word).ns for word in (PLAN, BASELINE)}
    return hashlib.sha256(json.dumps([size.name, rounds]).encode()).hexdigest()


def sealed_pairs() -> list[dict[str, str]]:
    """What `challenge.json` was made from: pairs of the test split, by which no constant was ever chosen."""
    result = {
        size: run
        for run in find_runs()
        for size in run.sizes()
        if not size.is_chain and split_of(size.name) == "test"
    }
    return [
        {
            "number": f"P{number:02}",
            "run": run.name,
            "size": size.name,
            "answer_sha256": answer_hash(run, size),
        }
        for number, (size, run) in enumerate(
            ((size, result[size]) for size in shuffled(result)[:COUNT]), start=1
        )
    ]


@cache
def pairs() -> tuple[ChallengePair, ...]:
    """The 60 pairs. Raises `RecordingError` where their recordings are missing."""
    runs = {run.name: run for run in find_runs()}
    sizes = {(run.name, size.name): size for run in runs.values() for size in run.sizes()}
    entries = json.loads(FILE.read_text(encoding="utf-8"))["pairs"]
    missing = [entry["number"] for entry in entries if (entry["run"], entry["size"]) not in sizes]
    if missing:
        raise RecordingError(f"the recordings of {missing[0]} are missing; install the whole package")
    return tuple(
        ChallengePair(
            entry["number"], runs[entry["run"]], sizes[entry["run"], entry["size"]], entry["answer_sha256"]
        )
        for entry in entries
    )


def pair_named(number: str) -> ChallengePair:
    """The pair of that number. Raises `DescriptionError` for another."""
    known = {pair.number: pair for pair in pairs()}
    if number not in known:
        raise DescriptionError(f"pair is {shown(number)}; it must be one of P01 to P{COUNT}")
    return known[number]


def read_predictions(path: Path) -> dict[str, float]:
    """Points by pair from a CSV file with the columns `pair` and `points`; others are left alone.

    Raises `RecordingError` for a pair that is unknown, missing or there twice, and for what is no number.
    """
    text = read_text(path, MOST_BYTES)
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    predictions: dict[str, float] = {}
    try:
        if not set(COLUMNS) <= set(rows.fieldnames or ()):
            raise RecordingError(
                f"{path}: line 1 has no columns 'pair' and 'points'; `wavesim challenge list --csv FILE` "
                "writes a file to fill in"
            )
        for row in rows:
            predictions |= _prediction(path, rows.line_num, row, predictions)
    except csv.Error as error:
        raise RecordingError(f"{path}: line {rows.line_num}: not CSV: {error}") from None
    missing = [pair.number for pair in pairs() if pair.number not in predictions]
    if missing:
        raise RecordingError(
            f"{path}: {len(missing)} of {COUNT} pairs are missing, the first is {missing[0]}; write a number "
            "for each, 0 for no gain"
        )
    return predictions


def _prediction(
    path: Path, line: int, row: Mapping[str, Any], result: Mapping[str, float]
) -> dict[str, float]:
    number = str(row["pair"] or "").strip()
    try:
        pair_named(number)
        points = real("points", str(row["points"] or "").strip(), LEAST_POINTS, MOST_POINTS)
    except DescriptionError as error:
        raise RecordingError(f"{path}: line {line}: {error}") from None
    if number in result:
        raise RecordingError(f"{path}: line {line}: {number} is there twice; leave one of the two out")
    return {number: points}


def scores_of(yours: Mapping[str, float]) -> list[ChallengeScore]:
    """Your score, then wavesim's, the wave formula's and that of predicting no gain."""
    measured = np.array([pair.gain() for pair in pairs()])
    contenders = {
        YOURS: [yours[pair.number] for pair in pairs()],
        OURS: [pair.registered for pair in pairs()],
        "counting waves": [ceil_formula(pair.stream) for pair in pairs()],
        "no gain": [0.0] * COUNT,
    }
    errors = {name: np.abs(np.array(points) - measured) for name, points in contenders.items()}
    return [
        ChallengeScore(
            name,
            float(np.median(error)),
            float(np.percentile(error, 90)),
            float(error.max()),
            int((error <= NEAR_POINTS).sum()),
            int((error < errors[OURS]).sum()),
        )
        for name, error in errors.items()
    ]


def noise_points() -> float:
    """By how much a pair's improvement differed when the comparison was made again, median in points."""
    again = [
        abs(pair.gain(0) - pair.gain(1)) for pair in pairs() if len(pair.run.comparisons[pair.size.name]) > 1
    ]
    return float(np.median(again))


def source() -> str:
    """Where the numbers come from: "measured on ..."."""
    return "measured on " + " and ".join(sorted({device_text(pair.stream.header) for pair in pairs()}))


def template(challenge_pairs: Sequence[ChallengePair]) -> str:
    """A CSV file to fill in: `points` is empty, and the columns after it say what the pair is."""
    out = io.StringIO(newline="")
    facts = [pair.facts() for pair in challenge_pairs]
    names = [*COLUMNS, *(name for name in facts[0] if name not in COLUMNS)]
    rows = csv.DictWriter(out, names, lineterminator="\n")
    rows.writeheader()
    for entry in facts:
        plain = {name: " ".join(map(str, v)) if isinstance(v, list) else v for name, v in entry.items()}
        rows.writerow({**plain, "points": ""})
    return out.getvalue()


def score_text(scores: Sequence[ChallengeScore]) -> str:
    """The table of a score."""
    head = f"{'':<24}{'median':>8}{'90 %':>8}{'worst':>8}{'within 2':>10}{'closer than wavesim':>21}"
    lines = [
        f"{score.name:<24}{score.median_error:8.2f}{score.p90_error:8.2f}{score.worst_error:8.2f}{score.near:10d}"
        + (f"{'':>21}" if score.name == OURS else f"{score.closer_than_ours:21d}")
        for score in scores
    ]
    return "\n".join(
        [
            f"Errors in points of improvement over stream sync, {COUNT} pairs, {source()}:",
            head,
            *lines,
            f"The measurement made again differs by {noise_points():.2f} (median).",
        ]
    )


def revealed(yours: Mapping[str, float]) -> list[dict[str, Any]]:
    """Every pair opened: predicted by you and by us, and measured."""
    return [
        {
            "pair": pair.number,
            "size": pair.size.name,
            "you": yours[pair.number],
            "wavesim": pair.registered,
            "measured": pair.gain(),
        }
        for pair in pairs()
    ]


def as_json(scores: Sequence[ChallengeScore]) -> dict[str, Any]:
    """A score as plain values."""
    return {"pairs": COUNT, "noise_points": noise_points(), "scores": [asdict(score) for score in scores]}
