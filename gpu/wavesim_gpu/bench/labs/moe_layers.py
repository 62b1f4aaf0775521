"""MoE layers beside PyTorch's grouped products and a fused Triton layer: interleaved, in one process, as
CUDA graphs.

Example: of Qwen3-30B-A3B at 256 tokens, routed by a Zipf distribution, the document has microseconds a call
under each plan, of each chain and of the best Triton configuration, the roofline, and how far each plan's
result is from fp32. A graph holds `ROUTINGS` calls, each with a routing of its own.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from wavesim.errors import DeviceError
from wavesim_gpu.bench.labs.decode_steps import graph_of, interleaved
from wavesim_gpu.bench.libraries.grouped_chain import chain_gather, chain_index_add
from wavesim_gpu.bench.libraries.triton_moe import CONFIGS, TritonMoe
from wavesim_gpu.driver.element_types import TOLERANCE
from wavesim_gpu.kernels.moe.moe_launch import PLANS
from wavesim_gpu.torch.expert_layers import check_moe, moe, reference_moe

MODELS = Path(__file__).with_suffix(".toml")
ROUTINGS, CHECKED_TOKENS = 4, 256
BYTES_PER_US, FLOPS_PER_US = 4.4e6, 760e6  # of decode.md's roofline on an H200; kept in the rows


@dataclass(frozen=True)
class MoeSizes:
    """Of a layer."""

    experts: int
    top_k: int
    hidden: int
    inner: int


def models() -> dict[str, MoeSizes]:
    """The layers that are timed, by name."""
    return {name: MoeSizes(**entry) for name, entry in tomllib.loads(MODELS.read_text())["models"].items()}


class MoeOperands:
    """Random weights of one layer on the current GPU, and tokens with their routings."""

    def __init__(self, sizes: MoeSizes, seed: int = 0) -> None:
        self.sizes = sizes
        self.random = torch.Generator(device="cuda").manual_seed(seed)
        s = sizes
        self.w1 = self.normal(s.experts, 2 * s.inner, s.hidden, scale=s.hidden**-0.5)
        self.w2 = self.normal(s.experts, s.hidden, s.inner, scale=s.inner**-0.5)

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Random bf16 numbers."""
        made = torch.empty(shape, dtype=torch.bfloat16, device="cuda")
        return made.normal_(0, scale, generator=self.random)

    def routing(self, tokens: int, skew: float) -> tuple[Tensor, Tensor]:
        """Ids and weights: distinct experts a token, expert i with probability as (i + 1) ** -skew, in an
        order of the experts drawn anew.
        """
        s = self.sizes
        share = torch.arange(1, s.experts + 1, device="cuda").double() ** -skew
        share = share[torch.randperm(s.experts, generator=self.random, device="cuda")]
        ids = torch.multinomial(share.expand(tokens, -1), s.top_k, generator=self.random)
        weights = torch.rand(tokens, s.top_k, generator=self.random, device="cuda")
        return ids, weights / weights.sum(1, keepdim=True)


def roof_us(sizes: MoeSizes, routings: Sequence[Tensor]) -> float:
    """Each touched expert's weights once, or its multiplications; the mean over routings."""
    per_expert = 3 * sizes.hidden * sizes.inner
    times = [
        max(len(ids.unique()) * per_expert * 2 / BYTES_PER_US, ids.numel() * per_expert * 2 / FLOPS_PER_US)
        for ids in routings
    ]
    return sum(times) / len(times)


def measured(
    operands: MoeOperands,
    tokens: int,
    skew: float,
    rounds: int,
    compiled: Mapping[str, Callable[..., Tensor]],
) -> dict[str, Any]:
    """One case: all ways interleaved. Raises `DeviceError` for a result that is wrong."""
    x = operands.normal(tokens, operands.sizes.hidden)
    routings = [operands.routing(tokens, skew) for _ in range(ROUTINGS)]
    ways: dict[str, Callable[..., Tensor]] = {
        f"ours {plan.name}": lambda *args, name=plan.name: moe(*args, plan=name) for plan in PLANS
    }
    ways |= {"torch index_add": chain_index_add, "torch gather": chain_gather} | compiled
    errors = {name: error_of(way, operands, x, routings[0]) for name, way in ways.items()}
    worst = max(error for name, error in errors.items() if name.startswith("ours"))
    if not worst < TOLERANCE["bf16"]:
        raise DeviceError(f"a MoE layer is {worst:.3g} from fp32; at most {TOLERANCE['bf16']} is right")
    config = best_config(operands, x, routings)
    ways["triton"] = TritonMoe(config)
    errors["triton"] = error_of(ways["triton"], operands, x, routings[0])
    times = interleaved({name: graph(way, operands, x, routings) for name, way in ways.items()}, rounds)
    check_moe()
    return {
        "tokens": tokens, "skew": skew, "errors": errors, "triton_config": vars(config),
        "roof_us": round(roof_us(operands.sizes, [ids for ids, _ in routings]), 3),
        "touched": [len(ids.unique()) for ids, _ in routings],
        "us": {name: round(median(series) / ROUTINGS, 3) for name, series in times.items()},
        "times_us": {name: [round(us / ROUTINGS, 2) for us in series] for name, series in times.items()},
    }  # fmt: skip


def error_of(
    way: Callable[..., Tensor], operands: MoeOperands, x: Tensor, routing: tuple[Tensor, Tensor]
) -> float:
    """Distance from fp32, relative, of at most `CHECKED_TOKENS` tokens."""
    some = slice(None, CHECKED_TOKENS)
    out = way(x, operands.w1, operands.w2, *routing)[some]
    expected = reference_moe(x[some], operands.w1, operands.w2, routing[0][some], routing[1][some])
    return float((out.float() - expected).norm() / expected.norm())


def graph(
    way: Callable[..., Tensor], operands: MoeOperands, x: Tensor, routings: Sequence[tuple[Tensor, Tensor]]
) -> Any:
    """A call for each routing, as one graph."""
    return graph_of(lambda: [way(x, operands.w1, operands.w2, *routing) for routing in routings])


def best_config(operands: MoeOperands, x: Tensor, routings: Sequence[tuple[Tensor, Tensor]]) -> Any:
    """Of Triton's, the fastest of five replays."""
    rows = x.shape[0] * operands.sizes.top_k / operands.sizes.experts
    tried = [config for config in CONFIGS if config.rows <= max(16, 4 * rows) and config.rows * 8 >= rows]
    graphs = {config: graph(TritonMoe(config), operands, x, routings) for config in tried}
    times = interleaved(graphs, 5)
    return min(times, key=lambda config: median(times[config]))
