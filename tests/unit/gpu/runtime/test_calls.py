"""The log of library calls: each failure is named, once, whoever asks, however many calls are under way."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest

from wavesim.errors import DeadlockError, Waiter
from wavesim_gpu.runtime import calls
from wavesim_gpu.runtime.calls import CallLog, FailedCallsError, warn_of_failures

WAITER = Waiter("gemm2", (1, 2, 0), 7, -1, "gemm1 row[2]", 0, 5)


class HostMemory:
    """Plays the device: memory by address, and what close_call.cu writes there at the end of a call."""

    def __init__(self):
        self.blocks = []

    def allocate(self, count):
        block = np.full(count, 0xA5, np.uint8)
        self.blocks.append(block)
        return block.ctypes.data, block

    def finish(self, log, call, *, has_failed=False):
        slot = self._record(call.slot.address)
        if has_failed:
            slot["errors"]["aborted"], slot["errors"]["waiter_count"] = 1, call.number
            slot["failures"] += 1
        slot["finished"] = 1
        if has_failed:
            self.blocks[0].view(np.uint32)[0] = 1
            assert self.blocks[0].ctypes.data == log.bell

    def _record(self, address):
        for block in self.blocks:
            if 0 <= (offset := address - block.ctypes.data) < block.nbytes:
                return block[offset : offset + calls.CALL_SLOT.itemsize].view(calls.CALL_SLOT)[0]
        raise AssertionError(f"no memory at {address:#x}")


@pytest.fixture
def device():
    return HostMemory()


@pytest.fixture
def log(device):
    return CallLog(device.allocate)


def explain(found):
    return DeadlockError((WAITER,), (), f"{found['waiter_count']} blocks waited for longer than 30 s")


def begin(log, what="mlp of (1, 2, 3, 4) fp16", stream=0x70, *, is_captured=False):
    return log.begin(what, 0, stream, explain, is_captured=is_captured)


def test_a_failure_names_the_call_its_stream_and_the_line_where_it_was_made_in_one_line(log, device):
    begin(log)
    failing, line = begin(log), begin.__code__.co_firstlineno + 1
    device.finish(log, failing, has_failed=True)
    with pytest.raises(FailedCallsError) as caught:
        log.raise_failures()
    said = str(caught.value)
    assert "\n" not in said
    assert "1 call failed and gave NaN" in said
    assert f"call 2, mlp of (1, 2, 3, 4) fp16 on stream 0x70, made at {__file__}:{line}" in said
    assert "2 blocks waited for longer than 30 s: gemm2 block (1, 2, 0)" in said
    assert "gemm1 row[2]" in said
    assert "limit_s" in said
    assert [one.call.number for one in caught.value.failures] == [2]
    assert caught.value.waiters == (WAITER,)


def test_a_failure_is_reported_once_and_calls_after_it_are_not_affected(log, device):
    failing = begin(log)
    device.finish(log, failing, has_failed=True)
    later = begin(log)
    with pytest.raises(FailedCallsError):
        log.raise_failures()
    log.raise_failures()
    device.finish(log, later)
    log.raise_failures()


def test_calls_that_are_under_way_or_went_well_are_no_failures(log, device):
    begin(log)
    device.finish(log, begin(log))
    log.raise_failures()
    assert log.take_failures() == []


def test_many_failures_are_all_there_and_the_first_eight_are_in_the_message(log, device):
    failing = [begin(log) for _ in range(20)]
    for call in failing:
        device.finish(log, call, has_failed=True)
    with pytest.raises(FailedCallsError, match=r"20 calls failed.*call 8, .*; and 12 more") as caught:
        log.raise_failures()
    assert [one.call for one in caught.value.failures] == failing


def test_slots_go_round_and_no_failure_is_lost_among_100000_calls(log, device):
    generator = np.random.default_rng(1)
    under_way, failing, seen = [], set(), []
    for _ in range(100_000):
        call = begin(log)
        under_way.append(call)
        if len(under_way) > 100:
            one = under_way.pop(int(generator.integers(len(under_way))))
            if has_failed := generator.random() < 0.01:
                failing.add(one.number)
            device.finish(log, one, has_failed=has_failed)
        if generator.random() < 0.005:
            seen += [one.call.number for one in log.take_failures()]
    seen += [one.call.number for one in log.take_failures()]
    assert len(failing) > 500
    assert sorted(seen) == sorted(failing)
    assert len(device.blocks) <= 3  # the bell, and slots for what is under way


def test_no_two_calls_under_way_share_a_slot(log, device):
    under_way = [begin(log) for _ in range(5000)]
    addresses = {call.slot.address for call in under_way}
    assert len(addresses) == 5000
    last = under_way[-1]
    device.finish(log, last, has_failed=True)
    assert [one.call for one in log.take_failures()] == [last]


def test_a_failure_that_is_seen_while_slots_are_looked_for_is_reported_all_the_same(log, device):
    failing = begin(log)
    device.finish(log, failing, has_failed=True)
    device.blocks[0][:] = 0  # the bell is still on its way
    for _ in range(calls.FIRST_SLOTS * 3):
        device.finish(log, begin(log))
    assert [one.call for one in log.take_failures()] == [failing]
    device.blocks[0][0] = 1  # it arrives
    assert log.take_failures() == []


def test_a_captured_call_is_reported_for_each_time_that_its_replays_fail(log, device):
    captured = begin(log, is_captured=True)
    device.finish(log, captured)
    log.raise_failures()
    for _ in range(3):
        device.finish(log, captured, has_failed=True)
    with pytest.raises(FailedCallsError, match=r"graph captured at .*py:\d+, 3 of its replays"):
        log.raise_failures()
    for _ in range(calls.FIRST_SLOTS * 2):  # its slot is nobody else's
        call = begin(log)
        assert call.slot.address != captured.slot.address
        device.finish(log, call)
    device.finish(log, captured)
    log.raise_failures()
    device.finish(log, captured, has_failed=True)
    assert [(one.call, one.replays) for one in log.take_failures()] == [(captured, 1)]


def test_a_bell_that_rings_while_slots_are_read_is_heard_the_next_time(log, device):
    first, second = begin(log), begin(log)
    device.finish(log, first, has_failed=True)
    collect = log._collect

    def collect_and_ring():
        collect()
        device.finish(log, second, has_failed=True)

    log._collect = collect_and_ring
    assert [one.call for one in log.take_failures()] == [first]
    log._collect = collect
    assert [one.call for one in log.take_failures()] == [second]


def test_threads_get_numbers_and_slots_of_their_own_and_every_failure_is_reported_to_one_of_them(log, device):
    gate = threading.Barrier(8)

    def work(seed):
        generator = np.random.default_rng(seed)
        gate.wait()
        failing, seen, numbers = [], [], []
        for _ in range(2000):
            call = begin(log, stream=seed)
            assert log.latest == call.number
            numbers.append(call.number)
            if has_failed := generator.random() < 0.05:
                failing.append(call.number)
            device.finish(log, call, has_failed=has_failed)
            seen += [one.call.number for one in log.take_failures()]
        return failing, seen, numbers

    with ThreadPoolExecutor(8) as pool:
        failing, seen, numbers = zip(*pool.map(work, range(8)), strict=True)
    assert sorted(chain(*numbers)) == list(range(1, 16_001))
    last = [one.call.number for one in log.take_failures()]
    assert sorted([*chain(*seen), *last]) == sorted(chain(*failing))


def test_what_nobody_was_told_of_is_warned_of_once(log, device):
    warn_of_failures(log)
    device.finish(log, begin(log), has_failed=True)
    with pytest.warns(RuntimeWarning, match="1 call failed and gave NaN: call 1"):
        warn_of_failures(log)
    warn_of_failures(log)


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
