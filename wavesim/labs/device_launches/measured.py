"""Launches from the device as a GPU measured them, beside what is simulated with its own calls and starts.

Example: a run says that a call keeps its thread 6 us, that among many callers a grid begins every 300 ns, and
what one item and one block of children take; with these figures the uneven work of notebook 21 is simulated,
and compared with what it took. Without a file nothing was measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from statistics import median
from typing import Any, get_args

from wavesim.labs.device_launches.uneven_work import LAUNCHERS, MOST_ITEMS, THREADS, Launcher, UnevenWork
from wavesim.safe_io.bounds import MOST_NS, bounded_text, real, shown, whole
from wavesim.safe_io.documents import read_measured
from wavesim.sim.streams.device_launch_engine import simulate_launches
from wavesim.sim.streams.device_launches import LaunchMachine, load_launch_machine

FILE = Path(__file__).with_suffix(".json")
MOST_BYTES, MOST_ROWS, MOST_ROUNDS = 4_000_000, 1_000, 10_000
OF_CALLS = "fire-and-forget"  # the stream whose figures the machine has
FIGURES = ("call_ns", "start_ns", "latency_ns")


@dataclass(frozen=True)
class MeasuredUneven:
    """Who launched, from how many items on, the median time, and what is missing of the work.

    A way that lost launches has no time. Of one that never ended `failed` says why, and the rest is zero.
    """

    launcher: Launcher
    threshold: int
    time_ns: float = 0
    lost: int = 0
    items_missing: int = 0
    failed: str = ""


@dataclass(frozen=True)
class MeasuredLaunches:
    """One run of `device_launch`.

    `calls`: medians of `call_ns`, `start_ns` and `latency_ns` (from before a call to the begin) by stream, of
    one thread. `start_ns`: between two begins where most callers call at once. `pool`: launches that were
    taken of more than it holds. `deepest`: the deepest level of nesting that ran, the host's being 0.
    `item_ns`: an item of a thread that launches nothing. `child_ns`: a block of children, beside others.
    `complete_ns`: how long after its children the uneven work's parent is complete, so that the way
    `calibrated_by` comes out. `one_child_ns`: the same of a parent of one thread with one child, measured
    alone, which is less; None of a run that did not measure it.
    """

    device: str
    date: str
    commit: str
    sm_count: int
    calls: Mapping[str, Mapping[str, float]]
    pool: int
    deepest: int
    uneven: tuple[MeasuredUneven, ...]
    start_ns: float
    item_ns: float
    child_ns: float
    complete_ns: float
    one_child_ns: float | None = None
    calibrated_by: MeasuredUneven | None = None

    @property
    def provenance(self) -> str:
        """On what and when."""
        return f"measured on one {self.device}, {self.date}"

    @property
    def machine(self) -> LaunchMachine:
        """The assumed machine with this run's figures, and its number of SMs."""
        assumed, figures = load_launch_machine("assumed"), self.calls[OF_CALLS]
        return replace(
            assumed,
            name="measured",
            source=self.provenance,
            device=assumed.device.with_sm_count(self.sm_count),
            pool=self.pool,
            call_ns=round(figures["call_ns"]),
            start_ns=round(self.start_ns),
            # A simulated latency is from the end of the call on.
            latency_ns=max(0, round(figures["latency_ns"] - figures["call_ns"])),
            complete_ns=round(self.complete_ns),
        )

    def simulated_ns(self, uneven: MeasuredUneven) -> int:
        """The same work on that machine."""
        item_ns, child_ns = max(1, round(self.item_ns)), max(1, round(self.child_ns))
        work = UnevenWork(uneven.launcher, uneven.threshold, item_ns=item_ns, child_ns=child_ns)
        return simulate_launches(work.grid(), self.machine).end_ns

    def error(self, uneven: MeasuredUneven) -> float:
        """Simulated over measured, less 1. Raises `ZeroDivisionError` for a way that has no time."""
        return self.simulated_ns(uneven) / uneven.time_ns - 1

    def text(self) -> str:
        """A line for each stream, the pool, the levels, and each way to do the uneven work."""
        lines = [self.provenance]
        for stream, figures in self.calls.items():
            lines.append(f"{stream}: " + ", ".join(f"{name} {ns:,.0f}" for name, ns in figures.items()))
        by = self.calibrated_by
        source = f" (so that {by.launcher} from {by.threshold} on comes out)" if by else ""
        if self.one_child_ns is not None:
            source += f"; a thread with one child, {self.one_child_ns:,.0f}"
        lines.append(
            f"of many callers' launches one begins every {self.start_ns:,.0f} ns; an item takes "
            f"{self.item_ns:,.0f} ns, a block of children {self.child_ns:,.0f}; what has launched is "
            f"complete {self.complete_ns:,.0f} ns after its own{source}"
        )
        lines.append(f"pool: {self.pool:,} launches; deepest level: {self.deepest}")
        lines.append("who launches  from items  measured, µs  simulated, µs  items missing")
        for uneven in self.uneven:
            since = "" if uneven.launcher == "nobody" else str(uneven.threshold)
            simulated = f"{self.simulated_ns(uneven) / 1e3:13,.1f}"
            measured = f"{uneven.time_ns / 1e3:,.1f}" if uneven.time_ns else "none"
            missing = uneven.failed or f"{uneven.items_missing:13,}"
            lines.append(f"{uneven.launcher:12}  {since:>10}  {measured:>12}  {simulated}  {missing}")
        return "\n".join(lines)


