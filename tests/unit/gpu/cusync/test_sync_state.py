"""What a state reports of an aborted run, once, and what it clears. Arrays are the host's: no GPU."""

from types import SimpleNamespace

import numpy as np
import pytest
from small_pipelines import pair

from wavesim.errors import DeadlockError
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync
from wavesim_gpu.cusync import sync_state
from wavesim_gpu.cusync.layout import ERROR_BUFFER
from wavesim_gpu.cusync.sync_state import LIMIT_S, SyncState


class Array(np.ndarray):
    """An array on the device, as far as a state uses it."""

    def get(self):
        return np.asarray(self).copy()

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


class Stream:
    ptr = 0

    def synchronize(self):
        pass


def memset(address, value, count, stream):
    import ctypes

    ctypes.memset(address, value, count)


@pytest.fixture
def state(monkeypatch):
    cuda = SimpleNamespace(runtime=SimpleNamespace(memsetAsync=memset), get_current_stream=Stream)
    cupy = SimpleNamespace(
        zeros=lambda size, kind: np.zeros(size, kind).view(Array),
        asarray=lambda values: values.view(Array),
        cuda=cuda,
    )
    monkeypatch.setattr(sync_state, "require_cupy", lambda: cupy)
    made = SyncState(pair(), SemaphoreSync(RowSync()))
    made.partials = cupy.zeros(64, np.uint8)
    made.clear_after_abort(made.partials)
    made.words[:], made.partials[:] = 3, 3  # as a run may have left them
    return made


def give_up(state):
    """As the device does it where the first wait runs out of its time."""
    errors = state.errors.view(np.ndarray).view(ERROR_BUFFER)
    errors["aborted"], errors["waiter_count"] = 1, 1
    errors["waiters"][0, 0] = (1, 2, 0, 0, 3, 7, 5, 0, 1, 5)


def test_a_wait_that_gave_up_is_reported_once_and_nothing_of_its_run_is_left(state):
    give_up(state)
    with pytest.raises(DeadlockError, match=r"gemm2 block \(2, 0, 0\) on SM 7 .* seen 1, awaited 5"):
        state.check()
    state.check()
    assert not state.words.any()
    assert not state.partials.any()


def test_a_run_that_is_called_off_is_no_time_out(state):
    state.call_off(Stream())
    assert state.errors[0] != 0  # so that nobody waits
    state.check()


@pytest.mark.parametrize("is_first", [True, False], ids=["before", "after"])
def test_a_time_out_shows_even_where_the_run_was_called_off(state, is_first):
    steps = [give_up, lambda state: state.call_off(Stream())]
    for step in steps if is_first else steps[::-1]:
        step(state)
    with pytest.raises(DeadlockError):
        state.check()


def test_a_program_that_holds_the_gpu_for_seconds_is_no_error(state):
    assert LIMIT_S >= 20
    assert state.params("gemm2")["sync"]["limit_ns"] == LIMIT_S * 1e9
