"""Draws the pictures of docs/the-model.md: each shows one effect, with it, without it, and as measured."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go

from wavesim.costs.calibration import calibrate
from wavesim.costs.clock import busy_share, clock_factors
from wavesim.costs.device_costs import costs_of
from wavesim.evaluation.blind_runs import BlindRun, find_runs, pooled
from wavesim.evaluation.blind_sizes import BlindSize
from wavesim.evaluation.foreign_pairs import BASELINE as FOREIGN_BASELINE
from wavesim.evaluation.foreign_runs import RUNS as FOREIGN
from wavesim.evaluation.foreign_runs import KnownPair, known_pairs
from wavesim.evaluation.score_page import score_figure
from wavesim.evaluation.scored_case import ScoredPrediction
from wavesim.evaluation.validation import sets_of
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.prediction import (
    calibrate_for,
    improvement_of_rounds,
    predict_from_kernel_times,
    predict_pair,
)
from wavesim.predict.score_history import SetScore
from wavesim.recordings.published_rows import PublishedRun, published_runs
from wavesim.recordings.shipped import cases
from wavesim.recordings.split import split_of
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.view.canvas import axis, base_layout, heading
from wavesim.view.theme import Theme, find_theme
from wavesim.workloads.gpt3 import gpt3_mlp

WIDTH, PLOT, LEFT, RIGHT, BOTTOM = 860, 330, 70, 30, 100
SYMBOLS = ("circle", "diamond-open", "x-thin-open")


def sharing_figure(theme: str) -> go.Figure:
    """How long the first GEMM's blocks take, two per SM: measured, with and without oldest-first bias."""
    case = next(c for c in cases() if (c.tile, c.tokens, c.order) == ("128x128", 3072, "row"))
    stream, pipeline = case.trace("stream"), gpt3_mlp(3072, (128, 128))
    costs = calibrate(stream)
    runs = {
        "measured on an H200": stream,
        "simulated, oldest first": simulate(pipeline, StreamSync(), load("h200"), costs),
        "simulated, without bias": simulate(
            pipeline, StreamSync(), load("h200"), replace(costs, oldest_first_bias=(0.0,))
        ),
    }
    series = {name: (trace.start_ns[_first(trace)], _durations(trace)) for name, trace in runs.items()}
    words = f"The older of two blocks on an SM runs {costs.bias(2):.0%} above their mean speed"
    source = "GPT-3 MLP, 3072 tokens, 128x128 tiles, stream sync: blocks of the first GEMM"
    return scatter(series, words, source, ("start (µs)", "time of a block (µs)"), 1e-3, theme)


def fetches_figure(theme: str) -> go.Figure:
    """When the producer's tiles end, in the order in which they were fetched: which share an SM decides."""
    run = find_runs()[0]
    size = next(s for s in run.sizes() if s.name == "portable gpt3-mlp 128x128 M=384")
    pipeline, plan = size.pipeline(), parse_plan("tile", "grouped:4")
    stream, measured = run.stream(size, "grouped:4"), run.trace(size, "grouped:4", "tile")
    costs = calibrate_for(pipeline, load("h200"), stream)
    runs = {
        "measured on an H200": measured,
        "simulated": simulate(pipeline, plan, load("h200"), costs),
        "simulated, fetched as issued": simulate(
            pipeline, plan, load("h200"), replace(costs, fetches_by_sm=False)
        ),
    }
    series = {
        name: (np.arange(_first(trace).sum()), 100 * trace.end_ns[_first(trace)] / trace.makespan_ns)
        for name, trace in runs.items()
    }
    words = "Tiles that share an SM are fetched one after the other, and take longer"
    source = "GPT-3 MLP, 384 tokens, 128x128 tiles in groups of 4 rows, tile semaphores: first GEMM"
    return scatter(series, words, source, ("fetched as number", "end (% of the run)"), 1.0, theme)


def _first(trace: Trace) -> np.ndarray:
    return trace.stage == 0


def _durations(trace: Trace) -> np.ndarray:
    return (trace.end_ns - trace.start_ns)[_first(trace)]


