"""Calibration: a cost model from what a user has before trying tile sync.

Example: the stream-sync trace says that a tile of the first GEMM takes 151 us and one of the second 80 us,
and that 1.6 us pass between the kernels. With several blocks per SM it also says how much faster a block runs
once a neighbour has left, and by how much the oldest runs ahead. With two kernel times and no trace,
tile times are those at which each kernel, simulated alone, takes its time.
"""

from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from wavesim.costs.calibration_checks import require_calibratable
from wavesim.costs.clock import clock_factors
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import DeviceCosts, costs_of
from wavesim.costs.dram_slowdown import Memory, slowdowns
from wavesim.costs.sharing import SharingLaw, is_alike
from wavesim.model.pipeline import Pipeline
from wavesim.trace.regimes import Regimes
from wavesim.trace.trace import IntArray, Trace

# Where more of the block time is spent beside equally many blocks, a trace does not show how speeds differ.
MOST_TOGETHER = 0.98

FloatArray = NDArray[np.float64]


def calibrate(
    trace: Trace,
    *,
    per_block: bool = False,
    behind: tuple[Pipeline, Memory] | None = None,
    clock_gain: float = 0.0,
    **measured_ns: int,
) -> CostModel:
    """The cost model of a stream-sync trace: tile times, speeds on a shared SM, what lies between blocks.

    A stage has one tile time, its blocks' mean, or with `per_block` each block its own. What one wait and
    one post cost cannot be seen there and is left at what is known of the device (`costs_of`); `measured_ns`
    replaces these overheads by name.
    With the kernels' shapes and the memory `behind` them, tile times are those at an idle DRAM, with a
    `clock_gain` those at the clock of a device that is all busy.
    Raises `RecordingError` for a trace of another plan (the run to be predicted must not be looked at),
    and for one that is partial or too short.
    """
    require_calibratable(trace)
    known = costs_of(str(trace.header.device.get("name", "")))
    most = max(info.blocks_per_sm for info in trace.header.stages)
    sharing, oldest_first_bias, work = _alone(trace) if most == 1 else _shared(trace, most, known.law)
    turnover_ns, sums_ns = 0, dict[str, int]()
    if most == 1:
        turnover_ns = _turnover_ns(trace, known)
        work, sums_ns = without_sums(trace, work, measured_ns.get("partial_ns", known.split_k["partial_ns"]))
    work = work * _clock_ratio(trace, known) * clock_factors(trace, clock_gain)
    if behind is not None:
        work = work / slowdowns(trace, *behind)
    overheads = {**known.overheads, **_seen(trace, known, turnover_ns, most), **measured_ns}
    return CostModel(
        _tile_ns(trace, work, per_block=per_block),
        sharing=sharing,
        oldest_first_bias=oldest_first_bias,
        memory=None if behind is None else behind[1],
        clock_gain=clock_gain,
        sums_ns=sums_ns,
        **overheads,
    )


def _tile_ns(trace: Trace, work: FloatArray, *, per_block: bool) -> dict[str, int | list[int]]:
    """Work by stage: one mean, or with `per_block` each block's own."""
    tile_ns: dict[str, int | list[int]] = {}
    for index, info in enumerate(trace.header.stages):
        rows = trace.stage == index
        tile_ns[info.name] = _by_tile(trace, rows, work) if per_block else round(float(work[rows].mean()))
    return tile_ns


def _seen(trace: Trace, known: DeviceCosts, turnover_ns: int, most: int) -> dict[str, int]:
    """Overheads that the trace shows, or that are not yet in the tile times taken from it."""
    # Boundary and setup were measured up to a block's first instruction, its start included.
    boundary_ns = _boundary_ns(trace, known)
    seen = {
        "block_ns": turnover_ns,
        "boundary_ns": max(0, boundary_ns - turnover_ns),
        "setup_ns": max(0, known.overheads["setup_ns"] - turnover_ns),
    }
    if all(info.grid[2] == 1 for info in trace.header.stages):
        return seen
    if most == 1:
        return {**seen, "partial_ns": known.split_k["partial_ns"]}
    # With several blocks per SM, split-K slices have stored their sums, or added others', within their times.
    shared = {name: known.split_k[f"shared_{name}"] for name in ("partial_ns", "fixup_ns")}
    return {**seen, **shared}


def _clock_ratio(trace: Trace, known: DeviceCosts) -> float:
    """Timed rounds over the one recorded pass: they ran at another clock, by a few percent."""
    rounds_ns = trace.time_ns - known.overheads["setup_ns"]
    return rounds_ns / trace.makespan_ns if trace.header.rounds_ns and rounds_ns > 0 else 1.0


def _turnover_ns(trace: Trace, known: DeviceCosts) -> int:
    """From a block's end to the first instruction of the next one on its SM, median; one block per SM."""
    gaps: list[int] = []
    for stage in range(len(trace.header.stages)):
        rows = np.flatnonzero(trace.stage == stage)
        rows = rows[np.lexsort((trace.start_ns[rows], trace.sm[rows]))]
        before, after = rows[:-1], rows[1:]
        is_same = trace.sm[before] == trace.sm[after]
        gaps += (trace.start_ns[after] - trace.end_ns[before])[is_same].tolist()
    return max(0, round(float(np.median(gaps)))) if gaps else known.overheads["block_ns"]


def _boundary_ns(trace: Trace, known: DeviceCosts) -> int:
    """Mean time from a kernel's last end to the next one's first start."""
    count = len(trace.header.stages)
    starts = [int(trace.start_ns[trace.stage == s].min()) for s in range(count)]
    ends = [int(trace.end_ns[trace.stage == s].max()) for s in range(count)]
    gaps = [max(0, start - end) for start, end in zip(starts[1:], ends[:-1], strict=True)]
    return round(sum(gaps) / len(gaps)) if gaps else known.overheads["boundary_ns"]


