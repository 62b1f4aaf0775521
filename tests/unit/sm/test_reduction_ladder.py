"""The reduction ladder: trees that add everything once, what each step costs, and what is simulated."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.sm.machine import SmMachine, machine_of
from wavesim.sm.reduction import LADDER, NAMES, THREADS, block_programs, simulated_share, tree
from wavesim.sm.sm_simulation import simulate_sm
from wavesim.sm.warp_program import Arithmetic, BlockBarrier, SharedAccess, SmKernel

TREES = [version.name for version in LADDER if version.adds is not None]


@pytest.mark.parametrize("name", TREES)
def test_a_tree_adds_every_element_exactly_once(name):
    sums = [[element] for element in range(THREADS)] + [[] for _ in range(THREADS)]
    for step in tree(name):
        pairs = [added for added in step.added if added is not None]
        new = {own: sums[own] + sums[other] for own, other in pairs}
        for own, elements in new.items():
            sums[own] = elements
    assert sorted(sums[0]) == list(range(THREADS))


def by_step(name, what):
    return [max(getattr(warp, what) for warp in step.warps) for step in tree(name)]


def test_v0_diverges_v1_conflicts_and_v2_does_neither():
    warps = {name: [sum(warp.active > 0 for warp in s.warps) for s in tree(name)] for name in TREES}
    assert warps["v0"] == [8, 8, 8, 8, 8, 4, 2, 1]
    assert warps["v1"] == warps["v2"] == [4, 2, 1, 1, 1, 1, 1, 1]
    assert by_step("v0", "store") == by_step("v2", "store") == [1] * 8
    assert by_step("v1", "store") == [2, 4, 8, 8, 8, 4, 2, 1]
    assert by_step("v1", "loads") == [4, 8, 16, 16, 16, 8, 4, 2]
    assert all(warp.is_divergent for warp in tree("v0")[0].warps)
    assert not any(warp.is_divergent for step in tree("v2")[:3] for warp in step.warps)


def test_v4_goes_on_in_one_warp_without_barriers():
    assert [step.has_barrier for step in tree("v4")] == [True, True, *[False] * 6]
    assert [step.warps[0].active for step in tree("v4")] == [32] * 8
    assert [step.warps[0].loads for step in tree("v4")] == [2, 2, *[1] * 6]
    assert tree("v5") == ()


def test_the_ladder_rises_to_the_bandwidth():
    machine = machine_of(load("h200"))
    shares = [simulated_share(name, machine) for name in NAMES]
    assert shares == sorted(shares)
    assert 0.05 < shares[0] < 0.15
    assert shares[-1] == pytest.approx(1, abs=0.02)


def test_a_block_meets_at_its_barrier_and_wavefronts_follow_each_other():
    machine = SmMachine(latency_cycles=100, bytes_per_cycle=32, shared_cycles=30)
    kernel = SmKernel(
        (
            (SharedAccess(8), BlockBarrier(), Arithmetic(1)),
            (SharedAccess(2), BlockBarrier(), Arithmetic(1)),
        )
    )
    # 8 wavefronts, then 2 more, the last value 30 cycles after its first; a barrier, an instruction of 4.
    assert simulate_sm(kernel, machine).cycles == 8 + 2 - 1 + 30 + 1 + 4


def test_as_many_blocks_as_fit_run_at_once():
    machine = SmMachine(latency_cycles=100, bytes_per_cycle=32)
    alone = SmKernel(((Arithmetic(10),),))
    assert simulate_sm(alone, machine).cycles == 40
    assert simulate_sm(SmKernel(alone.warps, blocks=6, resident=2), machine).cycles > 3 * 40 - 1


def test_an_idle_warp_issues_as_much_as_one_that_adds():
    first, last = block_programs("v2")[0], block_programs("v2")[-1]
    issued = [
        sum(one.count if isinstance(one, Arithmetic) else 1 for one in program) for program in (first, last)
    ]
    assert abs(issued[0] - issued[1]) <= len(tree("v2"))


def test_an_unknown_version_is_named_with_those_there_are():
    with pytest.raises(DescriptionError, match="the ladder has v0, v1, v2, v3, v4, v5"):
        tree("v6")
