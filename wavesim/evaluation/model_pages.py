"""A page per model: the time of a layer and of a pass, where it goes, and what synchronising changes.

Example: `python -m wavesim.evaluation.model_pages` writes docs/models/llama-3-8b.md and its picture anew:
simulated times of prompts and of a step of decode and, where gpu/results/layer_graphs has a run, what the
same layers took on a GPU. With `--text` it leaves the pictures, which need Chromium, as they are.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from wavesim.costs.layer_costs import costs_of_stages
from wavesim.evaluation.layer_graphs_table import newest_run, times_of
from wavesim.model.attention import Attention, AttentionDecode
from wavesim.model.device import default_device
from wavesim.model_time.model_pass import (
    CHAINED,
    PART_NAMES,
    ModelPass,
    built_for,
    layer_costs,
    pass_of,
    second_layer_ns,
    two_layers,
)
from wavesim.model_time.report import SIMULATED
from wavesim.plan.order import parse_order
from wavesim.plan.parsing import parse_plan
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text
from wavesim.view.export import save_figure
from wavesim.view.stacked_bars import StackedBar, bars_of_parts
from wavesim.workloads.layers import Phase
from wavesim.workloads.models import Model, model_named

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLDER = ROOT / "gpu" / "results" / "layer_graphs"
MODELS = {
    "gpt3-145b": "GPT-3 145B",
    "llama-65b": "LLaMA 65B",
    "llama-3-8b": "Llama 3 8B",
    "qwen2.5-0.5b": "Qwen2.5 0.5B",
}
ATTENTION = (Attention, AttentionDecode)
THEMES = ("light", "dark")
CACHED = 2047  # with the new one 2,048 keys
UNMEASURED = "No layer of this model has been measured yet."
OLDER_BIAS = (
    " The kernels of that commit serialise the multiply-adds of bf16 products with a bias, and so does the "
    "simulation beside them; today's, which are simulated above, do not."
)
NOTES = "Saves: of stream sync's time, as measured and as simulated. Off: simulated over measured."
COMMAND = "python -m wavesim.evaluation.model_pages"


@dataclass(frozen=True)
class LayerWork:
    """What a layer is asked: `tokens` rows of a prompt, or as many sequences in one step of decode."""

    phase: Phase
    tokens: int

    @property
    def cached(self) -> int:
        """Keys before the step's own."""
        return CACHED if self.phase == "decode" else 0

    def __str__(self) -> str:
        return f"prompt of {self.tokens:,}" if self.phase == "prefill" else f"decode, batch {self.tokens}"


WORKS = (LayerWork("prefill", 1024), LayerWork("prefill", 2048), LayerWork("decode", 1))


@cache
def simulated(name: str, work: LayerWork) -> ModelPass:
    """A layer of a model under every way of synchronising."""
    return pass_of(name, default_device(), work.tokens, phase=work.phase, cached=work.cached)


def page(name: str, runs: Mapping[str, Any] | None) -> str:
    """A model's page; `runs` is the file of a `layer_graphs` run."""
    return "\n\n".join(
        [
            f"# {MODELS[name]}: a layer and a pass",
            f"Written by `{COMMAND}`; do not edit.",
            _shape(model_named(name)),
            _picture(name),
            "## Simulated",
            _basis(name),
            *(_simulated_block(simulated(name, work), work) for work in WORKS),
            "## Measured",
            _measured_block(name, runs),
        ]
    )


def figure(name: str, theme: str = "light") -> "Figure":
    """A bar per work and way, in percent of the layer under the first way."""
    bars = []
    for work in WORKS:
        found = simulated(name, work)
        whole = found.ways[0].layer_ns
        bars += [
            StackedBar(f"{work}, {way.word}", tuple(100 * way.parts_ns[part] / whole for part in PART_NAMES))
            for way in found.ways
        ]
    return bars_of_parts(
        bars,
        PART_NAMES,
        title=_title(name),
        source=f"{SIMULATED}; decode with {CACHED + 1:,} keys; a part is what its kernels' ends lie behind "
        "those before, so that overlap makes a part shorter",
        x_title="percent of the layer under stream sync",
        theme=theme,
    )


def _title(name: str) -> str:
    gains = []
    for work in WORKS:
        found = simulated(name, work)
        best = max(found.ways, key=found.gain_points)
        gains.append(f"{found.gain_points(best):.1f} % ({work})")
    return f"{MODELS[name]}: synchronising otherwise saves at best {', '.join(gains)} of a layer"


