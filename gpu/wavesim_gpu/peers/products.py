"""The GEMM launches of a call: one whose tiles go to their owners, one whose A arrives while it runs.

Example: of a chain of all-reduce, norm and product, `scatter_gemm` makes the first product and `next_gemm`
the second, whose tiles wait for the rows that the norm finishes on whatever rank.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.kernels.backend import Addresses
from wavesim_gpu.kernels.sm90.gemm_sm90 import Hopper
from wavesim_gpu.kernels.sm90.parameters import record_of
from wavesim_gpu.kernels.sm90.tensor_map import PANEL, encode_sequences
from wavesim_gpu.kernels.sm90.tile_config import TILE_CONFIGS, WgmmaTile
from wavesim_gpu.kernels.stage_backend import KernelLaunch
from wavesim_gpu.peers import layout as records
from wavesim_gpu.peers.problem import SharedGemm
from wavesim_gpu.peers.rank_view import RankView, is_bf16
from wavesim_gpu.runtime.device import require_cupy
from wavesim_gpu.runtime.device_launch import DeviceLaunch

GEMM = Path(__file__).with_name("gemm.cu")


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


def gather_gemm(view: RankView) -> PeerProduct:
    """The product of rows that other ranks send."""
    problem, own = view.problem, view.operands
    record = np.zeros(1, records.GATHER_PARAMS)[0]
    record["first_row"] = problem.first_row(view.rank)
    record["inputs"], record["peers"] = view.own("arrived"), view.peer_params()
    places = {"a": view.own("a"), "b": own.b, "c": own.c, "bias": own.bias}
    return _product(view, problem.gemm, (problem.pipeline, problem.plan), record, places, view.blocks.gemm)


def next_gemm(view: RankView) -> PeerProduct:
    """The product of normed rows, whichever rank norms them."""
    problem, own = view.problem, view.operands
    assert problem.next_gemm is not None
    record = np.zeros(1, records.GATHER_PARAMS)[0]
    record["inputs"], record["peers"] = view.own("finished"), view.peer_params()
    places = {"a": view.own("normed"), "b": own.next_b, "c": own.next_c}
    described = problem.next_pipeline, problem.next_plan
    return _product(view, problem.next_gemm, described, record, places, view.blocks.following)


def _product(
    view: RankView,
    gemm: Gemm,
    described: tuple[Pipeline, Plan],
    record: Any,
    places: dict[str, int],
    blocks: int,
) -> PeerProduct:
    problem, (pipeline, plan) = view.problem, described
    is_recording = view.options.build.is_recording
    state = SyncState(
        pipeline, plan, limit_ns=view.limit_ns, block_count=blocks, is_recording=is_recording
    )  # fmt: skip
    config = TILE_CONFIGS[gemm.tile_m, gemm.tile_n]
    partials = require_cupy().zeros(max(1, Hopper().partial_bytes(gemm, plan)), np.uint8)
    view.kept.append(partials)
    addresses = Addresses(partials=int(partials.data.ptr), tickets=state.tickets("gemm"), **places)
    record["plain"] = record_of(gemm, config, addresses)
    record["plain"]["is_persistent"] = 1
    waits = record.dtype == records.GATHER_PARAMS
    shape = KernelLaunch(
        gemm_expression(problem, config, waits=waits, has_bias=gemm.has_bias),
        config.threads,
        config.dynamic_shared_bytes,
        blocks,
        is_dependent=waits,
    )
    header = state.headers["gemm"].text
    return PeerProduct(view.launch(GEMM, shape, (state.params("gemm"), record), header), state)


def _destination(view: RankView, to: int) -> tuple[Any, int]:
    """Where the epilogue stores tiles for a rank, and posts them: there, or in this rank's outbox."""
    problem, matrix = view.problem, view.problem.m * view.problem.n
    if view.options.way != "stores" and to != view.rank:
        place, apart, posts = view.own("outbox"), matrix, view.sent(to)
    else:
        place, apart, posts = view.staging(to), problem.ranks * matrix, view.arrived(to)
    size = (view.parities, problem.m, problem.n)
    return encode_sequences(place, size, (apart, problem.n), PANEL, problem.dtype), posts


def gemm_expression(problem: SharedGemm, config: WgmmaTile, *, waits: bool, has_bias: bool = False) -> str:
    """The template instance of a GEMM; `waits`: its A arrives while it runs."""
    form = "Form<Activation::none" + (f", Order::{problem.b_order}" if problem.b_order != "row" else "")
    if has_bias:
        form = f"Form<Activation::none, Order::{problem.b_order}, true"
    params = "GatherGemmParams" if waits else "ScatterGemmParams"
    kinds = f"{config.name}, {is_bf16(problem)}, PeerForm<{form}>, {params}>"
    return f"gemm_with_peers<{kinds}, generated::stage>"
