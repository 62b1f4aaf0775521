"""The run over MLPs on a GPU: every contender is captured, timed and right at a small shape of each kind."""

import json

import pytest

from wavesim.bench.layer_results import load_layers
from wavesim_gpu.bench.kinds.mlp import run_layers


@pytest.mark.gpu
@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script_method.*:DeprecationWarning"
)  # PyTorch's own, as it compiles
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning")  # of inductor, once
@pytest.mark.filterwarnings("ignore:ExternalStream is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", ["Qwen2.5 0.5B M=48", "LLaMA 65B, 8 GPUs M=7", "GPT-3 175B, 8 GPUs M=100"])
def test_every_contender_of_a_shape_is_timed_and_right(name, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    # As in a process of its own: what tests before have loaded would not be kept in this run's cache.
    monkeypatch.setattr("wavesim_gpu.driver.functions._loaded", {})
    path = run_layers(tmp_path / "layers.json", only=name)
    found = load_layers(path)
    (row,) = found.rows
    assert found.failures == ()
    assert {"mlp", "mlp tuned", "library"} <= set(row.cases)
    assert len([one for one in row.cases if one.startswith("torch ")]) >= 3
    calls = json.loads(path.read_text())["first_calls_of_second_process"]
    assert found.seen_calls[name][1] == 0, json.dumps(calls)  # as text: pytest cuts lists short
