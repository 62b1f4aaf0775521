"""Registered times across two GPUs against what was measured afterwards: by way, and where overlap pays.

Example: `blind_text(SECOND)` is the block "second" of docs/two-gpus.md. Of the first list `LATER` ways
were registered by the same model, but after a first run of the measuring command; their rows say so.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from wavesim.errors import RecordingError
from wavesim.evaluation.peer_blind import PeerShape, registered, shapes
from wavesim.evaluation.peer_page import FOLDER, MEASURED, MOST_BYTES, NOT_YET
from wavesim.safe_io.documents import read_json
from wavesim.sim.peers.dispatch import margin

LATER = ("one-shot", "two-shot")
OURS = ("stores", "exchange", "blocks", "copies")
LEAST_ROWS = 1024  # of products whose hidden share is reported
LEAST_STEPS, STEP = 4, 1.41  # rows of a (k, n) that come in steps, and how far those lie apart at most
ALONE, BASE = "alone.json", "sequence"
Key = tuple[int, int, int, str]  # m, k, n, way


@dataclass(frozen=True)
class PeerRun:
    """A list of shapes, and the folders of what was predicted and of what was measured of it."""

    name: str
    folder: Path
    measured_in: Path

    def shapes(self) -> tuple[PeerShape, ...]:
        """As they were written down."""
        return shapes(self.name)

    def registered_us(self) -> dict[Key, float]:
        """By shape and way. Raises `RecordingError` where it was changed."""
        return {(one.m, one.k, one.n, one.way): one.time_ns / 1e3 for one in registered(self.folder)}

    def measured_us(self, name: str = MEASURED.name) -> dict[Key, float]:
        """Raises `RecordingError` where nothing was measured."""
        path = self.measured_in / name
        if not path.exists():
            raise RecordingError(f"{path} is missing; write it with wavesim_gpu.bench.kinds.two_gpus.entries")
        rows = read_json(path, MOST_BYTES)
        return {(one["m"], one["k"], one["n"], one["way"]): one["ns"] / 1e3 for one in rows}

    @property
    def is_measured(self) -> bool:
        """Whether what was measured is recorded."""
        return (self.measured_in / MEASURED.name).exists()

    def alone_us(self) -> dict[Key, float]:
        """The product and the all-reduce alone, measured with the ways or, of the first list, later."""
        return self.measured_us(ALONE if (self.measured_in / ALONE).exists() else MEASURED.name)


FIRST = PeerRun("first", FOLDER, FOLDER)
FITTED = PeerRun("first", FOLDER / "fitted", FOLDER)  # by today's model, which these times were used for
SECOND = PeerRun("second", FOLDER / "second", FOLDER / "second")


def errors(run: PeerRun, least_rows: int = 1) -> dict[str, list[float]]:
    """By way: registered over measured, percent above or below it."""
    seen, found = run.measured_us(), dict[str, list[float]]()
    for key, us in run.registered_us().items():
        if key in seen and key[0] >= least_rows:
            found.setdefault(key[3], []).append(100 * (us / seen[key] - 1))
    return found


def blind_text(run: PeerRun = FIRST) -> str:
    """The table by way, then where overlap pays and what of it is hidden."""
    if not run.is_measured:
        return f"Registered: {len(run.registered_us())} times of {len(run.shapes())} shapes; {NOT_YET}."
    later = LATER if run is FIRST else ()
    mark = " but *" if later else ""

    def pooled(found: Mapping[str, Sequence[float]]) -> list[float]:
        return [one for way, own in found.items() if way not in later for one in own]

    found = errors(run)
    rows = [
        "| way | shapes | median, % | 90 %, % | worst, % | mean of the errors, % |",
        "| --- | --: | --: | --: | --: | --: |",
        *(_row(way + (" *" if way in later else ""), own) for way, own in found.items()),
        _row(f"all{mark}", pooled(found)),
    ]
    if many := pooled(errors(run, LEAST_ROWS)):
        rows.append(_row(f"all{mark}, {LEAST_ROWS:,} rows or more", many))
    parts = [choice_text(run)]
    missing = len(run.shapes()) - len({key[:3] for key in run.measured_us()})
    if missing:
        parts.append(f"{missing} of {len(run.shapes())} shapes are {NOT_YET}.")
    if run is not FITTED:
        parts = [threshold_text() if run is FIRST else crossings_text(run), hidden_text(run), *parts]
    return "\n\n".join(["\n".join(rows), *parts])


def tiles_text() -> str:
    """`wavesim/sim/peers/registered.toml`: how far whole ways of ours were off in the last blind run."""
    head = "# Written by wavesim.evaluation.peer_timed: percent of the measured time, ways of tiles."
    fitted = ["[fitted]  # by today's model, to what it was fitted to", *_tiles_lines(FITTED)]
    return "\n".join([head, *_tiles_lines(SECOND if SECOND.is_measured else FIRST), "", *fitted]) + "\n"


def _tiles_lines(run: PeerRun) -> list[str]:
    off = np.abs([one for way, own in errors(run).items() if way.startswith(OURS) for one in own])
    parts = {"median": np.median(off), "p90": np.percentile(off, 90), "worst": off.max()}
    return [f"rows = {off.size}", *(f"{name} = {value:.1f}" for name, value in parts.items())]


def _row(way: str, found: Sequence[float]) -> str:
    off = np.abs(found)
    parts = (np.median(off), np.percentile(off, 90), off.max(), np.mean(found))
    cells = " | ".join(f"{one:.1f}" for one in parts)
    return f"| {way} | {len(found)} | {cells} |"


def pays(run: PeerRun, times: Mapping[Key, float]) -> dict[tuple[int, int], dict[int, bool]]:
    """By (k, n), then by rows: whether the fastest of ours is faster than one after the other.

    Of shapes of which there is a time of both.
    """
    found: dict[tuple[int, int], dict[int, bool]] = {}
    for one in run.shapes():
        base = times.get((one.m, one.k, one.n, BASE))
        ours = of_ours(one, times)
        if base is not None and ours:
            found.setdefault((one.k, one.n), {})[one.m] = min(ours.values()) < base
    return found


def of_ours(one: PeerShape, times: Mapping[Key, float]) -> dict[str, float]:
    """A shape's times of ways of ours."""
    shape = (one.m, one.k, one.n)
    return {key[3]: us for key, us in times.items() if key[:3] == shape and key[3].startswith(OURS)}


