"""Which tensors of a decoder model a decode step reads, told by attributes; what it cannot take, by name.

Example: a Hugging Face Llama, Qwen2, Qwen3 or Mistral has `model.layers[i].self_attn.q_proj` and so on. A
layer with another submodule, a norm that computes something else, a quantised weight are refused before any
launch.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wavesim.errors import DescriptionError
from wavesim_gpu.torch.modules import why_not

LAYER = {"input_layernorm", "self_attn", "post_attention_layernorm", "mlp"}
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
ATTENTION = {*PROJECTIONS, "q_norm", "k_norm", "rotary_emb"}
GATED = ("gate_proj", "up_proj", "down_proj")
MULTIPLIERS = (
    "residual_multiplier",
    "logits_scaling",
    "embedding_multiplier",
    "attention_multiplier",
    "logit_scale",
)
CHANGING_ROTATIONS = ("dynamic", "longrope")
NORM_ERROR = 1e-2


@dataclass(frozen=True)
class DecoderParts:
    """The tensors of a model, by layer where there are several, and its numbers.

    `matrices`: for each layer q, k, v, out, gate, up, down. `biases`: of q, k, v side by side, or None.
    """

    matrices: tuple[tuple[Tensor, ...], ...]
    norms: Tensor
    biases: Tensor | None
    head_norms: Tensor | None
    embedding: Tensor
    head: Tensor
    rotary: Any
    head_size: int
    norm_epsilon: float

    @property
    def heads(self) -> tuple[int, int]:
        """Of queries and of keys."""
        query, key, *_ = self.matrices[0]
        return query.shape[0] // self.head_size, key.shape[0] // self.head_size


def parts_of(model: nn.Module) -> DecoderParts:
    """The parts of a causal language model. Raises `DescriptionError` that names what is in the way."""
    body = getattr(model, "model", model)
    layers = list(_part(body, "layers", "model"))
    head, embedding = _part(model, "lm_head", "model"), _part(body, "embed_tokens", "model")
    _require_plain_numbers(getattr(model, "config", None))
    _require(
        type(embedding) is nn.Embedding, f"embed_tokens is a {type(embedding).__name__}, not an nn.Embedding"
    )
    _require(head.bias is None, "lm_head has a bias")
    for number, layer in enumerate(layers):
        _require_layer(f"layers.{number}", layer)
    norms = [norm for layer in layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
    norms.append(_part(body, "norm", "model"))
    head_size = _head_size(layers[0].self_attn, getattr(model, "config", None))
    parts = DecoderParts(
        matrices=tuple(_matrices(f"layers.{number}", layer) for number, layer in enumerate(layers)),
        norms=torch.stack([_norm_weight("a norm", norm) for norm in norms]),
        biases=_biases(layers),
        head_norms=_head_norms(layers),
        embedding=_weight("embed_tokens", embedding.weight),
        head=_linear("lm_head", head),
        rotary=getattr(body, "rotary_emb", None) or layers[0].self_attn.rotary_emb,
        head_size=head_size,
        norm_epsilon=_epsilon(norms[0]),
    )
    _require(len({_epsilon(norm) for norm in norms}) == 1, "its norms have different epsilons")
    devices = {
        f"{tensor.device}" for row in (*parts.matrices, (parts.embedding, parts.head)) for tensor in row
    }
    is_on_gpu = len(devices) == 1 and parts.embedding.is_cuda
    _require(is_on_gpu, f"its weights are on {' and '.join(sorted(devices))}, not on one GPU")
    return parts


def rotation_table(parts: DecoderParts, length: int) -> Tensor:
    """Cosine and sine of each position and pair of dimensions, (length, head_size / 2, 2), by the model
    itself.
    """
    device = parts.norms.device
    positions = torch.arange(length, device=device)[None]
    with torch.no_grad():
        cosine, sine = parts.rotary(torch.zeros(1, 1, device=device), positions)
    _require(
        cosine.shape[-1] == parts.head_size,
        f"its rotation covers {cosine.shape[-1]} of {parts.head_size} dimensions of a head, not all",
    )
    half = parts.head_size // 2
    return torch.stack([cosine[0, :, :half].float(), sine[0, :, :half].float()], -1).contiguous()


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise DescriptionError(f"a decode step cannot run this model: {text}; call the model itself")


def _part(module: Any, name: str, of: str) -> Any:
    part = getattr(module, name, None)
    _require(part is not None, f"{of} has no {name}")
    return part


def _require_plain_numbers(config: Any) -> None:
    for name in MULTIPLIERS:
        value = getattr(config, name, None)
        _require(value in (None, 1, 1.0), f"its config has {name} {value}")
    scaling = getattr(config, "rope_scaling", None) or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    _require(kind not in CHANGING_ROTATIONS, f"its rotation ({kind}) changes with the length")
    _require(
        getattr(config, "hidden_act", "silu") in ("silu", "swish"),
        f"its activation is {config and config.hidden_act}",
    )


def _require_layer(name: str, layer: nn.Module) -> None:
    children = {child for child, _ in layer.named_children()}
    _require(
        children == LAYER, f"{name} has {', '.join(sorted(children ^ LAYER))} where a Llama layer differs"
    )
    unknown = {child for child, _ in layer.self_attn.named_children()} - ATTENTION
    _require(not unknown, f"{name}.self_attn has {', '.join(sorted(unknown))}")
    mlp = layer.mlp
    unknown = {child for child, _ in mlp.named_children()} - {*GATED, "act_fn"}
    _require(not unknown, f"{name}.mlp has {', '.join(sorted(unknown))}")
    probe = torch.linspace(-4, 4, 9)
    activation = getattr(mlp, "act_fn", nn.functional.silu)
    _require(
        torch.allclose(activation(probe), nn.functional.silu(probe), atol=1e-5),
        f"{name}.mlp.act_fn is no SiLU",
    )


def _matrices(name: str, layer: Any) -> tuple[Tensor, ...]:
    attention = [_linear(f"{name}.self_attn.{part}", getattr(layer.self_attn, part)) for part in PROJECTIONS]
    mlp = [_linear(f"{name}.mlp.{part}", getattr(layer.mlp, part)) for part in GATED]
    for part in (layer.self_attn.o_proj, *(getattr(layer.mlp, gated) for gated in GATED)):
        _require(part.bias is None, f"{name} has a bias behind its attention or in its MLP")
    return (*attention, *mlp)


def _linear(name: str, linear: Any) -> Tensor:
    reason = why_not(linear, nn.Linear)
    _require(not reason, f"{name} is {reason}")
    return _weight(f"{name}.weight", linear.weight)


def _weight(name: str, weight: Tensor) -> Tensor:
    _require(
        weight.dtype == torch.bfloat16,
        f"{name} is of {str(weight.dtype).removeprefix('torch.')}, not of bfloat16",
    )
    _require(
        weight.is_contiguous() and weight.data_ptr() % 16 == 0, f"{name} is not contiguous in 16-byte steps"
    )
    return weight.detach()


def _epsilon(norm: Any) -> float:
    return float(getattr(norm, "variance_epsilon", getattr(norm, "eps", None) or 1e-6))


def _norm_weight(name: str, norm: Any) -> Tensor:
    """The weight of a norm that is seen to be an RMS norm: some multiply by one more than their weight."""
    weight = _weight(f"{name}'s weight", norm.weight)
    x = torch.linspace(-2, 2, weight.numel(), device=weight.device)[None].to(weight.dtype)
    with torch.no_grad():
        got = norm(x).float()
    want = x.float() * torch.rsqrt(x.float().square().mean() + _epsilon(norm)) * weight.float()
    is_alike = bool((got - want).norm() <= NORM_ERROR * want.norm())
    _require(is_alike, f"{type(norm).__name__} is not the root-mean-square norm of its weight")
    return weight


def _biases(layers: list[Any]) -> Tensor | None:
    rows = [[getattr(layer.self_attn, part).bias for part in PROJECTIONS[:3]] for layer in layers]
    if all(bias is None for row in rows for bias in row):
        return None
    _require(
        all(bias is not None for row in rows for bias in row), "some of q, k and v have a bias, others none"
    )
    return torch.stack([torch.cat([_weight("a bias", bias) for bias in row]) for row in rows])


def _head_norms(layers: list[Any]) -> Tensor | None:
    pairs = [
        (getattr(layer.self_attn, "q_norm", None), getattr(layer.self_attn, "k_norm", None))
        for layer in layers
    ]
    if all(norm is None for pair in pairs for norm in pair):
        return None
    _require(
        all(norm is not None for pair in pairs for norm in pair), "some of its heads have norms, others none"
    )
    return torch.stack(
        [torch.stack([_norm_weight("a head's norm", norm) for norm in pair]) for pair in pairs]
    )


def _head_size(attention: Any, config: Any) -> int:
    size = getattr(attention, "head_dim", None) or getattr(config, "head_dim", None)
    if size is None:
        heads = getattr(config, "num_attention_heads", None) or getattr(attention, "num_heads", 0)
        _require(
            bool(heads), "neither self_attn.head_dim nor config.num_attention_heads says how large a head is"
        )
        size = attention.q_proj.weight.shape[0] // heads
    return int(size)
