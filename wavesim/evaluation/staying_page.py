"""What staying gives and costs in small, as the table of docs/persistent-kernels.md.

Example: `python -m wavesim.evaluation.staying_page` writes the block between the page's marks anew, from the
newest file of gpu/results/staying; without a file it says that nothing is measured yet.
"""

import heapq
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.errors import DescriptionError, RecordingError
from wavesim.evaluation.marked_block import with_marked_block
from wavesim.safe_io.bounds import MOST_NS, bounded_text, real, whole
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text

ROOT = Path(__file__).parents[2]
PAGE, FOLDER = ROOT / "docs" / "persistent-kernels.md", ROOT / "gpu" / "results" / "staying"
UNMEASURED = (
    "None of this has been measured yet. On a machine with a GPU: "
    "`python -m wavesim_gpu.bench.labs.staying --out gpu/results/staying/DATE.json`, then "
    "`python -m wavesim.evaluation.staying_page`."
)
MOST_BYTES, MOST_PAGE, MOST_TASKS = 4_000_000, 1 << 20, 1 << 20


@dataclass(frozen=True)
class StayingResults:
    """One file of `staying`: medians in nanoseconds by name, and the tasks' own times."""

    device: str
    date: str
    commit: str
    addition_bytes: int
    additions_ns: Mapping[str, float]
    each_wait_ns: Mapping[str, float]
    tasks_ns: Mapping[str, float]
    task_ns: tuple[int, ...]

    @property
    def blocks(self) -> int:
        """How many blocks did the tasks: of every so many one is long."""
        longest = max(self.task_ns)
        return next(at for at, ns in enumerate(self.task_ns) if at and ns == longest)


def dealt_ns(task_ns: Sequence[int], blocks: int) -> int:
    """A grid-stride loop's time by its tasks' alone."""
    return max(sum(task_ns[block::blocks]) for block in range(blocks))


def queued_ns(task_ns: Sequence[int], blocks: int) -> int:
    """A task queue's: whoever is free first takes the next."""
    free = [0] * blocks
    for ns in task_ns:
        heapq.heapreplace(free, free[0] + ns)
    return max(free)


def read_staying(path: Path) -> StayingResults:
    """A file of `staying`. Raises `RecordingError` naming the file and what is wrong."""
    data = read_json(path, MOST_BYTES)
    try:
        return _results(data)
    except (DescriptionError, AttributeError, KeyError, TypeError, ValueError, StopIteration) as error:
        wrong = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise RecordingError(f"{path}: not a file of staying: {wrong}") from None


def newest_staying(folder: Path = FOLDER) -> StayingResults | None:
    """The newest file, by its name; None where there is none."""
    found = sorted(folder.glob("*.json"))
    return read_staying(found[-1]) if found else None


def _results(data: dict[str, Any]) -> StayingResults:
    whole("task_ns", len(data["task_ns"]), 2, MOST_TASKS)
    found = StayingResults(
        device=bounded_text("device", data["device"]),
        date=bounded_text("date", data["date"])[:10],
        commit=bounded_text("commit", data["commit"]),
        addition_bytes=whole("addition_bytes", data["addition_bytes"], 1),
        additions_ns=_medians(data["additions_ns"]),
        each_wait_ns={
            bounded_text("wait", name): real("each_wait_ns", ns, 0, MOST_NS)
            for name, ns in data["each_wait_ns"].items()
        },
        tasks_ns=_medians(data["tasks_ns"]),
        task_ns=tuple(whole("task_ns", ns, 1, MOST_NS) for ns in data["task_ns"]),
    )
    if missing := {"dealt out", "queue"} - found.tasks_ns.keys():
        raise ValueError(f"tasks_ns has no {min(missing)!r}")
    if found.task_ns.count(max(found.task_ns)) < 2:
        raise ValueError("task_ns has no two long tasks")
    return found


def _medians(times: Mapping[str, Any]) -> dict[str, float]:
    return {
        bounded_text("name", name): median(real(name, ns, 1, MOST_NS) for ns in each)
        for name, each in times.items()
    }


def block(found: StayingResults | None) -> str:
    """The table, or that nothing is measured."""
    if found is None:
        return UNMEASURED
    lines = [f"Measured on one {found.device}, {found.date}, commit {found.commit[:7]}; medians.", ""]
    lines += ["| what | measured | by its tasks alone |", "|---|--:|--:|"]
    for name, ns in found.additions_ns.items():
        rate = found.addition_bytes / ns / 1e3
        lines.append(f"| two vectors added by {name} | {ns / 1e3:,.0f} µs, {rate:.2f} TB/s | |")
    lines += [f"| one of many {name} | {ns:,.0f} ns | |" for name, ns in found.each_wait_ns.items()]
    alone = {
        "dealt out": dealt_ns(found.task_ns, found.blocks),
        "queue": queued_ns(found.task_ns, found.blocks),
    }
    for name, ns in found.tasks_ns.items():
        least = f"{alone[name] / 1e3:,.0f} µs" if name in alone else ""
        lines.append(f"| {len(found.task_ns):,} unequal tasks, {name} | {ns / 1e3:,.0f} µs | {least} |")
    return "\n".join(lines)


def main() -> int:
    """Writes the page."""
    write_text(PAGE, with_marked_block(PAGE, read_text(PAGE, MOST_PAGE), "staying", block(newest_staying())))
    return 0


if __name__ == "__main__":
    sys.exit(run_program("staying_page", main))