def _shape(model: Model) -> str:
    shape = model.layer
    assert shape is not None
    gpus = f"one of {shape.tp} GPUs has its share" if shape.tp > 1 else "one GPU has it all"
    return (
        f"{shape.layers} layers, {model.hidden:,} wide; {shape.heads} query heads and {shape.kv_heads} key "
        f"heads of {shape.head_dim}; MLP of {model.ffn:,} columns ({model.activation}); {model.dtype}; "
        f"{gpus}. What a layer is: [A transformer layer](../layers.md). From which size on a plan pays "
        "in its MLP: [crossover](../crossover.md)."
    )


def _picture(name: str) -> str:
    place = f"../images/models/{name}"
    return (
        '<picture>\n  <source media="(prefers-color-scheme: dark)" '
        f'srcset="{place}-dark.svg">\n  <img src="{place}-light.svg" alt="{_title(name)}">\n</picture>'
    )


def _basis(name: str) -> str:
    found = simulated(name, WORKS[0])
    reduced = ""
    if found.all_reduce is not None:
        reduced = (
            f" All-reduce: two per layer of the tokens' {model_named(name).hidden:,} columns, never "
            f"overlapped, {found.all_reduce.words}."
        )
    return (
        f"{found.device}, {SIMULATED}: {found.basis}. A layer is the second of two in a row, every product "
        f"in the tiles that suit it alone. A pass has no embedding and no vocabulary product.{reduced} "
        "How far off that is where layers were measured, [Measured](#measured) says."
    )


def _simulated_block(found: ModelPass, work: LayerWork) -> str:
    keys = f" and {CACHED + 1:,} keys" if work.phase == "decode" else ""
    heads = [f"{name}, µs" for name in PART_NAMES if found.all_reduce or name != PART_NAMES[-1]]
    lines = [_row(["plan", *heads, "layer, µs", "pass, ms", "saves, %"])]
    lines.append("|---" + "|--:" * (len(heads) + 3) + "|")
    for way in found.ways:
        parts = [f"{way.parts_ns[name] / 1e3:.1f}" for name in PART_NAMES[: len(heads)]]
        whole = [f"{way.layer_ns / 1e3:.1f}", f"{found.layers * way.layer_ns / 1e6:.2f}"]
        lines.append(_row([way.word, *parts, *whole, f"{found.gain_points(way):+.1f}"]))
    return "\n".join([f"**{str(work).capitalize()}**{keys}:", "", *lines])


def _measured_block(name: str, runs: Mapping[str, Any] | None) -> str:
    """Our classes of plans and PyTorch, and how far the simulation of just these plans is off."""
    rows = list(_measured_rows(name, runs)) if runs else []
    if runs is None or not rows:
        return UNMEASURED
    lines = [
        _how(runs) + (OLDER_BIAS if _has_older_bias(name, runs) else ""),
        "",
        _row(
            [
                "layer",
                "plan",
                "measured, µs",
                "over PyTorch",
                "saves, %",
                "simulated, µs",
                "saves, %",
                "off, %",
            ]
        ),
        "|---|---|" + "--:|" * 6,
    ]
    for row in rows:
        saved = _saved(row, rows)
        said = (
            [f"{row.simulated_ns / 1e3:.1f}", saved[1], f"{row.error:+.1f}"] if row.simulated_ns else [""] * 3
        )
        measured = [f"{row.measured_ns / 1e3:.1f}", f"{row.speed:.3f}", saved[0]]
        lines.append(_row([str(row.work), row.label, *measured, *said]))
    lines += ["", f"Over PyTorch: its time over ours; above 1 ours is faster. {NOTES} {_differences(rows)}"]
    return "\n".join(lines)


def _saved(row: "MeasuredRow", rows: Sequence["MeasuredRow"]) -> tuple[str, str]:
    """What a plan takes less than stream sync, measured and simulated, in percent."""
    stream = next((one for one in rows if (one.work, one.kind) == (row.work, "stream")), None)
    if stream is None or row.kind in ("torch", "stream"):
        return "", ""
    both = (row.measured_ns / stream.measured_ns, row.simulated_ns / (stream.simulated_ns or 1))
    measured, said = (f"{100 * (1 - ratio):+.1f}" for ratio in both)
    return measured, said if row.simulated_ns and stream.simulated_ns else ""


