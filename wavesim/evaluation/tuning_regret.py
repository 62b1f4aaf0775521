"""The regret of tuning: how much longer the plan it picks took than the fastest of all that were measured.

Example: 28 plans were timed in turns at M = 1536. The simulator picks one of them without having seen those
times; its regret is its own time over the fastest one's, less one, in points.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from wavesim.errors import RecordingError
from wavesim.model.device import Device
from wavesim.predict.prediction import improvement_points
from wavesim.tuning.candidates import listed_plans
from wavesim.tuning.search import tune
from wavesim.workloads.catalogue import parse_tile, workload


@dataclass(frozen=True)
class Regret:
    """One size: the plan picked, the fastest, and in points how much longer than it and than stream sync."""

    case: str
    plans: int
    picked: str
    fastest: str
    regret_points: float
    over_stream_points: float


def regrets(path: Path, device: Device) -> list[Regret]:
    """What the plans listed in a results file of `python -m wavesim_gpu tuned` say of tuning.

    Raises `RecordingError` for a file that is none.
    """
    try:
        entries = json.loads(path.read_text())["cases"]
        cases: dict[tuple[str, int, str], dict[str, float]] = {}
        for entry in entries:
            key = (entry["workload"], entry["tokens"], entry["tile"])
            cases.setdefault(key, {})[entry["name"]] = median(entry["rounds_ns"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordingError(f"{path}: no results of tuned plans ({error!r})") from error
    return [_regret(*key, measured, device) for key, measured in cases.items()]


def _regret(name: str, tokens: int, tile: str, measured: dict[str, float], device: Device) -> Regret:
    pipeline = workload(name, tokens, parse_tile(tile))
    plans = listed_plans(pipeline)
    best = tune(pipeline, device, plans=list(plans.values())).accepting("idle").best.plan
    picked = next(name for name, plan in plans.items() if plan == best)
    fastest = min(measured, key=lambda plan: measured[plan])
    stream = min(time for plan, time in measured.items() if plan.startswith("stream"))
    return Regret(
        case=f"{name} {tile} M={tokens}",
        plans=len(measured),
        picked=picked,
        fastest=fastest,
        regret_points=-improvement_points(measured[picked], measured[fastest]),
        over_stream_points=-improvement_points(measured[picked], stream),
    )
