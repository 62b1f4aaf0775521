"""What was asked of layers and their parts beforehand, what came of it, and which command measured it.

Example: of attention over cuDNN's the slowest shape must reach 0.75 and should reach 0.90; it has 1.04.
`python -m wavesim.evaluation.layer_targets` writes the table between the marks of docs/layers.md anew, from
the newest results of `gpu/results` and the newest blind run of layers.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from wavesim.evaluation.layer_blind_cases import BlindLayerCase, every_case
from wavesim.evaluation.layer_blind_runs import ROUNDS_FILE, LayerBlindRun
from wavesim.evaluation.layer_blind_scores import scores_of
from wavesim.evaluation.layer_choices import CUT_MODELS, LayerChoice, choice_of, is_cut_chain
from wavesim.evaluation.layer_graphs_table import MOST_BYTES, newest_run, ratios
from wavesim.evaluation.marked_block import with_marked_block
from wavesim.evaluation.thresholds import Bound
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text

ROOT = Path(__file__).parents[2]
RESULTS, PAGE, MOST_PAGE = ROOT / "gpu" / "results", ROOT / "docs" / "layers.md", 1 << 20
RUNS = ROOT / "wavesim" / "recordings" / "layers"
STEPS = (("qwen2.5-0.5b", 1.10), ("llama-3-8b", 1.03))  # of decode, batch 1, and what is aimed at
JUDGED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "geometric mean": geometric_mean,
    "least": min,
    "most": max,
    "": lambda values: values[0],
}
REACHED = {"target": "aim", "threshold": "must", "missed": "**missed**", "not scored": ""}
THEIRS = ("cuDNN", "flash")
Results = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """One figure: its bound, by which of its values it is judged, and where these are from."""

    words: str
    judged: str
    bound: Bound
    values: Sequence[float]
    source: str

    @property
    def row(self) -> str:
        """Of the table."""
        sign = "≥" if self.bound.is_least else "≤"
        words = f"{self.words} ({self.judged})" if self.judged else self.words
        asked = f"| {words} | {sign}{self.bound.threshold:g} | {self.bound.target:g}"
        if not self.values:
            return f"{asked} | not measured yet | | | {self.source} |"
        found = JUDGED[self.judged](self.values)
        spread = (
            f"{len(self.values)}: {min(self.values):.2f} to {max(self.values):.2f}" if self.judged else ""
        )
        reached = REACHED[self.bound.standing(found)]
        return f"{asked} | {found:.{3 if self.judged else 2}f} | {reached} | {spread} | {self.source} |"


def newest(folder: str) -> Results:
    """The newest results of a folder; without cases or rows where there are none."""
    found = sorted((RESULTS / folder).glob("*.json"))
    return dict(read_json(found[-1], MOST_BYTES)) if found else {"cases": [], "rows": []}


def over_cudnn(results: Results) -> list[float]:
    """Times of cuDNN over our fastest plan's, of causal shapes with head size 128 and 1,024 rows on."""
    times: dict[tuple[object, ...], dict[str, float]] = {}
    for case in results["cases"]:
        shape = case["shape"]
        if shape["is_causal"] and shape["head_dim"] == 128 and shape["length"] >= 1024:
            times.setdefault(tuple(shape.values()), {})[case["name"]] = median(case["rounds_ns"])
    return [
        own[THEIRS[0]] / min(ns for name, ns in own.items() if name not in THEIRS) for own in times.values()
    ]


def over_copy(results: Results) -> list[float]:
    """Decode attention's time over what K and V take at a copy's rate."""
    return [row["over_copy"] for row in results["rows"]]


def targets(choices: Sequence[LayerChoice]) -> Iterator[Target]:
    """All of them; `choices` are what wavesim chooses in the newest blind run."""
    attention, decode = newest("attention"), newest("decode")
    graphs = newest_run(RESULTS / "layer_graphs") or {"cases": []}
    by_bench, by_rates = (
        _source(*pair)
        for pair in (
            ("attention_bench", attention),
            ("decode_rates", decode),
        )
    )
    yield Target(
        "attention over cuDNN's",
        "least",
        _least(0.75, 0.90),
        over_cudnn(attention),
        by_bench,
    )
    yield Target(
        "decode attention's time over its bytes'",
        "most",
        _most(1.4, 1.2),
        over_copy(decode),
        by_rates,
    )
    dates = {case["kind"]: case for case in graphs["cases"]}
    for kind, (words, judged, bound, values) in _of_graphs(list(graphs["cases"])):
        yield Target(words, judged, bound, values, _source("layer_graphs", dates.get(kind, {})))
    for words, judged, bound, values in _of_choices(choices):
        yield Target(words, judged, bound, values, "`layer_choices`, blind runs")
    blind = measured_runs()[-1]
    for words, bound, value in _of_scores(blind):
        yield Target(words, "", bound, [value], f"`layer_blind_scores`, `{blind.folder.name}`")


Asked = tuple[str, str, Bound, list[float]]


