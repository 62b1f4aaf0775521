"""The layers of a decoder at one token a sequence: by one persistent kernel, by PyTorch, and what must be
read.

Example: `DecodeLayers(sizes, batch=1, keys=512)` has weights and caches of its own for each layer; `ours`
is one launch for all layers, `eager` what a model's code does, op by op, and `reference` the same in fp32.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.kernels.decode.decode_launch import DecodeLaunch, StepAddresses
from wavesim_gpu.kernels.decode.shape import DecodeShape

EPSILON, THETA = 1e-5, 1e6
NAMES = ("q", "k", "v", "out", "gate", "up", "down", "keys", "values")


@dataclass(frozen=True)
class LayerSizes:
    """Of a model, in elements; `layers` are timed."""

    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_size: int
    layers: int
    has_bias: bool = False
    has_head_norm: bool = False


class DecodeLayers:
    """Random layers on the current GPU, and one token of each sequence behind `keys - 1` others."""

    def __init__(self, sizes: LayerSizes, batch: int, keys: int, seed: int = 0, device: str = "cuda") -> None:
        self.sizes, self.batch, self.keys, self.device = sizes, batch, keys, device
        self._random = torch.Generator(device=device).manual_seed(seed)
        s, wide = sizes, sizes.heads * sizes.head_size
        narrow, cache = s.kv_heads * s.head_size, (batch, s.kv_heads, keys, s.head_size)
        shapes = dict(
            zip(
                NAMES[:7],
                ((wide, s.hidden), (narrow, s.hidden), (narrow, s.hidden), (s.hidden, wide)),
                strict=False,
            )
        )
        shapes |= {"gate": (s.inner, s.hidden), "up": (s.inner, s.hidden), "down": (s.hidden, s.inner)}
        self.layers = [
            {
                **{name: self.normal(*shape, scale=shape[1] ** -0.5) for name, shape in shapes.items()},
                **{name: self.normal(*cache) for name in NAMES[7:]},
            }
            for _ in range(s.layers)
        ]
        self.norms = self.normal(2 * s.layers + 1, s.hidden, scale=0.2) + 1
        self.biases = self.normal(s.layers, wide + 2 * narrow, scale=0.5) if s.has_bias else None
        self.head_norms = self.normal(s.layers, 2, s.head_size, scale=0.2) + 1 if s.has_head_norm else None
        frequencies = THETA ** (-torch.arange(0, s.head_size, 2, device=device) / s.head_size)
        angles = torch.arange(keys, device=device)[:, None] * frequencies
        self.rotary = torch.stack([angles.cos(), angles.sin()], -1).contiguous()
        self.x, self.out = self.normal(batch, s.hidden), self.normal(batch, s.hidden)
        self.positions = torch.full((batch,), keys - 1, dtype=torch.int32, device=device)

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Random bf16 numbers."""
        return (torch.randn(shape, generator=self._random, device=self.device) * scale).bfloat16()

    def launch(
        self,
        build: Build | None = None,
        limit_ns: int = 2_000_000_000,
        **options: Any,
    ) -> DecodeLaunch:
        """Our kernel for all layers, from `x` to `out`; `options` are fields of `DecodeShape` beside those
        tuned.
        """
        s = self.sizes
        shape = DecodeShape(
            s.hidden, s.inner, s.heads, s.kv_heads, s.head_size, self.batch, s.has_bias, s.has_head_norm
        ).tuned(self.keys, **options)
        optional = {"biases": self.biases, "head_norms": self.head_norms}
        addresses = StepAddresses(
            layers=tuple(tuple(layer[name].data_ptr() for name in NAMES) for layer in self.layers),
            norms=self.norms.data_ptr(), rotary=self.rotary.data_ptr(), positions=self.positions.data_ptr(),
            input=self.x.data_ptr(), output=self.out.data_ptr(),
            **{name: tensor.data_ptr() for name, tensor in optional.items() if tensor is not None},
        )  # fmt: skip
        torch.cuda.synchronize()  # what was made here is read on other streams
        return DecodeLaunch(
            shape,
            addresses,
            max_length=self.keys,
            keys=self.keys,
            norm_epsilon=EPSILON,
            build=build,
            limit_ns=limit_ns,
        )

    def bytes_read(self) -> int:
        """Weights, keys and values of all layers, each once."""
        return sum(
            layer[name].numel() * layer[name].element_size() for layer in self.layers for name in NAMES
        )

    def fuse(self) -> None:
        """What a library's model does ahead: q, k and v as one matrix, gate and up as one. Ours stay where
        its kernel reads them.
        """
        for layer in self.layers:
            layer["qkv"] = torch.cat([layer[name] for name in "qkv"])
            layer["gate_up"] = torch.cat([layer["gate"], layer["up"]])

    def eager(self, way: Callable[..., Any] | None = None) -> Tensor:
        """All layers in PyTorch, op by op, of fused matrices; the cache is written in place. `way` is
        `layer_in_torch`, perhaps compiled: once for all layers, which have the same shapes.
        """
        x, added = self.x, torch.zeros_like(self.x)
        for number, layer in enumerate(self.layers):
            bias = None if self.biases is None else self.biases[number]
            norms, angles = self.norms[2 * number : 2 * number + 2], self.rotary[self.keys - 1]
            x, added = (way or layer_in_torch)(x, added, layer, norms, bias, angles, self.sizes.head_size)
        return x + added

    def reference(self, at: int) -> Tensor:
        """All layers in fp32 for tokens at position `at`; the caches are left as they are. Before `fuse`."""
        x, s, batch = self.x.float(), self.sizes, self.batch
        cosine, sine = self.rotary[at].unbind(-1)
        for number, bf16 in enumerate(self.layers):
            layer = {name: tensor.float() for name, tensor in bf16.items()}
            norm = _normed(x, self.norms[2 * number])
            parts = torch.cat([norm @ layer[name].T for name in "qkv"], -1)
            parts = parts if self.biases is None else parts + self.biases[number].float()
            heads = parts.view(batch, -1, s.head_size)
            query, key, value = heads.split([s.heads, s.kv_heads, s.kv_heads], 1)
            if self.head_norms is not None:
                query, key = (
                    _normed(t, w) for t, w in zip((query, key), self.head_norms[number], strict=True)
                )
            keys, values = layer["keys"][:, :, : at + 1], layer["values"][:, :, : at + 1]
            keys[:, :, at], values[:, :, at] = _rotated(key, cosine, sine), value
            query = _rotated(query, cosine, sine)[:, :, None]
            attended = functional.scaled_dot_product_attention(query, keys, values, enable_gqa=True)
            x = x + attended.reshape(batch, -1) @ layer["out"].T
            norm = _normed(x, self.norms[2 * number + 1])
            x = x + (functional.silu(norm @ layer["gate"].T) * (norm @ layer["up"].T)) @ layer["down"].T
        return x


