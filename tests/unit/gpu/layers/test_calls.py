"""The log of library calls: each failure is named, once, whoever asks, however many calls are under way."""

import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest

from wavesim.errors import DeadlockError, Waiter
from wavesim_gpu.layers import calls
from wavesim_gpu.layers.calls import CALLS_KEPT, REPORTS_KEPT, CallLog, FailedCallsError, warn_of_failures

WAITER = Waiter("gemm2", (1, 2, 0), 7, -1, "gemm1 row[2]", 0, 5)
HEAD = 4  # words of a slot before the numbers


class HostMemory:
    """Plays the device: memory by address, and what cusync/call.cuh writes there at the end of a call."""

    def __init__(self):
        self.blocks = []

    def allocate(self, count):
        block = np.full(count, 0xA5, np.uint8)
        self.blocks.append(block)
        return block.ctypes.data, block

    def fail(self, log, slot, number, *, rings=True):
        (block,) = [block for block in self.blocks if block.ctypes.data == slot.address]
        head = block[: 4 * HEAD].view(np.uint32)
        record = block.view(calls.slot_type(int(head[1]), int(head[2])))[0]
        record["numbers"][head[0] % head[1]] = number
        report = record["errors"][head[0] % head[2]]
        report["aborted"], report["waiter_count"] = 1, number
        head[0] += 1
        if rings:
            self.ring(log)

    def ring(self, log):
        assert self.blocks[0].ctypes.data == log.bell
        self.blocks[0].view(np.uint32)[0] = 1


class Way:
    """Whose calls they are."""

    what = "mlp of (1, 2, 3, 4) fp16"

    def explain(self, found, limit_ns):
        detail = f"{found['waiter_count']} blocks waited for longer than {limit_ns / 1e9:g} s"
        return DeadlockError((WAITER,), (), detail)


WAY = Way()


@pytest.fixture
def device():
    return HostMemory()


@pytest.fixture
def log(device):
    return CallLog(device.allocate)


@pytest.fixture
def slot(log):
    return log.open_slot(0, 0x70)


def begin(slot, limit_s=30):
    return slot.begin(WAY, limit_s * 10**9)


def numbers(failures):
    return [failure.call.number for failure in failures]


def test_a_failure_names_the_call_its_stream_and_the_line_where_it_was_made_in_one_line(log, slot, device):
    begin(slot)
    failing, line = begin(slot, 20), begin.__code__.co_firstlineno + 1
    device.fail(log, slot, failing)
    with pytest.raises(FailedCallsError) as caught:
        log.raise_failures()
    said = str(caught.value)
    assert "\n" not in said
    assert "1 call failed and gave NaN" in said
    assert f"call 2, mlp of (1, 2, 3, 4) fp16 on stream 0x70, made at {__file__}:{line}" in said
    assert "2 blocks waited for longer than 20 s: gemm2 block (1, 2, 0)" in said
    assert "gemm1 row[2]" in said
    assert "limit_s" in said
    assert numbers(caught.value.failures) == [2]
    assert caught.value.waiters == (WAITER,)


def test_a_call_within_a_long_function_is_named_by_its_own_line(log, slot, device):
    failing = slot.begin(
        WAY,
        # A line of its own inside the call.
        30,
    )
    device.fail(log, slot, failing)
    first = test_a_call_within_a_long_function_is_named_by_its_own_line.__code__.co_firstlineno
    with pytest.raises(FailedCallsError, match=f"{__file__}:{first + 1} "):
        log.raise_failures()


def test_modules_of_ours_and_pytorchs_are_not_the_place(log, slot, device):
    code = "def call(slot, way):\n    return slot.begin(way, 1)\n"
    inner = {"__name__": "torch.nn.modules.module"}
    exec(compile(code, "/torch/module.py", "exec"), inner)  # noqa: S102  # text of this test
    device.fail(log, slot, inner["call"](slot, WAY))
    with pytest.raises(FailedCallsError, match=r"made at .*test_calls.py:\d+"):
        log.raise_failures()


def test_a_failure_is_reported_once_and_calls_after_it_are_not_affected(log, slot, device):
    device.fail(log, slot, begin(slot))
    begin(slot)
    with pytest.raises(FailedCallsError):
        log.raise_failures()
    log.raise_failures()
    device.ring(log)
    log.raise_failures()


def test_calls_that_are_under_way_or_went_well_are_no_failures(log, slot):
    begin(slot)
    log.raise_failures()
    assert log.take_failures() == []


def test_many_failures_are_all_there_and_the_first_eight_are_in_the_message(log, slot, device):
    for _ in range(20):
        device.fail(log, slot, begin(slot))
    with pytest.raises(FailedCallsError, match=r"20 calls failed.*call 8, .*; and 12 more") as caught:
        log.raise_failures()
    assert numbers(caught.value.failures) == list(range(1, 21))


@pytest.mark.parametrize("count", [1, REPORTS_KEPT - 1, REPORTS_KEPT, REPORTS_KEPT + 5, 1000])
def test_what_waiters_saw_is_known_of_the_latest_failures(log, slot, device, count):
    begun = [begin(slot) for _ in range(count)]
    for number in begun:
        device.fail(log, slot, number)
    failures = log.take_failures()
    assert numbers(failures) == begun
    known = [failure for failure in failures if failure.cause.waiters]
    # The device may be writing over the oldest.
    assert known == failures[-min(count, REPORTS_KEPT - 1) :]
    for failure in known:
        assert failure.cause.detail.startswith(f"{failure.call.number} blocks")
    for failure in failures[: -len(known)]:
        assert "time limit of 30 s" in failure.cause.detail