def _differences(rows: Sequence["MeasuredRow"]) -> str:
    """How far times are off, prompts and decode apart."""
    said = []
    for words, phase in (("prompts", "prefill"), ("decode", "decode")):
        errors = [abs(row.error) for row in rows if row.work.phase == phase and row.simulated_ns]
        if errors:
            said.append(f"{median(errors):.1f} % (median) and {max(errors):.1f} % (most) for {words}")
    return f"Simulated times are off by {', '.join(said)}." if said else ""


def _has_older_bias(name: str, runs: Mapping[str, Any]) -> bool:
    model = model_named(name)
    has_bias = model.layer is not None and model.layer.bias != "none"
    return has_bias and model.dtype == "bf16" and serialises_bias(runs)


def serialises_bias(runs: Mapping[str, Any]) -> bool:
    """Whether a results file's kernels did (`tile_costs_of`): those of files that do not say."""
    return bool(runs.get("serialises_bias", True))


def _how(runs: Mapping[str, Any]) -> str:
    return (
        f"One {runs['device']['name']}, {runs['date'][:10]}, commit {runs['commit'][:7]}, without "
        "all-reduce; medians of interleaved rounds of CUDA graphs with several runs each. Of each way of "
        "synchronising the plan that was fastest in earlier rounds; simulated is that plan, after the "
        "measurement."
    )


@dataclass(frozen=True)
class MeasuredRow:
    """A plan's measured layer; `simulated_ns` is 0 where it was not simulated."""

    work: LayerWork
    kind: str
    label: str
    measured_ns: int
    speed: float
    simulated_ns: float

    @property
    def error(self) -> float:
        """Of the simulated time, in percent of the measured."""
        return 100 * (self.simulated_ns / self.measured_ns - 1)


def _measured_rows(name: str, runs: Mapping[str, Any]) -> Iterator[MeasuredRow]:
    phases: dict[str, Phase] = {"layer": "prefill", "decode": "decode"}
    is_older = serialises_bias(runs)
    for case in runs["cases"]:
        if case["model"] != name or case["kind"] not in phases or "failed" in case:
            continue
        work = LayerWork(phases[case["kind"]], int(case["tokens"]))
        torch_ns = times_of(case).get("torch")
        for one in case["finalists"]:
            ns, kind = one["median_ns"], one["class"]
            said = (
                None
                if kind == "torch"
                else simulated_plan_ns(name, work, one["label"], serialises_bias=is_older)
            )
            yield MeasuredRow(work, kind, one["label"], ns, (torch_ns or 0) / ns, said or 0.0)


def simulated_plan_ns(
    name: str, work: LayerWork, label: str, *, serialises_bias: bool = False
) -> float | None:
    """A layer in a plan that was measured, such as "pdl+row, best tiles, attention reversed:row".

    `serialises_bias`: by older kernels, as `tile_costs_of` says. None for other tiles than those that suit
    each product alone.
    """
    word, tiles, order = label.split(", ")
    if tiles != "best tiles":
        return None
    device = default_device()
    two = two_layers(name, device, work.tokens, phase=work.phase, cached=work.cached)
    attention = parse_order(order.removeprefix("attention "))
    orders = {stage.name: attention for stage in two.stages if isinstance(stage.work, ATTENTION)}
    plan = replace(parse_plan(word.removeprefix(CHAINED)), orders=orders)
    own, costs = built_for(word, two, layer_costs(two, device), device)
    if serialises_bias:
        costs = replace(costs, model=costs_of_stages(own, device, serialises_bias=True))
    return sum(second_layer_ns(own, costs.simulated(own, plan, device)).values())


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(words: list[str] | None = None) -> int:
    """Writes every model's page and, unless told otherwise, its pictures."""
    parser = OneLineParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--text", action="store_true", help="pages only, no pictures")
    options = parser.parse_args(sys.argv[1:] if words is None else words)
    runs = newest_run(FOLDER)
    for name in MODELS:
        write_text(DOCS / "models" / f"{name}.md", page(name, runs) + "\n")
        for theme in () if options.text else THEMES:
            save_figure(figure(name, theme), DOCS / "images" / "models" / f"{name}-{theme}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("model_pages", main))
