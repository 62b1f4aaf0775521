"""One lane gives a slot back for its warp: why that is right, though racecheck reports it.

`for_each_tile` reads a work tile in all lanes; then come __syncwarp() and one lane's arrival. Racecheck does
not follow the two together, and reports the next tile's publish as a race.
"""

from wavesim.litmus import LitmusTest, LitmusThread, outcomes

PRODUCER = (
    "st.weak [work], 1",
    "mbarrier.arrive.release.cta [full]",
    "wait mbarrier.try_wait.acquire.cta [empty] >= 1",
    "st.weak [work], 2",
)
LOOK = "wait mbarrier.try_wait.acquire.cta [full] >= 1"


def read_by_lane_1(*sync):
    threads = (
        LitmusThread("producer", "gpu0.cta0", PRODUCER),
        LitmusThread("lane 1", "gpu0.cta0", (LOOK, "ld.weak r, [work]", *sync)),
        LitmusThread("lane 0", "gpu0.cta0", (LOOK, *sync, "mbarrier.arrive.release.cta [empty]")),
    )
    return {dict(outcome)["r"] for outcome in outcomes(LitmusTest(threads, shared=("work", "full", "empty")))}


def test_no_lane_reads_the_next_tile_where_the_warp_meets_before_its_one_arrival():
    assert read_by_lane_1("bar.warp.sync 4") == {1}


def test_without_the_warps_barrier_a_lane_may():
    assert read_by_lane_1() == {1, 2}