Speeds = tuple[tuple[float, ...], tuple[float, ...], FloatArray]


def _alone(trace: Trace) -> Speeds:
    """One block per SM: nothing is shared, a block's work is its time. No post is in it."""
    return (1.0,), (0.0,), (trace.end_ns - trace.start_ns).astype(float)


def _shared(trace: Trace, most: int, law: SharingLaw) -> Speeds:
    """Several blocks per SM: (mean speeds, oldest_first_bias, the time each block would have taken alone).

    Where the trace shows only one number of blocks on the SMs, speeds stay at the defaults; so they do where
    blocks of different kernels use an SM so differently that a fit to one kernel's says nothing of another's.
    """
    regimes = Regimes.of(trace, most)
    fitting = [info.blocks_per_sm for info in trace.header.stages]
    is_telling = is_alike(fitting) and max(regimes.shares) < MOST_TOGETHER
    if is_telling:
        demand, oldest_first_bias = fit_speeds(trace, regimes, law)
    else:
        demand = law.demand(fitting)
        oldest_first_bias = law.biases(demand, most)
    sharing = law.speeds(demand, most)
    return sharing, oldest_first_bias, regimes.work(sharing, oldest_first_bias)


def _by_tile(trace: Trace, rows: NDArray[np.bool_], work: FloatArray) -> list[int]:
    """Work of every block of a stage in the grid's order, slice after slice."""
    x_count, y_count, z_count = trace.header.stages[int(trace.stage[rows][0])].grid
    times = np.zeros(x_count * y_count * z_count, dtype=np.int64)
    times[(trace.z[rows] * y_count + trace.y[rows]) * x_count + trace.x[rows]] = work[rows].round()
    return [int(time) for time in times]


def without_sums(trace: Trace, work_ns: FloatArray, partial_ns: int) -> tuple[FloatArray, dict[str, int]]:
    """(the blocks' work without storing and adding sums, nanoseconds for adding one slice by stage).

    What storing costs, `partial_ns`, a trace does not tell; that it is the same for all is what counts.

    The last slice of a tile ends when it has added the others': after its own work or after the last of
    these was stored, whichever is later. It is taken to have worked as long as they did, on average.
    """
    sums, sums_ns = work_ns.copy(), {}
    for index, info in enumerate(trace.header.stages):
        if info.grid[2] > 1:
            slices = _slices(trace, index)
            others, last = slices[:, :-1], slices[:, -1]
            alone = work_ns[others].mean(axis=1) - partial_ns
            since_stored = trace.end_ns[last] - trace.end_ns[others].max(axis=1)
            adding = np.minimum(work_ns[last] - alone, since_stored)
            sums_ns[info.name] = max(0, round(float(np.median(adding)) / others.shape[1]))
            sums[others] -= partial_ns
            sums[last] = alone
    return np.maximum(1.0, sums), sums_ns


def _slices(trace: Trace, stage: int) -> IntArray:
    """Rows of the trace, (tiles, slices): those of a tile in the order of their ends."""
    columns, _, count = trace.header.stages[stage].grid
    rows = np.flatnonzero(trace.stage == stage)
    tile = trace.y[rows] * columns + trace.x[rows]
    return np.asarray(rows[np.lexsort((trace.end_ns[rows], tile))].reshape(-1, count))


LEAST_SEEN = 0.05  # share of all block time below which a number of blocks does not show their biases
MOST_BIAS = 0.9
LEAST_DEMAND, MOST_DEMAND = 0.1, 4.0  # of an SM; beyond, speeds no longer depend on it
PRECISION = 1e-3  # of the demand's logarithm
KEPT = (sqrt(5) - 1) / 2  # of an interval in which the least is looked for (golden section)


def fit_speeds(trace: Trace, regimes: Regimes, law: SharingLaw) -> tuple[float, tuple[float, ...]]:
    """(demand of one block, oldest_first_bias of 1, 2, 3... blocks on an SM) by least squares.

    For block i of stage s: sum of time x speed, over its regimes, = work(s). A demand gives all mean speeds
    (`SharingLaw.speeds`); the one that leaves the least squares, as a share of the work, is taken.
    """
    low, high = log(LEAST_DEMAND), log(MOST_DEMAND)
    while high - low > PRECISION:
        left, right = high - KEPT * (high - low), low + KEPT * (high - low)
        if _biases(trace, regimes, exp(left), law)[0] < _biases(trace, regimes, exp(right), law)[0]:
            high = right
        else:
            low = left
    demand = exp((low + high) / 2)
    return demand, _biases(trace, regimes, demand, law)[1]


def _biases(
    trace: Trace, regimes: Regimes, demand: float, law: SharingLaw
) -> tuple[float, tuple[float, ...]]:
    """(squares left, biases) with the mean speeds of a demand; 0 for numbers of blocks hardly seen."""
    speeds = np.array(law.speeds(demand, regimes.together.shape[1]))
    seen = [n for n in range(1, speeds.size) if regimes.shares[n] > LEAST_SEEN]
    member = (trace.stage[:, None] == np.arange(len(trace.header.stages))).astype(float)
    work = regimes.together @ speeds
    scale = float(work.mean())
    system = np.hstack([-(regimes.by_age * speeds)[:, seen] / scale, member])
    result = np.linalg.lstsq(system, work / scale, rcond=None)[0]
    biases = np.zeros(speeds.size)
    biases[seen] = np.clip(result[: len(seen)], 0.0, MOST_BIAS)
    squares = float(((work / scale - system @ result) ** 2).sum())
    return squares, tuple(round(float(bias), 3) for bias in biases)
