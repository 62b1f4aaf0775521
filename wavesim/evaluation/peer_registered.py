"""Registered times across two GPUs against what was measured afterwards: by way, and where overlap pays.

Example: `blind_text()` is the block "blind" of docs/two-gpus.md. `LATER` ways were registered by the same
model, but after a first run of the measuring command; their rows say so.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from wavesim.errors import RecordingError
from wavesim.evaluation.peer_blind import registered, shapes
from wavesim.evaluation.peer_page import FOLDER, MEASURED, MOST_BYTES
from wavesim.guard.documents import read_json
from wavesim.model.collective import Collective
from wavesim.model.device import default_device
from wavesim.model.host import Host
from wavesim.model.link import load_link
from wavesim.peers.prediction import BASELINE, one_gemm
from wavesim.peers.simulation import times_of

LATER = ("one-shot", "two-shot")
OURS = ("stores", "blocks", "copies")
LEAST_ROWS = 1024  # of products whose hidden share is reported
Key = tuple[int, int, int, str]  # m, k, n, way


def measured_us() -> dict[Key, float]:
    """Raises `RecordingError` where nothing was measured."""
    if not MEASURED.exists():
        raise RecordingError(f"{MEASURED} is missing; write it with wavesim_gpu.evaluation.two_gpus.entries")
    rows = read_json(MEASURED, MOST_BYTES)
    return {(one["m"], one["k"], one["n"], one["way"]): one["ns"] / 1e3 for one in rows}


def registered_us() -> dict[Key, float]:
    """By shape and way."""
    return {(one.m, one.k, one.n, one.way): one.time_ns / 1e3 for one in registered(FOLDER)}


def errors(least_rows: int = 1) -> dict[str, list[float]]:
    """By way: registered over measured, percent above or below it."""
    seen, found = measured_us(), dict[str, list[float]]()
    for key, us in registered_us().items():
        if key in seen and key[0] >= least_rows:
            found.setdefault(key[3], []).append(100 * (us / seen[key] - 1))
    return found


def blind_text() -> str:
    """The table by way, then where overlap pays and what of it is hidden."""
    found = errors()
    rows = [
        "| way | shapes | median, % | 90 %, % | worst, % | mean of the errors, % |",
        "| --- | --: | --: | --: | --: | --: |",
        *(_row(way + (" *" if way in LATER else ""), own) for way, own in found.items()),
        _row("all but *", _pooled(found)),
        _row(f"all but *, {LEAST_ROWS:,} rows or more", _pooled(errors(LEAST_ROWS))),
    ]
    return "\n".join([*rows, "", threshold_text(), "", hidden_text()])


def tiles_text() -> str:
    """`wavesim/peers/registered.toml`: how far whole ways of ours were off."""
    off = np.abs([one for way, own in errors().items() if way.startswith(OURS) for one in own])
    parts = {"median": np.median(off), "p90": np.percentile(off, 90), "worst": off.max()}
    lines = [f"{name} = {value:.1f}" for name, value in parts.items()]
    head = "# Written by wavesim.evaluation.peer_timed: percent of the measured time, ways of tiles."
    return "\n".join([head, f"rows = {off.size}", *lines]) + "\n"


def _pooled(found: Mapping[str, Sequence[float]]) -> list[float]:
    return [one for way, own in found.items() if way not in LATER for one in own]


def _row(way: str, found: Sequence[float]) -> str:
    off = np.abs(found)
    parts = (np.median(off), np.percentile(off, 90), off.max(), np.mean(found))
    cells = " | ".join(f"{one:.1f}" for one in parts)
    return f"| {way} | {len(found)} | {cells} |"


def pays(times: Mapping[Key, float]) -> dict[tuple[int, int], dict[int, bool]]:
    """By (k, n), then by rows: whether the fastest of ours is faster than one after the other."""
    found: dict[tuple[int, int], dict[int, bool]] = {}
    for one in shapes():
        shape = (one.m, one.k, one.n)
        ours = [us for key, us in times.items() if key[:3] == shape and key[3].startswith(OURS)]
        found.setdefault((one.k, one.n), {})[one.m] = min(ours) < times[*shape, "sequence"]
    return found


def threshold_text() -> str:
    """From how many rows on overlap pays, by (k, n), as registered and as measured."""
    was, told = pays(measured_us()), pays(registered_us())
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


def hidden_shares() -> dict[tuple[int, int, int], float]:
    """Of the shorter of computing and communicating, the share that the fastest of ours hides.

    What a product takes alone was not measured: it is simulated, and the rest of one after the other taken
    to be the collective.
    """
    seen, device = measured_us(), default_device()
    host = Host(2, load_link(device.name), {"gemm": Collective()})
    found = {}
    for one in shapes():
        if one.m < LEAST_ROWS:
            continue
        shape = (one.m, one.k, one.n)
        times = times_of(one_gemm(one.m, one.n, one.k, device), host, BASELINE, device)
        gemm = sum(ns for ns, _ in times.library.values()) / 1e3
        base = seen[*shape, "sequence"]
        ours = min(us for key, us in seen.items() if key[:3] == shape and key[3].startswith(OURS))
        found[shape] = (base - ours) / min(gemm, base - gemm)
    return found


def hidden_text() -> str:
    """The median and the extremes."""
    shares = 100 * np.array(list(hidden_shares().values()))
    return (
        f"Of the time that could be hidden, from {LEAST_ROWS:,} rows on, ours hid {np.median(shares):.0f} % "
        f"(median of {shares.size}; {shares.min():.0f} to {shares.max():.0f}; must 70, aim 85). Half "
        "measured: what a product takes alone is simulated, and the rest of one after the other taken to be "
        "the all-reduce."
    )
