"""The streams lab's host side without a GPU: each call becomes the right one of CUDA; results are merged."""

import ctypes
import json
from types import SimpleNamespace

import numpy as np
import pytest

from wavesim import DescriptionError
from wavesim.sim.streams import examples
from wavesim.sim.streams.examples import EXAMPLES, VectorAdd, example
from wavesim.sim.streams.measured import load_measured
from wavesim.sim.streams.program import HostThread, LaunchKernel, StreamProgram
from wavesim_gpu.bench.labs import streams as lab
from wavesim_gpu.bench.labs.streams import calibration, program_run, worker

THREADS = [HostThread("host", [LaunchKernel("k")]), HostThread("other", [LaunchKernel("l")])]


class PretendedCuda:
    """CuPy's functions that the lab calls, done at once and noted; memory of the device is the host's."""

    def __init__(self):
        self.calls = []
        runtime = SimpleNamespace(
            memcpyAsync=self.copied,
            memcpy=lambda to, source, count, kind: self.copied(to, source, count, kind, None),
            deviceSynchronize=lambda: self.calls.append(("deviceSynchronize",)),
            streamSynchronize=lambda stream: self.calls.append(("streamSynchronize", stream)),
            eventRecord=lambda event, stream: self.calls.append(("eventRecord", event, stream)),
            streamWaitEvent=lambda stream, event: self.calls.append(("streamWaitEvent", stream, event)),
            eventSynchronize=lambda event: self.calls.append(("eventSynchronize", event)),
            deviceGetAttribute=lambda attribute, device: 5,
        )
        self.numbers = iter(range(1, 1 << 20))
        self.cuda = SimpleNamespace(
            runtime=runtime,
            Stream=self.made_stream,
            Event=self.made_event,
            Device=lambda: SimpleNamespace(id=0),
            alloc_pinned_memory=lambda count: np.empty(count, np.uint8),
            get_elapsed_time=lambda start, end: 0.5,
        )

    def made_stream(self, *, non_blocking=False, priority=0, number=None):
        ptr = next(self.numbers) if number is None else number
        called = lambda call, ns: self.calls.append(("launchHostFunc", ptr))  # noqa: E731
        return SimpleNamespace(ptr=ptr, non_blocking=non_blocking, priority=priority, launch_host_func=called)

    def made_event(self, *, disable_timing=False):
        ptr = next(self.numbers)
        return SimpleNamespace(ptr=ptr, record=lambda stream: self.calls.append(("mark", stream.ptr)))

    def zeros(self, shape, dtype):
        array = np.zeros(shape, dtype)
        return PretendedArray(array)

    def copied(self, to, source, count, kind, stream):
        self.calls.append(("memcpy", kind, count, stream))
        ctypes.memmove(to, source, count)

    def launched(self, grid, threads, arguments, shared, stream):
        stamps, block_ns, a, b, c, count = (int(one) for one in arguments)
        self.calls.append(("launch", grid[0], threads[0], shared, stream.ptr, block_ns))
        seen = (ctypes.c_uint64 * (2 * grid[0])).from_address(stamps)
        seen[:] = [1_000, 1_000 + block_ns] * grid[0]
        if count:
            one, two, three = ((ctypes.c_float * count).from_address(place) for place in (a, b, c))
            np.frombuffer(three, np.float32)[:] = np.frombuffer(one, np.float32) + np.frombuffer(
                two, np.float32
            )


class PretendedArray:
    def __init__(self, array):
        self.array, self.data = array, SimpleNamespace(ptr=array.ctypes.data)

    def get(self):
        return self.array

    def fill(self, value):
        self.array[:] = value


@pytest.fixture
def cuda(monkeypatch):
    monkeypatch.setattr(examples, "ELEMENTS", 40_000)
    made = PretendedCuda()
    monkeypatch.setattr(PretendedCuda.made_stream, "null", made.made_stream(number=0), raising=False)
    for module in (program_run, calibration):
        monkeypatch.setattr(module, "require_cupy", lambda: made)
    monkeypatch.setattr(program_run, "load_function", lambda *words: SimpleNamespace(function=made.launched))
    return made


