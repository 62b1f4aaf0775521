"""A user's model tried on a GPU: timed in graphs or from Python, compared, told, and left as it was."""

import json

import pytest

from wavesim_gpu.__main__ import main

pytestmark = pytest.mark.gpu
quiet = pytest.mark.filterwarnings("ignore")  # what torch and transformers warn of is theirs
pytest.importorskip("torch")
pytest.importorskip("transformers")

LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(3)
config = LlamaConfig(
    hidden_size=1024, intermediate_size=2816, num_attention_heads=8, num_key_value_heads=8,
    num_hidden_layers=3, vocab_size=512, use_cache=False,
)
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
inputs = {"input_ids": torch.randint(0, 512, (1, 512), device="cuda")}
"""
# A copy to the host, which no graph takes, and a random mask, which a failed capture must leave in order.
UNCAPTURABLE = """
def step(model, inputs):
    with torch.no_grad():
        logits = model(**inputs).logits
    assert float(logits.float().abs().max()) > 0
    return torch.nn.functional.dropout(logits, 0.1)
"""
WRITES = """
def step(model, inputs):
    with torch.no_grad():
        model.lm_head.weight.mul_(1.0)
        return model(**inputs).logits
"""
TRAINS = """
def step(model, inputs):
    logits = model(**inputs).logits
    model.zero_grad()
    logits.float().square().mean().backward()
    return logits
"""


def tried(folder, text, *options):
    """The result of the command on such a file, and its status."""
    (folder / "mine.py").write_text(text)
    out = folder / "out.json"
    status = main(["try", str(folder / "mine.py"), "--json", str(out), "--rounds", "5", *options])
    return status, json.loads(out.read_text()) if out.exists() else None


@quiet
def test_a_model_is_timed_in_graphs_and_the_last_line_is_the_verdict(tmp_path, capsys):
    status, found = tried(tmp_path, LLAMA, "--html", str(tmp_path / "page.html"))
    assert status == 0
    assert found["how"] == "CUDA graphs", found["notes"]
    assert [len(program["times_ns"]) for program in found["programs"]] == [5, 5, 5]
    assert found["outputs"]["relative_error"] < 0.05
    (group,) = found["mlps"]
    assert (len(group["names"]), group["shape"]["m"], group["shape"]["k"]) == (3, 512, 1024)
    assert group["measured_after"] is not None, group["note"]
    assert len(found["advice"]) == 3, found["notes"]
    told = capsys.readouterr().out.strip().splitlines()
    assert told[-1].startswith(("Verdict: gains", "Verdict: leave it as it is"))
    assert "<svg" in (tmp_path / "page.html").read_text()


@quiet
def test_a_step_that_no_graph_takes_is_timed_from_python(tmp_path):
    status, found = tried(tmp_path, LLAMA + UNCAPTURABLE)
    assert status == 0
    assert found["how"] == "calls from Python"
    assert any("not captured in a CUDA graph" in note for note in found["notes"])
    assert len(found["programs"]) == 3


@quiet
def test_a_step_with_a_backward_pass_is_compared_and_timed(tmp_path):
    status, found = tried(tmp_path, LLAMA + TRAINS, "--no-graph")
    assert status == 0
    assert found["outputs"]["relative_error"] < 0.05


@quiet
def test_torch_compile_is_compared_too(tmp_path):
    _, found = tried(tmp_path, LLAMA, "--compile")
    assert len(found["programs"]) == 5, found["notes"]


@quiet
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LLAMA + WRITES, "a step changes the weights (lm_head.weight)"),
        (LLAMA.replace('.to("cuda", torch.bfloat16)', ".to(torch.bfloat16)"), "the model is on cpu"),
        (LLAMA.replace('(1, 512), device="cuda")', "(1, 512))"), "RuntimeError"),
    ],
    ids=["writes", "cpu model", "cpu inputs"],
)
def test_what_cannot_be_tried_is_one_line_and_status_two(tmp_path, capsys, text, said):
    assert tried(tmp_path, text) == (2, None)
    assert said in capsys.readouterr().err.strip().splitlines()[-1]
