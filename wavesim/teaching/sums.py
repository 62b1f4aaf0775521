"""Notebook 20: the ladder of sums simulated beside what was measured, if anything was; a tree of one's own.

Example: v0 reads a tenth of what the memory could give, simulated on one SM of an H200; v5 reads all of it.
"""

from collections.abc import Callable, Iterator

from wavesim.model.device import Device, catalogue_name
from wavesim.safe_io.annotated import typed
from wavesim.sm.machine import SmMachine, machine_of
from wavesim.sm.measured_ladder import FILE, MeasuredStep, shipped_ladder
from wavesim.sm.measured_loads import shipped_loads
from wavesim.sm.reduction import LADDER, THREADS, Added, TreeStep, simulated_share

COMMAND = "python -m wavesim_gpu measure labs --only ladder --out DIR"
NOT_YET = f"Not measured yet. On a GPU: {COMMAND}, then copy it to wavesim/sm/measured/{FILE.name}"
FAMILY = "reduction"
Tree = Callable[[int, int], Added | None]  # of thread and step
STEPS = (THREADS - 1).bit_length()


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
    measured = {step.name: step for step in _measured()}
    machine = machine_for(device)
    peak = machine.bytes_per_cycle * device.sm_count * device.clock_hz
    lines = [f"    simulated, of {peak / 1e12:.2f} TB/s", "    simulated  measured  what is wrong with it"]
    for version in LADDER:
        simulated = f"{simulated_share(version.name, machine) * peak / 1e12:4.2f} TB/s"
        seen = measured.get(version.name)
        shown = f"{seen.per_s / 1e12:4.2f} TB/s" if seen else "    -    "
        lines.append(f"{version.name}  {simulated}  {shown} {version.fault}")
    return "\n".join([*lines, _source()])


def _measured() -> tuple[MeasuredStep, ...]:
    found = shipped_ladder()
    return () if found is None else found.of(FAMILY)


def _source() -> str:
    found = shipped_ladder()
    return NOT_YET if found is None else f"measured on {found.device}, {found.date}"


def other_ladders() -> str:
    """Convolutions and products as measured, or how to measure them."""
    found = shipped_ladder()
    if found is None:
        return NOT_YET
    others = [line for line in found.table().splitlines() if not line.startswith(FAMILY)]
    return "\n".join([*others, _source()])


@typed
def tree_steps(tree: Tree) -> Iterator[TreeStep]:
    """The steps of a tree that is given as a function of thread and step, for 256 sums."""
    for step in range(STEPS):
        yield TreeStep(1 << step, tuple(tree(thread, step) for thread in range(THREADS)))