def test_a_report_that_is_written_over_while_it_is_read_is_left_out(log, slot, device, monkeypatch):
    for _ in range(REPORTS_KEPT - 1):
        device.fail(log, slot, begin(slot))
    failing = begin(slot)
    record = slot._record

    class Meanwhile:
        """The record; behind the first look at its failures, one more comes."""

        looks = 0

        def __getitem__(self, name):
            found = record[name]
            if name == "failures":
                self.looks += 1
                if self.looks == 1:
                    device.fail(log, slot, failing)
            return found

    monkeypatch.setattr(slot, "_record", Meanwhile())
    failures = log.take_failures()
    assert [bool(failure.cause.waiters) for failure in failures].count(False) <= 1
    assert {*numbers(failures), *numbers(log.take_failures())} == {*range(1, REPORTS_KEPT + 1)}


def test_no_failure_is_lost_among_100000_calls_on_four_streams(log, device):
    generator = np.random.default_rng(1)
    slots = [log.open_slot(0, stream) for stream in range(4)]
    queued, failing, seen = [[] for _ in slots], [], []
    for _ in range(100_000):
        which = int(generator.integers(4))
        own = begin(slots[which])
        queued[which].append((own, log.latest))
        if len(queued[which]) > 100:
            ended, number = queued[which].pop(0)
            if generator.random() < 0.01:
                failing.append(number)
                device.fail(log, slots[which], ended)
        if generator.random() < 0.005:
            seen += numbers(log.take_failures())
    seen += numbers(log.take_failures())
    assert len(failing) > 500
    assert sorted(seen) == sorted(failing)
    assert len(device.blocks) == 1 + len(slots)


def test_calls_that_more_than_fill_a_stream_are_told_apart(log, slot, device):
    for _ in range(3 * CALLS_KEPT):
        own = begin(slot)
    device.fail(log, slot, own)
    assert numbers(log.take_failures()) == [3 * CALLS_KEPT]


def test_a_captured_call_is_reported_for_each_time_that_its_replays_fail(log, slot, device):
    captured = log.open_slot(0, 0x80, is_captured=True)
    own = begin(captured)
    log.raise_failures()
    for _ in range(3):
        device.fail(log, captured, own)
    device.fail(log, slot, begin(slot))
    with pytest.raises(FailedCallsError, match=r"graph captured at .*py:\d+, 3 of its replays") as caught:
        log.raise_failures()
    assert sorted(one.replays for one in caught.value.failures) == [1, 3]
    device.fail(log, captured, own)
    assert [(one.call.number, one.replays) for one in log.take_failures()] == [(1, 1)]


def test_a_bell_that_rings_while_slots_are_read_is_heard_the_next_time(log, slot, device):
    first, second = begin(slot), begin(slot)
    device.fail(log, slot, first)
    look = slot.new_failures

    def look_and_ring():
        found = look()
        device.fail(log, slot, second)
        return found

    slot.new_failures = look_and_ring
    assert numbers(log.take_failures()) == [1]
    slot.new_failures = look
    assert numbers(log.take_failures()) == [2]


def test_a_failure_whose_bell_comes_late_is_reported_once(log, slot, device):
    first, second = begin(slot), begin(slot)
    device.fail(log, slot, first)
    device.fail(log, slot, second, rings=False)  # its bell is still on its way
    assert numbers(log.take_failures()) == [1, 2]
    device.ring(log)
    assert log.take_failures() == []


def test_threads_get_numbers_of_their_own_and_every_failure_is_reported_to_one_of_them(log, device):
    gate = threading.Barrier(8)

    def work(seed):
        generator = np.random.default_rng(seed)
        own = log.open_slot(0, seed)
        gate.wait()
        failing, seen, begun = [], [], []
        for _ in range(2000):
            call = begin(own)
            begun.append(log.latest)
            if generator.random() < 0.05:
                failing.append(log.latest)
                device.fail(log, own, call)
            seen += numbers(log.take_failures())
        return failing, seen, begun

    with ThreadPoolExecutor(8) as pool:
        failing, seen, begun = zip(*pool.map(work, range(8)), strict=True)
    assert sorted(chain(*begun)) == list(range(1, 16_001))
    last = numbers(log.take_failures())
    assert sorted([*chain(*seen), *last]) == sorted(chain(*failing))


def test_what_nobody_was_told_of_is_warned_of_once(log, slot, device):
    warn_of_failures(log)
    device.fail(log, slot, begin(slot))
    with pytest.warns(RuntimeWarning, match="1 call failed and gave NaN: call 1"):
        warn_of_failures(log)
    warn_of_failures(log)


def test_a_forked_process_does_not_look_at_its_parents_calls(device, monkeypatch):
    monkeypatch.setattr(calls, "_pinned", device.allocate)
    monkeypatch.setattr(calls.atexit, "register", lambda *args: None)
    calls._process_log.cache_clear()
    try:
        log = calls.process_log()
        slot = log.open_slot(0, 7)
        device.fail(log, slot, begin(slot))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python, where there are threads
            child = os.fork()
        if not child:
            found = 99
            try:
                found = len(log.take_failures())
            finally:
                os._exit(found)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(log.take_failures()) == 1
    finally:
        calls._process_log.cache_clear()


def test_the_process_has_one_log_and_warns_when_it_ends(device, monkeypatch):
    registered = []
    monkeypatch.setattr(calls, "_pinned", device.allocate)
    monkeypatch.setattr(calls.atexit, "register", lambda *args: registered.append(args))
    calls._process_log.cache_clear()
    try:
        log = calls.process_log()
        assert calls.process_log() is log
        assert registered == [(warn_of_failures, log)]
    finally:
        calls._process_log.cache_clear()
