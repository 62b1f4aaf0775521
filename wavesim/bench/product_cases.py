"""Predictions from products timed alone, as crossovers make them, held against the blind runs.

Example: GPT-3's MLP of 1,408 tokens in 128x256 tiles, row semaphores: predicted to lose 0.8 points from
constants that were fitted to single products, measured to lose 0.8. No trace of the run was used.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from wavesim.bench.blind_runs import BlindRun, MeasuredComparison, find_runs, pooled
from wavesim.bench.blind_sizes import BASELINE, SEMAPHORES, BlindSize
from wavesim.bench.jobs import Job
from wavesim.bench.recorded_cases import ceil_formula
from wavesim.bench.scored_case import ScoredPrediction
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.plan.parsing import parse_plan
from wavesim.predict.intervals import spread_points
from wavesim.predict.kinds import plan_kind
from wavesim.predict.prediction import improvement_of_rounds
from wavesim.predict.product_times import KIND, costs_from_products
from wavesim.recordings.shipped import FOLDER
from wavesim.safe_io.documents import read_json
from wavesim.tuning.crossover.family import MlpFamily, backend_of, mlp_of
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
    words = [(order, word) for order, word in repeats[0].rounds if word != BASELINE]
    return [_scored(run, size, order, word, repeats) for order, word in words]


def _of_family(device_name: str, backend: str, entry: dict[str, Any]) -> list[ScoredPrediction]:
    """One persistent kernel against stream sync at the sizes of a family."""
    device = devices.load(device_name)
    family = mlp_of(entry["model"], entry["tp"], parse_tile(entry["tile"]), backend)
    return [_of_rounds(family, device, entry, item["m"], item["rounds_ns"]) for item in entry["sizes"]]


def _of_rounds(
    family: MlpFamily, device: Device, entry: dict[str, Any], m: int, rounds_ns: Mapping[str, Sequence[int]]
) -> ScoredPrediction:
    pipeline = family.pipeline(m)
    known = costs_from_products(pipeline, device)
    (baseline, stream_rounds), (word, rounds) = rounds_ns.items()
    plan = parse_plan(word, entry["order"])
    trace, stream = (
        known.simulated(pipeline, item, device) for item in (plan, parse_plan(baseline, entry["order"]))
    )
    predicted = known.points(trace.time_ns, stream.time_ns)
    measured = improvement_of_rounds(rounds, stream_rounds)
    return ScoredPrediction(
        case=f"{entry['name']} M={m}",
        plan=word,
        group=entry["name"],
        source=SOURCE,
        kind=plan_kind(KIND, trace.header.plan),
        predicted=predicted,
        measured=measured,
        ceil_formula=ceil_formula(stream),
        time_error_percent=100.0 * ((100.0 - predicted) / (100.0 - measured.median) - 1.0),
        device=device.name,
        family="one persistent kernel",
        spread=spread_points(trace, predicted),
    )


def _scored(
    run: BlindRun, size: BlindSize, order: str, word: str, repeats: Sequence[MeasuredComparison]
) -> ScoredPrediction:
    device, pipeline = devices.load(run.facts["device"]), size.pipeline()
    known = costs_from_products(pipeline, device)
    plan, baseline = size.plan(word, order), size.plan(BASELINE, order)
    trace, stream = (known.simulated(pipeline, entry, device) for entry in (plan, baseline))
    predicted = known.points(trace.time_ns, stream.time_ns)
    whole = [repeat for repeat in repeats if (order, word) in repeat.rounds]
    measured = improvement_of_rounds(pooled(whole, order, word).ns, pooled(whole, order, BASELINE).ns)
    return ScoredPrediction(
        case=f"{size.name} {order}",
        plan=word,
        group=size.name,
        source=SOURCE,
        kind=plan_kind(KIND, trace.header.plan),
        predicted=predicted,
        measured=measured,
        ceil_formula=ceil_formula(stream),
        time_error_percent=100.0 * ((100.0 - predicted) / (100.0 - measured.median) - 1.0),
        device=device.name,
        family=size.family if word in SEMAPHORES else word,
        spread=spread_points(trace, predicted),
        run=run.name,
    )
