"""Predictions from products timed alone, as crossovers make them, held against the blind runs.

Example: GPT-3's MLP of 1,408 tokens in 128x256 tiles, row semaphores: predicted to lose 0.8 points from
constants that were fitted to single products, measured to lose 0.8. No trace of the run was used.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from wavesim.bench.blind_runs import BlindRun, MeasuredComparison, find_runs, pooled
from wavesim.bench.blind_sizes import BASELINE, SEMAPHORES, BlindSize
from wavesim.bench.jobs import Job
from wavesim.bench.scored_case import ScoredPrediction, ceil_formula, time_error_percent
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.predict.intervals import spread_points
from wavesim.predict.kinds import plan_kind
from wavesim.predict.prediction import Measured, improvement_of_rounds
from wavesim.predict.product_times import KIND, costs_from_products
from wavesim.recordings.shipped import FOLDER
from wavesim.safe_io.documents import read_json
from wavesim.tuning.crossover.family import backend_of, mlp_of
from wavesim.workloads.catalogue import parse_tile

SOURCE = "products-alone"
CROSSOVERS = FOLDER / "crossover"  # rounds of families: one persistent kernel in turns with stream sync
MAX_BYTES = 4 << 20


def product_jobs(folder: Path | None = None) -> list[Job]:
    """One job for each size of each run of the kernels that the device's products were timed with, and for
    each measured family of MLPs.
    """
    families: list[Job] = [
        partial(_of_family, result["device"], result["backend"], entry)
        for path in sorted(CROSSOVERS.glob("*.json"))
        for result in (read_json(path, MAX_BYTES),)
        for entry in result["families"]
    ]
    return families + [
        partial(_of_size, run.folder, size)
        for run in find_runs(folder)
        for size in run.sizes()
        if size.stored.backend == backend_of(devices.load(run.facts["device"]))
        and size.split_k == (1, 1)
        and not size.is_persistent
    ]


@lru_cache(maxsize=1)
def _run(folder: Path) -> BlindRun:
    return BlindRun(folder)


def _of_size(folder: Path, size: BlindSize) -> list[ScoredPrediction]:
    run = _run(folder)
    repeats = run.comparisons[size.name]
    return [_of_plan(run, size, *entry, repeats) for entry in repeats[0].rounds if entry[1] != BASELINE]


def _of_plan(
    run: BlindRun, size: BlindSize, order: str, word: str, repeats: Sequence[MeasuredComparison]
) -> ScoredPrediction:
    whole = [repeat for repeat in repeats if (order, word) in repeat.rounds]
    measured = improvement_of_rounds(pooled(whole, order, word).ns, pooled(whole, order, BASELINE).ns)
    device, plans = devices.load(run.facts["device"]), (size.plan(word, order), size.plan(BASELINE, order))
    case, family = (f"{size.name} {order}", size.name), size.family if word in SEMAPHORES else word
    return _scored(case, word, size.pipeline(), device, plans, measured, family, run.name)


def _of_family(device_name: str, backend: str, entry: dict[str, Any]) -> list[ScoredPrediction]:
    """One persistent kernel against stream sync at the sizes of a family."""
    device = devices.load(device_name)
    family = mlp_of(entry["model"], entry["tp"], parse_tile(entry["tile"]), backend)
    result = []
    for item in entry["sizes"]:
        (baseline, stream_rounds), (word, rounds) = item["rounds_ns"].items()
        plans = parse_plan(word, entry["order"]), parse_plan(baseline, entry["order"])
        case, measured = (
            (f"{entry['name']} M={item['m']}", entry["name"]),
            improvement_of_rounds(rounds, stream_rounds),
        )
        pipeline = family.pipeline(item["m"])
        result.append(_scored(case, word, pipeline, device, plans, measured, "one persistent kernel"))
    return result


def _scored(
    case: tuple[str, str],
    word: str,
    pipeline: Pipeline,
    device: Device,
    plans: tuple[Plan, Plan],
    measured: Measured,
    family: str,
    run: str = "",
) -> ScoredPrediction:
    """Of a (case, group): the first of the plans against the second, stream sync."""
    known = costs_from_products(pipeline, device)
    trace, stream = (known.simulated(pipeline, plan, device) for plan in plans)
    predicted = known.points(trace.time_ns, stream.time_ns)
    return ScoredPrediction(
        case=case[0],
        plan=word,
        group=case[1],
        source=SOURCE,
        kind=plan_kind(KIND, trace.header.plan),
        predicted=predicted,
        measured=measured,
        ceil_formula=ceil_formula(stream),
        time_error_percent=time_error_percent(predicted, measured.median),
        device=device.name,
        family=family,
        spread=spread_points(trace, predicted),
        run=run,
    )
