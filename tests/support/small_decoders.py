"""Small decoder models in plain PyTorch with the attributes of Hugging Face's Llama, Qwen2 and Qwen3."""

from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional

HIDDEN, INNER, HEADS, KV_HEADS, HEAD_SIZE, LAYERS, VOCABULARY = 512, 1536, 8, 2, 64, 3, 1024


class RMSNorm(nn.Module):
    """x over its root mean square, times a weight."""

    def __init__(self, size):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(1 + 0.2 * torch.randn(size)), 1e-6

    def forward(self, x):
        square = x.float().square().mean(-1, keepdim=True)
        return self.weight * (x.float() * torch.rsqrt(square + self.variance_epsilon)).to(x.dtype)


class Rotary(nn.Module):
    """Cosine and sine of positions, both halves of a head alike."""

    def forward(self, x, positions):
        frequencies = 1e4 ** (-torch.arange(0, HEAD_SIZE, 2, device=positions.device) / HEAD_SIZE)
        angles = positions[..., None].float() * frequencies
        angles = torch.cat([angles, angles], -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


class Attention(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.head_dim, has_bias = HEAD_SIZE, kind == "qwen2"
        self.q_proj = nn.Linear(HIDDEN, HEADS * HEAD_SIZE, bias=has_bias)
        self.k_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD_SIZE, bias=has_bias)
        self.v_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD_SIZE, bias=has_bias)
        self.o_proj = nn.Linear(HEADS * HEAD_SIZE, HIDDEN, bias=False)
        if kind == "qwen3":
            self.q_norm, self.k_norm = RMSNorm(HEAD_SIZE), RMSNorm(HEAD_SIZE)

    def forward(self, x, cosine, sine):
        heads = [
            part(x).unflatten(-1, (-1, HEAD_SIZE)).transpose(1, 2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        ]
        if hasattr(self, "q_norm"):
            heads[:2] = self.q_norm(heads[0]), self.k_norm(heads[1])
        query, key = (rotated(part, cosine, sine) for part in heads[:2])
        out = functional.scaled_dot_product_attention(query, key, heads[2], is_causal=True, enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).flatten(-2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.up_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, HIDDEN, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(HIDDEN), RMSNorm(HIDDEN)
        self.self_attn, self.mlp = Attention(kind), Mlp()

    def forward(self, x, cosine, sine):
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, kind):
        super().__init__()
        body = nn.Module()
        body.embed_tokens, body.norm, body.rotary_emb = (
            nn.Embedding(VOCABULARY, HIDDEN),
            RMSNorm(HIDDEN),
            Rotary(),
        )
        body.layers = nn.ModuleList(Layer(kind) for _ in range(LAYERS))
        self.model, self.lm_head = body, nn.Linear(HIDDEN, VOCABULARY, bias=False)
        self.config = SimpleNamespace(hidden_act="silu", vocab_size=VOCABULARY, num_attention_heads=HEADS)

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens)
        cosine, sine = self.model.rotary_emb(x, torch.arange(tokens.shape[1], device=tokens.device)[None])
        for layer in self.model.layers:
            x = layer(x, cosine[:, None], sine[:, None])
        return self.lm_head(self.model.norm(x))


def rotated(x, cosine, sine):
    """Each half of the heads with the other."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


def small_decoder(kind):
    """A model of that kind with random weights, the same each time."""
    torch.manual_seed(5)
    return Decoder(kind).eval()
