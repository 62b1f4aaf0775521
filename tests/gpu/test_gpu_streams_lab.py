"""Stream programs on the GPU: sums are right, kernels take their time, streams keep their order."""

import pytest

pytestmark = pytest.mark.gpu


@pytest.fixture
def program_run(runner):
    from wavesim_gpu.bench.labs.streams import program_run

    return program_run


def test_every_vector_addition_is_right_whatever_the_order_of_its_calls(program_run, runner):
    from wavesim.sim.streams.examples import VectorAdd

    for add in (
        VectorAdd(1, 1),
        VectorAdd(4, 8),
        VectorAdd(3, 7, "breadth-first"),
        VectorAdd(4, 4, is_pinned=False),
    ):
        run = program_run.ProgramRun(add.program(runner.device.sm_count))
        assert run.is_sum_right(), add
        assert run.is_sum_right(), add


def test_a_kernel_holds_its_sm_for_as_long_as_it_is_told(program_run, runner):
    from wavesim.sim.streams.examples import SMALL_NS, example

    run = program_run.ProgramRun(example("four kernels, depth-first").make(runner.device.sm_count))
    run.play()
    for start, end in run.kernel_spans().values():
        assert SMALL_NS <= end - start < SMALL_NS + 20_000


def test_kernels_of_a_stream_never_overlap_and_events_and_the_null_stream_hold(program_run, runner):
    from wavesim.sim.streams.examples import example

    sms = runner.device.sm_count
    joined, null = (
        program_run.ProgramRun(example(name).make(sms))
        for name in ("three streams joined by events", "null stream between blocking streams")
    )
    for run in (joined, null):
        run.play()
    spans = joined.kernel_spans()
    assert spans["joined"][0] >= max(spans[name][1] for name in ("k0", "k1", "k2"))
    spans = null.kernel_spans()
    for chain in range(4):
        start, end = spans[f"k{chain}.null"]
        assert spans[f"k{chain}.1"][1] <= start
        assert end <= spans[f"k{chain}.2"][0]
        for step in range(3):
            assert spans[f"k{chain}.{step}"][1] <= spans[f"k{chain}.{step + 1}"][0]
