"""What `mlp` launches, on a GPU that notes it: calls share nothing that they write, and leave nothing."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from noted_gpu import NotedGpu

import wavesim_gpu
from wavesim.errors import DeadlockError, DescriptionError
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim_gpu import tuned_mlp
from wavesim_gpu.runtime import calls
from wavesim_gpu.runtime.side_streams import SideStreams

SIZES = (256, 128, 192, 256)
TILE = (64, 64, 32)


@pytest.fixture
def gpu(monkeypatch):
    gpu = NotedGpu()
    gpu.install(monkeypatch)
    monkeypatch.setattr(tuned_mlp, "_prepared", {})
    monkeypatch.setattr(tuned_mlp, "side_streams", SideStreams())
    monkeypatch.setattr(calls.atexit, "register", lambda *args: None)
    calls._process_log.cache_clear()
    yield gpu
    calls._process_log.cache_clear()


def prepare(plan=None):
    """As if tuning had chosen this plan for the sizes; what it launched while it was made is forgotten."""
    shape = tuned_mlp.Shape(SIZES, "fp16", None, 0)
    tuned_mlp.prepare(shape, shape.pipeline(TILE), plan or SemaphoreSync(RowSync()))


def call(gpu, **options):
    m, k, n1, n2 = SIZES
    return tuned_mlp.mlp(gpu.array((m, k)), gpu.array((k, n1)), gpu.array((n1, n2)), **options)


def written(gpu):
    """Per launch of a GEMM: what it writes besides its output, as addresses."""
    return [
        (int(arguments[0]["sync"]["counters"]), int(arguments[0]["sync"]["errors"]))
        for arguments, _ in gpu.launches("gemm")
    ]


def fail(gpu, number):
    """What the device does when the last kernel of a call finds that a wait gave up."""
    slots = gpu.blocks[1].view(calls.CALL_SLOT)
    addresses = [int(arguments[1]) for arguments, _ in gpu.launches("close_call")]
    slot = slots[(addresses[number - 1] - gpu.blocks[1].ptr) // calls.CALL_SLOT.itemsize]
    slot["errors"]["aborted"] = slot["errors"]["waiter_count"] = 1
    slot["failures"] += 1
    slot["finished"] = 1
    gpu.blocks[0].view(np.uint32)[0] = 1


def test_calls_share_no_counters_no_error_buffer_no_slot_and_on_two_streams_no_stream(gpu):
    prepare()
    call(gpu)
    gpu.stream = gpu.new_stream()
    call(gpu)
    first, second = (set(found) for found in (written(gpu)[:1], written(gpu)[-1:]))
    assert len(gpu.launches("gemm")) == 4
    words = [word for found in (*first, *second) for word in found]
    assert len(set(words)) == 4
    slots = [int(arguments[1]) for arguments, _ in gpu.launches("close_call")]
    assert len(set(slots)) == 2
    used = [{stream.ptr for _, stream in gpu.launches("gemm")[i : i + 1]} for i in range(4)]
    assert len(set().union(*used)) == 4


def test_every_call_zeroes_its_counters_and_its_error_buffer_before_its_kernels(gpu):
    prepare()
    call(gpu)
    operations = gpu.stream.operations
    kinds = [operation[0] for operation in operations]
    (counters, errors) = written(gpu)[0]
    address, count = operations[kinds.index("memset")][1:]
    assert address <= counters < errors < address + count
    assert kinds.index("memset") < kinds.index("launch")


def test_the_last_kernel_comes_after_the_side_stream_is_joined_and_gets_the_result(gpu):
    prepare()
    result = call(gpu)
    *_, before, last = gpu.stream.operations
    assert before[0] == "wait"
    assert before[1].stream is not gpu.stream
    assert last[1] == "close_call"
    errors, _, _, address, count = (int(argument) for argument in last[2])
    assert (address, count) == (result.data.ptr, result.size)
    assert errors == written(gpu)[0][1]


def test_a_plan_without_semaphores_has_no_last_kernel(gpu):
    prepare(StreamSync())
    call(gpu)
    assert gpu.launches("gemm")
    assert gpu.launches("close_call") == []


def test_the_time_limit_reaches_every_kernel_that_waits(gpu):
    prepare()
    call(gpu)
    call(gpu, limit_s=0.25)
    for kernel in ("gemm", "wait_for_start"):
        limits = [int(arguments[0]["sync"]["limit_ns"]) for arguments, _ in gpu.launches(kernel)]
        assert sorted(set(limits)) == [250_000_000, 30_000_000_000]


@pytest.mark.parametrize("limit_s", [0, -1, float("nan"), float("inf"), 1e9, 10**400, "3 s", None])
def test_a_limit_that_is_none_is_refused_in_one_line(gpu, limit_s):
    prepare()
    with pytest.raises(DescriptionError, match=r"limit_s is .*; it must be a number from") as caught:
        call(gpu, limit_s=limit_s)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("broken", ["wait_for_start", "gemm"])
def test_an_exception_between_launches_joins_the_streams_and_the_next_call_is_whole(gpu, broken):
    prepare()
    done = []

    def on_launch(kernel):
        done.append(kernel)
        if kernel.startswith(broken) and len(done) > 1:
            raise MemoryError

    gpu.on_launch = on_launch
    with pytest.raises(MemoryError):
        call(gpu)
    (side,) = [stream for stream in gpu.streams if stream.operations and stream is not gpu.stream]
    assert side.operations[-1][0] == "record"
    assert gpu.stream.operations[-1] == ("wait", side.operations[-1][1])
    gpu.on_launch = lambda kernel: None
    before = written(gpu)
    call(gpu)
    assert len(gpu.launches("close_call")) == 1
    assert not set(written(gpu)[len(before) :]) & set(before)


def test_calls_of_two_threads_on_one_stream_do_not_interleave(gpu):
    """Mixed up, one's consumer would wait on the side stream for a producer that waits for the other's."""
    prepare()
    both, names = threading.Barrier(2, timeout=0.2), set()

    def on_launch(kernel):
        names.add(threading.get_ident())
        try:
            both.wait()  # gives the other thread every chance
        except threading.BrokenBarrierError:
            both.reset()

    gpu.on_launch = on_launch
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: call(gpu), range(2)))
    assert len(names) == 2
    (side,) = {stream for _, stream in gpu.launches("wait_for_start")}
    order = [int(op[2][0]["sync"]["counters"]) for op in side.operations if op[0] == "launch"]
    assert order[0] == order[1] != order[2] == order[3]


def test_a_call_that_failed_is_named_by_the_next_which_is_right_when_made_again(gpu):
    prepare()
    call(gpu)
    call(gpu, limit_s=2)
    line = call.__code__.co_firstlineno + 2
    fail(gpu, number=2)
    with pytest.raises(DeadlockError) as caught:
        call(gpu)
    said = str(caught.value)
    assert f"call 2, mlp of {SIZES} fp16 on stream {gpu.stream.ptr:#x}, made at {__file__}:{line}" in said
    assert "time limit of 2 s" in said
    assert len(gpu.launches("close_call")) == 2
    call(gpu)
    assert len(gpu.launches("close_call")) == 3


def test_check_names_it_too_once_and_says_nothing_before_the_first_call(gpu):
    wavesim_gpu.check()
    prepare()
    call(gpu)
    fail(gpu, number=1)
    with pytest.raises(wavesim_gpu.FailedCallsError, match="call 1, mlp"):
        wavesim_gpu.check()
    wavesim_gpu.check()


def test_check_waits_for_every_gpu_that_had_calls_first(gpu, monkeypatch):
    prepare()
    call(gpu)
    calls.process_log().devices.add(3)
    waited, current = [], [0]

    class Device:
        compute_capability = "90"

        def __init__(self, number=None):
            self.id = current[0] if number is None else number

        def __enter__(self):
            self.before, current[0] = current[0], self.id

        def __exit__(self, *caught):
            current[0] = self.before

        def synchronize(self):
            waited.append(self.id)
            if self.id == 3:
                fail(gpu, number=1)  # only now is it known

    monkeypatch.setattr(sys.modules["cupy"].cuda, "Device", Device)
    with pytest.raises(wavesim_gpu.FailedCallsError):
        wavesim_gpu.check()
    assert waited == [0, 3]


def test_replays_that_fail_are_reported_as_the_graphs_and_not_while_one_is_captured(gpu):
    prepare()
    gpu.is_capturing = True
    call(gpu)
    fail(gpu, number=1)
    call(gpu)
    gpu.is_capturing = False
    with pytest.raises(wavesim_gpu.FailedCallsError, match=r"call 1.*graph captured at .*1 of its replays"):
        call(gpu)


def test_what_a_captured_call_writes_to_is_nobody_elses_afterwards(gpu):
    prepare()
    gpu.is_capturing = True
    call(gpu)
    gpu.is_capturing = False
    (captured,) = [int(arguments[1]) for arguments, _ in gpu.launches("close_call")]
    (kept,) = tuned_mlp._prepared.values()
    counters = written(gpu)[0][0]
    assert counters in [tensor.address for tensor in kept._captured]
    for _ in range(600):
        call(gpu)
    slots = [int(arguments[1]) for arguments, _ in gpu.launches("close_call")]
    assert slots.count(captured) == 1
