"""What is predicted in a blind run of layers: from the device's constants alone, and from stream sync's runs.

Example: of Llama-3-8B's layer at 1,024 tokens the constants say how long it takes under every plan. A
recording of its stream-sync run says it better, and what the other plans gain follows from that.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TypeVar

import numpy as np

from wavesim.costs.block_times import is_clocked
from wavesim.costs.calibration import calibrate
from wavesim.costs.cost_model import CostModel
from wavesim.costs.layer_costs import costs_of_stages, load_ghz_of
from wavesim.evaluation.layer_blind_cases import BASELINE, BlindCase
from wavesim.evaluation.layer_blind_runs import LayerPrediction
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.predict.prediction import improvement_points
from wavesim.safe_io.workers import worker_pool
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace

TILE_PER_BLOCK = "tile"  # a schedule's word
Case = TypeVar("Case", bound=BlindCase)


def predicted_from_costs(
    cases: Sequence[BlindCase], device_name: str, *, serialises_bias: bool = False
) -> list[LayerPrediction]:
    """Before anything has run. `serialises_bias`: of older kernels, as `tile_costs_of` says."""
    with worker_pool() as pool:
        waiting = [pool.submit(_from_costs, case, device_name, serialises_bias) for case in cases]
        return list(chain.from_iterable(one.result() for one in waiting))


def predicted_from_streams(
    streams: Mapping[Case, Mapping[str, Trace]], device_name: str, *, serialises_bias: bool = False
) -> list[LayerPrediction]:
    """From recordings of stream sync, by order, before any other plan has run.

    `serialises_bias`: of older kernels, as `tile_costs_of` says.
    """
    with worker_pool() as pool:
        waiting = [
            pool.submit(_from_stream, case, order, trace, device_name, serialises_bias)
            for case, traces in streams.items()
            for order, trace in traces.items()
        ]
        return list(chain.from_iterable(one.result() for one in waiting))


def _from_costs(case: BlindCase, device_name: str, serialises_bias: bool) -> list[LayerPrediction]:
    device, pipeline = devices.load(device_name), case.pipeline()

    @cache
    def costs(schedule: str) -> CostModel:
        return costs_of_stages(pipeline, device, serialises_bias=serialises_bias, schedule=schedule)

    return [one for order in case.orders for one in _plans(case, order, device, costs)]


def _from_stream(
    case: BlindCase, order: str, trace: Trace, device_name: str, serialises_bias: bool
) -> list[LayerPrediction]:
    device = devices.load(device_name)

    @cache
    def costs(schedule: str) -> CostModel:
        return stream_costs(case, trace, device, serialises_bias, schedule)

    return list(_plans(case, order, device, costs))


def stream_costs(
    case: BlindCase, trace: Trace, device: Device, serialises_bias: bool, schedule: str = "tile"
) -> CostModel:
    """Each block's own time and what lies between kernels as recorded; what a layer's plans add as known.

    A recording is short, so that its clock is higher than that of rounds on end: blocks with tensor work
    take the recorded cycles at the clock that such work leaves. In another `schedule` than the recording's,
    a block per tile, they take as much longer or shorter as the device's constants say.
    """
    pipeline = case.pipeline()
    known = calibrate(trace, per_block=True)
    own = costs_of_stages(pipeline, device, serialises_bias=serialises_bias)
    if schedule != TILE_PER_BLOCK:
        other = costs_of_stages(pipeline, device, serialises_bias=serialises_bias, schedule=schedule)
        as_recorded = stream_costs(case, trace, device, serialises_bias)
        return replace(
            other, tile_ns=_in_proportion(as_recorded, own, other), boundary_ns=as_recorded.boundary_ns
        )
    ghz = load_ghz_of(pipeline, device, serialises_bias=serialises_bias)
    at_load = {
        stage.name: _with_mean(known.tile_ns[stage.name], _mean_cycles(trace, i) / ghz)
        for i, stage in enumerate(pipeline.stages)
        if is_clocked(stage)
    }
    return replace(
        own,
        tile_ns={**known.tile_ns, **at_load},
        boundary_ns=max(0, known.boundary_ns + known.block_ns - own.block_ns),
    )


def _in_proportion(recorded: CostModel, own: CostModel, other: CostModel) -> dict[str, int | list[int]]:
    """The tile times of `other`, by as much longer as those recorded are than those of `own`."""
    found: dict[str, int | list[int]] = {}
    for stage, times in other.tile_ns.items():
        ratio = np.mean(np.atleast_1d(recorded.tile_ns[stage])) / np.mean(np.atleast_1d(own.tile_ns[stage]))
        if isinstance(times, int):
            found[stage] = round(times * ratio)
        else:
            found[stage] = [round(ns * ratio) for ns in times]
    return found


def _mean_cycles(trace: Trace, stage: int) -> float:
    assert trace.cycles is not None, "recordings of this run have them"
    return float(trace.cycles[trace.stage == stage].mean())


def _with_mean(times: int | Sequence[int], mean_ns: float) -> list[int]:
    """The same times in proportion."""
    found = np.atleast_1d(times)
    return [round(ns) for ns in found * mean_ns / found.mean()]


def _plans(
    case: BlindCase, order: str, device: Device, costs: Callable[[str], CostModel]
) -> Iterator[LayerPrediction]:
    """By the costs of each plan's schedule."""
    pipeline, stream_ns = case.pipeline(), 0
    for own_order, word in case.entries:
        if own_order == order:
            plan = case.plan(word, order)
            time_ns = simulate(pipeline, plan, device, costs(plan.schedule.word)).time_ns
            stream_ns = time_ns if word == BASELINE else stream_ns
            yield LayerPrediction(case.name, order, word, time_ns, improvement_points(time_ns, stream_ns))
