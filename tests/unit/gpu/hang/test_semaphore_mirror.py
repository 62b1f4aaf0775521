"""A mirror file holds what counters hold, while they change. The device's memory is the host's."""

import ctypes
import time
from types import SimpleNamespace

import numpy as np
import pytest
from small_pipelines import pair

from wavesim.errors import DescriptionError, OutputError
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync
from wavesim.safety.hang.mirror import ERRORS, load_mirror
from wavesim_gpu.cusync import sync_state
from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch
from wavesim_gpu.hang import semaphore_mirror
from wavesim_gpu.hang.semaphore_mirror import SemaphoreMirror, counters, mirror_semaphores, of_state
from wavesim_gpu.run import launches


class Array(np.ndarray):
    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


class Stream:
    """Made on a device with nothing on it; notes how it was made."""

    ptr = 0
    made: list = []  # noqa: RUF012  # of the test

    def __init__(self, **options):
        Stream.made.append(options)

    def synchronize(self):
        pass


class Device:
    id = 0

    def __init__(self, *numbers):
        pass

    def synchronize(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *caught):
        return False


class MadeUpFacts:
    def stream(self, address):
        return {"stream": f"{address:#x}", "blocking": False, "priority": 0, "device": "gpu0"}

    def part(self, address):
        return {"name": "gpu0", "device": "NVIDIA H200", "sm_count": 132}


@pytest.fixture
def pinned(monkeypatch):
    """A GPU whose memory is the host's; the list has the addresses that are pinned now."""
    found = []

    def copy(to, source, size, kind, stream):
        assert kind == semaphore_mirror.DEVICE_TO_HOST
        assert found, "the file's memory is not pinned"
        ctypes.memmove(to, source, size)

    runtime = SimpleNamespace(
        hostRegister=lambda address, size, flags: found.append(address),
        hostUnregister=found.remove,
        memcpyAsync=copy,
    )
    cupy = SimpleNamespace(
        zeros=lambda size, kind: np.zeros(size, kind).view(Array),
        asarray=lambda values: values.view(Array),
        cuda=SimpleNamespace(runtime=runtime, Stream=Stream, Device=Device),
    )
    for module in (semaphore_mirror, sync_state, launches):
        monkeypatch.setattr(module, "require_cupy", lambda: cupy)
    monkeypatch.setattr(semaphore_mirror, "_first_priority", lambda: -5)
    monkeypatch.setattr(semaphore_mirror, "LaunchFacts", MadeUpFacts)
    return found


def words(*values):
    return np.array(values, np.uint32).view(Array)


def test_counters_of_ones_own_are_copied_under_their_names(pinned, tmp_path):
    device = words(3, 4, 5)
    part = counters("flags", device.data.ptr, 3, operation="first", awaited=[4, 4, 4], waiters=["second"])
    with SemaphoreMirror(tmp_path / "mirror", [part]) as mirror:
        assert len(pinned) == 1
        mirror.copy()
        device[1] = 9
        before = load_mirror(tmp_path / "mirror")
        mirror.copy()
        after = load_mirror(tmp_path / "mirror")
    assert pinned == []
    (array,) = before.arrays
    assert (array.name, array.operation, array.kind, array.waiters) == (
        "flags",
        "first",
        "semaphores",
        ("second",),
    )
    assert (list(array.values), list(array.awaited)) == ([3, 4, 5], [4, 4, 4])
    assert (before.copies, after.copies) == (1, 2)
    assert list(after.arrays[0].values) == [3, 9, 5]
    assert list(load_mirror(tmp_path / "mirror").arrays[0].values) == [3, 9, 5]  # the file stays


def test_a_thread_copies_while_counters_move_and_once_more_at_the_end(pinned, tmp_path):
    device, path = words(0), tmp_path / "mirror"
    part = counters("flag", device.data.ptr, 1, operation="first")
    with mirror_semaphores(path, part, every_ms=1) as mirror:
        until = time.monotonic() + 30
        for value in range(1, 4):
            device[0] = value
            while load_mirror(path).arrays[0].values[0] != value:
                assert time.monotonic() < until
        device[0] = 77
    assert load_mirror(path).arrays[0].values[0] == 77
    assert load_mirror(path).copies == mirror.copies >= 4
    assert Stream.made[-1] == {"non_blocking": True, "priority": -5}