def layer_in_torch(
    x: Tensor,
    added: Tensor,
    layer: Mapping[str, Tensor],
    norms: Tensor,
    bias: Tensor | None,
    angles: Tensor,
    head_size: int,
) -> tuple[Tensor, Tensor]:
    """One layer for the token at the cache's last place, of the sum of two; returns two whose sum is its
    result. A compiler so fuses that sum with the norm behind it, as it would in the whole model.
    """
    keys, values = layer["keys"], layer["values"]
    batch, kv_heads, hidden = x.shape[0], keys.shape[1], x.shape[1:]
    x = x + added
    norm = functional.rms_norm(x, hidden, norms[0], EPSILON)
    narrow = kv_heads * head_size
    joined = functional.linear(norm, layer["qkv"], bias)
    query, key, value = joined.split([joined.shape[1] - 2 * narrow, narrow, narrow], -1)
    cosine, sine = angles.unbind(-1)
    keys[:, :, -1] = _rotated(key.view(batch, kv_heads, -1), cosine, sine).bfloat16()
    values[:, :, -1] = value.view(batch, kv_heads, -1)
    query = _rotated(query.view(batch, -1, 1, head_size), cosine, sine).bfloat16()
    attended = functional.scaled_dot_product_attention(query, keys, values, enable_gqa=True)
    x = x + functional.linear(attended.reshape(batch, -1), layer["out"])
    norm = functional.rms_norm(x, hidden, norms[1], EPSILON)
    gate, up = functional.linear(norm, layer["gate_up"]).chunk(2, -1)
    return x, functional.linear(functional.silu(gate) * up, layer["down"])


def _normed(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * weight.float()


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)
