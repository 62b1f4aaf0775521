"""Which plan and tiles wavesim picks for measured pairs and chains of convolutions, and what that takes.

Example: of two 14 x 14 x 256 at batch 32 semaphores are predicted to lose in every tile, and stream sync it
is. `python -m wavesim.evaluation.conv_choices` predicts every candidate that `conv_bench` tried, from the
device's constants alone, picks the fastest whose gain is worth it (`Forecast.is_worth_it`, as `wavesim tune`
does), else stream sync, and writes the picks beside their measured times. Costs were fitted to times of many
of these cases on the first kernels, to 56 x 56 images on later ones, and to the blind lists, of other cases.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import geometric_mean

from wavesim.evaluation.conv_bench_results import NEAR_FILTERS, PICKED, BenchRun, Case, bench_run
from wavesim.evaluation.conv_blind_cases import PERSISTENT_PLANS
from wavesim.evaluation.conv_runs import TriedPlan, tried_plans
from wavesim.evaluation.layer_blind_cases import BASELINE
from wavesim.evaluation.layer_graphs_table import times_of
from wavesim.model.device import Device, default_device
from wavesim.plan.parsing import parse_plan
from wavesim.predict.defaults import find_costs
from wavesim.predict.prediction import improvement_points
from wavesim.recordings.shipped import FOLDER
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text

# Of the first kernels, picked by constants that were fitted to these; of later ones by the same; by today's.
FIRST_CHOICES = FOLDER / "convolutions" / "choices.json"
CHOICES = FOLDER / "convolutions" / "choices-filters-first.json"
TODAYS_CHOICES = FOLDER / "convolutions" / "choices-today.json"
MOST_BYTES = 1 << 20
PLANS = (BASELINE, "pdl", "pdl+row", *PERSISTENT_PLANS)  # those that predictions were scored for


@dataclass(frozen=True)
class ConvChoice:
    """What is picked of a case's candidates, and the measured median of that in nanoseconds."""

    kind: str
    name: str
    plan: str
    tiles: str
    predicted_points: float
    measured_ns: int


def picked(tried: Sequence[TriedPlan], device: Device) -> tuple[TriedPlan, float]:
    """The fastest predicted of those that are worth it over the fastest stream sync, else that; its gain."""
    ranked = sorted(
        ((one.predicted_ns(device), one) for one in tried if one.plan in PLANS), key=itemgetter(0)
    )
    stream_ns, stream = next(entry for entry in ranked if entry[1].plan == BASELINE)
    for ns, one in ranked:
        points = improvement_points(ns, stream_ns)
        if one.plan != BASELINE and _is_worth_it(one, points, device):
            return one, points
    return stream, 0.0


def _is_worth_it(one: TriedPlan, points: float, device: Device) -> bool:
    if points <= 0:
        return False
    pipeline = one.pipeline
    known = find_costs(pipeline, device)
    return known.forecast(known.simulated(pipeline, parse_plan(one.plan), device), points).is_worth_it


def choices_of(run: BenchRun, device: Device) -> Iterator[ConvChoice]:
    """Of all pairs and chains."""
    found = tried_plans({"cases": [case for case in run.cases if case.get("count", 1) > 1]})
    for (kind, case), alike in groupby(found, key=lambda one: (one.kind, one.case)):
        one, points = picked(list(alike), device)
        name = case.removeprefix(f"{kind} ")
        yield ConvChoice(kind, name, one.plan, one.tiles, round(points, 1), one.measured_ns)


def read_choices(path: Path = CHOICES) -> dict[tuple[str, str], ConvChoice]:
    """As last written, by kind and name; none where they never were."""
    if not path.is_file():
        return {}
    found = (ConvChoice(**one) for one in read_json(path, MOST_BYTES)["choices"])
    return {(one.kind, one.name): one for one in found}


def with_choices(run: BenchRun | None, path: Path = CHOICES) -> BenchRun | None:
    """The same with what was picked as one more class of each case."""
    if run is None:
        return None
    choices = read_choices(path)
    return replace(run, cases=tuple(_with(case, choices) for case in run.cases))


def _with(case: Case, choices: Mapping[tuple[str, str], ConvChoice]) -> Case:
    choice = choices.get((case["kind"], case["name"]))
    if choice is None:
        return case
    # Beside the others' times of the same run, where the file's newest has what was picked then.
    tried = {(one.plan, one.tiles): one.measured_ns for one in tried_plans({"cases": [case]})}
    entry = {
        "class": PICKED,
        "label": f"{choice.plan}, {choice.tiles}",
        "median_ns": tried.get((choice.plan, choice.tiles), choice.measured_ns),
    }
    return {**case, "finalists": [*case["finalists"], entry]}


def todays_table(run: BenchRun) -> str:
    """Markdown: what today's picks take, over the fastest measured of stream sync and of dependent launch."""
    times = {(case["kind"], case["name"]): times_of(case) for case in run.cases}
    lines = ["| convolutions | picked | its time, µs | over stream sync | over dependent launch |"]
    lines.append("|---|---|--:|--:|--:|")
    speeds: dict[str, list[float]] = {"stream": [], "pdl": []}
    for (kind, name), one in read_choices(TODAYS_CHOICES).items():
        over = {word: times[kind, name][word] / one.measured_ns for word in speeds}
        for word, speed in over.items():
            speeds[word].append(speed)
        cells = (f"{kind} {name}", f"{one.plan}, {one.tiles}", f"{one.measured_ns / 1e3:.1f}")
        lines.append(f"| {' | '.join(cells)} | {over['stream']:.2f} | {over['pdl']:.2f} |")
    means = " | ".join(f"{geometric_mean(found):.2f}" for found in speeds.values())
    lines.append(f"| geometric mean of {len(speeds['stream'])} | | | {means} |")
    return "\n".join(lines)


def main() -> int:
    """Writes today's picks, and prints what they take over the fastest measured of each class."""
    run = bench_run(NEAR_FILTERS)
    if run is None:
        print("no pair was measured yet: python -m wavesim_gpu.bench.kinds.conv_bench")  # noqa: T201
        return 1
    found = list(choices_of(run, default_device()))
    write_text(TODAYS_CHOICES, json.dumps({"choices": [asdict(one) for one in found]}, indent=1) + "\n")
    print(todays_table(run))  # noqa: T201  # the command's output
    return 0


if __name__ == "__main__":
    sys.exit(run_program("conv_choices", main))
