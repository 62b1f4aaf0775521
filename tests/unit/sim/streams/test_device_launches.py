"""Launches from the device on a machine where they cost nothing: whole timelines that a person can check."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavesim.errors import DescriptionError
from wavesim.labs.device_launches.uneven_work import LAUNCHERS, THREADS, UnevenWork, items_of, nested
from wavesim.sim.streams.device_launch_engine import simulate_launches
from wavesim.sim.streams.device_launches import STREAMS, ChildLaunch, DeviceGrid, load_launch_machine

US = 1_000
FREE = load_launch_machine()
ASSUMED = load_launch_machine("assumed")


def grid(name, us, *launches, blocks=1):
    return DeviceGrid(name, (us * US,) * blocks, launches)


def spans(timeline):
    """[begun, blocks ended, complete] in microseconds, by name."""
    return {one.name: [one.start_ns // US, one.work_ns // US, one.end_ns // US] for one in timeline.grids}


def test_a_tail_waits_for_the_parent_and_all_children_and_the_parent_for_its_tails():
    first = grid("child", 20, ChildLaunch(grid("grandchild", 15), after_ns=10 * US))
    tails = [ChildLaunch(grid(name, us), stream="tail") for name, us in (("tail", 3), ("last", 4))]
    found = simulate_launches(grid("parent", 10, ChildLaunch(first, after_ns=2 * US), *tails), FREE)
    assert spans(found) == {
        "parent": [0, 10, 34],
        "child": [2, 22, 27],
        "grandchild": [12, 27, 27],
        "tail": [27, 30, 30],
        "last": [30, 34, 34],
    }
    assert [one.end_ns for one in found.blocks if one.operation == "parent"] == [10 * US]
    assert found.end_ns == 34 * US


def test_a_block_s_own_stream_is_in_order_and_those_of_two_blocks_are_not():
    own = [ChildLaunch(grid(f"{block}.{at}", 5), block, stream="block") for block in (0, 1) for at in (0, 1)]
    found = spans(simulate_launches(grid("parent", 1, *own, blocks=2), FREE))
    assert [found[name][0] for name in ("0.0", "0.1", "1.0", "1.1")] == [0, 5, 0, 5]


def test_a_next_one_on_a_block_s_stream_waits_for_what_the_one_before_launched():
    first = grid("first", 2, ChildLaunch(grid("its child", 9)))
    launches = [ChildLaunch(one, stream="block") for one in (first, grid("second", 1))]
    assert spans(simulate_launches(grid("parent", 1, *launches), FREE))["second"] == [9, 10, 10]


def test_the_last_block_to_end_launches_for_all():
    uneven = DeviceGrid("parent", (3 * US, 9 * US, 6 * US), [ChildLaunch(grid("all", 1), None)])
    assert spans(simulate_launches(uneven, FREE))["all"] == [9, 10, 10]


def test_calls_keep_their_block_and_grids_begin_one_by_one_after_their_latency():
    costly = replace(FREE, call_ns=1 * US, start_ns=2 * US, latency_ns=10 * US)
    children = [ChildLaunch(grid(str(at), 1)) for at in range(3)]
    found = simulate_launches(grid("parent", 4, *children), costly)
    assert [one.called_ns // US for one in found.grids] == [0, 1, 2, 3]
    assert [one.start_ns // US for one in found.grids] == [0, 11, 13, 15]
    assert found.grid("parent").work_ns == 7 * US


def test_a_grid_that_has_launched_is_complete_a_while_after_its_own():
    slow = replace(FREE, complete_ns=7 * US)
    first = grid("child", 5, ChildLaunch(grid("grandchild", 1)))
    tail = ChildLaunch(grid("tail", 2), stream="tail")
    found = spans(simulate_launches(grid("parent", 1, ChildLaunch(first), tail), slow))
    assert found["child"] == [0, 5, 12]
    assert found["tail"] == [12, 14, 14]
    assert found["parent"] == [0, 1, 21]
    assert simulate_launches(grid("alone", 1), slow).end_ns == 1 * US


def test_warps_call_beside_each_other_and_beside_the_blocks_work():
    costly = replace(FREE, call_ns=2 * US)
    children = [
        ChildLaunch(grid(f"{warp}.{at}", 1), after_ns=US, warp=warp) for warp in (0, 1) for at in (0, 1)
    ]
    found = simulate_launches(grid("parent", 4, *children), costly)
    called = {one.name: one.called_ns // US for one in found.grids[1:]}
    assert called == {"0.0": 3, "1.0": 3, "0.1": 5, "1.1": 5}
    assert found.grid("parent").work_ns == 5 * US  # no longer than its slowest warp


def test_a_warp_launches_behind_its_own_items_and_another_warp_earlier():
    launches = UnevenWork("thread", threshold=64).grid().launches
    items = items_of(range(16 * THREADS))
    for one in launches:
        first = one.block * THREADS + one.warp * 32
        assert one.after_ns == 100 * max(few for few in items[first : first + 32] if few < 64)
    assert len({one.after_ns for one in launches}) > 10


def full_device(calls):
    """A parent whose blocks leave no room, so that nothing begins before it ends."""
    threads = FREE.device.max_threads_per_block
    blocks = FREE.device.sm_count * (FREE.device.max_warps_per_sm * 32 // threads)
    children = [ChildLaunch(DeviceGrid(str(at), (1,), (), threads)) for at in range(calls)]
    return DeviceGrid("parent", (1_000 * US,) * blocks, children, threads)


def test_what_finds_no_place_in_the_pool_is_lost_and_says_why():
    found = simulate_launches(full_device(3_072), FREE)
    assert (found.launches, found.most_pending, found.lost) == (3_072, 2_048, 1_024)
    assert found.grids[-1].lost == "2,048 launches were pending"
    assert found.grids[-1].start_ns == found.grids[-1].end_ns == -1
    assert found.pending[-1][1] == 0


def test_before_cuda_12_it_went_through_a_slower_pool():
    older = replace(FREE, pool=1, is_virtualised=True, start_ns=1 * US, virtual_ns=50 * US)
    children = [ChildLaunch(grid(str(at), 1)) for at in range(3)]
    found = simulate_launches(grid("parent", 5, *children), older)
    assert (found.lost, found.most_pending) == (0, 3)
    assert [one.start_ns // US for one in found.grids] == [0, 1, 52, 103]


def test_no_grid_runs_deeper_than_the_limit_and_no_more_at_once_than_may_be_resident():
    found = simulate_launches(nested(30, fan_out=1), FREE)
    assert max(one.depth for one in found.grids if not one.lost) == 24
    assert [one.lost for one in found.grids if one.lost] == ["deeper than 24 levels"]
    few = replace(FREE, resident_grids=3)
    children = [ChildLaunch(grid(str(at), 10)) for at in range(4)]
    begun = [one.start_ns // US for one in simulate_launches(grid("parent", 50, *children), few).grids]
    assert begun == [0, 0, 0, 10, 10]


@pytest.mark.parametrize(("launcher", "launches"), list(zip(LAUNCHERS, (0, 1_024, 32, 4, 1), strict=True)))
def test_whoever_launches_the_same_blocks_run(launcher, launches):
    work = UnevenWork(launcher, blocks=4)
    found = simulate_launches(work.grid(), replace(ASSUMED, pool=4_096))
    assert found.launches == launches
    wanted = sum(-(-items // THREADS) for items in items_of(range(4 * THREADS))) if launches else 0
    assert sum(one.operation != "parent" for one in found.blocks) == wanted


def test_threads_do_what_is_below_the_threshold_themselves():
    items = items_of(range(16 * THREADS))
    found = UnevenWork("thread", threshold=64).grid()
    assert len(found.launches) == sum(one >= 64 for one in items) == 129
    assert max(found.blocks_ns) == 100 * max(one for one in items if one < 64)
    assert min(items) >= 1
    assert max(items) == 2_048


@st.composite
def families(draw, levels=3):
    count = draw(st.integers(0, 3)) if levels else 0
    blocks = draw(st.lists(st.integers(1, 50), min_size=1, max_size=3))
    launches = [
        ChildLaunch(
            draw(families(levels - 1)),
            draw(st.sampled_from([None, *range(len(blocks))])),
            draw(st.integers(0, 60)),
            draw(st.sampled_from(STREAMS)),
            draw(st.sampled_from([None, 0, 1])),
        )
        for _ in range(count)
    ]
    return DeviceGrid(draw(st.uuids()).hex, blocks, launches)


@settings(max_examples=60, deadline=None)
@given(families(), st.integers(1, 5), st.integers(0, 20))
def test_every_family_ends_in_order_and_leaves_the_pool_empty(family, pool, start_ns):
    machine = replace(FREE, pool=pool, is_virtualised=True, call_ns=1, start_ns=start_ns, latency_ns=3)
    found = simulate_launches(family, replace(machine, complete_ns=start_ns // 2))
    times = {one.name: one for one in found.grids}
    assert len(times) == len(list(family.all_grids))
    assert found.pending[-1][1] == 0
    assert min(count for _, count in found.pending) == 0
    for one in found.grids:
        assert one.called_ns <= one.start_ns < one.work_ns <= one.end_ns
        if one.parent:
            parent = times[one.parent]
            assert parent.start_ns <= one.called_ns <= parent.work_ns
            assert one.end_ns <= parent.end_ns
            if one.stream == "tail":
                others = [
                    other for other in found.grids if other.parent == one.parent and other.stream != "tail"
                ]
                assert one.start_ns >= max([parent.work_ns, *(other.end_ns for other in others)])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: load_launch_machine("none"), "machine is 'none'; known are textbook, assumed"),
        (lambda: replace(FREE, pool=0), "pool is 0; it must be an integer from 1"),
        (lambda: ChildLaunch(grid("a", 1), stream="null"), "stream is 'null'; choose one of block"),
        (lambda: grid("a", 1, ChildLaunch(grid("b", 1), 1)), "block 1 launches b; there are blocks 0 to 0"),
        (lambda: ChildLaunch(grid("a", 1), warp=32), "warp is 32; it must be an integer from 0 to 31"),
        (lambda: grid("a", 0), "grid a: a block's ns is 0"),
        (lambda: UnevenWork("all"), "launcher is 'all'; choose one of nobody"),
        (lambda: UnevenWork(threshold=0), "threshold is 0"),
        (lambda: nested(20), "grids is 2097151"),
        (lambda: simulate_launches(DeviceGrid("a", (1,), (), 1_024 + 1), FREE), "threads is 1025"),
        (
            lambda: simulate_launches(grid("a", 1, *[ChildLaunch(nested(13, block_ns=1))] * 2), FREE),
            "more than 20,000 grids; take fewer",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(make, said):
    with pytest.raises(DescriptionError, match=said):
        make()
