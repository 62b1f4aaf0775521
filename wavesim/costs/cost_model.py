"""Cost models: how long a block computes, and what launches, waits and posts add.

Example: a 128 x 256 tile of the first GEMM takes 150 us when its block has the SM to itself; two
blocks on one SM each run at 0.55 of that speed; a post takes 0.4 us. The engine knows
nothing but these figures, so every one of them has a meaning and a unit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from wavesim.costs.dram import Memory
from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.model.reprs import one_line
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan

FIXED_COSTS = (
    "launch_ns",
    "host_ns",
    "boundary_ns",
    "dependent_ns",
    "block_ns",
    "edge_ns",
    "counter_ns",
    "look_ns",
    "wait_ns",
    "post_ns",
    "signal_ns",
    "partial_ns",
    "fixup_ns",
    "setup_ns",
    "fork_ns",
)
RATE_UNIT = 1_000  # a block's speed on a shared SM is kept in thousandths, so that time stays an integer


@dataclass(frozen=True)
class CostModel:
    """Times in integer nanoseconds.

    - `tile_ns`: per stage, the time one block computes when it is alone on its SM; an integer, or
      one per block in the grid's row-major order, slice after slice ((z * y_count + y) * x_count + x).
    - `launch_ns`: between two launches on the host; none in a CUDA graph.
    - `host_ns`: the same for a plan that launches kernels one by one.
    - `boundary_ns`: from a kernel's last block, or the next launch if later, to that next kernel's turn.
    - `dependent_ns`: under dependent launch, from a kernel's last block to the return of the waits for it.
    - `block_ns`: from a block's issue to its first instruction.
    - `edge_ns`: of a tile's time, what a block that has another one does beside it: filling its pipeline,
      storing what it has computed. Stream-K's blocks pay it once, for all their parts and tiles; under
      dependent launch it lies before the wait.
    - `counter_ns`: drawing a tile from the counter, every block under semaphores.
    - `look_ns`: once in a block that waits: looking at its semaphores ahead of need.
    - `wait_ns`: every wait, also on a semaphore that is ready; 0 for kernels that look ahead of need.
    - `post_ns`: added to a block whose tile posts, fence included.
    - `signal_ns`: from a post to its being seen on another SM.
    - `partial_ns`: storing the sums of a split-K slice, or of a part of a tile under Stream-K: all do but the
      last of their tile to get there.
    - `fixup_ns`: adding another part's sums to its own: the last one does so for every other.
    - `sums_ns`: the same by stage, where measured.
    - `setup_ns`: around the blocks of a run: graph launch to first block, last block to completion.
    - `fork_ns`: more of it where stages have streams of their own: reset of semaphores, fork, join.
    - `sharing`: mean speed of 1, 2, 3... blocks computing on one SM, relative to one alone;
      the last entry holds for more. Blocks that spin take no share.
    - `seniority`: of 1, 2, 3... such blocks by how much the eldest runs ahead of that mean, as a share of it;
      the youngest falls as far behind, the others in even steps between; the last entry holds for more.
      (0.0, 0.16): the elder of two runs at 1.16 of the mean, the younger at 0.84.
    - `draws_by_sm`: blocks issued at once that draw their tiles do so SM by SM, as measured; False: in the
      order in which they were issued.
    - `memory`: the L2 and the DRAM that all blocks share; `tile_ns` are then times at an idle DRAM. None
      where tiles take what they take whatever runs beside them.
    - `clock_gain`: by how much higher the SM clock is with next to nothing running than with all SMs
      computing, as a share of the latter, at which `tile_ns` are. 0.05: one block alone runs at 1.05 of it.
    """

    tile_ns: Mapping[str, int | Sequence[int]]
    launch_ns: int = 0
    host_ns: int = 0
    boundary_ns: int = 0
    dependent_ns: int = 0
    block_ns: int = 0
    edge_ns: int = 0
    counter_ns: int = 0
    look_ns: int = 0
    wait_ns: int = 0
    post_ns: int = 0
    signal_ns: int = 0
    partial_ns: int = 0
    fixup_ns: int = 0
    setup_ns: int = 0
    fork_ns: int = 0
    sharing: tuple[float, ...] = (1.0,)
    seniority: tuple[float, ...] = (0.0,)
    draws_by_sm: bool = True
    memory: Memory | None = None
    clock_gain: float = 0.0
    sums_ns: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in FIXED_COSTS:
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise DescriptionError(f"CostModel: {name} is {value!r}; it must be an integer of at least 0")
        for stage, times in self.tile_ns.items():
            for time in [times] if isinstance(times, int) else times:
                if time < 0:
                    raise DescriptionError(f"CostModel: tile_ns of {stage} is {time}; it must be at least 0")
        if not self.sharing or self.sharing[0] != 1.0 or min(self.sharing) < 1 / RATE_UNIT:
            raise DescriptionError(
                f"CostModel: sharing is {self.sharing}; it starts with 1.0 (a block alone) and stays at "
                "or above 0.001"
            )
        if not self.seniority or not all(0 <= lead < 1 for lead in self.seniority):
            raise DescriptionError(
                f"CostModel: seniority is {self.seniority}; each entry must be at least 0 and below 1"
            )
        if not 0 <= self.clock_gain <= 1:
            raise DescriptionError(f"CostModel: clock_gain is {self.clock_gain}; it must be 0 to 1")

    def __repr__(self) -> str:
        tiles = (
            f"{stage} {times if isinstance(times, int) else f'of {len(times)} blocks'}"
            for stage, times in self.tile_ns.items()
        )
        fixed = [f"{name} {value}" for name in FIXED_COSTS if (value := getattr(self, name))]
        return one_line("CostModel", f"tile_ns {', '.join(tiles)}{'; ' if fixed else ''}{', '.join(fixed)}")

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

    @property
    def rates(self) -> tuple[tuple[int, ...], ...]:
        """Speeds of each of 1, 2, 3... computing blocks, the eldest first, in thousandths."""
        return (
            (RATE_UNIT,),
            *(
                tuple(_thousandths(speed * (1 + self.lead(n) * (1 - 2 * i / (n - 1)))) for i in range(n))
                for n, speed in enumerate(self.sharing[1:], start=2)
            ),
        )

    @property
    def is_shared(self) -> bool:
        """Whether blocks of one SM slow each other down."""
        return any(rate != RATE_UNIT for rates in self.rates for rate in rates)

    def lead(self, count: int) -> float:
        """Of `count` blocks computing on one SM by how much the eldest runs ahead of their mean speed."""
        return self.seniority[min(count, len(self.seniority)) - 1]

    def between_launches_ns(self, plan: Plan) -> int:
        """From one launch to the next on the host, by how the plan launches its kernels."""
        return {"stream": self.launch_ns, "graph": 0, "host": self.host_ns}[plan.launch.submission]

    def outside_ns(self, plan: Plan) -> int:
        """What a run takes besides its blocks: setup, and the fork where stages have streams of their own."""
        return self.setup_ns + (self.fork_ns if plan.launch.is_multi_stream else 0)

    def with_tile_ns(self, **tile_ns: int | Sequence[int]) -> "CostModel":
        """The same costs with other tile times."""
        return replace(self, tile_ns={**self.tile_ns, **tile_ns})


def _thousandths(speed: float) -> int:
    return max(1, round(speed * RATE_UNIT))


def zero_cost(pipeline: Pipeline, tile_ns: int) -> CostModel:
    """Every tile takes `tile_ns` and nothing else costs time: the model of the paper's Figure 1."""
    return CostModel({stage.name: tile_ns for stage in pipeline.stages})