def test_a_programs_semaphores_and_error_buffer_are_named(pinned, tmp_path):
    state = SyncState(pair(), SemaphoreSync(RowSync()))
    rows = pair().stages[0].grid.y
    state.words[3 : 3 + rows] = np.arange(rows)
    errors = state.errors.view(np.ndarray).view(ERRORS)
    errors["waiter_count"] = 1
    errors["waiters"][0][0] = (1, 2, 0, 0, 3, 17, 0, 0, 0, 5)
    with SemaphoreMirror(tmp_path / "mirror", of_state(state)) as mirror:
        mirror.copy()
    found = load_mirror(tmp_path / "mirror")
    semaphores = next(array for array in found.arrays if array.kind == "semaphores")
    assert (semaphores.operation, semaphores.waiters) == ("gemm1", ("gemm2",))
    assert list(semaphores.values) == list(range(rows))
    assert set(semaphores.awaited) == {pair().stages[0].grid.x}
    (waiter,) = found.gave_up
    assert (waiter.stage, waiter.tile, waiter.sm, waiter.semaphore) == (
        "gemm2",
        (2, 0, 0),
        17,
        "gemm1 row[0]",
    )


def test_of_a_program_the_file_also_says_what_it_launches_and_what_waits(pinned, tmp_path):
    state = SyncState(pair(), SemaphoreSync(RowSync()))
    function = SimpleNamespace(registers=96, static_shared_bytes=16)
    kernels = [
        DeviceLaunch(function, KernelLaunch("gemm", 128, 4096, stage.grid.size), (), index, (stage.name,))
        for index, stage in enumerate(pair().stages)
    ]
    program = launches.Launches(state, kernels, 2)
    with mirror_semaphores(tmp_path / "mirror", program, every_ms=1):
        pass
    found = load_mirror(tmp_path / "mirror").situation
    assert [(one.name, one.block.registers) for one in found.operations] == [("gemm1", 96), ("gemm2", 96)]
    assert [(wait.waiter, wait.producer, wait.blocks) for wait in found.waits] == [("gemm2", "gemm1", "row")]
    assert found.device("gpu0").sm_count == 132
    with (
        pytest.raises(DescriptionError, match="takes one program"),
        mirror_semaphores(tmp_path / "mirror", program, program),
    ):
        pass


def test_many_long_names_move_the_arrays_to_a_later_page(pinned, tmp_path):
    device = words(*range(500))
    parts = [
        counters(f"semaphore {index} " + "x" * 100, device.data.ptr + 4 * index, 1, operation="first")
        for index in range(500)
    ]
    with SemaphoreMirror(tmp_path / "mirror", parts) as mirror:
        mirror.copy()
    assert [int(array.values[0]) for array in load_mirror(tmp_path / "mirror").arrays] == list(range(500))


def test_a_file_that_cannot_be_pinned_is_refused_with_the_place_to_use(pinned, tmp_path, monkeypatch):
    def refused(address, size, flags):
        raise RuntimeError("cudaErrorInvalidValue: invalid argument")

    monkeypatch.setattr(semaphore_mirror.require_cupy().cuda.runtime, "hostRegister", refused)
    with pytest.raises(
        OutputError, match=r"does not pin this file \(cudaErrorInvalid.*Use a path in /dev/shm"
    ):
        SemaphoreMirror(tmp_path / "mirror", [])


@pytest.mark.parametrize("every_ms", [0, -1, float("nan"), 1e9])
def test_copies_come_in_a_reasonable_time(pinned, tmp_path, every_ms):
    with (
        pytest.raises(DescriptionError, match="every_ms is"),
        mirror_semaphores(tmp_path / "mirror", every_ms=every_ms),
    ):
        pass
