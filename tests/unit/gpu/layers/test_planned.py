"""What a call of our kernels launches, on a GPU that notes it: its addresses, state and number."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from noted_gpu import CONTEXT, noted_calls

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.gemm import Gemm
from wavesim_gpu.layers import call_states, calls, planned
from wavesim_gpu.layers.calls import FailedCallsError, process_log, slot_type
from wavesim_gpu.layers.candidates import MlpCandidate
from wavesim_gpu.layers.description import MlpCall, MlpShape
from wavesim_gpu.layers.planned import PlannedMlp

SHAPE = MlpShape(300, 128, 256, 192, "fp16", "gelu")
PLANS = ("stream", "pdl", "pdl+row", "pdl+tile", "persistent+pdl+row", "persistent:row")
CLUSTER, DEPENDENT = 4, 6
WAITING = "pdl+row"


def pipeline_of(shape, tile=(128, 256, 64), backend="hopper", split_k=1):
    first = Gemm("gemm1", shape.m, shape.n1, shape.k, *tile, dtype=shape.dtype, activation=shape.activation)
    second = Gemm("gemm2", shape.m, shape.n2, shape.n1, *tile, split_k, dtype=shape.dtype)
    stages = [Stage("gemm1", first, backend), Stage("gemm2", second, backend)]
    return Pipeline("mlp", stages, [Dependency(stages[1][x, y], [stages[0][:, y]])])


def address_in(tensor_map):
    """Where the noted driver puts it."""
    return int(np.frombuffer(tensor_map.tobytes(), np.uint64)[0])


@pytest.fixture
def gpu(monkeypatch):
    yield from noted_calls(monkeypatch)


def way_of(plan=WAITING, shape=SHAPE, **options):
    return PlannedMlp(shape, pipeline_of(shape), parse_plan(plan), **options)


def call_on(gpu, *, limit_ns=7, is_captured=False, **addresses):
    gpu.is_capturing = is_captured
    given = {"x": 0x10000, "w1": 0x20000, "w2": 0x30000, "out": 0x40000, "scratch": 0x50000} | addresses
    strides = {"x_stride": SHAPE.k, "w1_stride": SHAPE.n1, "w2_stride": SHAPE.n2}
    common = {"stream": gpu.stream.ptr, "device": 0, "is_captured": is_captured, "limit_ns": limit_ns}
    return MlpCall(**given, **strides, **common)


def fail(gpu, launch, times=1):
    """What the last block of a call does that finds a wait given up, by the parameters that it got."""
    call = launch.sync[0]["call"]
    (block,) = [block for block in gpu.blocks if block.ptr == call["slot"]]
    head = block[:16].view(np.uint32)
    slot = block.view(slot_type(int(head[1]), int(head[2])))[0]
    for _ in range(times):
        slot["numbers"][head[0] % head[1]] = call["number"]
        report = slot["errors"][head[0] % head[2]]
        report["aborted"] = report["waiter_count"] = 1
        report["waiters"][0] = (1, 2, 0, 0, 3, 7, 5, 0, 1, 5)
        head[0] += 1
    (bell,) = [block for block in gpu.blocks if block.ptr == call["bell"]]
    bell.view(np.uint32)[0] = 1


@pytest.mark.parametrize("plan", PLANS)
def test_a_call_is_one_launch_per_kernel_on_its_stream_and_nothing_else(gpu, plan):
    way = way_of(plan)
    before = len(gpu.stream.operations)
    way.run(call_on(gpu))
    kinds = [operation[0] for operation in gpu.stream.operations[before:]]
    assert kinds == ["driver launch"] * (1 if "persistent:" in plan else 2)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("has_words", [True, False], ids=["stored", "by the driver"])
def test_every_kernel_gets_the_calls_operands(gpu, plan, has_words, monkeypatch):
    """Also where a tensor map is not seen to begin with its address."""
    found, are_words = [], planned.are_words
    monkeypatch.setattr(planned, "are_words", lambda *given: found.append(are_words(*given)) or has_words)
    way_of(plan).run(call_on(gpu))
    assert found == [True, True]
    launches = gpu.driver_launches()
    first, second = [gemm for launch in launches for gemm in launch.gemm]
    addresses = [
        [int(np.frombuffer(g[name].tobytes(), np.uint64)[0]) for name in "abc"] for g in (first, second)
    ]
    assert addresses == [[0x10000, 0x20000, 0x50000], [0x50000, 0x30000, 0x40000]]
    results = {
        (int(s["call"]["result"]), int(s["call"]["result_quads"])) for one in launches for s in one.sync
    }
    assert results == {(0x40000, SHAPE.m * SHAPE.n2 * 2 // 16)}


@pytest.mark.parametrize("gate", [None, "separate", "packed"])
@pytest.mark.parametrize("plan", ["pdl+row", "persistent:row"])
def test_gates_and_biases_reach_the_stage_that_they_belong_to(gpu, plan, gate):
    shape = MlpShape(300, 128, 256, 192, "bf16", "swiglu" if gate else "relu", gate, has_b1=True, has_b2=True)
    way = PlannedMlp(shape, *MlpCandidate.read(f"hopper {plan} row 128x256 128x256").planned(shape))
    call = call_on(gpu)
    call.w_gate, call.b1, call.b_gate, call.b2 = 0x60000, 0x70000, 0x80000, 0x90000
    if not gate:
        call.w_gate = call.b_gate = 0
    way.run(call)
    first, second = [gemm for launch in gpu.driver_launches() for gemm in launch.gemm]
    gates = (address_in(first["b"]), int(first["bias"]))
    assert gates == ((0x60000, 0x80000) if gate else (0x20000, 0x70000))
    if gate:
        assert (address_in(first["b_values"]), int(first["values_bias"])) == (0x20000, 0x70000)
    assert (address_in(second["b"]), int(second["bias"])) == (0x30000, 0x90000)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("follows_closely", [True, False])
def test_the_first_kernel_is_launched_early_only_where_it_waits_by_itself(gpu, plan, follows_closely):
    way_of(plan, follows_closely=follows_closely).run(call_on(gpu))
    first, *others = gpu.driver_launches()
    assert (DEPENDENT in first.attributes) == follows_closely
    assert [int(sync["call"]["begins"]) for sync in first.sync] == [follows_closely] * len(first.sync)
    for launch in others:
        assert (DEPENDENT in launch.attributes) == ("pdl" in plan)
        assert not launch.sync[0]["call"]["begins"]


def test_a_backend_without_dependent_launch_gets_ordinary_launches(gpu):
    pipeline = pipeline_of(SHAPE, (64, 64, 32), "portable")
    PlannedMlp(SHAPE, pipeline, parse_plan("stream")).run(call_on(gpu))
    first, second = gpu.driver_launches()
    assert (first.attributes, second.attributes) == ({}, {})
    assert [int(second.gemm[0][name]) for name in "abc"] == [0x50000, 0x30000, 0x40000]


@pytest.mark.parametrize("cuts", ["128x192 64x128", "64x128 128x256", "192x128 128x128/2"])
@pytest.mark.parametrize("plan", ["pdl+boundary", "pdl+row", "persistent+pdl+tile"])
def test_the_products_may_have_tiles_of_different_heights(gpu, plan, cuts):
    PlannedMlp(SHAPE, *MlpCandidate.read(f"hopper {plan} row {cuts}").planned(SHAPE)).run(call_on(gpu))
    assert len(gpu.driver_launches()) == 2


def test_all_blocks_of_a_call_are_counted_so_that_the_last_one_knows_it(gpu):
    for plan in PLANS[2:]:
        way_of(plan).run(call_on(gpu))
    for first, second in ((gpu.driver_launches()[i], gpu.driver_launches()[i + 1]) for i in (0, 2, 4)):
        counted = {int(one.sync[0]["block_count"]) for one in (first, second)}
        assert counted == {first.blocks + second.blocks}


def test_calls_on_a_stream_share_a_state_whatever_they_compute_and_streams_have_their_own(gpu):
    ways = [way_of(), way_of("persistent:row"), way_of(shape=replace(SHAPE, m=100))]
    for way in ways:
        way.run(call_on(gpu))
    gpu.stream = gpu.new_stream()
    for way in ways:
        way.run(call_on(gpu))
    found = [
        {int(sync[name]) for sync in one.sync for name in ("counters", "errors")}
        for one in gpu.driver_launches()
    ]
    assert len(found) == 10
    assert found[0] == found[1] == found[4]
    assert found[5] == found[9]
    assert not found[0] & found[5]


def test_what_a_state_takes_is_zeroed_apart_from_the_callers_stream(gpu):
    way_of().run(call_on(gpu))
    sync = gpu.driver_launches()[0].sync[0]
    zeroed = [op[1:] for stream in gpu.streams for op in stream.operations if op[0] == "memset"]
    assert "memset" not in [operation[0] for operation in gpu.stream.operations]
    assert any(a <= sync["counters"] < sync["errors"] + 2636 <= a + count for a, count in zeroed)


def test_a_captured_call_has_a_state_and_a_slot_of_its_own(gpu):
    way = way_of()
    for is_captured in (False, True, True, False):
        way.run(call_on(gpu, is_captured=is_captured))
    found = [one.sync[0] for one in gpu.driver_launches()[::2]]
    for name in ("counters", "errors"):
        eager, first, second, again = (int(sync[name]) for sync in found)
        assert (eager, len({eager, first, second})) == (again, 3)
    assert len({int(sync["call"]["slot"]) for sync in found}) == 3


def test_a_larger_call_gets_room_and_the_smaller_one_after_it_shares_it(gpu, monkeypatch):
    monkeypatch.setattr(call_states, "FIRST_WORDS", 1)
    small, large = way_of(), way_of("pdl+tile", replace(SHAPE, m=20_000))
    for way in (small, large, small):
        way.run(call_on(gpu))
    launches = gpu.driver_launches()
    counters = [int(launch.sync[0]["counters"]) for launch in launches]
    assert counters[0] == counters[1] != counters[2] == counters[3] == counters[4]
    sync = launches[2].sync[0]
    assert sync["counters"] + 4 * sync["counter_count"] <= sync["errors"]


def test_parameters_are_made_once_for_the_same_addresses_and_anew_for_others(gpu, monkeypatch):
    made = []
    new = planned.CallTemplate.new
    monkeypatch.setattr(planned.CallTemplate, "new", lambda *args: made.append(1) or new(*args))
    way = way_of()
    for address in (0x40000, 0x40000, 0x80000, 0x40000, 0x80000):
        way.run(call_on(gpu, out=address))
    assert len(made) == 2
    outs = [
        int(np.frombuffer(one.gemm[0]["c"].tobytes(), np.uint64)[0]) for one in gpu.driver_launches()[1::2]
    ]
    assert outs == [0x40000, 0x40000, 0x80000, 0x40000, 0x80000]
    way.run(call_on(gpu, limit_ns=8))
    assert [int(sync["limit_ns"]) for sync in gpu.driver_launches()[-1].sync] == [8]


def test_no_more_parameters_are_kept_than_the_bound(gpu, monkeypatch):
    monkeypatch.setattr(planned, "READY_KEPT", 3)
    way = way_of()
    for i in range(9):
        way.run(call_on(gpu, out=0x40000 + 256 * i))
    assert len(way._ready) == 3


def test_every_call_has_the_next_number_in_all_its_kernels(gpu):
    way = way_of()
    for _ in range(3):
        way.run(call_on(gpu))
    numbers = [[int(sync["call"]["number"]) for sync in one.sync] for one in gpu.driver_launches()]
    assert numbers == [[1], [1], [2], [2], [3], [3]]


def test_a_plan_that_cannot_fail_has_no_slot_and_no_number(gpu):
    way_of("stream").run(call_on(gpu))
    for launch in gpu.driver_launches():
        assert [int(launch.sync[0]["call"][name]) for name in ("slot", "bell", "number")] == [0, 0, 0]


def test_a_failed_call_is_named_with_its_line_and_once(gpu):
    way = way_of()
    way.run(call_on(gpu))
    way.run(call_on(gpu, limit_ns=2_000_000_000))
    line = test_a_failed_call_is_named_with_its_line_and_once.__code__.co_firstlineno + 3
    fail(gpu, gpu.driver_launches()[-1])
    number = process_log().latest
    way.run(call_on(gpu))
    with pytest.raises(FailedCallsError) as caught:
        process_log().raise_failures()
    said = str(caught.value)
    assert f"call {number}, mlp of (300, 128, 256, 192) fp16 on stream {gpu.stream.ptr:#x}" in said
    assert f"made at {__file__}:{line}" in said
    assert "time limit of 2 s" in said
    assert "gemm2 block (2, 0, 0) on SM 7" in said
    process_log().raise_failures()


def test_many_calls_of_one_stream_that_fail_before_anybody_looks_are_all_named(gpu):
    way = way_of()
    numbers = []
    for _ in range(100):
        way.run(call_on(gpu))
        numbers.append(process_log().latest)
    for launch in gpu.driver_launches()[1::2]:
        fail(gpu, launch)
    failures = process_log().take_failures()
    assert [one.call.number for one in failures] == numbers
    with_waiters = [bool(one.cause.waiters) for one in failures]
    # What the device may be writing over is not read.
    assert with_waiters == [False] * (100 - calls.REPORTS_KEPT + 1) + [True] * (calls.REPORTS_KEPT - 1)


def test_a_captured_call_is_reported_for_every_replay_that_failed(gpu):
    way_of().run(call_on(gpu, is_captured=True))
    fail(gpu, gpu.driver_launches()[-1], times=3)
    with pytest.raises(FailedCallsError, match=r"call 1, .*graph captured at .*py:\d+, 3 of its replays"):
        process_log().raise_failures()
    fail(gpu, gpu.driver_launches()[-1])
    (again,) = process_log().take_failures()
    assert (again.replays, again.call.number) == (1, 1)


@pytest.mark.parametrize("kernel", [1, 2])
def test_a_call_that_was_broken_off_between_its_kernels_leaves_the_next_one_a_new_state(gpu, kernel):
    """An interrupt is raised right after a launch in which the driver waited for room."""
    way, launched = way_of(), []
    way.run(call_on(gpu))
    before = int(gpu.driver_launches()[0].sync[0]["counters"])

    def on_launch(found):
        launched.append(found)
        if len(launched) == kernel:
            raise KeyboardInterrupt

    gpu.on_launch = on_launch
    with pytest.raises(KeyboardInterrupt):
        way.run(call_on(gpu))
    way.run(call_on(gpu))
    first, second = (int(one.sync[0]["counters"]) for one in gpu.driver_launches()[-2:])
    assert first == second != before


def test_the_drivers_word_is_in_the_error_and_the_state_is_not_used_again(gpu):
    way, statuses = way_of(), [0, 2]
    gpu.on_launch = lambda kernel: statuses.pop(0) if statuses else 0
    with pytest.raises(DeviceError, match=r"launch of gemm_sm90<.* failed: CUDA_ERROR_2"):
        way.run(call_on(gpu))
    way.run(call_on(gpu))
    first, second, third = (int(one.sync[0]["counters"]) for one in gpu.driver_launches())
    assert first != second == third


def test_a_thread_without_the_context_gets_it_for_the_call_only(gpu):
    way = way_of()
    gpu.driver.contexts = [0]
    way.run(call_on(gpu))
    assert gpu.driver.contexts == [0]
    assert len(gpu.driver_launches()) == 2
    gpu.driver.contexts = [CONTEXT]
    gpu.on_launch = lambda kernel: 400
    with pytest.raises(DeviceError, match="CUDA_ERROR_400"):
        way.run(call_on(gpu))


def test_a_stream_at_the_address_of_one_that_is_gone_has_a_state_of_its_own(gpu):
    way = way_of()
    way.run(call_on(gpu))
    gpu.driver.numbers[gpu.stream.ptr] = 99  # made after the other was destroyed, whose work may still run
    way.run(call_on(gpu))
    before, after = (int(one.sync[0]["errors"]) for one in gpu.driver_launches()[::2])
    assert before != after


@pytest.mark.parametrize(("ended", "counters"), [(True, 0), (False, 0), (True, 5)])
def test_with_many_streams_an_idle_state_is_used_again_not_a_busy_one(gpu, monkeypatch, ended, counters):
    """A call's last block says that it has ended, and then puts the counters back."""
    monkeypatch.setattr(call_states, "STREAMS_KEPT", 2)
    way, streams = way_of(), [gpu.new_stream() for _ in range(3)]
    gpu.ended, gpu.counters, is_idle = ended, counters, ended and not counters
    for gpu.stream in streams:
        way.run(call_on(gpu))
    places = [int(one.sync[0]["counters"]) for one in gpu.driver_launches()[::2]]
    assert (places[0] == places[2]) == is_idle
    assert places[0] != places[1] != places[2]
    launched = [len([op for op in stream.operations if op[0] == "driver launch"]) for stream in streams]
    assert launched == [2, 2, 2]
    fail(gpu, gpu.driver_launches()[-1])
    (failure,) = process_log().take_failures()
    assert failure.call.stream == streams[2].ptr


