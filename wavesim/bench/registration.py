"""Registered predictions: written once, with their SHA-256, before anything that they predict is measured.

Example: `register(folder, "costs", predictions, made_by)` writes costs.json and costs.sha256 and returns the
hash. A file that was changed afterwards is refused. "costs" are predictions from the device's constants
alone, "trace" from a recording of stream sync, "kernel-times" from its kernels alone. GEMMs are predicted
from the last two as `wavesim predict` does, with its interval.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wavesim.bench.case_list import Case
from wavesim.costs.calibration import calibrate
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import law_of_stage
from wavesim.costs.layer_costs import costs_of_stages, load_ghz_of
from wavesim.errors import RecordingError, WavesimError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.plan.schedule import TilePerBlock
from wavesim.predict.forecast import forecast_of
from wavesim.predict.intervals import Support
from wavesim.predict.kernel_times import kernel_times_of
from wavesim.predict.kinds import STREAM_TRACE, kernel_times_kind, known_text, plan_kind, trace_kind
from wavesim.predict.prediction import improvement_points, predict_from_kernel_times, predict_from_stream
from wavesim.safe_io.workers import worker_pool
from wavesim.safe_io.writing import write_text
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace

Basis = Literal["costs", "trace", "kernel-times", "profile"]
PER_TILE = TilePerBlock().word


@dataclass(frozen=True)
class CasePrediction:
    """What a plan of a case will take, and gain over the baseline in its order, in points.

    `low` to `high` is the interval that a user is told, `support` where such predictions were scored.
    """

    case: str
    order: str
    plan: str
    time_ns: int
    points: float
    low: float | None = None
    high: float | None = None
    support: Support | None = None


def register(
    folder: Path, basis: Basis, predictions: Iterable[CasePrediction], made_by: Mapping[str, str]
) -> str:
    """Writes the predictions and their SHA-256, which it returns.

    Raises `RecordingError` where there are some already.
    """
    path = folder / f"{basis}.json"
    if path.exists():
        raise RecordingError(f"{path} is there already; predictions are written once. Use another folder")
    folder.mkdir(parents=True, exist_ok=True)
    document = {"made_by": dict(made_by), "predictions": [asdict(entry) for entry in predictions]}
    write_text(path, json.dumps(document, indent=0) + "\n")
    stamp = hashlib.sha256(path.read_bytes()).hexdigest()
    write_text(folder / f"{basis}.sha256", f"{stamp}  {path.name}\n")
    return stamp


def registered(folder: Path, basis: Basis) -> dict[tuple[str, str, str], CasePrediction]:
    """By case, order and plan. Raises `RecordingError` for a file changed after it was registered."""
    path = folder / f"{basis}.json"
    data = path.read_bytes()
    stamp = (folder / f"{basis}.sha256").read_text(encoding="utf-8").split()[0]
    if hashlib.sha256(data).hexdigest() != stamp:
        raise RecordingError(f"{path}: its SHA-256 is not the registered one; the file was changed")
    entries = (CasePrediction(**entry) for entry in json.loads(data)["predictions"])
    return {(entry.case, entry.order, entry.plan): entry for entry in entries}


def predict_from_costs(cases: Sequence[Case], device_name: str) -> list[CasePrediction]:
    """From the device's constants, before anything has run."""
    return _in_pool(_from_costs, ((case, device_name) for case in cases))


def predict_from_streams(
    streams: Mapping[Case, Mapping[str, Trace]], device_name: str
) -> dict[Basis, list[CasePrediction]]:
    """From recordings of stream sync, by order, before another plan has run; of GEMMs from times too."""
    each = [(case, order, trace, device_name) for case, by in streams.items() for order, trace in by.items()]
    told = [entry for entry in each if entry[0].kind.is_told]
    from_trace = _in_pool(_from_stream, (entry for entry in each if not entry[0].kind.is_told))
    result: dict[Basis, list[CasePrediction]] = {
        "kernel-times": _in_pool(_as_told_from_times, told),
        "trace": [*from_trace, *_in_pool(_as_told, told)],
    }
    return {basis: entries for basis, entries in result.items() if entries}


def _in_pool(
    predict: Callable[..., list[CasePrediction]], arguments: Iterable[tuple[Any, ...]]
) -> list[CasePrediction]:
    with worker_pool() as pool:
        waiting = [pool.submit(predict, *entry) for entry in arguments]
        return list(chain.from_iterable(future.result() for future in waiting))


def _from_costs(case: Case, device_name: str) -> list[CasePrediction]:
    device = devices.load(device_name)
    if times := case.kind.times(case.fields, device):
        first, order = next(iter(times.values())), case.fields["collective"]
        return [
            CasePrediction(case.name, order, way, ns, improvement_points(ns, first))
            for way, ns in times.items()
        ]
    pipeline = case.pipeline()
    if any(law_of_stage(stage, device) is None for stage in pipeline.stages):
        return []  # the device's file has no times of such kernels

    @cache
    def costs(schedule: str) -> CostModel:
        return costs_of_stages(pipeline, device, schedule=schedule)

    return [entry for order in case.orders for entry in _plans(case, order, device, costs)]


