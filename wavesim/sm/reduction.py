"""The reduction ladder v0 to v5: who adds what in each step of a block's tree, and what it costs its warps.

Example: in the first step of v0 every second thread adds its neighbour's sum: all eight warps go through it
with 16 lanes each. v1 has the first 128 threads do the same: four whole warps, whose lanes touch every second
word, two in each bank.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from wavesim.errors import DescriptionError
from wavesim.model.kernel import WARP_SIZE
from wavesim.sm.banks import wavefronts
from wavesim.sm.machine import SmMachine, assumed_figures
from wavesim.sm.sm_simulation import simulate_sm
from wavesim.sm.warp_program import (
    Arithmetic,
    AwaitLoads,
    BlockBarrier,
    GlobalLoad,
    Instruction,
    SharedAccess,
    SmKernel,
    WarpProgram,
)

THREADS, RESIDENT = 256, 8  # of every version: 2048 threads on an SM
FLOAT_BYTES, VECTOR_BYTES, VECTORS = 4, 16, 4
MORE_BLOCKS, MORE_ROUNDS = 1, 8
PREDICATED_OFF = 4  # two loads, an addition and a store that no lane takes part in are issued all the same
Added = tuple[int, int]  # the element that a thread adds to, and the one it adds


@dataclass(frozen=True)
class WarpStep:
    """What one warp does in one step: lanes that add, wavefronts of its two loads and of its store."""

    active: int
    loads: int
    store: int

    @property
    def is_divergent(self) -> bool:
        """Whether some lanes add and others do not."""
        return 0 < self.active < WARP_SIZE


@dataclass(frozen=True)
class TreeStep:
    """One step: what each thread adds (None: nothing), and whether the block meets at a barrier after it."""

    distance: int
    added: tuple[Added | None, ...]
    has_barrier: bool = True

    @property
    def warps(self) -> tuple[WarpStep, ...]:
        """Each warp's part."""
        lanes = [self.added[first : first + WARP_SIZE] for first in range(0, len(self.added), WARP_SIZE)]
        return tuple(_warp_step(of_warp, keeps_own=not self.has_barrier) for of_warp in lanes)


def _warp_step(lanes: tuple[Added | None, ...], *, keeps_own: bool) -> WarpStep:
    """Where nobody else waits for it, a thread keeps its own sum in a register."""
    own, other = ([None if pair is None else pair[side] for pair in lanes] for side in (0, 1))
    active = sum(pair is not None for pair in lanes)
    stored = wavefronts(own)
    return WarpStep(active, wavefronts(other) + (0 if keeps_own else stored), stored)


def _every_other(thread: int, distance: int) -> Added | None:
    return None if thread % (2 * distance) else (thread, thread + distance)


def _first_threads(thread: int, distance: int) -> Added | None:
    element = 2 * distance * thread
    return (element, element + distance) if element < THREADS else None


def _halves(thread: int, distance: int) -> Added | None:
    return (thread, thread + distance) if thread < distance else None


def _last_warp(thread: int, distance: int) -> Added | None:
    return (thread, thread + distance) if thread < max(WARP_SIZE, distance) else None


@dataclass(frozen=True)
class Version:
    """One step of the ladder: its name, what is wrong with it, who adds what, elements per thread at first.

    `rises`: distances 1, 2, 4, ..., else 128, 64, 32, ...; `adds` None: warps add by shuffles.
    """

    name: str
    fault: str
    adds: Callable[[int, int], Added | None] | None
    rises: bool = False
    elements: int = 1


LADDER = (
    Version("v0", "threads that add sit in every warp, and each step divides", _every_other, rises=True),
    Version("v1", "lanes far apart meet in a few banks", _first_threads, rises=True),
    Version("v2", "half of the threads never add", _halves),
    Version("v3", "the last warp meets all others at six more barriers", _halves, elements=2),
    Version("v4", "each thread loads twice 4 bytes and is done", _last_warp, elements=2),
    Version("v5", "nothing: it waits for memory", None),
)
NAMES = tuple(version.name for version in LADDER)


def version(name: str) -> Version:
    """One of the ladder's. Raises `DescriptionError`."""
    if name not in NAMES:
        raise DescriptionError(f"version is {name!r}; the ladder has {', '.join(NAMES)}")
    return LADDER[NAMES.index(name)]


@cache
def tree(name: str) -> tuple[TreeStep, ...]:
    """The steps of a version's tree in shared memory; none where warps add by shuffles."""
    rung = version(name)
    if rung.adds is None:
        return ()
    distances = [1 << power for power in range((THREADS - 1).bit_length())]
    return tuple(
        TreeStep(
            distance,
            tuple(rung.adds(thread, distance) for thread in range(THREADS)),
            has_barrier=rung.adds is not _last_warp or distance > WARP_SIZE,
        )
        for distance in (distances if rung.rises else reversed(distances))
    )


def block_programs(name: str, rounds: int = 1) -> tuple[WarpProgram, ...]:
    """What each warp of a block does, with as many instructions as the machine code has.

    `rounds`: of v5, whose blocks stay.
    """
    rung, counts = version(name), assumed_figures()["reduction"]
    if rung.adds is None:
        return (_staying_program(counts, rounds),) * (THREADS // WARP_SIZE)
    loads = (GlobalLoad(WARP_SIZE * FLOAT_BYTES),) * rung.elements
    begin: WarpProgram = (Arithmetic(counts["begin"]), *loads, AwaitLoads(), SharedAccess(1), BlockBarrier())
    return tuple(
        (
            *begin,
            *(
                instruction
                for step in tree(name)
                for instruction in _step_program(step, warp, counts["step"][name])
            ),
        )
        for warp in range(THREADS // WARP_SIZE)
    )


def _step_program(step: TreeStep, warp: int, arithmetic: int) -> list[Instruction]:
    """What a warp issues of a step: as much where its lanes are idle, nothing after the last barrier.

    Both loads are one access here, of which the other one's issue is counted with the arithmetic.
    """
    part = step.warps[warp]
    if not part.active:
        return [Arithmetic(arithmetic + PREDICATED_OFF), BlockBarrier()] if step.has_barrier else []
    added: list[Instruction] = [SharedAccess(part.loads), Arithmetic(1), SharedAccess(part.store)]
    return [Arithmetic(arithmetic + 1), *added, BlockBarrier()] if step.has_barrier else added


def _staying_program(counts: dict[str, int], rounds: int) -> WarpProgram:
    loads = (GlobalLoad(WARP_SIZE * VECTOR_BYTES),) * VECTORS
    one_round: WarpProgram = (*loads, AwaitLoads(), Arithmetic(counts["round"]))
    return one_round * rounds


@cache
def simulated_share(name: str, machine: SmMachine) -> float:
    """Of an SM's bandwidth, what a version reads with eight blocks of 256 threads resident, simulated.

    What the first blocks, or rounds, need is left out, so that it holds for large arrays.
    """
    if version(name).adds is None:
        runs = [_run(name, machine, RESIDENT, rounds) for rounds in (MORE_ROUNDS, 2 * MORE_ROUNDS)]
    else:
        runs = [_run(name, machine, RESIDENT * (1 + more)) for more in (MORE_BLOCKS, 2 * MORE_BLOCKS)]
    (few, few_cycles), (more_bytes, cycles) = runs
    return (more_bytes - few) / (cycles - few_cycles) / machine.bytes_per_cycle


def _run(name: str, machine: SmMachine, blocks: int, rounds: int = 1) -> tuple[int, int]:
    run = simulate_sm(SmKernel(block_programs(name, rounds), blocks, RESIDENT), machine)
    return run.loaded_bytes, run.cycles
