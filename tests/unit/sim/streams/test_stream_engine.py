"""Stream programs on the textbook machine: whole timelines that a person can check, in microseconds."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavesim.errors import DeadlockError
from wavesim.labs.streams.examples import WHOLE_SM, SmallKernels, VectorAdd, example, join, priorities
from wavesim.sim.streams.engine import simulate_streams
from wavesim.sim.streams.machine import load_machine
from wavesim.sim.streams.program import (
    CudaStream,
    HostThread,
    HostWork,
    LaunchHostFunction,
    LaunchKernel,
    Memcpy,
    RecordEvent,
    StreamProgram,
    SynchronizeDevice,
    SynchronizeEvent,
    SynchronizeStream,
    WaitEvent,
)
from wavesim.sim.streams.stream_order import LEGACY

US = 1_000
BOOK = load_machine()
ONE_QUEUE = replace(BOOK, queues=1)


def kernel(name, stream=LEGACY, us=100, **more):
    return LaunchKernel(name, stream, block_ns=us * US, **more)


def copy(name, direction="h2d", us=100, stream=LEGACY, **more):
    return Memcpy(name, direction, us * 40_000, stream, **more)


def program(*calls, streams="abc", is_blocking=False):
    made = [CudaStream(name, is_blocking) for name in streams]
    return StreamProgram("test", made, [HostThread("host", calls)])


def spans(timeline):
    """Start and end of every operation, in microseconds."""
    return {one.name: (one.start_ns / US, one.end_ns / US) for one in timeline.operations}


def run(*calls, machine=BOOK, **more):
    return spans(simulate_streams(program(*calls, **more), machine))


def test_a_stream_runs_its_operations_one_after_the_other():
    found = run(copy("in", stream="a"), kernel("k", "a"), copy("out", "d2h", stream="a"))
    assert found == {"in": (0, 100), "k": (100, 200), "out": (200, 300)}


def test_copies_of_one_direction_take_turns_and_both_directions_and_kernels_overlap():
    found = run(
        *(copy("h0", stream="a"), copy("h1", stream="b"), copy("d0", "d2h", stream="c"), kernel("k", "b")),
    )
    assert found == {"h0": (0, 100), "h1": (100, 200), "d0": (0, 100), "k": (200, 300)}


def test_with_one_copy_engine_directions_take_turns_and_a_shared_bus_slows_both():
    calls = (copy("h", stream="a"), copy("d", "d2h", us=50, stream="b"))
    assert run(*calls, machine=replace(BOOK, copy_engines=1)) == {"h": (0, 100), "d": (100, 150)}
    # At half the rate until the shorter ends: 50 us of it take 100, the other 50 of the longer 50 more.
    assert run(*calls, machine=replace(BOOK, duplex_share=0.5)) == {"h": (0, 150), "d": (0, 100)}


def test_a_hardware_queue_makes_streams_wait_for_each_other_depth_first_and_not_breadth_first():
    deep = simulate_streams(SmallKernels(streams=2, kernels=3).program(8), ONE_QUEUE)
    chains = [[spans(deep)[f"k{chain}.{step}"][0] for step in range(3)] for chain in range(2)]
    assert chains == [[0, 200, 400], [400, 600, 800]]
    held = deep.operation("k1.0")
    assert (held.held_by, held.ready_ns, held.false_ns) == ("k0.2", 0, 400 * US)
    assert deep.operation("k1.1").held_by == ""
    wide = simulate_streams(SmallKernels(streams=2, kernels=3, issue="breadth-first").program(8), ONE_QUEUE)
    assert (wide.end_ns, wide.false_ns) == (600 * US, 0)


def test_streams_beyond_the_queues_share_them():
    pair = SmallKernels(streams=8)
    ends = [simulate_streams(pair.program(8), replace(BOOK, queues=count)).end_ns for count in (1, 4, 8, 32)]
    assert [end // US for end in ends] == [5000, 1400, 800, 800]


def test_copies_with_queues_of_their_own_do_not_stand_behind_kernels():
    add = VectorAdd(4, 4).program(8)
    one, own = (simulate_streams(add, each) for each in (ONE_QUEUE, replace(ONE_QUEUE, has_copy_queues=True)))
    assert (one.end_ns, own.end_ns, own.false_ns) == (1_700 * US, 1_100 * US, 0)
    assert {own.operation(name).queue for name in ("a0", "c0", "k0")} == {
        *("copy queue 0", "copy queue 1", "queue 0"),
    }


def test_the_null_stream_waits_for_blocking_streams_and_they_for_it():
    calls = (kernel("k1", "a"), kernel("k2"), kernel("k3", "b"))
    assert run(*calls, is_blocking=True) == {"k1": (0, 100), "k2": (100, 200), "k3": (200, 300)}
    assert run(*calls, is_blocking=False) == {"k1": (0, 100), "k2": (0, 100), "k3": (0, 100)}


def test_an_event_stands_for_what_was_there_when_it_was_recorded_last():
    once = (kernel("k", "a"), RecordEvent("e", "a"), kernel("l", "a"))
    assert run(*once, WaitEvent("e", "b"), kernel("m", "b"))["m"] == (100, 200)
    assert run(*once, RecordEvent("e", "a"), WaitEvent("e", "b"), kernel("m", "b"))["m"] == (200, 300)
    found = simulate_streams(join(8), BOOK)
    assert spans(found)["joined"] == (600, 800)
    assert found.operation("joined").after == ("k0", "k1", "k2")


def test_an_event_that_was_never_recorded_holds_nothing_back_and_that_is_said():
    found = simulate_streams(join(8, is_recorded_first=False), BOOK)
    assert spans(found)["joined"] == (0, 200)
    assert "has not been recorded" in found.notes[0]
    found = run(SynchronizeEvent("e"), kernel("k", "a"))
    assert found == {"k": (0, 100)}


def test_pending_blocks_of_a_stream_with_priority_go_first_and_nothing_is_pre_empted():
    machine = replace(BOOK, device=BOOK.device.with_sm_count(4))
    runs = {priority: simulate_streams(priorities(4, priority), machine) for priority in (0, -1, -9)}
    # Launched at 20; the first wave of a long kernel ends at 200, the last of both begins at 1,000.
    urgent = {priority: spans(found)["urgent"] for priority, found in runs.items()}
    assert urgent == {0: (1200, 1300), -1: (200, 300), -9: (200, 300)}


def test_blocks_share_the_sms_as_far_as_they_fit():
    found = run(*(kernel(name, name, blocks=6, block=WHOLE_SM) for name in "ab"))
    assert found == {"a": (0, 100), "b": (0, 200)}  # 2 of b's blocks beside 6 of a's, 4 behind them


def test_a_host_function_holds_its_stream_and_shares_the_drivers_thread():
    calls = []
    for name in "ab":
        function = LaunchHostFunction(f"f{name}", name, 100 * US)
        calls += [kernel(f"k{name}", name), function, kernel(f"l{name}", name)]
    found = run(*calls)
    assert (found["fa"], found["fb"]) == ((100, 200), (200, 300))
    assert (found["la"], found["lb"]) == ((200, 300), (300, 400))


def test_the_host_waits_for_pageable_memory_and_for_cudamemcpy_but_not_within_the_device():
    page = run(copy("in", stream="a", is_pinned=False), kernel("k", "b"))
    assert page == {"in": (0, 400), "k": (400, 500)}
    assert run(copy("in", is_async=False), kernel("k", "a"))["k"] == (100, 200)
    inside = copy("inside", "d2d", us=100, is_async=False)
    assert run(inside, kernel("k", "a"))["k"] == (0, 100)


def test_calls_synchronisation_and_host_work_take_the_hosts_time():
    slow = replace(BOOK, launch_call_ns=5 * US, submit_ns=2 * US, boundary_ns=US, synchronize_ns=10 * US)
    calls = (kernel("k", "a"), kernel("l", "a"), SynchronizeStream("a"), HostWork(20 * US), kernel("m", "a"))
    found = simulate_streams(program(*calls, SynchronizeDevice()), slow)
    assert spans(found) == {"k": (7, 107), "l": (108, 208), "m": (245, 345)}
    waited = found.host[2]
    assert (waited.start_ns, waited.wait_ns, waited.end_ns) == (10 * US, 10 * US, 218 * US)
    assert found.end_ns == 355 * US


def test_two_host_threads_launch_beside_each_other():
    machine = replace(BOOK, launch_call_ns=10 * US)
    threads = [HostThread(name, [kernel(f"{name}{n}", name) for n in range(2)]) for name in "ab"]
    both = StreamProgram("two", [CudaStream("a"), CudaStream("b")], threads)
    assert spans(simulate_streams(both, machine)) == {
        "a0": (10, 110),
        "a1": (110, 210),
        "b0": (10, 110),
        "b1": (110, 210),
    }


def test_a_kernel_that_spins_for_one_behind_it_in_its_queue_never_ends_and_more_queues_free_it():
    calls = (kernel("spin", "a", until="flag"), kernel("next", "a"), kernel("flag", "b"), SynchronizeDevice())
    with pytest.raises(DeadlockError) as stuck:
        run(*calls, machine=ONE_QUEUE)
    assert stuck.value.reasons == (
        "spin holds its SM slots and spins until flag has ended",
        "next (stream a) waits for the end of spin",
        "flag (stream b) stands behind next in queue 0",
        "host thread host waits in cudaDeviceSynchronize()",
    )
    assert run(*calls) == {"spin": (0, 200), "next": (200, 300), "flag": (0, 100)}


def test_spinning_blocks_that_hold_every_slot_never_end():
    calls = (kernel("spin", "a", until="flag", blocks=8, block=WHOLE_SM), kernel("flag", "b", block=WHOLE_SM))
    with pytest.raises(DeadlockError, match="flag has no SM slot"):
        run(*calls)


@st.composite
def programs(draw):
    calls, streams = [], ["a", "b", "c", LEGACY]
    for number in range(draw(st.integers(1, 14))):
        stream, us = draw(st.sampled_from(streams)), draw(st.integers(1, 5))
        kind = draw(st.sampled_from("kkcdhrws"))
        event = draw(st.sampled_from("ef"))
        calls.append(
            {
                "k": kernel(f"k{number}", stream, us, blocks=us, block=WHOLE_SM),
                "c": copy(f"c{number}", "h2d", us, stream, is_pinned=us > 1),
                "d": copy(f"d{number}", "d2h", us, stream),
                "h": LaunchHostFunction(f"h{number}", stream, us * US),
                "r": RecordEvent(event, stream),
                "w": WaitEvent(event, stream),
                "s": SynchronizeStream(stream),
            }[kind]
        )
    made = [CudaStream(name, draw(st.booleans()), draw(st.sampled_from((0, -1)))) for name in "abc"]
    return StreamProgram("random", made, [HostThread("host", calls)])


@settings(max_examples=60, deadline=None)
@given(programs(), st.sampled_from((1, 2, 8)), st.booleans(), st.integers(1, 3))
def test_every_program_keeps_streams_queues_engines_and_slots_in_order(program, queues, own, engines):
    machine = replace(BOOK, queues=queues, has_copy_queues=own, copy_engines=engines, submit_ns=700)
    found = simulate_streams(program, machine)
    assert len(found.operations) == len(program.operations)
    by_stream, by_engine, by_queue, by_slot = {}, {}, {}, {}
    for one in found.operations:
        assert one.submitted_ns <= one.ready_ns <= one.start_ns <= one.end_ns
        assert one.head_ns <= one.left_ns <= one.start_ns
        by_stream.setdefault(one.stream, []).append((one.start_ns, one.end_ns))
        by_queue.setdefault(one.queue, []).append((one.head_ns, one.left_ns))
        if one.kind != "kernel":
            by_engine.setdefault(one.engine, []).append((one.start_ns, one.end_ns))
    for block in found.blocks:
        by_slot.setdefault((block.sm, block.slot), []).append((block.start_ns, block.end_ns))
    for rows in (by_stream, by_engine, by_queue, by_slot):
        for row in rows.values():
            row.sort()
            assert all(before[1] <= after[0] for before, after in pairwise(row))


def test_examples_are_found_by_name():
    assert example("host functions").program(BOOK).name == "host functions"