def memory_figure(theme: str) -> go.Figure:
    """How long a fast GEMM's tiles take in row-major order: measured, simulated with DRAM and without."""
    run = find_runs()[0]
    size = next(s for s in run.sizes() if s.name == "hopper-per-tile gpt3-mlp 128x256 M=1100")
    pipeline, plan, device = size.pipeline(), SemaphoreSync(RowSync()), load("h200")
    costs = calibrate_for(pipeline, device, run.stream(size, "row"))
    measured = run.trace(size, "row", "row")
    assert measured is not None
    runs = {
        "measured on an H200": measured,
        "simulated, DRAM shared": simulate(pipeline, plan, device, costs),
        "simulated, tiles as in stream sync": simulate(pipeline, plan, device, replace(costs, memory=None)),
    }
    series = {name: _second_over_first(trace) for name, trace in runs.items()}
    words = "Out of step tiles fetch for themselves what the L2 held for all, and take longer"
    source = "Hopper kernel, GPT-3 MLP, 1100 tokens, 128x256 tiles, row-major, row semaphores"
    titles = ("start (µs)", "tile of the second over one of the first")
    return scatter(series, words, source, titles, 1.0, theme)


def _second_over_first(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Starts in microseconds, and times of the second GEMM's tiles over the first's mean: no clock in it."""
    work = trace.end_ns - trace.start_ns - trace.wait_ns
    return trace.start_ns[~_first(trace)] / 1_000, work[~_first(trace)] / work[_first(trace)].mean()


def stream_k_figure(theme: str) -> go.Figure:
    """Gains of Stream-K, development split: predicted, without DRAM, and without DRAM and partial sums."""
    run = find_runs()[0]
    sizes = [s for s in run.sizes() if "stream-k" in s.plans and split_of(s.name) == "development"]
    rows = [_stream_k_gains(run, size, order) for size in sizes for order in size.orders]
    measured, *predicted = np.array(rows).T
    names = ("predicted", "an idle DRAM", "an idle DRAM, free sums")
    full, idle, free = predicted
    words = (
        f"Partial sums cost Stream-K {min(free - idle):.0f} to {max(free - idle):.0f} points, "
        f"a busy DRAM up to {max(idle - full):.0f}"
    )
    source = "Hopper kernel, GPT-3 and LLaMA MLP, blind run on an H200, development split, two orders each"
    series = {name: (measured, points) for name, points in zip(names, predicted, strict=True)}
    return scatter(
        series, words, source, ("measured (points)", "predicted (points)"), 1.0, theme, diagonal=True
    )


def _stream_k_gains(run: BlindRun, size: BlindSize, order: str) -> tuple[float, ...]:
    """Measured, then predicted with less and less of what Stream-K costs."""
    repeats = run.comparisons[size.name]
    ours, theirs = (pooled(repeats, order, word).ns for word in ("stream-k", "stream"))
    pipeline, plan = size.pipeline(), parse_plan("stream-k", order)
    full = calibrate_for(pipeline, load("h200"), run.stream(size, order))
    idle = replace(full, memory=None)
    ways = (full, idle, replace(idle, partial_ns=0, fixup_ns=0))
    return (
        improvement_of_rounds(ours, theirs).median,
        *(predict_pair(pipeline, plan, load("h200"), costs)[2] for costs in ways),
    )


def busy_clock_figure(theme: str) -> go.Figure:
    """The clock of the blocks of a short run by how many SMs computed, and what the model makes of it."""
    case = next(c for c in cases() if (c.tile, c.tokens, c.order) == ("128x256", 768, "row"))
    trace = case.trace("stream")
    share = busy_share(trace)
    clock_ghz = trace.cycles / (trace.end_ns - trace.start_ns)
    gain = costs_of(case.device).clock_gain
    factors = clock_factors(trace, gain)
    full = float(np.median(clock_ghz[share > 0.95] / factors[share > 0.95]))
    series = {"measured on an H200": (100 * share, clock_ghz), "the model": (100 * share, full * factors)}
    words = f"Beside idle SMs the clock is up to {gain:.0%} higher"
    source = "GPT-3 MLP, 768 tokens, 128x256 tiles, stream sync: every block, cycles over nanoseconds"
    return scatter(series, words, source, ("SMs computing (%)", "SM clock (GHz)"), 1.0, theme)


def clock_figure(theme: str) -> go.Figure:
    """Published gains of row semaphores, predicted with and without the fall of a power-limited clock."""
    runs = [run for run in _published() if run.policy == "row"]
    free = [replace(costs_of(run.device.name), clock_share=0.0) for run in runs]
    measured = np.array([run.improvement_points for run in runs])
    series = {
        "clock falls as SMs fill": (measured, _predicted(runs, [costs_of(run.device.name) for run in runs])),
        "clock stays": (measured, _predicted(runs, free)),
    }
    words = "At the power limit fuller SMs lower the clock, which costs a quarter of the saving"
    source = "published row semaphores on V100 and A100, predicted from two kernel times"
    return scatter(
        series, words, source, ("measured (points)", "predicted (points)"), 1.0, theme, diagonal=True
    )


def wait_figure(theme: str) -> go.Figure:
    """Gains of foreign kernels under tile semaphores, from kernel times, with and without a cost of waits."""
    (run,) = [run for run in find_runs(FOREIGN) if run.name.endswith("-trial")]
    free = {"ready_poll_ns": 0, "refill_ns": 0}
    found = np.array([gains for pair in known_pairs(run).values() for gains in _tile_gains(run, pair, free)])
    measured, costly, without = found.T
    series = {"waits cost a poll and a refill": (measured, costly), "waits are free": (measured, without)}
    words = "Kernels that wait at a block barrier pay 0.3 to 0.6 µs per wait on an H200"
    source = "19 pairs of foreign kernels under tile semaphores, predicted from kernel times (development)"
    return scatter(
        series, words, source, ("measured (points)", "predicted (points)"), 1.0, theme, diagonal=True
    )


def _tile_gains(
    run: BlindRun, known: KnownPair, free: dict[str, int]
) -> Iterator[tuple[float, float, float]]:
    """(measured, predicted, predicted with free waits) of each plan with tile semaphores."""
    pair, device, pipeline = known.pair, load("h200"), known.pipeline("kernel-times")
    rounds = run.comparisons[pair.name]
    costs = costs_from_kernel_times(pipeline, device, known.kernel_ns)
    for word in pair.plans:
        if word.endswith("tile") and (pair.order, word) in rounds[0].rounds:
            times = [pooled(rounds, pair.order, one).ns for one in (word, FOREIGN_BASELINE)]
            predicted = (
                predict_pair(pipeline, pair.plan(word), device, replace(costs, **changed))[2]
                for changed in ({}, free)
            )
            yield (improvement_of_rounds(*times).median, *predicted)


def _published() -> list[PublishedRun]:
    return [
        run
        for run in published_runs("mlp")
        if run.is_same_configuration and not run.beats_work_conservation and run.size >= 128
    ]


def _predicted(runs: Sequence[PublishedRun], known: Sequence) -> np.ndarray:
    found = [
        predict_from_kernel_times(run.pipeline, run.plan, run.device, run.kernel_ns, one)[1]
        for run, one in zip(runs, known, strict=True)
    ]
    return np.array(found)


def set_figure(
    name: str, found: Sequence[ScoredPrediction], scores: Sequence[SetScore], theme: str
) -> go.Figure:
    """One set of the score page."""
    return score_figure(name, sets_of(found)[name], next(s for s in scores if s.name == name), theme)


def scatter(
    series: dict[str, tuple[np.ndarray, np.ndarray]],
    words: str,
    source: str,
    titles: tuple[str, str],
    unit: float,
    theme: str,
    *,
    diagonal: bool = False,
) -> go.Figure:
    """Series of (x, y) as points, under a finding and its source; `unit` scales both axes."""
    palette = find_theme(theme)
    head = heading(words, source, WIDTH - LEFT - RIGHT)
    height = head.height + PLOT + BOTTOM
    layout = base_layout(palette, head, (WIDTH, height), (LEFT, RIGHT, head.height, BOTTOM))
    layout["xaxis"], layout["yaxis"] = axis(palette, titles[0]), axis(palette, titles[1])
    values = np.concatenate([part for pair in series.values() for part in pair]) * unit
    if diagonal:
        low, high = float(values.min()) - 1, float(values.max()) + 1
        line = {"type": "line", "x0": low, "y0": low, "x1": high, "y1": high, "layer": "below"}
        layout["shapes"] = [{**line, "line": {"color": palette.muted, "width": 1.5}}]
    colours = _colours(palette)
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": (x * unit).tolist(),
            "y": (y * unit).tolist(),
            "marker": {
                "symbol": SYMBOLS[i],
                "size": 7,
                "color": colours[i],
                "line": {"width": 1.5, "color": colours[i]},
            },
        }
        for i, (name, (x, y)) in enumerate(series.items())
    ]
    return go.Figure(data=data, layout=layout)


def _colours(theme: Theme) -> tuple[str, str, str]:
    return theme.good, theme.ink, theme.bad
