"""Kernels that stay: tasks handed out before or as they end, and which SM gets which block of WaveRNN.

Example: eight tasks of 1, 1, 1, 5, 1, 1, 1, 5 units for four blocks. Dealt out in turns (a grid-stride loop),
one block has both long ones: 10 units. From a queue they take 7.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError
from wavesim.labs.wavernn import (
    LAYERS,
    OWN_CUT,
    PUBLISHED_CUT,
    RECURRENT,
    STEPS,
    WAY_TEXTS,
    WAYS,
    BlockRows,
    Dtype,
    StepCycle,
    cycles_of,
    estimated_costs,
    five_tests,
    pipeline_of,
    published_device,
    rotated,
    trace_of,
)
from wavesim.model.device import Device, default_device, load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan, StreamSync
from wavesim.plan.schedule import Persistent
from wavesim.recordings.wavernn_times import WavernnTimes, recorded_wavernn
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import MOST_NS, real, whole
from wavesim.sim.simulation import simulate
from wavesim.teaching.exercises import require, several
from wavesim.teaching.exercises import whole as whole_number
from wavesim.teaching.shown import Shown
from wavesim.trace.trace import Trace
from wavesim.tuning.ranking import Tuning
from wavesim.tuning.search import tune

UNIT_NS = 1000
WHOLE_SM = Block(threads=1024)
TASKS = (1, 1, 1, 5, 1, 1, 1, 5)
MAPPING_CUTS = (
    PUBLISHED_CUT,
    BlockRows(32, 64),
    BlockRows(48, 64),
    BlockRows(96, 64),
    BlockRows(96, 32),
    BlockRows(128, 64),
)
FULL_CYCLE = StepCycle(LAYERS)
FEWEST_UNITS, BARRIER_WITHIN_NS = 5.0, 25
BEST_CYCLE_NS = 1_350  # of the cuts and orders that `tuned_mapping` tries the best takes 1,323
MEASURED_ALONE = {"words": "the same without a barrier", "cluster": "the same in one cluster of 16 blocks"}


@typed
def dealt_out(tasks: Sequence[float] = TASKS, blocks: int = 4) -> Trace:
    """A grid-stride loop: block i has tasks i, i + blocks, ..., whatever they take."""
    own = [sum(tasks[first::blocks]) for first in range(min(blocks, len(tasks)))]
    return _run("grid-stride loop", own, blocks, 0.0, StreamSync())


@typed
def queued(tasks: Sequence[float] = TASKS, blocks: int = 4, fetch: float = 0.0) -> Trace:
    """A queue: a block that has ended a task fetches the next; each fetch takes `fetch` units."""
    return _run("task queue", tasks, blocks, fetch, Plan(schedule=Persistent()))


def _run(name: str, tasks: Sequence[float], blocks: int, fetch: float, plan: Plan) -> Trace:
    if not tasks or not 1 <= blocks <= 1024:
        raise DescriptionError(
            f"{name}: {len(tasks)} tasks for {blocks} blocks; give 1 or more, at most 1024 blocks"
        )
    times = [round(real("a task", task, 0, MOST_NS / UNIT_NS) * UNIT_NS) for task in tasks]
    stage = Stage(name, Kernel(name, Grid(len(times)), WHOLE_SM, 1, 1))
    costs = CostModel({name: times}, tile_fetch_ns=round(fetch * UNIT_NS))
    trace = simulate(Pipeline("tasks", [stage]), plan, load("toy").with_sm_count(blocks), costs)
    return replace(trace, header=replace(trace.header, plan_label=name))


@typed
@cache
def tuned_mapping(device: Device, dtype: Dtype = "int8", step: int = 2) -> Tuning:
    """One full cycle of the pipeline: how rows are cut into blocks, and which block is issued first."""
    whole("step", step, 1, PUBLISHED_CUT.all_blocks)
    pipelines: dict[str, Pipeline] = {}
    tile_ns: dict[str, int | Sequence[int]] = {}
    costs = {cut: estimated_costs(device, dtype, cut) for cut in MAPPING_CUTS}
    for cut in MAPPING_CUTS:
        name = f"{cut.recurrent_rows}x{cut.output_rows}"
        pipelines[name] = pipeline_of([FULL_CYCLE], cut, name)
        tile_ns |= costs[cut].cost_model([FULL_CYCLE], cut, "both", name).tile_ns
    published, *_ = pipelines.values()
    model = CostModel(tile_ns, sharing=costs[PUBLISHED_CUT].sharing)
    plans = [StreamSync(rotated(first)) for first in range(0, PUBLISHED_CUT.all_blocks, step)]
    others = {name: one for name, one in pipelines.items() if one is not published}
    return tune(published, device, model, variants=others, plans=plans)


@typed
def five_tests_table(dtype: Dtype = "int8", measured: WavernnTimes | None = None) -> Shown:
    """The five tests in us: simulated for the talk's device and the default one, and measured where it was.

    Beside what was measured stands what the parts of a step say that the same run had timed alone. The rows
    behind were measured only: blocks that wait for words, and in int8 one cluster. `measured` is the
    package's recording unless one is given.
    """
    runs = ((published_device(), PUBLISHED_CUT), (default_device(), OWN_CUT))
    simulated = [five_tests(one, dtype, cut) for one, cut in runs]
    recording = measured or recorded_wavernn()
    times = recording.median_ns(dtype) if recording else {}
    parts = recording.predicted_ns.get(dtype, {}) if recording else {}
    rows = [
        (
            WAY_TEXTS[way],
            *(f"{one[way] / 1e3:.0f}" for one in simulated),
            _measured_text(parts.get(way)),
            _measured_text(times.get(way)),
        )
        for way in WAYS
    ]
    rows += [
        (text, "", "", "", _measured_text(times[way])) for way, text in MEASURED_ALONE.items() if way in times
    ]
    where = f"measured, {recording.device}, {recording.date[:10]}, µs" if recording else "measured, µs"
    names = (f"simulated, {one.name.upper()}, µs" for one, _ in runs)
    return Shown(("test", *names, "from measured parts, µs", where), tuple(rows))


def _measured_text(ns: float | None) -> str:
    return "not measured yet" if ns is None else f"{ns / 1e3:.0f}"


def _grade_task_order(answer: Any) -> str:
    """An order of the eight tasks in which a queue for four blocks takes the least."""
    is_list = isinstance(answer, Sequence) and not isinstance(answer, str)
    require(is_list, f"{answer!r} is no list of tasks.")
    are_these = all(isinstance(task, int | float) for task in answer) and sorted(answer) == sorted(TASKS)
    require(are_these, f"give the same eight tasks, {TASKS}, in another order.")
    units = queued(answer).makespan_ns / UNIT_NS
    require(units <= FEWEST_UNITS, f"{units:g} units from the queue. Which tasks had better not begin late?")
    return "Both long tasks begin at once, and the short ones fill the other two blocks."


def _cycles() -> dict[str, int]:
    """Cycles of 32 steps of five batches: one product at a time, and pipelined."""
    return {"alone": len(cycles_of("persistent", STEPS)), "pipelined": len(cycles_of("both", STEPS))}


@cache
def _break_even_ns() -> float:
    """The barrier at which staying takes as long as launching every cycle, on an H200, int8."""
    costs = estimated_costs(default_device(), "int8")
    others = costs.total_ns("both", STEPS) - costs.barrier_ns * (len(cycles_of("both", STEPS)) - 1)
    return (costs.total_ns("pipeline", STEPS) - others) / (len(cycles_of("both", STEPS)) - 1)


def _barrier(_: int) -> dict[str, float]:
    """The longest barrier with which staying is still no slower, within 25 ns."""
    return {
        "slowest": _break_even_ns() + BARRIER_WITHIN_NS,
        "fastest": _break_even_ns() - BARRIER_WITHIN_NS,
    }


def _grade_mapping(answer: Any) -> str:
    """(rows of a block of R, number of the block issued first) with which a T4's full cycle is short."""
    rows, first = several(answer, 2, "rows of a block of R, the block that is issued first")
    cut = BlockRows(whole_number(rows, 8, RECURRENT.rows) // 8 * 8, 64)
    require(rows % 8 == 0, f"{rows} rows: tensor cores take rows in eights.")
    first = whole_number(first, 0, cut.all_blocks - 1)
    blocks = cut.blocks(RECURRENT)
    sms = published_device().sm_count
    require(blocks <= sms, f"{blocks} blocks of R on {sms} SMs: some SM has two, and all wait for it.")
    device = published_device()
    costs = estimated_costs(device, "int8", cut)
    cycle = trace_of([FULL_CYCLE], "both", device, costs, cut, order=rotated(first)).makespan_ns
    require(
        cycle <= BEST_CYCLE_NS,
        f"a cycle takes {cycle:,} ns. Look for an SM that has a block of R and another beside it, or for a "
        "block of R that is too long by itself.",
    )
    return f"{blocks} SMs have a block of R each, the others two of the small ones: {cycle:,} ns, simulated."


GRADERS = {"18.1": _grade_task_order, "18.2": _cycles, "18.3": _barrier, "18.4": _grade_mapping}
