"""What a state reports of an aborted run, once, and what it clears. Arrays are the host's: no GPU."""

from types import SimpleNamespace

import numpy as np
import pytest
from conv_cases import conv, conv_chain
from small_pipelines import pair

from wavesim.errors import DeadlockError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim.safety.hang.mirror import ERRORS
from wavesim.work.convolution.reads import conv_rows
from wavesim_gpu.cusync import sync_state
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


def split_pair(own=()):
    stages = [Stage(name, conv(2, 14, 128, 64, name, split_k=2)) for name in ("first", "second")]
    return SyncState(Pipeline("split", stages, []), StreamSync(), own_tickets=own)


def test_tickets_that_kernels_leave_at_zero_need_no_reset(state, monkeypatch):
    zeroed = []
    monkeypatch.setattr(sync_state.require_cupy().cuda.runtime, "memsetAsync", lambda *_: zeroed.append(True))
    counted, mixed, own = split_pair(), split_pair(["second"]), split_pair(["first", "second"])
    for made in (counted, mixed, own):
        places = sorted((made.tickets(name) - made.words.data.ptr) // 4 for name in ("first", "second"))
        tiles = made.pipeline.stages[0].grid.tiles
        assert 0 < places[0] <= places[1] - tiles <= made.words.size - 2 * tiles
        made.reset(Stream())
    assert len(zeroed) == 2


OWN = ("conv1", "conv2", "conv3")


@pytest.mark.parametrize(
    ("words", "own", "retiring"),
    [
        ("pdl+row", OWN, [False, False, True]),
        ("pdl+tile", OWN, [False, False, True]),
        ("persistent+pdl+row", OWN, [True, True, True]),  # blocks fetch tiles
        ("pdl+row", (), [True, True, True]),  # kernels that retire all their blocks
    ],
)
def test_only_blocks_of_the_last_stage_retire_where_all_posts_are_awaited(state, words, own, retiring):
    made = SyncState(conv_chain(3), parse_plan(words), block_count=99, own_tickets=own)
    counts = [int(made.params(name)["sync"]["block_count"]) for name in made.names]
    assert [count > 0 for count in counts] == retiring
    assert counts[-1] == (99 if retiring[0] else made.pipeline.stages[-1].grid.size)


def test_all_blocks_retire_where_a_post_comes_that_nobody_awaits(state):
    # A tile is a row of pixels, and of 64 rows a stride of 2 leaves the last unread.
    works = conv(1, 64, 64, 64, "first"), conv(1, 64, 64, 64, "second", kernel_size=1, stride=2)
    stages = [Stage(work.name, work) for work in works]
    pipeline = Pipeline("pair", stages, [conv_rows(*stages)])
    made = SyncState(pipeline, parse_plan("pdl+row"), block_count=99, own_tickets=("first", "second"))
    assert [int(made.params(name)["sync"]["block_count"]) for name in made.names] == [99, 99]


def give_up(state):
    """As the device does it where the first wait runs out of its time."""
    errors = state.errors.view(np.ndarray).view(ERRORS)
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
