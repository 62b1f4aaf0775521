"""Plans as words and as data, and combinations of parts that are plans or are refused."""

import json
from dataclasses import replace
from itertools import product

import pytest
from toy_schedules import TOY, pair, run, schedule, stage

from wavesim.errors import DescriptionError, RecordingError
from wavesim.plan.launch import DependentLaunch, OneStream, StreamPerStage
from wavesim.plan.order import ColumnMajor, CustomOrder, Grouped, Reversed, RowMajor, SlicesLast
from wavesim.plan.parsing import (
    parse_plan,
    plan_data,
    plan_from_data,
    plan_of_words,
    recorded_plan,
    recorded_shape,
)
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import CustomPolicy, RowSync, TileSync
from wavesim.plan.schedule import Persistent, TilePerBlock
from wavesim.plan.stream_k import StreamK
from wavesim.plan.sync import KernelBoundary, Semaphores
from wavesim.predict.prediction import replay
from wavesim.recordings.shipped import cases
from wavesim.safety.deadlock import safety_of
from wavesim.trace.trace import Trace
from wavesim.tuning.search import tune
from wavesim.workloads.figure_one import toy

SCHEDULES = (TilePerBlock(), Persistent(), Persistent(fused=True), StreamK(), StreamK(2, in_order=True))
LAUNCHES = (
    *(OneStream(how) for how in ("stream", "graph", "host")),
    *(StreamPerStage(), StreamPerStage(wait_kernel=False), StreamPerStage(False, 3), DependentLaunch()),
)
SYNCS = (KernelBoundary(), Semaphores(RowSync()), Semaphores(TileSync()))


def valid_plans():
    for schedule_part, launch, sync, prefetch in product(SCHEDULES, LAUNCHES, SYNCS, (0.0, 0.25)):
        try:
            yield Plan(schedule_part, launch, sync, prefetch=prefetch)
        except DescriptionError:
            continue


VALID = list(valid_plans())


def test_every_valid_combination_reads_back_from_its_name_and_from_its_data():
    assert len(VALID) == 76
    for plan in VALID:
        assert parse_plan(plan.name) == plan
        assert plan_from_data(json.loads(json.dumps(plan_data(plan)))) == plan
    assert len({plan.name for plan in VALID}) == len(VALID)


def test_every_valid_combination_is_simulated_on_the_toy_and_says_why_it_is_safe_or_not():
    for plan in VALID:
        if plan.launch.head_start:  # loses the race, and deadlocks
            assert not safety_of(toy(), plan, TOY).is_safe
            continue
        trace = run(toy(), plan)
        assert len(trace) >= 12
        assert trace.header.plan == plan.name
        assert safety_of(toy(), plan, TOY).reason


