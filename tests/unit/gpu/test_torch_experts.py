"""Experts of Hugging Face's models are told by what they do, swapped, and put back."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5.0")
from wavesim_gpu.torch import optimize, restore  # noqa: E402

SIDES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128}
GROUPED = {"num_key_value_heads": 2, "intermediate_size": 64}
KINDS = {
    "MixtralExperts": ("MixtralForCausalLM", "MixtralConfig", GROUPED | {"num_local_experts": 4}),
    "Qwen3MoeExperts": (
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        GROUPED | {"num_experts": 8, "moe_intermediate_size": 64, "head_dim": 16},
    ),
}


def model_of(kind, **changes):
    name, config, sides = KINDS[kind]
    torch.manual_seed(0)
    made = getattr(transformers, name)(getattr(transformers, config)(**(SIDES | sides | changes)))
    return made.to(torch.bfloat16).eval()


@pytest.mark.parametrize("kind", KINDS)
def test_experts_are_swapped_compute_the_same_and_come_back(kind):
    model = model_of(kind)
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        expected = model(tokens).logits
        names = [name for name, module in model.named_modules() if type(module).__name__ == kind]
        state = {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
        report = optimize(model)
        assert list(report.experts) == names
        assert f"{names[0]} and 1 more: experts by wavesim_gpu.moe" in str(report)
        assert {type(model.get_submodule(name)).__name__ for name in names} == {f"Fast{kind}"}
        assert torch.equal(model(tokens).logits, expected)  # on a CPU by the module itself
        assert {name: tensor.data_ptr() for name, tensor in model.state_dict().items()} == state
        assert optimize(model).experts == report.experts
        copied = pickle.loads(pickle.dumps(copy.deepcopy(model)))  # noqa: S301  # our own
        assert torch.equal(copied(tokens).logits, expected)
    assert restore(model) >= len(names)
    assert {type(model.get_submodule(name)).__name__ for name in names} == {kind}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hidden_act": "gelu"}, "does not compute down"),
        ({"hidden_size": 96}, "hidden is 96; it must be a multiple of 64"),
    ],
)
def test_what_is_kept_has_a_reason(change, reason):
    report = optimize(model_of("MixtralExperts", **change))
    assert not report.experts
    assert reason in str(report)


def test_other_types_and_hooks_are_kept():
    assert "of float32, not of bfloat16" in str(optimize(model_of("MixtralExperts").float()))
    model = model_of("MixtralExperts")
    experts = next(module for module in model.modules() if type(module).__name__ == "MixtralExperts")
    experts.register_forward_hook(lambda *_: None)
    report = optimize(model)
    assert len(report.experts) == 1
    assert "it has hooks" in str(report)
