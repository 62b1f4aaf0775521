"""A model that a decode step cannot run is refused by name, before any GPU is asked."""

import pytest

from wavesim.errors import DescriptionError

torch = pytest.importorskip("torch")
from small_decoders import HIDDEN, small_decoder  # noqa: E402  # needs PyTorch
from torch import nn  # noqa: E402  # as above

from wavesim_gpu.torch import decode  # noqa: E402  # as above


def gelu(model):
    model.model.layers[1].mlp.act_fn = nn.GELU()


def sandwich(model):
    model.model.layers[2].pre_feedforward_layernorm = nn.Identity()


def half(model):
    model.model.layers[0].self_attn.k_proj.half()


def scaled(model):
    model.config.logits_scaling = 8.0


def biased_mlp(model):
    model.model.layers[0].mlp.down_proj = nn.Linear(1536, HIDDEN, dtype=torch.bfloat16)


def adapted(model):
    model.model.layers[0].self_attn.q_proj = nn.Sequential(model.model.layers[0].self_attn.q_proj)


def headless(model):
    del model.lm_head


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (gelu, "layers.1.mlp.act_fn is no SiLU"),
        (sandwich, "layers.2 has pre_feedforward_layernorm where"),
        (half, r"layers.0.self_attn.k_proj.weight is of float16, not of bfloat16"),
        (scaled, "its config has logits_scaling 8.0"),
        (biased_mlp, "layers.0 has a bias behind its attention or in its MLP"),
        (adapted, "layers.0.self_attn.q_proj is a Sequential"),
        (headless, "model has no lm_head"),
        (lambda model: None, "its weights are on cpu, not on one GPU"),
    ],
)
def test_what_is_in_the_way_is_named(change, words):
    model = small_decoder("llama").bfloat16()
    change(model)
    with pytest.raises(DescriptionError, match=words):
        decode(model)


def test_a_window_shorter_than_the_cache_is_refused_and_so_is_no_model():
    with pytest.raises(DescriptionError, match=r"model is a int; give a torch.nn.Module"):
        decode(3)
    with pytest.raises(DescriptionError, match="max_length"):
        decode(small_decoder("llama"), max_length=0)
