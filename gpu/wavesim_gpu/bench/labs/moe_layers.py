"""MoE layers beside PyTorch's grouped products and a fused Triton layer: interleaved, in one process, as
CUDA graphs.

Example: of Qwen3-30B-A3B at 256 tokens, routed by a Zipf distribution, the document has microseconds a call
under each plan, of each chain and of the best Triton configuration, the roofline, and how far each plan's
result is from fp32. A graph holds `ROUTINGS` calls, each with a routing of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

from wavesim.bench.case_list import load_list
from wavesim.errors import DeviceError
from wavesim.workloads.moe import MOE_MODELS
from wavesim_gpu.bench.labs.decode_steps import _read, graph_of, interleaved
from wavesim_gpu.bench.libraries.grouped_chain import chain_gather, chain_index_add
from wavesim_gpu.bench.libraries.triton_moe import CONFIGS, TritonMoe
from wavesim_gpu.driver.element_types import TOLERANCE
from wavesim_gpu.kernels.moe.moe_launch import PLANS
from wavesim_gpu.torch.expert_layers import check_moe, moe, reference_moe

ROUTINGS, CHECKED_TOKENS = 4, 256
READ_BYTES = 2**30


def document(rounds: int, models: tuple[str, ...] = (), *, compiles: bool = True) -> dict[str, Any]:
    """Rows of the list `moe-layers`, model by model. Raises `DeviceError` for a result that is wrong."""
    return {
        "read_bytes_per_us": round(read_bytes_per_us()),
        "rows": [*rows_of(rounds, models, compiles=compiles)],
    }


def rows_of(rounds: int, models: tuple[str, ...], *, compiles: bool) -> Iterator[dict[str, Any]]:
    """One by one. Weights of one model are in memory at a time."""
    cases = [case.fields for case in load_list("moe-layers").cases]
    for name in models or tuple(dict.fromkeys(fields["model"] for fields in cases)):
        operands, compiled = MoeOperands(sizes_of(name)), compiled_chains() if compiles else {}
        for fields in cases:
            if fields["model"] == name:
                row = measured(operands, fields["tokens"], fields["skew"], max(rounds, 20), compiled)
                yield {"model": name, **row}
        del operands
        torch.cuda.empty_cache()


def compiled_chains() -> dict[str, Callable[..., Tensor]]:
    """The chain that sums in fp32 by `torch.compile`, for one token and for any number."""
    torch._dynamo.reset()  # noqa: SLF001  # the model before this one has other sizes

    def marked(chain: Callable[..., Tensor]) -> Callable[..., Tensor]:
        compiled = torch.compile(chain)

        def call(x: Tensor, w1: Tensor, w2: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
            if len(x) > 1:
                for tensor in (x, ids, weights):
                    torch._dynamo.mark_dynamic(tensor, 0)  # noqa: SLF001  # compiled once, not for each size
            return compiled(x, w1, w2, ids, weights)

        return call

    return {"torch compiled": marked(chain_gather)}


def sizes_of(model: str) -> "MoeSizes":
    """Of the layers that `wavesim.workloads.moe` knows."""
    return MoeSizes(*MOE_MODELS[model])


@dataclass(frozen=True)
class MoeSizes:
    """Of a layer."""

    experts: int
    top_k: int
    hidden: int
    inner: int


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


def weight_bytes(sizes: MoeSizes, routings: Sequence[Tensor]) -> int:
    """Of the experts that a routing touches, the mean over routings."""
    touched = sum(len(ids.unique()) for ids in routings) / len(routings)
    return round(touched * 3 * sizes.hidden * sizes.inner * 2)


def read_bytes_per_us() -> float:
    """Of a kernel that does nothing but read `READ_BYTES`, the fastest of twenty replays."""
    (times,) = interleaved({"read": _read(READ_BYTES)}, 20).values()
    return READ_BYTES / min(times)


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
    ways["ours"] = moe  # under the usual plan
    ways |= {"torch index_add": chain_index_add, "torch gather": chain_gather} | compiled
    config = best_config(operands, x, routings)
    ways["triton"] = TritonMoe(config)
    errors = errors_of(ways, operands, x, routings[0])
    graphs = {name: graph(way, operands, x, routings) for name, way in ways.items()}
    times = interleaved(graphs, rounds)
    check_moe()
    return {
        "tokens": tokens, "skew": skew, "errors": errors, "triton_config": vars(config),
        "weight_bytes": weight_bytes(operands.sizes, [ids for ids, _ in routings]),
        "flops": 6 * tokens * operands.sizes.top_k * operands.sizes.hidden * operands.sizes.inner,
        "touched": [len(ids.unique()) for ids, _ in routings],
        "us": {name: round(median(series) / ROUTINGS, 3) for name, series in times.items()},
        "times_us": {name: [round(us / ROUTINGS, 2) for us in series] for name, series in times.items()},
    }  # fmt: skip


def errors_of(
    ways: Mapping[str, Callable[..., Tensor]],
    operands: MoeOperands,
    x: Tensor,
    routing: tuple[Tensor, Tensor],
) -> dict[str, float]:
    """Distance from fp32, relative, of at most `CHECKED_TOKENS` tokens. Raises `DeviceError` for ours."""
    some = slice(None, CHECKED_TOKENS)
    expected = reference_moe(x[some], operands.w1, operands.w2, routing[0][some], routing[1][some])
    errors = {}
    for name, way in ways.items():
        out = way(x, operands.w1, operands.w2, *routing)[some].float()
        errors[name] = float((out - expected).norm() / expected.norm())
        if name.startswith("ours") and not errors[name] < TOLERANCE["bf16"]:
            raise DeviceError(f"{name} is {errors[name]:.3g} from fp32; {TOLERANCE['bf16']} is right")
    return errors


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