def test_orders_and_policies_of_single_stages_and_edges_are_data_too():
    orders, policies = {"b": ColumnMajor()}, {("a", "b"): TileSync()}
    mixed = SemaphoreSync(policies=policies, orders=orders, order=Reversed(Grouped(4)), prefetch=0.5)
    for plan in (mixed, StreamSync(SlicesLast(Grouped(4)))):
        assert plan_from_data(json.loads(json.dumps(plan_data(plan)))) == plan


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (
            lambda: Plan(StreamK(), StreamPerStage(), Semaphores()),
            "with Semaphores(): which tiles a part of a tile reads is not described",
        ),
        (
            lambda: Plan(Persistent(fused=True)),
            "within one kernel there is no boundary to wait at. Use Semaphores",
        ),
        (
            lambda: Plan(Persistent(fused=True), DependentLaunch(), Semaphores()),
            "one kernel for all stages has no kernel to overlap with. Use OneStream()",
        ),
        (
            lambda: Plan(Persistent(fused=True), StreamPerStage(), Semaphores()),
            "one kernel for all stages is one launch. Use OneStream()",
        ),
        (lambda: Plan(launch=StreamPerStage()), "nothing would order the streams. Use Semaphores(RowSync())"),
        (lambda: Plan(prefetch=0.5), "on one stream no block starts before its producers have ended"),
        (lambda: Plan("tile"), "Plan: schedule is 'tile'; use TilePerBlock(), Persistent()"),
        (
            lambda: Plan(sync=RowSync()),
            "Plan: sync is RowSync(); use KernelBoundary() or Semaphores(RowSync())",
        ),
        (lambda: plan_of_words("tile", "rocket", "row"), "launch is 'rocket'; known are one-stream, graph"),
        (lambda: parse_plan("pdl+stream-k:2:3+boundary"), "schedule is 'stream-k:2:3'; '2:3' is no setting"),
        (
            lambda: run(toy(), StreamK()),
            "plan is StreamK(); use Plan(schedule=StreamK())",
        ),
        (lambda: run(toy(), "row"), "plan is 'row'; use StreamSync(), SemaphoreSync(RowSync()) or Plan(...)"),
        (lambda: Plan(orders=[RowMajor()]), "Plan: orders is [RowMajor()]; give a mapping from stage names"),
        (
            lambda: Semaphores(policies=[TileSync()]),
            "Semaphores: policies is [TileSync()]; give a mapping from (producer, consumer) to policies",
        ),
        (lambda: Semaphores(policies={"a": TileSync()}), "{'a': TileSync()}; give a mapping from (producer,"),
        (lambda: StreamPerStage(wait_kernel="no"), "wait_kernel is 'no'; it must be True or False"),
        (lambda: StreamPerStage(wait_kernel=False, head_start=True), "head_start is True; it must be an int"),
        (lambda: Persistent(fused="no"), "Persistent: fused is 'no'; it must be True or False"),
        (lambda: StreamK(in_order="no"), "StreamK: in_order is 'no'; it must be True or False"),
        (lambda: parse_plan(None), "sync is None; write it, such as 'row' or 'pdl+row', as a text"),
        (lambda: parse_plan("persistent+stream-k+boundary"), "'stream-k' is a second schedule. Name one"),
        (
            lambda: parse_plan("pdl+graph+row"),
            "sync is 'pdl+graph+row'; 'graph' is a second launch. Name one",
        ),
        (lambda: parse_plan("prefetch:0.1+prefetch:0.2+row"), "'prefetch:0.2' is a second prefetch"),
        (
            lambda: parse_plan("pdl+row", wait_kernel=False),
            "'pdl+row', which says how its kernels are launch",
        ),
        (lambda: parse_plan("stream", head_start=3), "head start are for row or tile; or write streams:no-w"),
    ],
    ids=range(25),
)
def test_parts_that_do_not_go_together_are_refused_by_name_and_reason(build, words):
    with pytest.raises(DescriptionError) as caught:
        build()
    assert words in str(caught.value)


# --- row semaphores by dependent launch on one stream ---


def test_row_semaphores_by_dependent_launch_need_neither_a_second_stream_nor_a_wait_kernel():
    plan = Plan(launch=DependentLaunch(), sync=Semaphores(RowSync()))
    assert (plan.name, plan.label) == ("pdl+row", "Row semaphores, dependent launch (PDL)")
    trace = run(toy(), plan)
    assert schedule(trace, "gemm2") == schedule(run(toy(), SemaphoreSync()), "gemm2")
    assert [event.name for event in trace.events] == ["dependent launch"]
    assert safety_of(toy(), plan, TOY).reason == (
        "safe: a kernel's blocks are issued after all blocks of the kernel that they wait for"
    )


def test_by_dependent_launch_a_run_pays_no_fork_but_waits_for_the_first_instructions():
    costs = {"setup_ns": 500, "multi_stream_ns": 300, "block_ns": 100}
    forked = run(pair(stage("a", 2), stage("b", 2)), SemaphoreSync(TileSync()), **costs)
    chained = run(
        pair(stage("a", 2), stage("b", 2)),
        Plan(launch=DependentLaunch(), sync=Semaphores(TileSync())),
        **costs,
    )
    assert (forked.header.setup_ns, chained.header.setup_ns) == (800, 500)
    assert chained.issue_ns.tolist() == [0, 0, 100, 100]


# --- what files keep ---


def test_a_trace_keeps_its_plan_and_is_replayed_under_it(tmp_path):
    plan = Plan(launch=DependentLaunch(), sync=Semaphores(TileSync()), order=Grouped(2))
    loaded = Trace.load(run(toy(), plan).save(tmp_path / "trace.npz"))
    head = loaded.header
    assert recorded_plan(head.plan, head.plan_data, head.orders) == plan


def test_a_trace_under_a_policy_of_the_users_own_loads_but_is_not_replayed(tmp_path):
    mine = CustomPolicy("mine", lambda x, y, grid: y, lambda x, y, grid: grid.x)
    loaded = Trace.load(run(toy(), SemaphoreSync(mine)).save(tmp_path / "trace.npz"))
    with pytest.raises(RecordingError, match="the trace's plan cannot be run again: sync is 'mine'"):
        replay(toy(), loaded, TOY)


