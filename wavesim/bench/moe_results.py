"""What measured MoE layers say: against PyTorch, a fused Triton layer, the roofline, and our own predictions.

Example: `python -m wavesim.bench.moe_results gpu/results/moe-layers/2026-11-28/h200.json
gpu/results/moe-layers/2026-11-28` prints a line per case, then the figures that are claimed. The roofline is
each touched expert's weights at the rate of a kernel that only reads, or 760 TFLOP/s, whichever is longer.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from wavesim.bench.case_list import load_list
from wavesim.bench.interval_fit import grouped_quantile
from wavesim.bench.registration import registered
from wavesim.costs.layer_costs import costs_of_stages
from wavesim.model.device import load
from wavesim.predict.intervals import spread_points
from wavesim.safe_io.documents import read_measured
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program
from wavesim.sim.simulation import simulate

MOST_BYTES, FLOPS_PER_US = 10_000_000, 760e6
STREAM, OURS = "persistent-stream", "persistent"
TILE_PLANS = ("persistent+pdl+row", OURS)
SMALL = (16, 256)  # tokens
LIST = "moe-layers"


@dataclass(frozen=True)
class MoeCase:
    """Microseconds by way: `usual`, our operator as it is called, `ours` by plan, the best of PyTorch's
    chains, Triton's layer, the roofline.
    """

    name: str
    tokens: int
    usual: float
    ours: Mapping[str, float]
    torch: float
    triton: float
    roof: float

    @property
    def gain(self) -> float:
        """Of the faster plan with semaphores, as a ratio."""
        return self.ours[STREAM] / min(self.ours[plan] for plan in TILE_PLANS)


def read_cases(path: Path) -> list[MoeCase]:
    """All rows of a measured list. Raises `RecordingError`."""
    rate = read_measured(path, MOST_BYTES, "measure labs --only moe", lambda data: data["read_bytes_per_us"])
    rows = read_measured(path, MOST_BYTES, "measure labs --only moe", lambda data: data["rows"])
    return [_case(row, rate) for row in rows]


def _case(row: Mapping[str, Any], rate: float) -> MoeCase:
    us = row["us"]
    return MoeCase(
        f"{row['model']} {row['tokens']} skew {row['skew']:g}",
        row["tokens"],
        us.get("ours", us[f"ours {OURS}"]),  # measured by itself since there is more than one usual plan
        {name.removeprefix("ours "): value for name, value in us.items() if name.startswith("ours ")},
        min(value for name, value in us.items() if name.startswith("torch")),
        us["triton"],
        max(row["weight_bytes"] / rate, row["flops"] / FLOPS_PER_US),
    )


def figures(cases: list[MoeCase]) -> dict[str, float]:
    """What is claimed of the measurements alone."""
    small = [case for case in cases if SMALL[0] <= case.tokens <= SMALL[1]]
    return {
        "vs_torch_geomean": geometric_mean(case.torch / case.usual for case in cases),
        "vs_fused_triton_geomean": geometric_mean(case.triton / case.usual for case in cases),
        "min": min(min(case.torch, case.triton) / case.usual for case in cases),
        "over_roof_small_median": median(case.usual / case.roof for case in small),
        "tile_plans_vs_stream_max": max(case.gain for case in cases),
    }


def errors(cases: list[MoeCase], folder: Path) -> dict[str, float]:
    """What is claimed of the registered predictions. Raises `RecordingError`."""
    known = {(entry.case, entry.plan): entry for entry in registered(folder, "costs").values()}
    times, gains, signs = [], [], []
    for case in cases:
        stream = case.ours[STREAM]
        for plan, measured in case.ours.items():
            entry = known[case.name, plan]
            times.append(100 * abs(entry.time_ns / 1e3 / measured - 1))
            if plan in TILE_PLANS:
                gain = 100 * (1 - measured / stream)
                gains.append(abs(entry.points - gain))
                signs.append((entry.points > 0) == (gain > 0))
    return {
        "time_error_median_percent": median(times),
        "time_error_p90_percent": float(np.percentile(times, 90)),
        "gain_error_median": median(gains),
        "gain_error_p90": float(np.percentile(gains, 90)),
        "gain_sign_percent": 100 * sum(signs) / len(signs),
    }


def half_widths(cases: list[MoeCase], folder: Path) -> dict[str, float]:
    """Half of the 80 % interval over spread of each plan, of gains that were registered before measuring."""
    known = {(entry.case, entry.plan): entry.points for entry in registered(folder, "costs").values()}
    listed = {case.name: case for case in load_list(LIST).cases}
    device = load(load_list(LIST).device)
    ratios: dict[str, list[list[float]]] = {plan: [] for plan in TILE_PLANS}
    for case, plan in product(cases, TILE_PLANS):
        pipeline, whole = listed[case.name].pipeline(), listed[case.name].plan(plan, "row")
        costs = costs_of_stages(pipeline, device, schedule=whole.schedule.word)
        predicted = known[case.name, plan]
        gain = 100 * (1 - case.ours[plan] / case.ours[STREAM])
        spread = spread_points(simulate(pipeline, whole, device, costs), predicted)
        ratios[plan].append([abs(predicted - gain) / spread])
    return {plan: grouped_quantile(each) for plan, each in ratios.items()}


def main() -> int:
    """Prints the table and the figures."""
    options = _parser().parse_args()
    cases = read_cases(options.measured)
    head = f"{'us a call':<32}{'moe':>9}{STREAM:>18}{TILE_PLANS[0]:>20}{OURS:>12}"
    head += f"{'torch':>9}{'triton':>9}{'roof':>9}"
    lines = [head]
    for case in cases:
        ours = [case.ours[plan] for plan in (STREAM, *TILE_PLANS)]
        lines.append(
            f"{case.name:<32}{case.usual:>9.1f}{ours[0]:>18.1f}{ours[1]:>20.1f}{ours[2]:>12.1f}"
            f"{case.torch:>9.1f}{case.triton:>9.1f}{case.roof:>9.1f}"
        )
    result = figures(cases) | (errors(cases, options.registered) if options.registered else {})
    lines += [f"{name} {value:.3f}" for name, value in result.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="python -m wavesim.bench.moe_results")
    parser.add_argument("measured", type=Path, help="rows of the list moe-layers")
    parser.add_argument("registered", type=Path, nargs="?", help="folder of the predictions")
    return parser


if __name__ == "__main__":
    sys.exit(run_program("wavesim.bench.moe_results", main))
