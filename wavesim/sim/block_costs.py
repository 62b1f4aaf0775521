"""What a plan charges each block of a stage: its work, and what comes before, at and after it.

Example: under row semaphores a consumer block of 80 us also fetches its tile (0.6 us) and polls its
semaphores (0.9 us); as one of two split-K slices it also stores its sums, or adds the other's to its own.
"""

from dataclasses import dataclass
from math import log2

from wavesim.costs.cost_model import CostModel
from wavesim.costs.wait_costs import WaitCosts, wait_costs_of
from wavesim.plan.plan import Plan
from wavesim.plan.resolved import ResolvedStage
from wavesim.plan.waits import Wait
from wavesim.sim.split_tiles import SplitStage


@dataclass(frozen=True)
class BlockCosts:
    """Nanoseconds; `work_ns` is by position in the stage's issue order.

    `opening_ns` is spent before the work, `waiting` at each wait, `closing_ns` after the work. Of a tile's
    parts all but the last to get there then spend `partial_ns`, and once they have the last `fixup_ns` for
    each of them. A post is seen `post_visibility_ns` later. However early a wait, `ahead_ns` of the work is
    before it. `leaves_share`: what of the SM a block does not use while it waits goes to the others.
    """

    work_ns: list[int]
    opening_ns: int
    waiting: WaitCosts
    ahead_ns: int
    closing_ns: int
    partial_ns: int
    fixup_ns: int
    post_visibility_ns: int
    leaves_share: bool = False

    def due_ns(self, work_ns: int, wait: Wait) -> int:
        """How much of its work a block has done when it comes to a wait."""
        return max(work_ns * wait.done // wait.of, min(work_ns, self.ahead_ns))


def block_costs_of(costs: CostModel, plan: Plan, program: ResolvedStage) -> BlockCosts:
    """A stage's costs. Raises `DescriptionError` where the costs lack its tile times."""
    costs = costs.of_stage(program.stage.name)
    has_semaphores = plan.sync.has_semaphores
    # A kernel that is persistent by itself takes its tiles as it always does; that is in its tiles' time.
    is_fetching = (has_semaphores or plan.schedule.fetches_tiles) and not program.loop.is_persistent
    is_prefetching = (
        has_semaphores and bool(program.arrays) and program.loop.wait_place in (None, "prefetched")
    )
    waits_for_grids = plan.waits_for_grids
    no_waits = waits_for_grids or not has_semaphores or not program.arrays
    fills_first = no_waits and plan.launch.is_dependent and not plan.schedule.is_persistent
    waiting = WaitCosts(0) if no_waits else wait_costs_of(costs, program.stage, program.loop)
    opening_ns = is_fetching * costs.tile_fetch_ns + is_prefetching * costs.poll_ns
    opening_ns += fills_first * costs.grid_wait_ns
    return BlockCosts(
        work_ns=_work(costs, program),
        opening_ns=opening_ns,
        waiting=waiting,
        ahead_ns=costs.prologue_epilogue_ns if waits_for_grids else 0,
        closing_ns=has_semaphores * program.has_posts * costs.post_ns,
        partial_ns=costs.partial_ns,
        fixup_ns=costs.sums_ns.get(program.stage.name, costs.fixup_ns),
        post_visibility_ns=costs.dependent_ns if waits_for_grids else _visibility_ns(costs, program),
        leaves_share=costs.leaves_share,
    )


def _visibility_ns(costs: CostModel, program: ResolvedStage) -> int:
    """From a post until another SM sees it: the later, the more semaphores it looks at together for a row."""
    if not costs.column_visibility_ns or not program.has_posts:
        return costs.post_visibility_ns
    arrays = len(program.posts[0])
    of_row = len({semaphore for tile in program.posts for semaphore in tile}) / (
        arrays * program.stage.grid.y
    )
    return costs.post_visibility_ns + round(costs.column_visibility_ns * log2(max(1.0, of_row)))


def _work(costs: CostModel, program: ResolvedStage) -> list[int]:
    times, grid = costs.tile_times(program.stage), program.stage.grid
    if isinstance(program, SplitStage):
        tiles = [times] * grid.tiles if isinstance(times, int) else times
        return [
            costs.prologue_epilogue_ns * is_first
            + part.share_ns(max(0, tiles[program.output(i)] - costs.prologue_epilogue_ns))
            for i, (part, is_first) in enumerate(zip(program.parts, program.is_first, strict=True))
        ]
    if isinstance(times, int):
        return [times] * len(program.blocks)
    return [times[(z * grid.y + y) * grid.x + x] for x, y, z in program.blocks]