def test_calls_of_two_threads_on_one_stream_do_not_mix(gpu):
    way, both, names = way_of(), threading.Barrier(2, timeout=0.2), set()

    def on_launch(kernel):
        names.add(threading.get_ident())
        try:
            both.wait()  # gives the other thread every chance
        except threading.BrokenBarrierError:
            both.reset()

    gpu.on_launch = on_launch
    # A pool would give both calls to one thread where the first ends before the second is handed out.
    threads = [threading.Thread(target=way.run, args=(call_on(gpu),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 2
    numbers = [int(one.sync[0]["call"]["number"]) for one in gpu.driver_launches()]
    assert numbers == [1, 1, 2, 2]


def test_sums_of_splits_lie_in_the_scratch_and_their_tickets_in_the_state(gpu):
    way = PlannedMlp(SHAPE, pipeline_of(SHAPE, split_k=2), parse_plan("pdl+row"))
    way.run(call_on(gpu))
    sync, gemm = gpu.driver_launches()[1].sync[0], gpu.driver_launches()[1].gemm[0]
    middle = SHAPE.m * SHAPE.n1 * 2
    assert 0x50000 + middle <= gemm["partials"] < 0x50000 + way.scratch_bytes
    assert sync["counters"] < gemm["tickets"] < sync["counters"] + 4 * sync["counter_count"]


@pytest.mark.parametrize(
    ("plan", "reason"), [("row", "caller's stream"), ("stream-k", "tiles that are not cut")]
)
def test_plans_on_several_streams_and_stream_k_are_refused(gpu, plan, reason):
    with pytest.raises(DescriptionError, match=reason):
        way_of(plan)


def test_a_pipeline_of_another_shape_is_refused(gpu):
    with pytest.raises(DescriptionError, match="pipeline mlp computes"):
        PlannedMlp(replace(SHAPE, m=7), pipeline_of(SHAPE), parse_plan("stream"))