def _of_graphs(cases: list[Results]) -> Iterator[tuple[str, Asked]]:
    """By the kind of its cases."""

    def of(kind: str, over: str, only: str = "", *, model: str = "") -> list[float]:
        own = [one for one in cases if one["kind"] == kind and model in ("", one["model"])]
        return list(ratios(own, over, only=only).values())

    cut = [one for one in cases if one["kind"] == "chain" and one["model"] in CUT_MODELS]
    stream, same, pdl = (
        list(ratios(cut, over, only="semaphores").values())
        for over in ("stream", "stream, same tiles", "pdl")
    )
    products, layers = of("product", "torch"), of("layer", "torch")
    yield "product", ("products over cuBLASLt's", "geometric mean", _least(0.93, 0.98), products)
    for words, judged, bound, values in (
        ("stream sync, each its best", "most", _least(1.03, 1.06), stream),
        ("stream sync, each its best", "least", _least(0.99, 1.0), stream),
        ("stream sync in the same tiles", "most", _least(1.06, 1.10), [*stream, *same]),
        ("dependent launch", "geometric mean", _least(1.0, 1.02), pdl),
    ):
        yield "chain", (f"chain with semaphores over {words}", judged, bound, values)
    yield "layer", ("layer over the libraries'", "geometric mean", _least(0.95, 1.0), layers)
    for model, aim in STEPS:
        words = f"step of {model} with semaphores over dependent launch"
        steps = of("decode", "pdl", "semaphores", model=model)
        yield "decode", (words, "least", _least(1.0, aim), steps)


def _of_choices(choices: Sequence[LayerChoice]) -> Iterator[Asked]:
    chains = [one for one in choices if is_cut_chain(one.case)]
    stream = [one.over_stream for one in chains]
    words = "chain as wavesim chooses over "
    yield f"{words}stream sync", "most", _least(1.03, 1.06), stream
    yield f"{words}stream sync", "least", _least(0.99, 1.0), stream
    yield f"{words}dependent launch", "geometric mean", _least(1.0, 1.02), _over_dependent(chains)
    for model, aim in STEPS:
        words = f"step of {model} as wavesim chooses over dependent launch"
        steps = (one for one in choices if one.case.kind == "decode" and one.case.model == model)
        yield words, "least", _least(1.0, aim), _over_dependent(steps)


def _of_scores(run: LayerBlindRun) -> Iterator[tuple[str, Bound, float]]:
    found = scores_of(run, "costs")
    yield "error of predicted gains, points, median", _most(1.0, 0.5), found.gain_median
    yield "error of predicted gains, points, 90 % of them", _most(3.0, 1.5), found.gain_90
    yield "error of a layer's predicted time, %, median", _most(3.0, 2.0), found.layer_median
    yield "sign of gains of a point and more right, %", _least(90.0, 95.0), found.sign_right
    yield "nothing to gain, and said so before, %", _least(90.0, 90.0), found.nothing_right


def _over_dependent(choices: Iterable[LayerChoice]) -> list[float]:
    return [one.over_dependent for one in choices if one.over_dependent is not None]


def _least(must: float, aim: float) -> Bound:
    return Bound("", must, aim, is_least=True)


def _most(must: float, aim: float) -> Bound:
    return Bound("", must, aim)


def _source(command: str, results: Results) -> str:
    return f"`{command}`" + (f", {results['date'][:10]}" if "date" in results else "")


def measured_runs() -> list[LayerBlindRun]:
    """The blind runs of layers, the newest last; one that is registered and was not measured is left out."""
    return [LayerBlindRun(path.parent) for path in sorted(RUNS.glob(f"*/{ROUNDS_FILE}"))]


def asked_choices() -> list[LayerChoice]:
    """What wavesim chooses in the newest run's chains on one GPU of eight, in all runs' steps of decode."""
    models = [model for model, _ in STEPS]

    def is_step(case: BlindLayerCase) -> bool:
        return case.kind == "decode" and case.tokens == 1 and case.model in models

    found, runs = [], measured_runs()
    for run in runs:
        asked = (case for case in every_case() if is_step(case) or (run is runs[-1] and is_cut_chain(case)))
        found += [choice_of(run, case) for case in asked if case.name in run.rounds]
    return found


def block(choices: Sequence[LayerChoice]) -> str:
    """What stands between the page's marks."""
    head = "| figure (judged by) | must | aim | value | reached | cases: least to most | command, date |"
    return "\n".join([head, "|---|--:|--:|--:|---|---|---|", *(one.row for one in targets(choices))])


def main(words: list[str] | None = None) -> int:
    """Writes the page's block."""
    OneLineParser(prog="python -m wavesim.evaluation.layer_targets", description=__doc__).parse_args(words)
    inner = block(asked_choices())
    write_text(PAGE, with_marked_block(PAGE, read_text(PAGE, MOST_PAGE), "layer targets", inner))
    print(inner)  # noqa: T201  # what it is for
    return 0


if __name__ == "__main__":
    sys.exit(run_program("layer_targets", main))
