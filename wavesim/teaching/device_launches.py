"""Notebook 21: launches from the device, simulated on the textbook machine and on one of assumed figures.

Example: `table(1)` has a row for each that can launch, with how many launches are called and lost, and how
long all takes; `family()` is a parent with two children and two tail launches, to be followed by hand.
"""

from collections.abc import Sequence
from typing import Any

from wavesim.labs.device_launches.measured import shipped_launches
from wavesim.labs.device_launches.uneven_work import LAUNCHERS, Launcher, UnevenWork
from wavesim.safe_io.annotated import typed
from wavesim.sim.streams.device_launch_engine import LaunchTimeline, simulate_launches
from wavesim.sim.streams.device_launches import ChildLaunch, DeviceGrid, load_launch_machine
from wavesim.teaching.shown import Shown
from wavesim.widgets.stream_explorers import LaunchPicture

US = 1_000
CALLS, LIMIT_NS = 3_072, 12_000  # of the exercises


@typed
def run(grid: DeviceGrid, machine: str = "textbook") -> LaunchTimeline:
    """The grid and all that it launches. Raises `DescriptionError`."""
    return simulate_launches(grid, load_launch_machine(machine))


@typed
def uneven(launcher: Launcher, threshold: int = 1) -> LaunchTimeline:
    """4,096 threads with uneven work on the machine of assumed figures. Raises `DescriptionError`."""
    return run(UnevenWork(launcher, threshold).grid(), "assumed")


@typed
def grid(name: str, us: int, launches: Sequence[ChildLaunch] = ()) -> DeviceGrid:
    """A grid of one block that works for so long."""
    return DeviceGrid(name, (us * US,), launches)


def family() -> DeviceGrid:
    """A parent of 10 us: children of 20 and 5, tail launches of 3 and 4, called at 2, 4, 6 and 8 us."""
    return grid(
        "parent",
        10,
        [
            ChildLaunch(grid("long child", 20), after_ns=2 * US),
            ChildLaunch(grid("short child", 5), after_ns=4 * US),
            ChildLaunch(grid("first tail", 3), after_ns=6 * US, stream="tail"),
            ChildLaunch(grid("second tail", 4), after_ns=8 * US, stream="tail"),
        ],
    )


@typed
def table(threshold: int = 1) -> Shown:
    """Who launches, how many launches are called and lost, and the time of all that is not lost."""
    found = {launcher: uneven(launcher, threshold) for launcher in LAUNCHERS}
    cells = [
        (launcher, f"{one.launches:,}", f"{one.lost:,}", f"{one.end_ns / US:,.1f}")
        for launcher, one in found.items()
    ]
    return Shown(("who launches", "launches", "lost", "µs, simulated"), tuple(cells))


@typed
def picture(timeline: LaunchTimeline) -> LaunchPicture:
    """The run, drawn."""
    return LaunchPicture.of(timeline)


def measured_launches() -> str:
    """What was measured beside what is simulated with its figures."""
    found = shipped_launches()
    assert found is not None, "measured launches ship with wavesim"
    return found.text()


def _counts() -> dict[str, int]:
    """Launches of 16 blocks of 256 threads by who launches."""
    return {launcher: len(UnevenWork(launcher).grid().launches) for launcher in LAUNCHERS}


def _pool() -> dict[str, int]:
    """What is pending and what is lost of 3,072 calls when nothing can begin."""
    pool = load_launch_machine().pool
    return {"pool": pool, "lost": CALLS - pool}


def _tail() -> dict[str, int]:
    """When the first tail launch begins, and when the parent is complete."""
    found = run(family())
    begins = found.grid("first tail").start_ns // US
    return {"parent_ends": 10, "begins": begins, "complete": found.end_ns // US}


def _nesting(level: int) -> dict[str, int]:
    """The deepest level all of whose launches fit into the pool at once, where each grid launches two."""
    pool, launches = load_launch_machine().pool, 2**level
    return {"pool": pool, "launches": launches, "fits": launches <= pool, "is_deepest": 2 * launches > pool}


def _choice(who: str, threshold: int) -> dict[str, Any]:
    """Who launches, and from how many items on, so that nothing is lost and all takes 12 us at most."""
    launcher = next(known for known in LAUNCHERS if known == who)
    found = uneven(launcher, threshold)
    taken = f"{launcher}, from {threshold:,} on: {found.end_ns / US:,.1f} µs"
    is_fast = found.end_ns <= LIMIT_NS
    return {"taken": taken, "lost": found.lost, "is_whole": not found.lost, "is_fast": is_fast}


GRADERS = {"21.1": _counts, "21.2": _pool, "21.3": _tail, "21.4": _nesting, "21.5": _choice}
