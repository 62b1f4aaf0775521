"""Torch's forms of an MLP compute what the reference says, and a wrong output is noticed; on the CPU."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="pip install torch")

from wavesim.bench.case_list import load_list  # noqa: E402
from wavesim_gpu.bench.kinds.mlp_operands import LayerShape, random_layer, reference, verdict  # noqa: E402
from wavesim_gpu.bench.libraries.torch_forms import torch_form  # noqa: E402  # after the skip

SMALL = {"m": 24, "k": 64, "n1": 96, "n2": 64}


def small(model: str):
    shape = LayerShape.of(
        next(case.fields for case in load_list("mlps").cases if case.name.startswith(model))
    )
    return replace(shape, mlp=replace(shape.mlp, **SMALL))


@pytest.mark.parametrize(
    ("model", "form"),
    [
        ("GPT-3", "eager"),
        ("GPT-3", "fused bias and GELU"),
        ("Llama 3", "eager"),
        ("Llama 3", "packed"),
        ("Qwen2.5 0.5B", "eager"),
    ],
)
def test_a_form_computes_the_mlp(model, form):
    shape = small(model)
    operands = random_layer(torch, shape, seed=3, device="cpu")
    found = torch_form(torch, shape, form)(operands)
    said = verdict(shape, found, reference(torch, shape, operands))
    assert said["is_good"], said
    assert said["rms_roundings"] < 2


def test_an_output_with_one_wrong_tile_or_a_nan_is_not_good():
    shape = small("Llama 3")
    operands = random_layer(torch, shape, seed=4, device="cpu")
    expected = reference(torch, shape, operands)
    right = expected.to(torch.bfloat16)
    assert verdict(shape, right, expected)["is_good"]
    for value in (0.0, float("nan")):
        wrong = right.clone()
        wrong[:8, :8] = value
        assert not verdict(shape, wrong, expected)["is_good"]
    assert not verdict(shape, right * 1.1, expected)["is_good"]


def test_a_gate_that_is_swapped_with_its_values_is_noticed():
    shape = small("Qwen2.5 7B")
    operands = random_layer(torch, shape, seed=5, device="cpu")
    swapped = replace(operands, gate=operands.up, up=operands.gate)
    found = torch_form(torch, shape, "eager")(swapped)
    assert not verdict(shape, found, reference(torch, shape, operands))["is_good"]