def threshold_text() -> str:
    """From how many rows on overlap pays, by (k, n), as registered and as measured."""
    was, told = pays(FIRST, FIRST.measured_us()), pays(FIRST, FIRST.registered_us())
    late = {}
    for family, seen in was.items():
        lost = [m for m, is_faster in seen.items() if not is_faster]
        if lost and max(lost) < max(seen):
            late[family] = max(lost), min(m for m in seen if m > max(lost))
    wrong = sum(any(told[family][m] != seen[m] for m in seen) for family, seen in was.items())
    brackets = ", ".join(f"{low:,} and {high:,} (K {k:,}, N {n:,})" for (k, n), (low, high) in late.items())
    always = sum(all(seen.values()) for seen in told.values())
    return (
        f"The M from which overlap pays: registered as the fewest rows tried or fewer, in {always} of "
        f"{len(told)} pairs of K and N. Measured it lies between {brackets}: {wrong} pairs were predicted "
        "too early, by a factor that is not known, as nothing between was measured. In the other "
        f"{len(was) - wrong} overlap paid at every M tried, as registered. So that it is within a factor of "
        "1.41 in 90 % (must) is not shown."
    )


@dataclass(frozen=True)
class Crossing:
    """The fewest rows, in steps, from which on ours are faster than one after the other.

    Where they are at all rows tried it is the fewest of these "or fewer", where they are not at the most of
    them it is one step beyond "or more": `bound`.
    """

    rows: int
    bound: str = ""

    @property
    def words(self) -> str:
        """Such as "44" or "32 or fewer"."""
        return f"{self.rows:,} {self.bound}".strip()


def crossings(run: PeerRun) -> dict[tuple[int, int], tuple[Crossing, Crossing]]:
    """By (k, n) with rows in steps of at most `STEP`: as registered and as measured, at the rows measured."""
    found = {}
    told, seen = (pays(run, times) for times in (run.registered_us(), run.measured_us()))
    for family, rows in seen.items():
        tried = in_steps(rows)
        if len(tried) >= LEAST_STEPS:
            found[family] = _from(told[family], tried), _from(rows, tried)
    return found


def in_steps(rows: Iterable[int]) -> list[int]:
    """From the fewest on, until the next are more than a step away."""
    ordered = sorted(rows)
    ends = (at for at, (one, other) in enumerate(pairwise(ordered), 1) if other / one > STEP)
    return ordered[: next(ends, len(ordered))]


