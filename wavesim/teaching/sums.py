"""Notebook 20: the ladder of sums simulated beside what was measured; a tree of one's own.

Example: v0 reads a tenth of what the memory could give, simulated on one SM of an H200; v5 reads all of it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from wavesim.model.device import Device, catalogue_name
from wavesim.safe_io.annotated import typed
from wavesim.sm.banks import wavefronts
from wavesim.sm.machine import SmMachine, machine_of
from wavesim.sm.measured_ladder import MeasuredLadder, shipped_ladder
from wavesim.sm.measured_loads import shipped_loads
from wavesim.sm.reduction import LADDER, THREADS, Added, TreeStep, simulated_share, tree
from wavesim.teaching.exercises import plain, require

FAMILY = "reduction"
Tree = Callable[[int, int], Added | None]  # of thread and step
STEPS = (THREADS - 1).bit_length()
WARP = 32


@typed
def machine_for(device: Device) -> SmMachine:
    """One SM of a device, with the latency and bandwidth that the latency lab measured on it, if it did."""
    found = shipped_loads()
    if found is None or catalogue_name(found.device) != device.name:
        return machine_of(device)
    return machine_of(device, found.latency_ns, found.peak_bytes_per_s)


@typed
def ladder_table(device: Device) -> str:
    """A line per version: the bytes/s simulated, those measured, and what is wrong with it."""
    measured = {step.name: step for step in _ladder().of(FAMILY)}
    machine = machine_for(device)
    peak = machine.bytes_per_cycle * device.sm_count * device.clock_hz
    lines = [f"    simulated, of {peak / 1e12:.2f} TB/s", "    simulated  measured  what is wrong with it"]
    for version in LADDER:
        simulated = f"{simulated_share(version.name, machine) * peak / 1e12:4.2f} TB/s"
        seen = measured.get(version.name)
        shown = f"{seen.per_s / 1e12:4.2f} TB/s" if seen else "    -    "
        lines.append(f"{version.name}  {simulated}  {shown} {version.fault}")
    return "\n".join([*lines, _source()])


def _ladder() -> MeasuredLadder:
    found = shipped_ladder()
    assert found is not None, "a measured ladder ships with wavesim"
    return found


def other_ladders() -> str:
    """Convolutions and products as measured."""
    others = [line for line in _ladder().table().splitlines() if not line.startswith(FAMILY)]
    return "\n".join([*others, _source()])


def _source() -> str:
    return f"measured on {_ladder().device}, {_ladder().date}"


@typed
def tree_steps(added_by: Tree) -> Iterator[TreeStep]:
    """The steps of a tree that is given as a function of thread and step, for 256 sums."""
    for step in range(STEPS):
        yield TreeStep(1 << step, tuple(added_by(thread, step) for thread in range(THREADS)))


def _first_warps() -> dict[str, int]:
    """Warps with a thread that adds in the first step, in v0 and in v1."""
    return {name: sum(warp.active > 0 for warp in tree(name)[0].warps) for name in ("v0", "v1")}


def _strides() -> dict[str, int]:
    """Wavefronts at a stride of 8 words and of 33."""
    return {f"at_{stride}": wavefronts([lane * stride for lane in range(WARP)]) for stride in (8, 33)}


def _worst() -> dict[str, int]:
    """v1's most wavefronts of a store, and the first distance at which a warp needs them."""
    stores = [(max(warp.store for warp in step.warps), step.distance) for step in tree("v1")]
    most = max(store for store, _ in stores)
    return {"wavefronts": most, "distance": next(distance for store, distance in stores if store == most)}


def _grade_tree(answer: Any) -> str:
    """A function of (thread, step) that says what the thread adds: right, without conflicts or divergence."""
    require(callable(answer), "give a function of (thread, step) that returns (element, other) or None.")
    sums = [{element} for element in range(THREADS)]
    for number, step in enumerate(tree_steps(lambda thread, step: _added(answer(thread, step)))):
        _require_pairs(step, number)
        _add(sums, step, number)
        for index, warp in enumerate(step.warps):
            require(
                warp.store <= 1 and warp.loads <= 2,
                f"step {number}: warp {index} takes {warp.store} wavefronts to store.",
            )
        _require_whole_warps(step, number)
    missing = THREADS - len(sums[0])
    require(not missing, f"element 0 ends without {missing} of the {THREADS} elements.")
    return "All 256 are added, in whole warps as long as a warp's worth add, one wavefront each."


def _added(returned: Any) -> Any:
    """What the reader's function returns, with lists and NumPy's numbers as tuples of Python's."""
    found = plain(returned)
    return tuple(found) if isinstance(found, list) else found


def _require_pairs(step: TreeStep, number: int) -> None:
    for thread, added in enumerate(step.added):
        is_pair = isinstance(added, tuple) and len(added) == 2 and all(type(e) is int for e in added)
        where = f"step {number}, thread {thread}: {added!r}"
        require(added is None or is_pair, f"{where} is not (element, other) or None.")
        require(
            added is None or all(0 <= element < THREADS for element in added),
            f"{where} is beyond the {THREADS} elements.",
        )


def _add(sums: list[set[int]], step: TreeStep, number: int) -> None:
    """Adds as the threads do, at once; refuses what would be a race, and what is added twice."""
    pairs = [added for added in step.added if added is not None]
    owned = [own for own, _ in pairs]
    require(len(set(owned)) == len(owned), f"step {number}: two threads write the same element.")
    race = next((other for _, other in pairs if other in set(owned)), None)
    require(race is None, f"step {number}: element {race} is read by one thread while another writes it.")
    for own, other in pairs:
        require(not sums[own] & sums[other], f"step {number}: element {own} gets some elements twice.")
        sums[own] |= sums[other]


def _require_whole_warps(step: TreeStep, number: int) -> None:
    active = sum(added is not None for added in step.added)
    used = sum(warp.active > 0 for warp in step.warps)
    least = -(-active // WARP)
    require(used <= least, f"step {number}: {active} threads add, in {used} warps; {least} are enough.")


GRADERS = {
    "20.1": _first_warps,
    "20.2": _strides,
    "20.3": _worst,
    "20.4": _grade_tree,
    "20.5": lambda: {"tiled": 32, "registers": 8},
}
