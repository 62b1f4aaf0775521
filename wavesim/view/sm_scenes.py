"""One SM as plain values: what it holds of a kernel, what its loads wait for, which banks its lanes meet in.

Example: two blocks fill 198 of 228 KB of shared memory and a third does not fit, while registers would
hold four; below, 133 blocks on 132 SMs: a full wave, and a second with a single block.
"""

from dataclasses import dataclass, replace
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import WARP_SIZE, Block
from wavesim.model.occupancy import Occupancy, allocation, carveout_level, occupancy_of
from wavesim.sm.banks import BANKS, wavefronts, words_by_bank
from wavesim.sm.loads import LoadLoop, in_flight_bytes, littles_share, queued_share, simulated_share
from wavesim.sm.machine import SmMachine
from wavesim.sm.measured_loads import MeasuredLoads
from wavesim.sm.reduction import LADDER, TreeStep, tree
from wavesim.sm.sm_simulation import simulate_sm
from wavesim.trace.spans import merged
from wavesim.view.canvas import Props

KIB = 1024
REASONS = {
    "blocks": "no SM takes more",
    "warps": "more warps do not fit",
    "registers": "its registers allow no more",
    "shared memory": "its shared memory allows no more",
}


@dataclass(frozen=True)
class ShownKernel:
    """A kernel to look at: its block, how many of them, on what, at which carve-out (None: the largest)."""

    device: Device
    block: Block
    blocks: int
    carveout_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.blocks < 1:
            raise DescriptionError(f"blocks is {self.blocks}; a grid has at least 1")

    @property
    def occupancy(self) -> Occupancy:
        """Raises `DescriptionError` if the device can never run such a block."""
        return occupancy_of(self.device, self.block, self.carveout_bytes)

    @property
    def wave(self) -> int:
        """Blocks that are resident at once on all SMs."""
        return self.occupancy.blocks_per_sm * self.device.sm_count

    @property
    def shared_level(self) -> int:
        """Bytes of shared memory that an SM offers: the carve-out, or more if not one block would fit."""
        wanted = self.carveout_bytes
        level = self.device.shared_bytes_per_sm if wanted is None else carveout_level(self.device, wanted)
        return max(level, carveout_level(self.device, allocation(self.device, self.block).shared_bytes))


def scene_of_launch(launch: ShownKernel) -> Props:
    """Capacity and need of each resource, who limits, and each wave's blocks. Raises `DescriptionError`."""
    occupancy, wave = launch.occupancy, launch.wave
    resident = occupancy.blocks_per_sm
    full, rest = divmod(launch.blocks, wave)
    return {
        "title": f"{_plural(resident, 'block')} per SM: {REASONS[occupancy.limiter]}",
        "subtitle": _facts(launch, occupancy),
        "resident": resident,
        "limiter": occupancy.limiter,
        "resources": _resources(launch, occupancy),
        "waveTitle": _wave_title(launch.blocks, wave, full, rest),
        "wave": wave,
        "waves": full + bool(rest),
        "rest": rest or wave,
        "device": {"name": launch.device.name.upper(), "sms": launch.device.sm_count},
    }


def _facts(launch: ShownKernel, occupancy: Occupancy) -> str:
    block, warps = launch.block, launch.device.max_warps_per_sm
    shared = f"{block.shared_bytes / KIB:g} KiB of shared memory"
    return (
        f"{block.threads} threads, {block.registers} registers each, {shared} "
        f"on {launch.device.name.upper()}: "
        f"{occupancy.warps_per_sm} of {warps} warps, an occupancy of {occupancy.fraction:.0%}. "
        f"{_raised(launch)}Computed, not measured"
    ).replace("%", " %")


def _raised(launch: ShownKernel) -> str:
    """That the carve-out chosen holds no block, so that a larger one is used."""
    wanted, used = launch.carveout_bytes, launch.shared_level
    if wanted is None or carveout_level(launch.device, wanted) == used:
        return ""
    return f"{wanted / KIB:g} KiB hold no such block: the carve-out is {used / KIB:g} KiB. "


def _resources(launch: ShownKernel, occupancy: Occupancy) -> list[Props]:
    device, need = launch.device, allocation(launch.device, launch.block)
    rows = (
        ("blocks", "block slots", device.max_blocks_per_sm, 1, ""),
        ("warps", "warps", device.max_warps_per_sm, need.warps, ""),
        ("registers", "registers", device.registers_per_sm, need.registers, ""),
        ("shared memory", "shared memory", launch.shared_level / KIB, need.shared_bytes / KIB, "KiB"),
    )
    return [
        {
            "name": name,
            "label": label,
            "capacity": capacity,
            "need": each,
            "unit": unit,
            "allows": occupancy.limits[name],
            "isLimit": name == occupancy.limiter,
        }
        for name, label, capacity, each, unit in rows
    ]


