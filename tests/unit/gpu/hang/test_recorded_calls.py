"""What a recorder is told of a call of `mlp` on our kernels. The GPU notes what is launched."""

import pytest
from noted_gpu import noted_calls

from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim_gpu.hang import launch_recorder
from wavesim_gpu.layers.description import MlpCall, MlpShape
from wavesim_gpu.layers.planned import PlannedMlp

SHAPE = MlpShape(300, 128, 256, 192, "fp16", "gelu")
ADDRESSES = {"x": 0x10000, "w1": 0x20000, "w2": 0x30000, "out": 0x40000, "scratch": 0x50000}
STRIDES = {"x_stride": 128, "w1_stride": 256, "w2_stride": 192}


@pytest.fixture
def gpu(monkeypatch):
    yield from noted_calls(monkeypatch)


def mlp():
    tile = (128, 256, 64)
    first = Gemm("gemm1", SHAPE.m, SHAPE.n1, SHAPE.k, *tile, dtype=SHAPE.dtype, activation=SHAPE.activation)
    second = Gemm("gemm2", SHAPE.m, SHAPE.n2, SHAPE.n1, *tile, dtype=SHAPE.dtype)
    stages = [Stage("gemm1", first, "hopper"), Stage("gemm2", second, "hopper")]
    pipeline = Pipeline("mlp", stages, [gemm_rows(*stages)])
    return PlannedMlp(SHAPE, pipeline, parse_plan("pdl+row"))


def test_a_call_is_told_before_its_launches_and_a_captured_one_is_not(gpu, monkeypatch):
    told = []

    class Recorder:
        def note_planned(self, run):
            told.append((run, len(gpu.driver_launches())))

    monkeypatch.setattr(launch_recorder, "_active", [Recorder()])
    way = mlp()
    for is_captured in (False, True, False):
        gpu.is_capturing = is_captured
        stream = {"stream": gpu.stream.ptr, "device": 0, "is_captured": is_captured, "limit_ns": 7}
        way.run(MlpCall(**ADDRESSES, **STRIDES, **stream))
    assert [count for _, count in told] == [0, 4]
    run = told[0][0]
    assert run is told[1][0]
    assert [(launch.stages, launch.shape.is_dependent) for launch in run.launches] == [
        (("gemm1",), True),
        (("gemm2",), True),
    ]
    assert list(run.addresses) == [gpu.stream.ptr]
    assert run.waits() == [{"waiter": "gemm2", "producer": "gemm1", "blocks": "row", "rows": 3}]
