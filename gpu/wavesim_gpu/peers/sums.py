"""The blocks that add up what arrives: tile by tile, or rows with residual and norm.

Example: of a two-shot all-reduce rank 0's blocks add the tiles of even columns, from all ranks, as they come,
and store the sums to all.
"""

from typing import Any

import numpy as np

from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch
from wavesim_gpu.kernels.collective import SOURCES
from wavesim_gpu.peers import layout as records
from wavesim_gpu.peers.problem import UNIT
from wavesim_gpu.peers.rank_view import RankView, is_bf16
from wavesim_gpu.record.layout import RECORD

REDUCE = SOURCES / "reduce.cu"
THREADS = 512


def reduce_launch(view: RankView) -> tuple[DeviceLaunch, Any]:
    """The launch, and the device array of what it records (None where it does not)."""
    problem = view.problem
    if problem.following is not None:
        return _norm_launch(view)
    record, taken = _record(view, problem.added_by(view.rank), problem.tiles)
    name = f"reduce_tiles<{problem.ranks}, {is_bf16(problem)}>"
    return _launch(view, name, record), taken


def _norm_launch(view: RankView) -> tuple[DeviceLaunch, Any]:
    problem, following = view.problem, view.problem.following
    assert following is not None
    record = np.zeros(1, records.NORM_PARAMS)[0]
    parts = problem.tile_m // following.unit_rows
    record["reduce"], taken = _record(view, problem.units_normed_by(view.rank), problem.rows * parts)
    record["residual"], record["weight"] = view.operands.residual, view.operands.weight
    record["normed"][: problem.ranks] = view.memory.addresses(view.rank, "normed")
    record["rows_at_once"], record["epsilon"] = following.unit_rows, following.epsilon
    name = f"reduce_norm<{row_config(problem.n)}, {problem.ranks}, {is_bf16(problem)}>"
    return _launch(view, name, record), taken


def row_config(columns: int) -> str:
    """The C++ name of a row that all threads of a block hold in registers, rows.cuh."""
    return f"RowConfig<{THREADS}, {THREADS}, {-(-columns // (UNIT * THREADS))}>"


def _record(view: RankView, units: list[int], all_units: int) -> tuple[Any, Any]:
    problem = view.problem
    order = view.table(units)
    record = np.zeros(1, records.REDUCE_PARAMS)[0]
    record["peers"], record["tiles"] = view.peer_params(), view.tiles()
    for name, region in (("staging", "staging"), ("arrived", "arrived"), ("own_finished", "finished")):
        record[name] = view.own(region)
    for name in ("out", "finished"):
        record[name][: problem.ranks] = view.memory.addresses(view.rank, name)
    record["order"], record["unit_count"] = order.data.ptr, len(units)
    record["all_units"] = problem.tiles
    if problem.collective.kind == "reduce-scatter":
        record["first_row"] = view.rank * problem.share * problem.tile_m
    elif not problem.is_one_shot:
        record["sends"], record["finished_count"] = 1, all_units
    if not view.options.build.is_recording:
        return record, None
    taken = require_cupy().zeros(max(1, len(units)) * RECORD.itemsize, np.uint8)
    view.kept.append(taken)
    record["records"] = taken.data.ptr
    return record, taken


def _launch(view: RankView, name: str, record: Any) -> DeviceLaunch:
    shape = KernelLaunch(name, THREADS, 0, view.blocks.reduce, is_dependent=True)
    return view.launch(REDUCE, shape, (record,))