def _from(rows: Mapping[int, bool], tried: Sequence[int]) -> Crossing:
    lost = [at for at, m in enumerate(tried) if not rows[m]]
    first = lost[-1] + 1 if lost else 0
    if first == len(tried):
        return Crossing(round(tried[-1] ** 2 / tried[-2]), "or more")
    return Crossing(tried[first], "" if first else "or fewer")


def crossings_text(run: PeerRun) -> str:
    """How many are within a step of `STEP`, and of how many of these that is not bounded."""
    found = crossings(run)
    if not found:
        return f"The M from which on ours are faster than one after the other: {NOT_YET}."
    near = [max(one.rows, other.rows) / min(one.rows, other.rows) <= STEP for one, other in found.values()]
    ends = sum(
        is_near and bool(told.bound or seen.bound)
        for is_near, (told, seen) in zip(near, found.values(), strict=True)
    )
    words = ", ".join(
        f"{told.words} / {seen.words} (K {k:,}, N {n:,})" for (k, n), (told, seen) in found.items()
    )
    bound = f" Of {ends} of them one of the two lies at an end of the rows tried, or beyond." if ends else ""
    return (
        "The M from which on ours are faster than one after the other, registered / measured, in steps of "
        f"at most {STEP}: {words}. Within a factor of {STEP}: {sum(near)} of {len(near)} (must 90 %).{bound}"
    )


def chosen(run: PeerRun, least: float) -> dict[tuple[int, int, int], tuple[str, float]]:
    """By shape the way that the prediction takes, and how many times as fast as one after the other it was.

    The fastest of ours where it is predicted to be `least` times as fast, else one after the other.
    """
    told, seen = run.registered_us(), run.measured_us()
    found = {}
    for one in run.shapes():
        shape = (one.m, one.k, one.n)
        ours = {way: us for way, us in of_ours(one, told).items() if (*shape, way) in seen}
        if not ours or (*shape, BASE) not in seen:
            continue
        way = min(ours, key=lambda name: ours[name])
        if told[*shape, BASE] < least * ours[way]:
            way = BASE
        found[shape] = way, seen[*shape, BASE] / seen[*shape, way]
    return found


def choice_text(run: PeerRun) -> str:
    """What choosing by prediction alone gains, and loses."""
    least = margin()
    found = chosen(run, least)
    taken = [gain for way, gain in found.values() if way != BASE]
    lost = [
        f"{m:,} x {k:,} x {n:,} ({way}, {gain:.2f})"
        for (m, k, n), (way, gain) in found.items()
        if gain < 0.99
    ]
    fast = f", {geometric_mean(taken):.2f} times as fast there, {min(taken):.2f} at least" if taken else ""
    return (
        f"Chosen by prediction alone, ours where they are predicted to be {least:.2f} times as fast as "
        f"one after the other: ours at {len(taken)} of {len(found)} shapes{fast}. More than 1 % below one "
        f"after the other: {'; '.join(lost) if lost else 'nowhere'} (must nowhere)."
    )


def hidden_shares(run: PeerRun) -> dict[tuple[int, int, int], float]:
    """Of the shorter of the product and the collective alone, as measured, the share that ours hide."""
    seen, alone = run.measured_us(), run.alone_us()
    found = {}
    for one in run.shapes():
        shape = (one.m, one.k, one.n)
        parts = [alone.get((*shape, way)) for way in ("gemm", "all-reduce")]
        ours, base = of_ours(one, seen), seen.get((*shape, BASE))
        if one.m >= LEAST_ROWS and ours and base is not None and None not in parts:
            found[shape] = (base - min(ours.values())) / min(us for us in parts if us is not None)
    return found


def hidden_text(run: PeerRun) -> str:
    """The median and the extremes."""
    shares = 100 * np.array(list(hidden_shares(run).values()))
    if not shares.size:
        return f"What is hidden of the shorter of product and all-reduce: {NOT_YET}."
    return (
        f"Of the shorter of cuBLAS's product and NCCL's all-reduce, each measured alone, ours hide "
        f"{np.median(shares):.0f} % from {LEAST_ROWS:,} rows on (median of {shares.size}; {shares.min():.0f} "
        f"to {shares.max():.0f}; must 70, aim 85)."
    )
