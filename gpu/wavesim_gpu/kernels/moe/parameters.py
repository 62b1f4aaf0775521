"""Parameters of a MoE layer's kernels: a record for routing, gather and sum, one for each grouped GEMM."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from wavesim.plan.plan import Plan
from wavesim_gpu.kernels.gemm.sm90.parameters import PARAMS
from wavesim_gpu.kernels.gemm.sm90.tensor_map import PANEL, encode
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_K
from wavesim_gpu.kernels.moe.shape import ROW_UNIT, MoeShape

PARTIAL_ROWS = (8, 16, 32, 64)  # boxes of A for blocks of rows that are not full
# kernels/moe/routing.cuh, MoeParams.
_POINTERS = ("ids", "weights", "x", "sorted", "made", "out")
_LISTS = ("rows", "blocks", "block_count", "counters", "errors", "report")
_COUNTS = (
    "tokens",
    "top_k",
    "experts",
    "quads",
    "tile_m",
    "are_ids_long",
    "are_weights_bf16",
    "counter_count",
)
ROUTING = np.dtype([(name, "<u8") for name in _POINTERS + _LISTS] + [(name, "<i4") for name in _COUNTS])
# kernels/moe/grouped.cuh, GroupedParams: those of the GEMM, then these.
_ADDRESSES = ("blocks", "block_count", "taken", "counters", "errors", "limit_ns")
_NUMBERS = ("columns", "expert_rows", "half_rows", "awaits_list", "awaits_grid", "awaited_posts", "posts")
GROUPED = np.dtype(
    [("gemm", PARAMS), ("a_rows", "V128", (len(PARTIAL_ROWS),)), ("c_rows", "V128")]
    + [(name, "<u8") for name in _ADDRESSES]
    + [(name, "<i4") for name in _NUMBERS]
    + [("padding", "V52")]
)


@dataclass(frozen=True)
class MoeAddresses:
    """Where a call's arrays are. w1 (experts, 2 inner, hidden): gates, then values; w2 (experts, hidden,
    inner); `scratch` has `MoeShape.places["bytes"]`.
    """

    x: int
    w1: int
    w2: int
    ids: int
    weights: int
    out: int
    scratch: int
    report: int
    are_ids_long: bool = True
    are_weights_bf16: bool = False


def routing_record(shape: MoeShape, addresses: MoeAddresses) -> Any:
    """`MoeParams`."""
    record = np.zeros(1, ROUTING)[0]
    for name in (*_POINTERS, *_LISTS):
        place = shape.places.get(name)
        record[name] = getattr(addresses, name) if place is None else addresses.scratch + place
    for name in ("tokens", "top_k", "experts", "counter_count"):
        record[name] = getattr(shape, name)
    record["quads"], record["tile_m"] = shape.hidden // 8, shape.tile[0]
    record["are_ids_long"], record["are_weights_bf16"] = addresses.are_ids_long, addresses.are_weights_bf16
    return record


def gate_up_record(shape: MoeShape, addresses: MoeAddresses, plan: Plan, limit_ns: int) -> Any:
    """`GroupedParams` of the first product."""
    record = _grouped(shape, addresses, "sorted", "between", shape.hidden, shape.inner, limit_ns)
    rows, half = 2 * shape.inner, shape.tile[1] // 2
    _write_b(record, addresses.w1, shape.experts * rows, shape.hidden, half)
    record["columns"], record["expert_rows"], record["half_rows"] = shape.gate_up_columns, rows, shape.inner
    record["awaits_list"], record["posts"] = True, plan.sync.has_semaphores
    return record


def down_record(shape: MoeShape, addresses: MoeAddresses, plan: Plan, limit_ns: int) -> Any:
    """`GroupedParams` of the second. In a launch of its own it takes tiles from the second counter."""
    record = _grouped(shape, addresses, "between", "made", shape.inner, shape.hidden, limit_ns)
    _write_b(record, addresses.w2, shape.experts * shape.hidden, shape.inner, shape.tile[1])
    record["columns"], record["expert_rows"] = shape.down_columns, shape.hidden
    record["taken"] += 4
    record["awaits_grid"] = plan.launch.is_dependent and not plan.sync.has_semaphores
    record["awaited_posts"] = shape.gate_up_columns if plan.sync.has_semaphores else 0
    return record


def _grouped(
    shape: MoeShape, addresses: MoeAddresses, a: str, c: str, k: int, columns: int, limit_ns: int
) -> Any:
    record = np.zeros(1, GROUPED)[0]
    a_address, c_address = (addresses.scratch + shape.places[name] for name in (a, c))
    gemm = np.zeros(1, PARAMS)[0]
    gemm["a"] = encode(a_address, (shape.rows, k), (shape.tile[0], TILE_K), "bf16")
    gemm["c"] = encode(c_address, (shape.rows, columns), (PANEL, PANEL), "bf16")
    gemm["k"] = k
    record["gemm"] = gemm
    for i, rows in enumerate(PARTIAL_ROWS):
        record["a_rows"][i] = encode(a_address, (shape.rows, k), (rows, TILE_K), "bf16")
    record["c_rows"] = encode(c_address, (shape.rows, columns), (ROW_UNIT, PANEL), "bf16")
    for name in ("blocks", "block_count", "counters", "errors"):
        record[name] = addresses.scratch + shape.places[name]
    record["taken"], record["limit_ns"] = record["counters"], limit_ns
    return record


def _write_b(record: Any, address: int, rows: int, k: int, box_rows: int) -> None:
    record["gemm"]["b"] = encode(address, (rows, k), (box_rows, TILE_K), "bf16")
