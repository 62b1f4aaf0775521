"""Plans as situations: what `why-hang` says of them beside what the safety check says."""

import pytest

from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.safety.deadlock import safety_of
from wavesim.safety.hang.from_plan import situation_of_plan
from wavesim.safety.hang.verdict import judge
from wavesim.workloads.catalogue import workload

TOY, FOUR_SMS = workload("toy"), load("toy")


def verdicts(word, device=FOUR_SMS, **more):
    plan = parse_plan(word, **more)
    return safety_of(TOY, plan, device), judge(situation_of_plan(TOY, plan, device))


@pytest.mark.parametrize("word", ["stream", "pdl", "pdl+row"])
def test_plans_that_rest_on_cuda_do_so_here_too(word):
    safety, verdict = verdicts(word)
    assert (safety.basis, verdict.basis) == ("cuda", "cuda")


def test_a_wait_kernel_rests_on_the_order_of_issue():
    safety, verdict = verdicts("row")
    assert safety.basis in ("seen", "idle")
    assert (verdict.can_hang, verdict.hangs_as_seen) == (True, False)


def test_without_a_wait_kernel_both_name_the_producer():
    safety, verdict = verdicts("row", wait_kernel=False)
    assert not safety.is_safe
    assert verdict.can_hang
    producer = TOY.stages[0].name
    assert [verdict.facts.operations[head].name for head in verdict.stuck.heads.values()] == [producer]


def test_with_room_for_all_waiting_blocks_both_call_it_safe():
    safety, verdict = verdicts("row", FOUR_SMS.with_sm_count(60), wait_kernel=False)
    assert safety.is_safe
    assert verdict.can_hang is False