def played(cuda, name):
    run = program_run.ProgramRun(example(name).make(8))
    cuda.calls.clear()
    run.play()
    return run, cuda.calls[1:]


def test_calls_reach_cuda_in_their_order_on_their_streams(cuda):
    _, calls = played(cuda, "three streams joined by events")
    first = calls[0][4]
    assert [call[0] for call in calls] == [
        *["launch"] * 3,
        *["eventRecord"] * 3,
        *["streamWaitEvent"] * 3,
        *("launch", "deviceSynchronize"),
    ]
    assert [call[4] for call in calls[:3]] == [first, first + 1, first + 2]
    assert [call[1] for call in calls[3:6]] == [call[2] for call in calls[6:9]]
    assert {call[1] for call in calls[6:9]} == {calls[9][4]} == {first + 3}


def test_a_vector_addition_moves_every_byte_and_adds_right(cuda):
    run, calls = played(cuda, "vector add, depth-first")
    chunk = [(1, 40_000), (1, 40_000), (2, 40_000)]
    assert [call[1:3] for call in calls if call[0] == "memcpy"] == chunk * 4
    assert [call[1:4] for call in calls if call[0] == "launch"] == [(4, 1024, 120 * 1024)] * 4
    assert run.is_sum_right()


def test_a_sum_that_is_wrong_is_noticed(cuda, monkeypatch):
    right, wrong = (program_run.ProgramRun(VectorAdd(2, 2).program(8)) for _ in range(2))
    assert right.is_sum_right()
    wrong._calls[-2] = lambda: None
    assert not wrong.is_sum_right()  # the last chunk's sum is not copied back


def test_null_stream_host_functions_and_priorities_are_cudas(cuda):
    _, calls = played(cuda, "null stream between blocking streams")
    assert sum(call[4] == 0 for call in calls if call[0] == "launch") == 4
    _, calls = played(cuda, "host functions")
    assert [call[0] for call in calls[:3]] == ["launch", "launchHostFunc", "launch"]
    run, _ = played(cuda, "a kernel with priority")
    assert [(one.non_blocking, one.priority) for one in run._streams.values()][1:] == [
        *((True, 0), (True, 0), (True, -1)),
    ]


def test_spans_begin_with_the_first_kernel_and_copies_stand_between_events(cuda):
    run, _ = played(cuda, "vector add, depth-first")
    assert run.kernel_spans() == {f"k{chunk}": (0, 200_000) for chunk in range(4)}
    cuda.calls.clear()
    found = run.copy_spans()
    assert set(found) == {f"{array}{chunk}" for array in "abc" for chunk in range(4)}
    assert found["a0"] == (1_001 + 500_000 - 1_000,) * 2
    around = [cuda.calls[place + 1][0] for place, call in enumerate(cuda.calls[:-1]) if call[0] == "mark"]
    assert around.count("memcpy") == 12
    assert program_run.ProgramRun(example("copies in both directions").make(8)).copy_spans() == {}


def test_programs_that_are_not_measured_are_refused(cuda):
    with pytest.raises(DescriptionError, match="several host threads"):
        program_run.ProgramRun(StreamProgram("two", [], THREADS))


def test_a_machine_is_calibrated_and_the_lab_s_file_is_what_the_comparison_reads(cuda, monkeypatch, tmp_path):
    device = SimpleNamespace(name="h200", sm_count=4)
    monkeypatch.setattr(worker, "query", lambda: device)
    monkeypatch.setattr(worker, "versions", dict)
    monkeypatch.setattr(lab, "_in_process", worker.measured)
    monkeypatch.setattr(calibration, "MORE_BYTES", calibration.LESS_BYTES // 8)
    monkeypatch.setattr(program_run, "spend", lambda ns: None)
    for name in ("LESS_BYTES", "PROBE_BYTES"):
        monkeypatch.setattr(calibration, name, 1_000)
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"date": "2026-11-28", "commit": "1234", **lab.document(3)}))
    found = load_measured(path)
    assert [one.example.name for one in found.programs] == sorted(
        (one.name for one in EXAMPLES), key=lambda name: example(name).queues
    )
    assert (found.machine.copy_engines, found.machine.handover_ns) == (3, 0)
