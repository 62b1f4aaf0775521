"""What a wait costs a block beyond the time until the semaphore is ready, by where its kernel waits.

Example: a kernel that waits at a barrier of the block stops, polls the semaphore and then loads, so that
each wait costs it a poll and a load, 0.7 us. Where a warp that only loads waits, the others go on with the
k-blocks that are loaded already: at 3 us from wait to wait nothing of it is seen, at 0.5 us some of it is.
"""

from dataclasses import dataclass

from wavesim.costs.cost_model import CostModel
from wavesim.model.kernel import MainLoop
from wavesim.model.stage import Stage

# Where nothing is said: K iterations of a tile, enough for halves and thirds of it to come out even, and the
# pipeline's depth in them.
USUAL_ITERATIONS = 96
USUAL_DEPTH = 4


@dataclass(frozen=True)
class WaitCosts:
    """Nanoseconds of a wait: `poll_ns`; then, if the block has computed since the one before, `refill_ns`.

    Of its work `depth` parts in `iterations` are loaded ahead and go on being computed during the next wait;
    0 where the whole block waits. `ahead_ns`: the same where parts are alike and tiles are not. `test_ns` is
    testing at each k-block whether to.
    """

    poll_ns: int
    refill_ns: int = 0
    depth: int = 0
    iterations: int = 1
    test_ns: int = 0
    ahead_ns: int = 0

    @property
    def is_free(self) -> bool:
        """Whether a wait that is over costs nothing, whatever lies between waits."""
        return not self.poll_ns and not self.refill_ns

    def passing(self, due_ns: int, ready_ns: int, work_ns: int, since_ns: int) -> tuple[int, int]:
        """(polling, refilling) after a block is both at its wait, at `due_ns`, and the semaphore ready.

        `since_ns` of its `work_ns` were computed since the wait before. A warp that loads ahead came to the
        wait while what was loaded was still to be computed; its poll and the load after it began then, or
        when the semaphore became ready. What is left of them when the rest of the block is there is paid.
        """
        if self.ahead_ns and not since_ns:
            return (self.poll_ns if ready_ns > due_ns else 0), 0  # one look at all that the next part needs
        refill_ns = self.refill_ns if since_ns else 0
        hidden_ns = min(since_ns, self.ahead_ns or work_ns * self.depth // self.iterations)
        over_ns = max(ready_ns, due_ns - hidden_ns) + self.poll_ns + refill_ns
        late_ns = max(0, over_ns - max(due_ns, ready_ns))
        refilling_ns = min(late_ns, refill_ns)
        return late_ns - refilling_ns, refilling_ns


def wait_costs_of(costs: CostModel, stage: Stage, loop: MainLoop) -> WaitCosts:
    """What waits cost the blocks of a stage whose main loop is like this."""
    if loop.wait_place in (None, "prefetched"):
        return WaitCosts(costs.wait_ns, test_ns=costs.k_block_wait_ns * iterations_of(stage))
    if loop.wait_place != "producer-warp":
        is_tested = loop.wait_place == "block-barrier" and bool(loop.tests_each_k_block)
        test_ns = is_tested * costs.wait_test_ns * iterations_of(stage)
        # Without a pipeline the wait for a load is in the block's time as it is.
        refill_ns = 0 if loop.pipeline_depth == 1 else costs.refill_ns
        return WaitCosts(costs.ready_poll_ns, refill_ns, test_ns=test_ns)
    depth = USUAL_DEPTH if loop.pipeline_depth is None else loop.pipeline_depth
    if stage.work.looks:
        times = costs.tile_times(stage)
        each_ns = (times if isinstance(times, int) else max(times)) // stage.work.looks
        return WaitCosts(costs.ready_poll_ns, costs.tma_refill_ns, ahead_ns=depth * each_ns)
    return WaitCosts(costs.ready_poll_ns, costs.tma_refill_ns, depth, max(depth, iterations_of(stage)))


def iterations_of(stage: Stage) -> int:
    """K iterations of one block's work."""
    return stage.work.iterations or USUAL_ITERATIONS
