"""The list of MLPs on a GPU: every contender is captured, timed and right at a small shape of each kind."""

import pytest

from wavesim.bench.case_list import load_list
from wavesim_gpu.bench.kinds.mlp import MlpMeasurer


@pytest.mark.gpu
@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script_method.*:DeprecationWarning"
)  # PyTorch's own, as it compiles
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning")  # of inductor, once
@pytest.mark.filterwarnings("ignore:ExternalStream is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", ["Qwen2.5 0.5B M=48", "LLaMA 65B, 8 GPUs M=7", "GPT-3 175B, 8 GPUs M=100"])
def test_every_contender_of_a_shape_is_timed_and_right(name):
    pytest.importorskip("torch")
    (case,) = (case for case in load_list("mlps").cases if case.name == name)
    result = MlpMeasurer("abc", 5).measure(case)
    assert not result.missing
    assert [row.way for row in result.rows if not row.correct or len(row.ns) != 5] == []
    ways = {row.way for row in result.rows}
    assert {"mlp", "mlp tuned", "library"} <= ways
    assert len([way for way in ways if way.startswith("torch ")]) >= 3
