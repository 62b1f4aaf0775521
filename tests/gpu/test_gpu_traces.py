"""What the GPU records is a Trace like the simulator's: whole, ordered, within the device's limits."""

import numpy as np
import pytest
from small_pipelines import fork, pair

from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.trace.trace import Trace

pytestmark = pytest.mark.gpu
PLANS = [StreamSync(), SemaphoreSync(RowSync()), SemaphoreSync(TileSync())]


@pytest.fixture(scope="module")
def traces(runner):
    from wavesim.workloads.mlps import gpt3_mlp

    found = []
    for pipeline in [
        pair(m=1000, hidden=1024, n=512),
        pair(m=1000, hidden=1024, n=512, split_k=2),
        fork(m=1000),
        gpt3_mlp(512),
    ]:
        found += [(pipeline, trace) for trace in runner.measure(pipeline, PLANS, rounds=3)]
    return found


def test_every_tile_and_slice_is_there_once(traces):
    for pipeline, trace in traces:
        for index, stage in enumerate(pipeline.stages):
            rows = trace.stage == index
            seen = set(
                zip(trace.x[rows].tolist(), trace.y[rows].tolist(), trace.z[rows].tolist(), strict=True)
            )
            assert rows.sum() == stage.grid.size == len(seen)
            assert seen == {(x, y, z) for x, y in stage.grid for z in range(stage.grid.z)}


def test_no_consumer_tile_ends_before_a_producer_tile_it_reads(traces):
    for pipeline, trace in traces:
        for dependency in pipeline.dependencies:
            consumer = trace.rows_of(dependency.consumer.stage.name)
            for row in np.flatnonzero(consumer):
                for name, (px, py) in dependency.producer_tiles(int(trace.x[row]), int(trace.y[row])):
                    producer = trace.rows_of(name) & (trace.x == px) & (trace.y == py)
                    assert trace.end_ns[row] >= trace.end_ns[producer].max() - 2 * trace.header.timer_step_ns
                if trace.header.stages[0].grid[0] > 20:
                    break  # one row of tiles is enough of the large pipeline


def test_no_sm_holds_more_blocks_than_it_has_room_for(traces):
    for _, trace in traces:
        most = max(info.blocks_per_sm for info in trace.header.stages)
        assert trace.slot.max() < most
        for info in trace.header.stages:
            assert info.blocks_per_sm >= 1


def test_times_and_cycles_are_plausible(traces):
    for _, trace in traces:
        assert trace.issue_ns.min() == 0
        assert (trace.end_ns > trace.start_ns).all()
        assert (trace.wait_ns <= trace.end_ns - trace.start_ns).all()
        assert trace.cycles is not None
        assert (trace.cycles > 0).all()
        assert 300 < trace.header.clock_mhz < 2500
        assert (trace.sm >= 0).all()
        assert (trace.sm < trace.header.sm_count).all()
        assert len(trace.header.rounds_ns) == 3
        assert trace.header.timer_step_ns >= 1


def test_stream_sync_never_waits_and_never_overlaps(traces):
    for pipeline, trace in traces:
        if trace.header.plan == "stream":
            assert (trace.wait_ns == 0).all()
            for index in range(1, len(pipeline.stages)):
                before, after = trace.stage < index, trace.stage == index
                assert trace.start_ns[after].min() >= trace.end_ns[before].max() - trace.header.timer_step_ns


def test_semaphore_plans_note_their_wait_kernels_and_policies(traces):
    for pipeline, trace in traces:
        if trace.header.plan != "stream":
            assert {event.stage for event in trace.events} == {
                d.consumer.stage.name for d in pipeline.dependencies
            }
            assert {info.policy for info in trace.header.dependencies} == {trace.header.plan}


def test_a_trace_survives_saving_and_loading(traces, tmp_path):
    _, trace = traces[-1]
    again = Trace.load(trace.save(tmp_path / "trace.npz"))
    assert (again.end_ns == trace.end_ns).all()
    assert again.header.versions["kernel_sources"] == trace.header.versions["kernel_sources"]