def _from_stream(case: Case, order: str, trace: Trace, device_name: str) -> list[CasePrediction]:
    device = devices.load(device_name)

    @cache
    def costs(schedule: str) -> CostModel:
        return stream_costs(case, trace, device, schedule)

    return list(_plans(case, order, device, costs))


def _as_told(case: Case, order: str, trace: Trace, device_name: str) -> list[CasePrediction]:
    """What `wavesim predict` says from a stream-sync trace."""
    device, pipeline = devices.load(device_name), case.pipeline()
    known = known_text(STREAM_TRACE, pipeline)

    def predict(word: str) -> tuple[Trace, float]:
        return predict_from_stream(pipeline, case.plan(word, order), device, trace)

    def kind(word: str) -> str:
        return trace_kind(known, trace.header.stages, word)

    return list(_told(case, order, trace.time_ns, device, predict, kind))


def _as_told_from_times(case: Case, order: str, trace: Trace, device_name: str) -> list[CasePrediction]:
    """What `wavesim predict` says from the kernels' times alone."""
    device, pipeline = devices.load(device_name), case.pipeline()
    times = kernel_times_of(trace)
    known = kernel_times_kind(pipeline, device, max(info.blocks_per_sm for info in trace.header.stages))

    def predict(word: str) -> tuple[Trace, float]:
        return predict_from_kernel_times(pipeline, case.plan(word, order), device, times)

    return list(_told(case, order, trace.time_ns, device, predict, partial(plan_kind, known)))


def _told(
    case: Case,
    order: str,
    stream_ns: int,
    device: Device,
    predict: Callable[[str], tuple[Trace, float]],
    kind: Callable[[str], str],
) -> Iterator[CasePrediction]:
    """What cannot be predicted is left out."""
    yield CasePrediction(case.name, order, case.baseline, stream_ns, 0.0)
    for word in case.plans:
        with suppress(WavesimError):
            trace, points = predict(word)
            told = forecast_of(points, trace, kind(word), device.name)
            yield CasePrediction(
                case.name, order, word, trace.time_ns, points, told.low, told.high, told.support
            )


def _plans(
    case: Case, order: str, device: Device, costs: Callable[[str], CostModel]
) -> Iterator[CasePrediction]:
    """By the costs of each plan's schedule."""
    pipeline, stream_ns = case.pipeline(), 0
    for own_order, word in case.entries:
        if own_order == order:
            plan = case.plan(word, order)
            time_ns = simulate(pipeline, plan, device, costs(plan.schedule.word)).time_ns
            stream_ns = time_ns if word == case.baseline else stream_ns
            yield CasePrediction(case.name, order, word, time_ns, improvement_points(time_ns, stream_ns))


def stream_costs(case: Case, trace: Trace, device: Device, schedule: str = PER_TILE) -> CostModel:
    """Each block's own time as recorded; what plans add as the device's constants say.

    A recording is short, so that its clock is higher than that of many rounds: blocks with tensor work take
    the recorded cycles at the clock that such work leaves. In another `schedule` than the recording's, a
    block per tile, they take as much longer or shorter as the constants say.
    """
    pipeline = case.pipeline()
    known = calibrate(trace, per_block=True)
    own = costs_of_stages(pipeline, device)
    if schedule != PER_TILE:
        other = costs_of_stages(pipeline, device, schedule=schedule)
        as_recorded = stream_costs(case, trace, device)
        return replace(
            other, tile_ns=_in_proportion(as_recorded, own, other), boundary_ns=as_recorded.boundary_ns
        )
    ghz = load_ghz_of(pipeline, device)
    at_load = {
        stage.name: _with_mean(known.tile_ns[stage.name], _mean_cycles(trace, i) / ghz)
        for i, stage in enumerate(pipeline.stages)
        if (law := law_of_stage(stage, device)) is not None and law.is_clocked(stage.work)
    }
    return replace(
        own,
        tile_ns={**known.tile_ns, **at_load},
        boundary_ns=max(0, known.boundary_ns + known.block_ns - own.block_ns),
    )


def _in_proportion(recorded: CostModel, own: CostModel, other: CostModel) -> dict[str, int | list[int]]:
    """The tile times of `other`, by as much longer as those recorded are than those of `own`."""
    scaled: dict[str, int | list[int]] = {}
    for stage, times in other.tile_ns.items():
        ratio = np.mean(np.atleast_1d(recorded.tile_ns[stage])) / np.mean(np.atleast_1d(own.tile_ns[stage]))
        scaled[stage] = (
            round(times * ratio) if isinstance(times, int) else [round(ns * ratio) for ns in times]
        )
    return scaled


def _mean_cycles(trace: Trace, stage: int) -> float:
    if trace.cycles is None:
        raise RecordingError("the recording has no SM cycles; record it with wavesim_gpu's stamps")
    return float(trace.cycles[trace.stage == stage].mean())


def _with_mean(times: int | Sequence[int], mean_ns: float) -> list[int]:
    """The same times in proportion."""
    array = np.atleast_1d(times)
    return [round(ns) for ns in array * mean_ns / array.mean()]
