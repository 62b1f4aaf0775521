"""Cost models: how long a block computes, and what launches, waits and posts add.

Example: a 128 x 256 tile of the first GEMM takes 150 us when its block has the SM to itself; two
blocks on one SM each run at 0.55 of that speed; a post takes 0.4 us. The engine knows
nothing but these figures, so every one of them has a meaning and a unit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from wavesim.costs.dram_slowdown import Memory
from wavesim.errors import DescriptionError
from wavesim.model.kernel import MainLoop
from wavesim.model.pipeline import Pipeline
from wavesim.model.reprs import repr_text
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim.safe_io.bounds import MOST_NS, shown
from wavesim.work.law import LoadClock

FIXED_COSTS = (
    "launch_ns",
    "host_ns",
    "boundary_ns",
    "dependent_ns",
    "block_ns",
    "prologue_epilogue_ns",
    "tile_fetch_ns",
    "poll_ns",
    "wait_ns",
    "ready_poll_ns",
    "refill_ns",
    "tma_refill_ns",
    "wait_test_ns",
    "post_ns",
    "post_visibility_ns",
    "wait_kernel_ns",
    "partial_ns",
    "fixup_ns",
    "setup_ns",
    "reset_ns",
    "multi_stream_ns",
)
Rates = tuple[tuple[int, ...], ...]  # by how many blocks compute on an SM, the oldest first
RATE_UNIT = 1_000  # a block's speed on a shared SM is kept in thousandths, so that time stays an integer


@dataclass(frozen=True)
class PlanClock:
    """What a plan's own clock follows from: the longer a run takes, the less of it tensor cores work.

    Tile times are at `ghz`; `tensor_cycles` are those in which a run's tensor cores work, as a mean over the
    SMs, bf16 weighed.
    """

    load: LoadClock
    ghz: float
    tensor_cycles: float

    def ghz_of(self, time_ns: int) -> float:
        """Of runs of `time_ns` each that follow each other."""
        share = self.tensor_cycles / max(1.0, time_ns * self.ghz)
        return self.load.ghz(min(1.0, share))

    def at(self, ghz: float) -> "PlanClock":
        """The same behind runs at another clock."""
        return replace(self, ghz=ghz)


@dataclass(frozen=True)
class CostModel:
    """Times in integer nanoseconds.

    - `tile_ns`: per stage, the time one block computes when it is alone on its SM; an integer, or
      one per block in the grid's row-major order, split after split ((z * y_count + y) * x_count + x).
    - `launch_ns`: between two launches on the host; none in a CUDA graph.
    - `host_ns`: the same for a plan that launches kernels one by one.
    - `boundary_ns`: from a kernel's last block, or the next launch if later, to the start of the next kernel.
    - `dependent_ns`: under dependent launch, from a kernel's last block to the return of the waits for it.
    - `block_ns`: from a block's issue to its first instruction.
    - `prologue_epilogue_ns`: of a tile's time, filling the pipeline before the main loop and storing the
      result after it. A block with several tiles overlaps it with the next tile: Stream-K's blocks pay it
      once. Under dependent launch it comes before the wait.
    - `tile_fetch_ns`: fetching a tile from the counter, every block under semaphores.
    - `poll_ns`: once in a block that waits: prefetching the state of its semaphores.
    - `wait_ns`: every wait, also on a ready semaphore; 0 for kernels that prefetch the state of semaphores.
    - `ready_poll_ns`: instead of `poll_ns` and `wait_ns` in kernels of which it is said where they wait:
      seeing that a semaphore is ready, every wait. `refill_ns`: a wait within the main loop also costs the
      time from the first load after it until there is something to compute with again; `tma_refill_ns` where
      a warp that only loads waits, and loads by TMA behind a fence. What the pipeline hides costs nothing
      (`WaitCosts`). `wait_test_ns`: each k-block that works out whether to wait.
    - `post_ns`: added to a block whose tile posts, fence included.
    - `post_visibility_ns`: from a post until another SM can see it. `column_visibility_ns`: added to it for
      each doubling of the semaphores of a row of tiles: of those looked at together the slowest counts.
    - `wait_kernel_ns`: from a wait-kernel's issue to its end, where its producers have started by then: its
      own first instruction and a poll. The consumer's kernel starts `boundary_ns` later.
    - `partial_ns`: storing the partial sums of a split, or of a part of a tile under Stream-K; every block of
      the tile but the last to finish does so.
    - `fixup_ns`: adding one other part's sums; the block that finishes last adds all others'.
    - `sums_ns`: the same by stage, where measured.
    - `setup_ns`: around the blocks of a run: graph launch to first block, last block to completion.
    - `reset_ns`: added to it where semaphores are reset before a run, by a memset that the first kernel
      follows: with a block per tile, on one stream. Blocks that stay reset them at the end of a run.
    - `multi_stream_ns`: added to it where each stage has its own stream: reset of semaphores, fork, join.
    - `sharing`: mean speed of 1, 2, 3... blocks computing on one SM, relative to one alone;
      the last entry holds for more. Blocks that spin take no share.
    - `oldest_first_bias`: of 1, 2, 3... such blocks, by how much the oldest runs faster than that mean, as a
      share of it; the youngest runs as much slower, the others are spaced evenly between; the last entry
      holds for more. (0.0, 0.16): of two blocks the older runs at 1.16 of the mean, the younger at 0.84.
    - `fetches_by_sm`: blocks issued at once fetch their tiles SM by SM, as measured; False: in the order in
      which they were issued.
    - `spin_share`: by how much a block that spins slows down each that computes on its SM, as a share.
    - `stays`: stages whose blocks, launched early under semaphores, leave their SM only when the kernel
      before has ended, which each of them waits for at its end; of others one block does.
    - `stage_overheads`: by stage, those of the times above that are other than the rest's.
    - `main_loops`: what is assumed of the main loops of stages whose author has not said it.
    - `memory`: the L2 and the DRAM that all blocks share; `tile_ns` are then times at an idle DRAM. None
      where tiles take what they take whatever runs beside them.
    - `grid_wait_ns`: under dependent launch, what comes before the work of a block that no semaphore holds
      back: it fills its pipeline with what need not wait first. Blocks that are there early do so meanwhile.
    - `k_block_wait_ns`: each k-block of a block that waits on semaphores in its main loop takes longer.
    - `clock_gain`: by how much higher the SM clock is with next to nothing running than with all SMs
      computing, as a share of the latter, at which `tile_ns` are. 0.05: one block alone runs at 1.05 of it.
    - `plan_clock`: the clock that `tile_ns` are at, and how a plan's own follows from its time; None where
      all plans run at one.
    """

    tile_ns: Mapping[str, int | Sequence[int]]
    launch_ns: int = 0
    host_ns: int = 0
    boundary_ns: int = 0
    dependent_ns: int = 0
    block_ns: int = 0
    prologue_epilogue_ns: int = 0
    tile_fetch_ns: int = 0
    poll_ns: int = 0
    wait_ns: int = 0
    ready_poll_ns: int = 0
    refill_ns: int = 0
    tma_refill_ns: int = 0
    wait_test_ns: int = 0
    post_ns: int = 0
    post_visibility_ns: int = 0
    column_visibility_ns: int = 0
    wait_kernel_ns: int = 0
    partial_ns: int = 0
    fixup_ns: int = 0
    setup_ns: int = 0
    reset_ns: int = 0
    multi_stream_ns: int = 0
    sharing: tuple[float, ...] = (1.0,)
    oldest_first_bias: tuple[float, ...] = (0.0,)
    fetches_by_sm: bool = True
    memory: Memory | None = None
    clock_gain: float = 0.0
    grid_wait_ns: int = 0
    k_block_wait_ns: int = 0
    sums_ns: Mapping[str, int] = field(default_factory=dict)
    spin_share: float = 0.0
    main_loops: Mapping[str, MainLoop] = field(default_factory=dict)
    stays: frozenset[str] = frozenset()
    stage_overheads: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    plan_clock: PlanClock | None = None

    def __post_init__(self) -> None:
        for name in FIXED_COSTS:
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise DescriptionError(
                    f"CostModel: {name} is {shown(value)}; it must be an integer of at least 0"
                )
            _require_time(name, value)
        for stage, times in self.tile_ns.items():
            for time in [times] if isinstance(times, int) else times:
                if time < 0:
                    raise DescriptionError(f"CostModel: tile_ns of {stage} is {time}; it must be at least 0")
                _require_time(f"tile_ns of {stage}", time)
        if not self.sharing or self.sharing[0] != 1.0 or min(self.sharing) < 1 / RATE_UNIT:
            raise DescriptionError(
                f"CostModel: sharing is {self.sharing}; it starts with 1.0 (a block alone) and stays at "
                "or above 0.001"
            )
        if not self.oldest_first_bias or not all(0 <= bias < 1 for bias in self.oldest_first_bias):
            raise DescriptionError(
                f"CostModel: oldest_first_bias is {self.oldest_first_bias}; each entry must be at least 0 "
                "and below 1"
            )
        if not 0 <= self.clock_gain <= 1:
            raise DescriptionError(f"CostModel: clock_gain is {self.clock_gain}; it must be 0 to 1")
        if not 0 <= self.spin_share < 1:
            raise DescriptionError(
                f"CostModel: spin_share is {self.spin_share}; it must be at least 0 and below 1"
            )

    def __repr__(self) -> str:
        tiles = (
            f"{stage} {times if isinstance(times, int) else f'of {len(times)} blocks'}"
            for stage, times in self.tile_ns.items()
        )
        fixed = [f"{name} {value}" for name in FIXED_COSTS if (value := getattr(self, name))]
        return repr_text("CostModel", f"tile_ns {', '.join(tiles)}{'; ' if fixed else ''}{', '.join(fixed)}")

    def of_stage(self, stage: str) -> "CostModel":
        """The same with a stage's own overheads for all."""
        own = self.stage_overheads.get(stage, {})
        changes: dict[str, Any] = {**own, "stage_overheads": {}}
        return replace(self, **changes) if own else self

    def tile_times(self, stage: Stage) -> int | list[int]:
        """One time for all blocks of a stage, or a list of one per block. Raises `DescriptionError`."""
        if stage.name not in self.tile_ns:
            raise DescriptionError(
                f"CostModel: no tile_ns for stage {stage.name!r}; it has {list(self.tile_ns)}"
            )
        times = self.tile_ns[stage.name]
        if isinstance(times, int):
            return times
        if len(times) != stage.grid.size:
            raise DescriptionError(
                f"CostModel: {len(times)} tile times for {stage.name!r}; its grid {stage.grid} has "
                f"{stage.grid.size} blocks"
            )
        return [int(time) for time in times]

    @cached_property
    def rates(self) -> Rates:
        """Speeds of each of 1, 2, 3... computing blocks, the oldest first, in thousandths."""
        return (
            (RATE_UNIT,),
            *(
                tuple(_thousandths(speed * (1 + self.bias(n) * (1 - 2 * i / (n - 1)))) for i in range(n))
                for n, speed in enumerate(self.sharing[1:], start=2)
            ),
        )

    @property
    def is_shared(self) -> bool:
        """Whether blocks of one SM slow each other down."""
        return bool(self.spin_share) or any(rate != RATE_UNIT for rates in self.rates for rate in rates)

    @property
    def leaves_share(self) -> bool:
        """Whether blocks of one SM share a bandwidth: what one does not use while it waits, others do."""
        return len(self.sharing) > 1 and all(
            abs(count * speed - 1.0) <= 1.0 / RATE_UNIT for count, speed in enumerate(self.sharing, start=1)
        )

    def rates_beside(self, spinning: int) -> Rates:
        """The same speeds where so many other blocks of the SM spin."""
        left = (1.0 - self.spin_share) ** spinning
        return tuple(tuple(max(1, round(rate * left)) for rate in rates) for rates in self.rates)

    def bias(self, count: int) -> float:
        """Of `count` blocks computing on one SM by how much the oldest runs ahead of their mean speed."""
        return self.oldest_first_bias[min(count, len(self.oldest_first_bias)) - 1]

    def between_launches_ns(self, plan: Plan) -> int:
        """From one launch to the next on the host, by how the plan launches its kernels."""
        if plan.launch.is_graph:
            return 0
        return self.host_ns if plan.launch.is_host else self.launch_ns

    def outside_ns(self, plan: Plan) -> int:
        """What a run takes besides its blocks: setup, a reset, streams of their own."""
        if plan.launch.is_multi_stream:
            return self.setup_ns + self.multi_stream_ns
        is_reset = plan.sync.has_semaphores and not plan.schedule.is_persistent
        return self.setup_ns + is_reset * self.reset_ns

    @property
    def settles(self) -> bool:
        """Whether tile times follow from a run, which is then simulated more than once."""
        return self.memory is not None or bool(self.clock_gain) or self.plan_clock is not None

    def with_tile_ns(self, **tile_ns: int | Sequence[int]) -> "CostModel":
        """The same costs with other tile times."""
        return replace(self, tile_ns={**self.tile_ns, **tile_ns})


def _require_time(name: str, time_ns: int) -> None:
    if time_ns > MOST_NS:
        raise DescriptionError(
            f"CostModel: {name} is {shown(time_ns)}; it must be at most {MOST_NS:,} ns, 18 minutes. Check "
            "the unit"
        )


def _thousandths(speed: float) -> int:
    return max(1, round(speed * RATE_UNIT))


def zero_cost(pipeline: Pipeline, tile_ns: int) -> CostModel:
    """Every tile takes `tile_ns` and nothing else costs time: the model of the paper's Figure 1."""
    return CostModel({stage.name: tile_ns for stage in pipeline.stages})