def read_launches(path: Path) -> MeasuredLaunches:
    """A file of `device_launch`. Raises `RecordingError` naming the file and what is wrong."""
    return read_measured(path, MOST_BYTES, "device_launch", _launches)


def shipped_launches() -> MeasuredLaunches | None:
    """What was measured and is shipped; None as long as nothing was."""
    return read_launches(FILE) if FILE.is_file() else None


def _launches(data: dict[str, Any]) -> MeasuredLaunches:
    calls = {bounded_text("stream", name): _figures(runs) for name, runs in data["calls"].items()}
    if OF_CALLS not in calls:
        raise ValueError(f"calls has no {OF_CALLS}")
    whole("uneven", len(data["uneven"]), 1, MOST_ROWS)
    uneven = tuple(map(_uneven, data["uneven"]))
    sm_count = whole("sm_count", data["device"]["sm_count"], 1, 65_536)
    threads = whole("max_threads_per_sm", data["device"]["max_threads_per_sm"], THREADS, 65_536)
    child_ns = _child_ns(data["children"], sm_count * (threads // THREADS))
    alone_ns = [row.time_ns for row in uneven if row.launcher == "nobody" and row.time_ns]
    if not alone_ns:
        raise ValueError("uneven has no times of nobody, which say what an item takes")
    whole("callers", len(data["callers"]), 1, MOST_ROWS)
    family = data.get("family")
    launches = MeasuredLaunches(
        device=bounded_text("device", data["device"]["name"]),
        date=bounded_text("date", data["date"]),
        commit=bounded_text("commit", data["commit"]),
        sm_count=sm_count,
        calls=calls,
        pool=whole("pool: taken", data["pool"]["taken"], 1, 2**20),
        deepest=whole("levels: deepest", data["levels"]["deepest"], 0, 64),
        uneven=uneven,
        start_ns=min(map(_between_begins, data["callers"])),
        item_ns=alone_ns[0] / MOST_ITEMS,
        child_ns=child_ns,
        complete_ns=0.0,
        one_child_ns=max(0.0, _added_ns(family) - calls[OF_CALLS]["call_ns"] - child_ns) if family else None,
    )
    return _calibrated(launches)


def _calibrated(launches: MeasuredLaunches) -> MeasuredLaunches:
    """With what the way of the fewest launches takes longer than simulated, if any has a time."""
    for uneven in reversed(launches.uneven):
        if uneven.launcher == "block" and uneven.time_ns:
            missing_ns = uneven.time_ns - launches.simulated_ns(uneven)
            return replace(launches, complete_ns=max(0.0, missing_ns), calibrated_by=uneven)
    return launches


def _between_begins(row: Any) -> float:
    """Of a row of callers: the median time between two begins."""
    numbers = (whole(name, row[name], 1, 2**20) for name in ("blocks", "warps", "lanes", "count"))
    begins = whole("launches of callers", prod(numbers), 2, 2**20)
    whole("rounds of callers", len(row["rounds"]), 1, MOST_ROUNDS)
    return median(real("beginning_ns", run["beginning_ns"], 0, MOST_NS) for run in row["rounds"]) / (
        begins - 1
    )


def _added_ns(family: Any) -> float:
    """What a child adds to its parent's time."""
    whole("rounds of family", min(len(family["one_ns"]), len(family["none_ns"])), 1, MOST_ROUNDS)
    with_child, none = (
        median(real(name, ns, 0, MOST_NS) for ns in family[name]) for name in ("one_ns", "none_ns")
    )
    return with_child - none


def _child_ns(children: Any, places: int) -> float:
    """Of all children in one grid of the host's: how long a block keeps its place, of all that there are."""
    blocks = whole("children: blocks", children["blocks"], 1, 2**20)
    whole("rounds of children", len(children["rounds_ns"]), 1, MOST_ROUNDS)
    took_ns = median(real("children: rounds_ns", ns, 0, MOST_NS) for ns in children["rounds_ns"])
    return took_ns / -(-blocks // places)


def _figures(runs: Any) -> dict[str, float]:
    whole("calls", len(runs), 1, MOST_ROUNDS)
    return {name: median(real(name, run[name], 0, MOST_NS) for run in runs) for name in FIGURES}


def _uneven(row: Any) -> MeasuredUneven:
    if row["launcher"] not in get_args(Launcher):
        raise ValueError(f"launcher is {shown(row['launcher'])}; it is one of {', '.join(LAUNCHERS)}")
    threshold = 1 if row["threshold"] is None else whole("threshold", row["threshold"], 1, 2**20)
    if "failed" in row:
        return MeasuredUneven(row["launcher"], threshold, failed=bounded_text("failed", row["failed"]))
    rounds = [real("rounds_ns", ns, 0, MOST_NS) for ns in row["rounds_ns"]]
    time_ns = median(rounds) if rounds else 0.0
    missing = whole("items_missing", row["items_missing"])
    return MeasuredUneven(row["launcher"], threshold, time_ns, whole("lost", row["lost"]), missing)
