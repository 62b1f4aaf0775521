"""A fused MoE layer in Triton in the manner of vLLM's, written as a baseline: align, GEMM with a gather on
load, activation, GEMM that multiplies by the router's weights on store, a sum over the choices.

Example: `TritonMoe(config)(x, w1, w2, ids, weights)`; `CONFIGS` are what is tried per case, like vLLM's
tuned files. Tiles have `rows` rows of one expert; rows past an expert's last are computed and not stored.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class TritonConfig:
    """How the GEMMs are cut."""

    rows: int
    columns: int
    k: int
    group: int
    warps: int
    stages: int


CONFIGS = (
    TritonConfig(16, 128, 128, 1, 4, 4),
    TritonConfig(16, 64, 256, 1, 4, 3),
    TritonConfig(32, 128, 64, 1, 4, 5),
    TritonConfig(64, 128, 64, 1, 4, 4),
    TritonConfig(64, 256, 64, 16, 8, 4),
    TritonConfig(128, 256, 64, 16, 8, 3),
)


@triton.jit
def _align(  # noqa: PLR0913, PLR0917
    ids, padded, expert_of, starts, count, slots, most_blocks,
    experts: tl.constexpr, rows: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    numbers = tl.arange(0, experts)
    counts = tl.zeros([experts], dtype=tl.int32)
    for first in range(0, slots, chunk):
        at = first + tl.arange(0, chunk)
        counts += tl.histogram(
            tl.load(ids + at, mask=at < slots, other=0).to(tl.int32), experts, mask=at < slots
        )
    filled = (counts + rows - 1) // rows * rows
    ends = tl.cumsum(filled, 0)
    tl.store(starts + numbers, ends - filled)
    tl.store(count, tl.sum(filled, 0))
    for block in range(most_blocks):
        owner = tl.sum((ends <= block * rows).to(tl.int32), 0)
        tl.store(expert_of + block, owner)
    tl.debug_barrier()
    for first in range(0, slots, chunk):
        at = first + tl.arange(0, chunk)
        expert = tl.load(ids + at, mask=at < slots, other=0)
        place = tl.atomic_add(starts + expert, 1, mask=at < slots)
        tl.store(padded + place, at, mask=at < slots)


@triton.jit
def _product(  # noqa: PLR0913, PLR0917
    a, b, c, padded, expert_of, count, weights, slots, columns, k,
    top_k: tl.constexpr, has_weights: tl.constexpr,
    tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    row_blocks, column_blocks = tl.cdiv(tl.load(count), tile_m), tl.cdiv(columns, tile_n)
    if number >= row_blocks * column_blocks:
        return
    in_group = group * column_blocks
    first = number // in_group * group
    size = min(row_blocks - first, group)
    block, column_block = first + number % in_group % size, number % in_group // size
    slot = tl.load(padded + block * tile_m + tl.arange(0, tile_m)).to(tl.int64)
    is_there = slot < slots
    expert = tl.load(expert_of + block).to(tl.int64)
    column = (column_block * tile_n + tl.arange(0, tile_n)) % columns
    depth = tl.arange(0, tile_k)
    from_a = a + slot[:, None] // top_k * k + depth[None, :]
    from_b = b + expert * columns * k + column[None, :].to(tl.int64) * k + depth[:, None]
    sums = tl.zeros([tile_m, tile_n], dtype=tl.float32)
    for at in range(0, k, tile_k):
        left = tl.load(from_a + at, mask=is_there[:, None] & (depth[None, :] < k - at), other=0.0)
        right = tl.load(from_b + at, mask=depth[:, None] < k - at, other=0.0)
        sums = tl.dot(left, right, sums)
    if has_weights:
        sums *= tl.load(weights + slot, mask=is_there, other=0).to(tl.float32)[:, None]
    column = column_block * tile_n + tl.arange(0, tile_n)
    there = is_there[:, None] & (column[None, :] < columns)
    tl.store(c + slot[:, None] * columns + column[None, :], sums.to(c.dtype.element_ty), mask=there)


@triton.jit
def _activate(both, out, inner, width: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * width + tl.arange(0, width)
    gate = tl.load(both + row * 2 * inner + at, mask=at < inner).to(tl.float32)
    value = tl.load(both + row * 2 * inner + inner + at, mask=at < inner).to(tl.float32)
    tl.store(
        out + row * inner + at, (gate * tl.sigmoid(gate) * value).to(out.dtype.element_ty), mask=at < inner
    )


@triton.jit
def _sum(made, out, hidden, top_k: tl.constexpr, width: tl.constexpr):
    token, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * width + tl.arange(0, width)
    sums = tl.zeros([width], dtype=tl.float32)
    for choice in range(top_k):
        sums += tl.load(made + (token * top_k + choice) * hidden + at, mask=at < hidden).to(tl.float32)
    tl.store(out + token * hidden + at, sums.to(out.dtype.element_ty), mask=at < hidden)


class TritonMoe:
    """The layer under one configuration."""

    def __init__(self, config: TritonConfig) -> None:
        self.config = config

    def __call__(self, x: Tensor, w1: Tensor, w2: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
        """As `wavesim_gpu.moe`."""
        (tokens, top_k), (experts, hidden, inner) = ids.shape, w2.shape
        slots, tile = tokens * top_k, self.config.rows
        blocks = slots // tile + min(experts, slots)
        words = {"dtype": torch.int32, "device": x.device}
        padded = torch.full((blocks * tile,), slots, **words)
        expert_of, starts = (
            torch.empty(blocks, **words),
            torch.empty(triton.next_power_of_2(experts), **words),
        )
        count = torch.empty(1, **words)
        size = triton.next_power_of_2(experts)
        _align[1,](ids, padded, expert_of, starts, count, slots, blocks, size, tile, 1024)
        lists = (padded, expert_of, count, weights, slots)
        both, between = x.new_empty(slots, 2 * inner), x.new_empty(slots, inner)
        made, out = x.new_empty(slots, hidden), torch.empty_like(x)
        self._multiply(x, w1, both, lists, blocks, top_k, has_weights=False)
        _activate[slots, triton.cdiv(inner, 1024)](both, between, inner, 1024)
        self._multiply(between, w2, made, lists, blocks, 1, has_weights=True)
        _sum[tokens, triton.cdiv(hidden, 1024)](made, out, hidden, top_k, 1024)
        return out

    def _multiply(
        self, a: Tensor, b: Tensor, c: Tensor, lists: tuple, blocks: int, top_k: int, *, has_weights: bool
    ) -> None:
        config, (columns, k) = self.config, b.shape[1:]
        grid = (blocks * triton.cdiv(columns, config.columns),)
        _product[grid](
            a, b, c, *lists, columns, k, top_k, has_weights,
            config.rows, config.columns, config.k, config.group,
            num_warps=config.warps, num_stages=config.stages,
        )  # fmt: skip