@pytest.mark.parametrize("field", ["schedule", "launch", "sync", "order", "prefetch"])
def test_data_that_lacks_a_field_is_refused_by_name(field):
    data = plan_data(StreamSync())
    with pytest.raises(DescriptionError, match=rf"plan\.{field} is None"):
        plan_from_data({name: value for name, value in data.items() if name != field})


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("schedule", ["tile"], "plan.schedule is ['tile']; expected a text"),
        ("launch", {"word": "pdl"}, "plan.launch is {'word': 'pdl'}; expected a text"),
        ("sync", 3, "plan.sync is 3; expected a text"),
        ("order", None, "plan.order is None; expected a text"),
        ("prefetch", "0.1", "plan.prefetch is '0.1'; expected a share from 0 to 1"),
        ("prefetch", 2, "prefetch is 2; it is a share of the work, from 0 to 1"),
        ("orders", ["row"], "plan.orders is ['row']; expected an object such as {'gemm1': 'grouped:8'}"),
        ("orders", {"a": ["row"]}, "plan.orders is {'a': ['row']}; expected an object"),
        ("policies", None, "plan.policies is None; expected an object such as {'gemm1 -> gemm2': 'tile'}"),
        ("policies", {"a -> b": {}}, "plan.policies is {'a -> b': {}}; expected an object"),
        ("policies", {"ab": "row"}, "plan.policies is {'ab': 'row'}; expected an object"),
        ("cluster", 2, "plan.cluster is unknown; known are schedule, launch, sync, order, prefetch,"),
    ],
)
def test_plans_in_files_are_checked_field_by_field(field, value, words):
    with pytest.raises(DescriptionError) as caught:
        plan_from_data(plan_data(SemaphoreSync()) | {field: value})
    assert words in str(caught.value)
    if field != "prefetch":
        with pytest.raises(DescriptionError):
            recorded_shape("row", plan_data(SemaphoreSync()) | {field: value})


def test_one_kernel_for_all_stages_is_launched_once_without_saying_so():
    assert parse_plan("fused+row") == Plan(Persistent(fused=True), sync=Semaphores())


def test_recordings_of_before_plans_were_data_have_the_plan_of_their_name():
    case = next(case for case in cases() if case.order == "grouped:8")
    for name in ("stream", "row", "tile"):
        head = case.trace(name).header
        assert head.plan_data == {}
        assert recorded_plan(head.plan, head.plan_data, head.orders) == parse_plan(name, "grouped:8")


# --- tuning ---


def test_tune_tells_plans_apart_by_what_they_prefetch():
    plans = [StreamSync(), SemaphoreSync(), SemaphoreSync(prefetch=0.5)]
    tuning = tune(toy(), TOY, plans=plans)
    assert {row.plan.prefetch for row in tuning.plans if row.plan.sync.has_semaphores} == {0.0, 0.5}
    assert tuning.left_out["same schedule as another"] == 0


def test_tune_ranks_every_plan_it_is_given():
    plans = [replace(plan, order=RowMajor()) for plan in VALID if not plan.launch.head_start]
    tuning = tune(toy(), TOY, plans=plans)
    tried = {row.plan for row in tuning.plans}
    left = tuning.left_out["same schedule as another"] + tuning.left_out["can deadlock"]
    assert len(tried) + left == len(plans)
    assert {plan.schedule.word.partition(":")[0] for plan in tried} >= {
        "tile",
        "persistent",
        "fused",
        "stream-k",
    }
    assert {plan.launch.word for plan in tried} >= {"one-stream", "streams", "pdl"}


def test_by_itself_tune_searches_all_schedules_and_launches():
    tried = {
        (row.plan.schedule.word, row.plan.launch.word, row.plan.sync.has_semaphores)
        for row in tune(toy(), TOY).plans
    }
    assert tried == {
        *(
            ("tile", "one-stream", False),
            ("persistent", "one-stream", False),
            ("stream-k", "one-stream", False),
        ),
        *(
            ("tile", "pdl", False),
            ("tile", "streams", True),
            ("tile", "pdl", True),
            ("fused", "one-stream", True),
        ),
    }


def test_an_order_of_the_users_own_has_no_data_to_read_back():
    data = plan_data(StreamSync(CustomOrder("mine", list)))
    with pytest.raises(DescriptionError, match="order is 'mine'; known are"):
        plan_from_data(data)
