"""How far simulated gains of pairs and chains are from what `conv_bench` measured: development data.

`python -m wavesim.evaluation.conv_bench_scores` prints, by plan, the errors of gains over stream sync in the
same tiles, and how far row and tile semaphores are apart. Constants were fitted to these cases.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from wavesim.evaluation.conv_bench_results import FOLDER
from wavesim.evaluation.conv_runs import TriedPlan, tried_plans
from wavesim.evaluation.layer_blind_cases import BASELINE
from wavesim.evaluation.layer_graphs_table import MOST_BYTES
from wavesim.model.device import Device, default_device
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.program import run_program

PLANS = ("pdl", "pdl+row")
FINE, COARSE = "tile", "row"  # each kernel on a stream of its own: the only plans measured with both
Tried = Mapping[str, TriedPlan]


def in_same_tiles(paths: Iterable[Path]) -> list[Tried]:
    """By plan, those of one case in one tile that were measured under stream sync."""
    found: dict[tuple[str, str], dict[str, TriedPlan]] = {}
    for path in paths:
        for one in tried_plans(read_json(path, MOST_BYTES)):
            found.setdefault((one.case, one.tiles), {})[one.plan] = one
    return [plans for plans in found.values() if BASELINE in plans]


def gain_errors(found: Iterable[Tried], plan: str, device: Device) -> list[float]:
    """Simulated minus measured gain over stream sync, in points."""
    return [
        100.0 * (_share(plans, plan, None) - _share(plans, plan, device)) for plans in found if plan in plans
    ]


def _share(plans: Tried, plan: str, device: Device | None) -> float:
    """A plan's time over stream sync's, measured or simulated on a device."""
    ours, base = plans[plan], plans[BASELINE]
    if device is None:
        return ours.measured_ns / base.measured_ns
    return ours.predicted_ns(device) / base.predicted_ns(device)


def fine_over_coarse(found: Iterable[Tried]) -> list[float]:
    """Measured: by how many points of stream sync's time tile semaphores are faster than row semaphores."""
    return [
        100.0 * (plans[COARSE].measured_ns - plans[FINE].measured_ns) / plans[BASELINE].measured_ns
        for plans in found
        if {FINE, COARSE} <= plans.keys()
    ]


def _lines(found: Sequence[Tried], device: Device) -> Iterator[str]:
    for plan in PLANS:
        errors = np.abs(gain_errors(found, plan, device))
        yield (
            f"{plan}: {len(errors)} gains, off by {np.median(errors):.1f} points (median), "
            f"{np.percentile(errors, 90):.1f} (90 %)"
        )
    apart = np.abs(fine_over_coarse(found))
    yield (
        f"row against tile, measured: {len(apart)}, apart by {np.median(apart):.1f} points (median), "
        f"{apart.max():.1f} (most), 1 point or more in {int((apart >= 1).sum())}"
    )


def main() -> int:
    """Prints the scores of all files."""
    print("\n".join(_lines(in_same_tiles(sorted(FOLDER.glob("*.json"))), default_device())))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(run_program("conv_bench_scores", main))
