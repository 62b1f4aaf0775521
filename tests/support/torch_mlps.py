"""MLPs as people write them, under names that nobody uses, and a model that holds some. Needs PyTorch."""

import torch
from torch import nn
from torch.nn import functional

K, N1 = 16, 40


class GatedMlp(nn.Module):
    """As Llama's and Qwen2's, under names that nobody uses."""

    def __init__(self, act=nn.SiLU, bias=False, first=lambda a, b: a * b):
        super().__init__()
        self.one, self.two = nn.Linear(K, N1, bias=bias), nn.Linear(K, N1, bias=bias)
        self.back, self.act, self.first = nn.Linear(N1, K, bias=bias), act(), first

    def forward(self, x):
        return self.back(self.first(self.act(self.two(x)), self.one(x)))


class QuickGelu(nn.Module):
    def forward(self, h):
        return h * torch.sigmoid(1.702 * h)


class PackedMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.both, self.down, self.act = nn.Linear(K, 2 * N1), nn.Linear(N1, K), nn.GELU()

    def forward(self, x):
        gates, values = self.both(x).chunk(2, dim=-1)
        return self.down(values * self.act(gates))


class PlainMlp(nn.Module):
    """Its activation is no module, and its output is as wide as nothing else."""

    def __init__(self, act=functional.relu, dropout=0.0):
        super().__init__()
        self.last, self.first = nn.Linear(N1, 24), nn.Linear(K, N1)
        self.drop, self._act = nn.Dropout(dropout), act

    def forward(self, x):
        return self.drop(self.last(self._act(self.first(x))))


class Model(nn.Module):
    def __init__(self, *blocks, dtype=torch.bfloat16):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(blocks)
        self.to(dtype).eval()

    def forward(self, x):
        return [block(x) for block in self.blocks]


def x_of(rows=6, dtype=torch.bfloat16):
    return torch.randn((2, rows // 2, K), generator=torch.Generator().manual_seed(1)).to(dtype)


def relative_error(got, want) -> float:
    return float(((got.double() - want.double()).norm() / want.double().norm()).detach())
