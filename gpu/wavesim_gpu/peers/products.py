"""The GEMM launches of a call: one whose tiles go to their owners, one whose A arrives while it runs.

Example: of a chain of all-reduce, norm and product, `scatter_gemm` makes the first product and `next_gemm`
the second, whose tiles wait for the rows that the norm finishes on whatever rank.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wavesim.codegen.cuda import stage_header
from wavesim.codegen.options import kernel_options
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.work.gemm import Gemm
from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.functions import KernelSpec
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch
from wavesim_gpu.kernels.collective import SOURCES
from wavesim_gpu.kernels.gemm.gemm_backend import Addresses
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import Hopper
from wavesim_gpu.kernels.gemm.sm90.parameters import record_of
from wavesim_gpu.kernels.gemm.sm90.tensor_map import PANEL, encode, encode_sequences
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS, TILE_K, WgmmaTile
from wavesim_gpu.peers import layout as records
from wavesim_gpu.peers.problem import SharedGemm, turns_of
from wavesim_gpu.peers.rank_view import RankView, is_bf16
from wavesim_gpu.peers.regions import ELEMENT

GEMM = SOURCES / "gemm.cu"
# gemm_part.cuh: tiles go to who adds them; to the other of two ranks, and are added here; A comes from ranks.
SCATTER, EXCHANGE, GATHER = "ScatterGemmParams", "ExchangeGemmParams", "GatherGemmParams"
PARAMS_OF = {
    SCATTER: records.SCATTER_PARAMS,
    EXCHANGE: records.EXCHANGE_PARAMS,
    GATHER: records.GATHER_PARAMS,
}


@dataclass(frozen=True)
class PeerProduct:
    """A GEMM's launch and what belongs to it: counters, and what it records where it does."""

    launch: DeviceLaunch
    state: SyncState


def scatter_gemm(view: RankView) -> PeerProduct:
    """The product whose tiles leave for the ranks that add them up."""
    problem, own = view.problem, view.operands
    record = np.zeros(1, records.SCATTER_PARAMS)[0]
    record["first_row"] = problem.first_row(view.rank)
    record["c"]["peers"], record["c"]["tiles"] = view.peer_params(), view.tiles()
    for to in range(problem.ranks):
        record["c"]["to"][to], record["c"]["posts"][to] = _destination(view, to)
    # Nothing is stored to C; a map is encoded all the same.
    places = {"a": own.a, "b": own.b, "c": view.own("staging")}
    return _product(view, problem.gemm, (problem.pipeline, problem.plan), record, places, view.blocks.gemm)


def exchange_gemm(view: RankView) -> PeerProduct:
    """The product of one of two ranks whose epilogue adds what the other has sent."""
    problem, own, rank, other = view.problem, view.operands, view.rank, 1 - view.rank
    size = (view.parities, problem.m, problem.n)
    apart = view.memory.layout.sizes["staging"] // view.parities // ELEMENT  # of whatever shape the calls are

    def staged(place: int, *, outside_is_nan: bool = False) -> Any:
        return encode_sequences(
            place, size, (apart, problem.n), PANEL, problem.dtype, outside_is_nan=outside_is_nan
        )

    record = np.zeros(1, records.EXCHANGE_PARAMS)[0]
    record["first_row"] = problem.first_row(rank)
    record["ahead"], record["half"] = turns_of(problem, view.options.ahead)
    c, residual = record["c"], record["residual"]
    for part in (c, residual):
        part["peers"], part["tiles"] = view.peer_params(), view.tiles()
    c["sent"] = staged(view.memory.address(rank, other, "staging"))
    c["arrived"] = view.memory.address(rank, other, "arrived")
    c["out"], kept = own.c, problem.m
    if problem.collective.kind == "reduce-scatter":
        kept, c["kept_row"] = problem.m // problem.ranks, rank * problem.share * problem.tile_m
    else:
        c["own_finished"], c["finished"] = view.memory.addresses(rank, "finished")[:: 1 - 2 * rank]
        there, c["sums"] = view.memory.address(rank, other, "sums"), view.own("sums")
        c["other_out"] = encode(there, (kept, problem.n), (PANEL, PANEL), problem.dtype)
    c["own_out"] = encode(own.c, (kept, problem.n), (PANEL, PANEL), problem.dtype)
    coming = view.own("staging")
    residual["sent"], residual["missing"] = staged(coming), staged(coming, outside_is_nan=True)
    residual["arrived"] = view.own("arrived")
    # Nothing is stored to C; a map is encoded all the same. Of two biases that are added one is enough.
    places = {"a": own.a, "b": own.b, "c": view.own("staging"), "bias": own.bias}
    gemm = replace(problem.gemm, has_bias=problem.has_bias and rank == 0)
    return _product(view, gemm, (problem.pipeline, problem.plan), record, places, view.blocks.gemm)


