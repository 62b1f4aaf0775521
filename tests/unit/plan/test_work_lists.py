"""Work lists of a megakernel: every tile once, evenly, and no wait for ever in a list that nobody changed."""

from collections import Counter
from dataclasses import replace

import pytest

from wavesim.errors import DeadlockError, DescriptionError
from wavesim.model.device import load
from wavesim.plan.megakernel import Megakernel
from wavesim.plan.parsing import parse_plan, plan_data, plan_from_data
from wavesim.plan.plan import Plan
from wavesim.plan.policy import GridSync, TileSync
from wavesim.plan.sync import Semaphores
from wavesim.plan.work_lists import NOTHING, lists_of_plan
from wavesim.sim.streamed_run import megakernel_costs, run_lists
from wavesim.workloads.decode_steps import decode_step

H200 = load("h200")
STEP = decode_step("qwen2.5-0.5b", batch=2, cached=600, layers=2, splits={"down": 2, "attention": 3})


def mega(**fields):
    return Plan(Megakernel(**fields), sync=Semaphores(GridSync()))


@pytest.mark.parametrize("placement", ["balanced", "continued", "restarted"])
@pytest.mark.parametrize("sms", [1, 7, 132])
def test_every_tile_is_in_one_list_and_no_list_has_more_than_an_even_share(placement, sms):
    lists = lists_of_plan(STEP, mega(placement=placement, sms=sms), H200)
    items = Counter(item[:4] for own in lists.items for item in own)
    grids = [stage.grid for stage in STEP.stages]
    assert len(items) == sum(items.values()) == sum(grid.size for grid in grids)
    for number, grid in enumerate(grids):
        counts = [sum(item.stage == number for item in own) for own in lists.items]
        assert max(counts) <= -(-grid.size // sms)
    assert lists.stuck() == []
    assert lists.table.shape == (len(items), 8)
    assert lists.first[-1] == len(items)


def test_an_sm_posts_once_a_stage_and_waits_for_all_sms_of_the_stage_before():
    lists = lists_of_plan(STEP, mega(), H200)
    posts = Counter(item.post for own in lists.items for item in own if item.post != NOTHING)
    for own in lists.items:
        for item in own:
            assert item.wait == item.stage - 1
            assert item.value == (posts[item.wait] if item.stage else 0)
    # Attention of two sequences: KV head 1 of sequence 1, the last of three splits, is tile 3.
    codes = {int(code) for code in lists.codes}
    assert 1 << 24 | 3 * 3 + 2 in codes


def test_balanced_lists_differ_less_than_lists_that_each_begin_at_the_first_sm():
    spread = {}
    for placement in ("balanced", "restarted"):
        loads = lists_of_plan(STEP, mega(placement=placement), H200).bytes_by_sm
        spread[placement] = max(loads) - min(loads)
    assert spread["balanced"] < spread["restarted"]


def swapped(items):
    """The first SM with items of two stages computes the later one first."""
    own = sorted(items[0], key=lambda item: -item.stage)
    return (tuple(own), *items[1:])


def without_a_post(items):
    place = next(i for i, item in enumerate(items[0]) if item.post != NOTHING)
    own = [*items[0][:place], items[0][place]._replace(post=NOTHING), *items[0][place + 1 :]]
    return (tuple(own), *items[1:])


@pytest.mark.parametrize("change", [swapped, without_a_post])
def test_changed_lists_that_wait_for_ever_are_said_to_and_end_in_a_deadlock(change):
    plan = mega()
    lists = lists_of_plan(STEP, plan, H200)
    broken = replace(lists, items=change(lists.items))
    assert broken.stuck()
    with pytest.raises(DeadlockError, match=r"waits for .* grid\[0\]"):
        run_lists(broken, plan, H200, megakernel_costs(H200))


@pytest.mark.parametrize(
    ("fields", "policy", "message"),
    [
        ({"sms": 133}, GridSync(), "sms is 133, and h200 has 132"),
        ({"ring_bytes": 1 << 20}, GridSync(), r"a ring of 1,048,576 bytes does not fit: stage .* keeps"),
        ({}, TileSync(), "waits for qkv_0 by policy tile; a megakernel has one counter per stage"),
    ],
)
def test_what_cannot_run_is_refused_by_name(fields, policy, message):
    with pytest.raises(DescriptionError, match=message):
        lists_of_plan(STEP, Plan(Megakernel(**fields), sync=Semaphores(policy)), H200)


def test_too_many_rows_for_shared_memory_name_the_stage_and_splits_or_parts_mend_it():
    with pytest.raises(DescriptionError, match=r"stage down keeps .* more splits of K there, or its"):
        lists_of_plan(decode_step("llama-3-8b", batch=8), mega(), H200)
    assert lists_of_plan(decode_step("llama-3-8b", batch=8, splits={"down": 2}), mega(), H200).slots >= 4
    step = decode_step("llama-3-8b", batch=8)
    down = step.stage("down")
    in_parts = {"down": replace(down, work=replace(down.work, input_parts=2))}
    mended = step.with_stages({stage.name: in_parts.get(stage.name, stage) for stage in step.stages})
    assert lists_of_plan(mended, mega(), H200).slots >= 4


def test_plans_read_back_from_their_words():
    words = "megakernel:ring=49152:chunk=8192:groups=2:flight=3:sms=64:place=restarted"
    plan = parse_plan(words)
    assert plan == mega(
        ring_bytes=49152, chunk_bytes=8192, groups=2, in_flight=3, sms=64, placement="restarted"
    )
    assert plan.name == words
    assert plan_from_data(plan_data(plan)) == plan
    assert parse_plan("megakernel") == mega()
    for wrong in ("megakernel:ring", "megakernel:ring=1:ring=2", "megakernel:depth=3"):
        with pytest.raises(DescriptionError, match="sync is"):
            parse_plan(wrong)
