"""The SimPy model and the reference simulator, two programs of the same semantics, agree on every block."""

import pytest
from both_simulators import check_equal
from random_pipelines import cases, kernel_plan_cases


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_simpy_and_the_oracle_agree_on_every_block_and_every_deadlock(part):
    deadlocks = [check_equal(case) for case in cases(part, 1_000)]
    assert any(deadlocks)
    assert not all(deadlocks)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_they_agree_under_dependent_launch_stream_k_and_persistent_kernels_which_never_deadlock(part):
    seen = set()
    for case in kernel_plan_cases(part, 1_000):
        seen.add((case[1].schedule.word.partition(":")[0], case[1].launch.word, case[1].sync.has_semaphores))
        assert not check_equal(case)
    assert len(seen) == 12