def _wave_title(blocks: int, wave: int, full: int, rest: int) -> str:
    waves = full + bool(rest)
    fill = "fills" if blocks == 1 else "fill"
    if not rest:
        return f"{_plural(blocks, 'block')} {fill} {_plural(waves, 'wave')}"
    if not full:
        return f"{_plural(blocks, 'block')} {fill} {rest / wave:.0%} of one wave".replace("%", " %")
    work = f"{_plural(blocks, 'block')}: {blocks / wave:.2f} waves of work take {_plural(waves, 'wave')}"
    return f"{work}; the last is {rest / wave:.0%} full".replace("%", " %")


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


SHOWN_ROUNDS = 3  # round trips on the time axis
LEAST_CURVE_BYTES, STEPS_PER_DOUBLING, CURVE_STEPS = 512, 4, 36  # to 256 KiB
FULL_SHARE = 0.985  # of the bandwidth


@dataclass(frozen=True)
class ShownLoads:
    """A load loop on one SM; `gpu` is how many SMs share how many channels on the curve."""

    loop: LoadLoop
    machine: SmMachine
    gpu: tuple[int, int] = (1, 1)
    measured: MeasuredLoads | None = None


def scene_of_loads(shown: ShownLoads) -> dict[str, Any]:
    """Rows of warps, the memory's row, and the curve."""
    loop, machine = shown.loop, shown.machine
    share = simulated_share(loop, machine)
    run = simulate_sm(loop.kernel(SHOWN_ROUNDS + 1), machine, records=True)
    end = min(run.cycles, _horizon(loop, machine))
    return {
        "title": _loads_title(loop, machine, share),
        "subtitle": _loads_facts(loop, machine),
        "end": end,
        "warps": [
            [[span.start, min(span.end, end), span.doing] for span in run.spans if _is_of(span, warp, end)]
            for warp in range(loop.warps)
        ],
        "memory": [[round(a, 1), round(min(b, end), 1)] for a, b in merged(run.served, gap=1) if a < end],
        "share": share,
        "inFlight": in_flight_bytes(loop, machine),
        "needed": machine.bytes_per_cycle * machine.latency_cycles,
        "curve": _curve(shown),
        "measured": [list(point) for point in shown.measured.shares] if shown.measured else [],
        "measuredOn": f"measured on {shown.measured.device}" if shown.measured else "",
    }


def _is_of(span: Any, warp: int, end: int) -> bool:
    return bool(span.warp == warp and span.start < end)


def _horizon(loop: LoadLoop, machine: SmMachine) -> int:
    """Cycles on the time axis: some round trips, or as many as the queue makes of them."""
    queued = in_flight_bytes(loop, machine) / machine.bytes_per_cycle
    return round(SHOWN_ROUNDS * max(machine.latency_cycles, queued))


def _curve(shown: ShownLoads) -> list[list[float]]:
    """(bytes in flight, share by Little's law, share with queues) of ever more loads of that size."""
    sms, channels = shown.gpu
    machine = replace(shown.machine, sms=sms, channels=channels)
    sizes = [LEAST_CURVE_BYTES * 2 ** (step / STEPS_PER_DOUBLING) for step in range(CURVE_STEPS + 1)]
    bend = machine.bytes_per_cycle * machine.latency_cycles
    return [
        [size, littles_share(size, machine), queued_share(size, shown.loop.load_bytes, machine)]
        for size in sorted([*sizes, min(max(bend, sizes[0]), sizes[-1])])
    ]


def _loads_title(loop: LoadLoop, machine: SmMachine, share: float) -> str:
    flying = in_flight_bytes(loop, machine)
    title = f"{kib(flying)} in flight: {share:.0%} of the bandwidth".replace("%", " %")
    if share >= FULL_SHARE:
        return f"{title}. The memory is the limit"
    if flying < loop.in_flight_bytes:
        return f"{title}. The SM can have no more loads on their way"
    return f"{title}. The memory waits for loads"