def exchange_kernel(problem: SharedGemm) -> KernelSpec:
    """What `exchange_gemm` loads on the rank that adds the bias."""
    header = stage_header(
        problem.pipeline, problem.plan, "gemm", kernel_options(problem.pipeline, problem.plan)
    )
    config = TILE_CONFIGS[problem.tile_m, problem.tile_n]
    expression = gemm_expression(problem, config, EXCHANGE, has_bias=problem.has_bias)
    return KernelSpec(GEMM, expression, Build(), header.text)


def gather_gemm(view: RankView) -> PeerProduct:
    """The product of rows that other ranks send."""
    problem, own = view.problem, view.operands
    record = np.zeros(1, records.GATHER_PARAMS)[0]
    record["first_row"], share = problem.first_row(view.rank), problem.m // problem.ranks
    record["inputs"], record["peers"] = view.own("arrived"), view.peer_params()
    record["a"]["first"], record["a"]["end"] = view.rank * share, (view.rank + 1) * share
    box = (problem.tile_m, TILE_K)
    record["a"]["own"] = encode(own.a, (share, problem.k), box, problem.dtype)
    places = {"a": view.own("a"), "b": own.b, "c": own.c, "bias": own.bias}
    described = problem.pipeline, problem.plan
    by_blocks = view.options.way != "copies"
    return _product(view, problem.gemm, described, record, places, view.blocks.gemm, follows=by_blocks)


def next_gemm(view: RankView) -> PeerProduct:
    """The product of normed rows, whichever rank norms them."""
    problem, own = view.problem, view.operands
    assert problem.next_gemm is not None
    record = np.zeros(1, records.GATHER_PARAMS)[0]
    record["inputs"], record["peers"] = view.own("finished"), view.peer_params()
    places = {"a": view.own("normed"), "b": own.next_b, "c": own.next_c}
    described = problem.next_pipeline, problem.next_plan
    return _product(view, problem.next_gemm, described, record, places, view.blocks.following, follows=True)


def _product(
    view: RankView,
    gemm: Gemm,
    described: tuple[Pipeline, Plan],
    record: Any,
    places: dict[str, int],
    blocks: int,
    *,
    follows: bool = False,
) -> PeerProduct:
    """`follows`: another kernel of the call comes first, all of whose blocks are resident by then."""
    problem, (pipeline, plan) = view.problem, described
    is_recording = view.options.build.is_recording
    state = SyncState(
        pipeline, plan, limit_ns=view.limit_ns, block_count=blocks, is_recording=is_recording
    )  # fmt: skip
    config = TILE_CONFIGS[gemm.tile_m, gemm.tile_n]
    partials = require_cupy().zeros(max(1, Hopper().partial_bytes(gemm, plan)), np.uint8)
    view.kept.append(partials)
    addresses = Addresses(partials=int(partials.data.ptr), tickets=state.tickets("gemm"), **places)
    plain = record_of(gemm, config, addresses)
    plain["is_persistent"] = 1
    if record.dtype == records.EXCHANGE_PARAMS:
        record["layer"]["plain"] = plain
    else:
        record["plain"] = plain
    if record.dtype == records.GATHER_PARAMS:
        record["a"]["all"], record["b"], record["tile_m"] = plain["a"], plain["b"], gemm.tile_m
    shape = KernelLaunch(
        gemm_expression(problem, config, _params_of(record), has_bias=gemm.has_bias),
        config.threads,
        config.dynamic_shared_bytes,
        blocks,
        is_dependent=follows,
    )
    header = state.headers["gemm"].text
    return PeerProduct(view.launch(GEMM, shape, (state.params("gemm"), record), header), state)


def _params_of(record: Any) -> str:
    return next(name for name, kind in PARAMS_OF.items() if record.dtype == kind)


def _destination(view: RankView, to: int) -> tuple[Any, int]:
    """Where the epilogue stores tiles for a rank, and posts them: there, or in this rank's outbox."""
    problem, matrix = view.problem, view.problem.m * view.problem.n
    if view.options.way != "stores" and to != view.rank:
        place, apart, posts = view.own("outbox"), matrix, view.sent(to)
    else:
        place, apart, posts = view.staging(to), problem.ranks * matrix, view.arrived(to)
    size = (view.parities, problem.m, problem.n)
    return encode_sequences(place, size, (apart, problem.n), PANEL, problem.dtype), posts


def gemm_expression(
    problem: SharedGemm, config: WgmmaTile, params: str = SCATTER, *, has_bias: bool = False
) -> str:
    """The template instance of a GEMM; `params` says where its tiles go or its A comes from."""
    form = "Form<Activation::none" + (f", Order::{problem.b_order}" if problem.b_order != "row" else "")
    if has_bias:
        form = f"Form<Activation::none, Order::{problem.b_order}, true"
    if params == EXCHANGE:
        form = f"Form<Activation::none, Order::{problem.b_order}, {str(has_bias).lower()}, false, true"
    kinds = f"{config.name}, {is_bf16(problem)}, PeerForm<{form}>, {params}>"
    return f"gemm_with_peers<{kinds}, generated::stage>"
