"""What wavesim chooses for layers and their parts in a blind run, and what that gained as measured.

`python -m wavesim.evaluation.layer_choices FOLDER` predicts every case of the run anew, takes the fastest
plan whose gain is worth it (`Forecast.is_worth_it`, as `wavesim tune` does), else stream sync, and divides by
its measured time those of stream sync and of dependent launch, each in its best order as measured. Example:
of LLaMA 65B's chain at 512 tokens no plan is predicted to gain what is asked, and stream sync it is.
"""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

from wavesim.evaluation.layer_blind_cases import BASELINE, BlindLayerCase, every_case
from wavesim.evaluation.layer_blind_runs import LayerBlindRun
from wavesim.model import device as devices
from wavesim.model_time.model_pass import layer_costs
from wavesim.predict.prediction import improvement_points
from wavesim.safe_io.program import run_program
from wavesim.safe_io.workers import worker_pool

DEPENDENT = "pdl"
CUT_MODELS = ("gpt3-145b", "llama-65b")  # at 8-way tensor parallelism


@dataclass(frozen=True)
class LayerChoice:
    """A case's choice, and measured times of others over the chosen one's; above 1 they are slower."""

    case: BlindLayerCase
    order: str
    plan: str
    over_stream: float
    over_dependent: float | None


def choice_of(run: LayerBlindRun, case: BlindLayerCase) -> LayerChoice:
    """Of a case that was measured."""
    device, pipeline = devices.load(str(run.facts["device"])), case.pipeline()
    known, measured = layer_costs(pipeline, device), run.rounds[case.name]
    traces = {
        (order, word): known.simulated(pipeline, case.plan(word, order), device)
        for order, word in case.entries
        if (order, word) in measured
    }
    stream_ns = min(trace.time_ns for (_, word), trace in traces.items() if word == BASELINE)
    worth_it = [
        key
        for key, trace in traces.items()
        if known.forecast(trace, improvement_points(trace.time_ns, stream_ns)).is_worth_it
    ]
    fallback = [key for key in traces if key[1] == BASELINE]
    chosen = min(worth_it or fallback, key=lambda key: traces[key].time_ns)
    chosen_ns = median(measured[chosen])

    def over(word: str) -> float | None:
        times = [median(found) for key, found in measured.items() if key[1] == word]
        return min(times) / chosen_ns if times else None

    over_stream = over(BASELINE)
    assert over_stream is not None, "stream sync is measured in every case"
    return LayerChoice(case, *chosen, over_stream, over(DEPENDENT))


def choices_of(run: LayerBlindRun, cases: Iterable[BlindLayerCase]) -> list[LayerChoice]:
    """Of those that were measured."""
    with worker_pool() as pool:
        waiting = [pool.submit(choice_of, run, case) for case in cases if case.name in run.rounds]
        return [one.result() for one in waiting]


def is_cut_chain(case: BlindLayerCase) -> bool:
    """QKV, attention and output product of one GPU of eight, at 512 to 2,048 tokens."""
    return case.kind == "chain" and case.model in CUT_MODELS and 512 <= case.tokens <= 2048


def choices_table(found: list[LayerChoice]) -> str:
    """Markdown; a row for each kind of cases."""
    groups = {
        "chain, one GPU of eight, 512 to 2,048 tokens": [one for one in found if is_cut_chain(one.case)]
    }
    groups |= {kind: [one for one in found if one.case.kind == kind] for kind in _kinds(found)}
    lines = [
        "| choice | cases | not stream | over stream: mean | least | most | over pdl: mean | least |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, ones in groups.items():
        if ones:
            over = [one.over_stream for one in ones]
            dependent = [one.over_dependent for one in ones if one.over_dependent is not None]
            both = f"{geometric_mean(dependent):.3f} | {min(dependent):.3f}" if dependent else "none | none"
            others = sum(one.plan != BASELINE for one in ones)
            lines.append(
                f"| {name} | {len(ones)} | {others} | {geometric_mean(over):.3f} | {min(over):.3f} "
                f"| {max(over):.3f} | {both} |"
            )
    return "\n".join(lines)


def _kinds(found: list[LayerChoice]) -> list[str]:
    return list(dict.fromkeys(one.case.kind for one in found))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m wavesim.evaluation.layer_choices")
    parser.add_argument("folder", type=Path)
    run = LayerBlindRun(parser.parse_args().folder)
    print(choices_table(choices_of(run, every_case())))  # noqa: T201  # the command's output
    return 0


if __name__ == "__main__":
    sys.exit(run_program("layer_choices", main))