def _loads_facts(loop: LoadLoop, machine: SmMachine) -> str:
    needed = machine.bytes_per_cycle * machine.latency_cycles
    rate = f"{machine.latency_cycles} cycles of latency at {machine.bytes_per_cycle:.3g} bytes per cycle"
    return (
        f"{_plural(loop.warps, 'warp')}, {_plural(loop.loads, 'load')} of {loop.load_bytes} bytes each "
        f"before a wait. {rate} take {kib(needed)} in flight. One SM, simulated"
    )


def kib(size: float) -> str:
    """Bytes in KiB, with a digit where they are few."""
    return f"{size / KIB:.0f} KiB" if size >= 10 * KIB else f"{size / KIB:.1f} KiB"


STRIDE, COLUMN = "lanes a stride apart", "a column of a tile"
TREES = tuple(version.name for version in LADDER if version.adds is not None)
PATTERNS = (STRIDE, COLUMN, *(f"reduction {name}" for name in TREES))
TILE = 32


@dataclass(frozen=True)
class ShownAccess:
    """A pattern of `PATTERNS`; words between lanes; words added to a row; the reduction's step from 1 on."""

    pattern: str = STRIDE
    stride: int = 2
    padding: int = 0
    step: int = 1

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise DescriptionError(f"pattern is {self.pattern!r}; choose one of {', '.join(PATTERNS)}")
        steps = len(self.steps)
        for name, most in (("stride", 64), ("padding", 32), ("step", steps or 64)):
            least = 1 if name == "step" else 0
            if not least <= getattr(self, name) <= most:
                raise DescriptionError(
                    f"{name} is {getattr(self, name)}; it must be from {least} to {most} here"
                )

    @property
    def steps(self) -> tuple[TreeStep, ...]:
        """Of the reduction that is shown; none for other patterns."""
        return tree(self.pattern.split()[-1]) if self.pattern.startswith("reduction") else ()

    @property
    def elements(self) -> tuple[int | None, ...]:
        """The word that each lane touches; of a reduction, the one that a lane of the first warp adds to."""
        if self.steps:
            added = self.steps[self.step - 1].added[:WARP_SIZE]
            return tuple(None if pair is None else pair[0] for pair in added)
        between = self.stride if self.pattern == STRIDE else TILE + self.padding
        return tuple(lane * between for lane in range(WARP_SIZE))


def scene_of_access(shown: ShownAccess) -> dict[str, Any]:
    """Each lane's word, each bank's words in the order of their wavefronts, and the tree's active threads."""
    elements = shown.elements
    (banks,) = words_by_bank(elements)
    return {
        "title": _access_title(elements),
        "subtitle": _access_facts(shown),
        "lanes": list(elements),
        "banks": [sorted(words) for words in banks],
        "bankCount": BANKS,
        "wavefronts": wavefronts(elements),
        "steps": [_tree_step(step) for step in shown.steps],
        "chosen": shown.step - 1,
    }


def _access_title(elements: tuple[int | None, ...]) -> str:
    count = wavefronts(elements)
    (banks,) = words_by_bank(elements)
    used, active = sum(map(bool, banks)), sum(element is not None for element in elements)
    if count > 1:
        return f"{count} wavefronts: {used} of {BANKS} banks serve {_plural(active, 'lane')}"
    if active > 1 and used == 1:
        return "1 wavefront: all lanes read the same word"
    return f"1 wavefront: {_plural(active, 'lane')} in {_plural(used, 'bank')}"


def _access_facts(shown: ShownAccess) -> str:
    if shown.steps:
        step = shown.steps[shown.step - 1]
        return (
            f"{shown.pattern}, step {shown.step} of {len(shown.steps)}, distance {step.distance}: the words "
            "that the first warp adds to. Counted, not measured"
        )
    if shown.pattern == STRIDE:
        return f"lane i reads word {shown.stride} × i, 4 bytes. Counted, not measured"
    row = TILE + shown.padding
    return f"lane i reads element [i][0] of float tile[{TILE}][{row}], word {row} × i. Counted, not measured"


def _tree_step(step: TreeStep) -> dict[str, Any]:
    """`active`: a 1 or 0 per thread; `words`: what its warps do."""
    warps = [warp for warp in step.warps if warp.active]
    lanes = max(warp.active for warp in warps)
    worst = max(warp.store for warp in warps)
    return {
        "distance": step.distance,
        "active": [int(pair is not None) for pair in step.added],
        "words": f"{_plural(len(warps), 'warp')}, {_plural(lanes, 'lane')}, {_plural(worst, 'wavefront')}",
    }
