"""The cuSync paper's Figures 6, 7 and 8 recomputed: published, measured and simulated, in their own columns.

Example: `python -m wavesim.evaluation.paper_figures` writes docs/models/paper.md anew: GPT-3's MLP at 1,024
tokens gained what the published files say on a V100, and what our kernels measured and the simulator says on
an H200.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wavesim.evaluation import paper_attention_page, paper_convolutions
from wavesim.evaluation.gpu_results import load_results, newest_results
from wavesim.evaluation.layer_graphs_table import newest_run, times_of
from wavesim.evaluation.model_pages import DOCS, FOLDER, ROOT, WORKS, simulated
from wavesim.evaluation.paper_attention_cases import AS_PUBLISHED, PREDICTIONS
from wavesim.evaluation.speedups import Pair, pairs_of
from wavesim.model.device import default_device
from wavesim.model_time.model_pass import ALL_REDUCE, layer_costs
from wavesim.plan.parsing import parse_plan
from wavesim.predict.product_tiles import best_tiles
from wavesim.recordings.published_rows import published_runs
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim.workloads.hopper import TILES
from wavesim.workloads.layer_backends import with_backends
from wavesim.workloads.layers import chain_of, transformer_layer

PAGE = DOCS / "models" / "paper.md"
TEXT = DOCS / "models" / "paper.txt"
SIZES = (512, 1024, 2048)
SEMAPHORES = ("row", "tile", "pdl+row", "pdl+tile")
# By the paper's name: the MLP's and the layer's model, and its benchmark.
MODELS = {
    "GPT-3": ("gpt3-145b", "gpt3-145b", "gpt3-mlp"),
    "LLaMA": ("llama-65b-as-published", "llama-65b", "llama-mlp"),
}
# What the paper's text says of Figure 8.
END_TO_END = {"GPT-3": "6 to 15", "LLaMA": "9 to 13"}
NOTHING = "-"
COMMAND = "python -m wavesim.evaluation.paper_figures"


def page() -> str:
    """The page: its text with the tables in their places."""
    text = read_text(TEXT, 1 << 16)
    tables = {
        "MLP": mlp_table(),
        "ATTENTION": attention_table(),
        "END TO END": end_to_end_table(),
        "CONVOLUTIONS": paper_convolutions.layer_table(),
        "NETWORKS": paper_convolutions.network_table(),
    }
    for name, table in tables.items():
        text = text.replace(f"[{name}]\n", f"{table}\n")
    return text


def mlp_table() -> str:
    """Figures 6a and 6c: gain of the best policy over stream sync."""
    found = load_results(newest_results(ROOT / "gpu" / "results"))
    rows = []
    for name, (model, _, workload) in MODELS.items():
        pairs = pairs_of(found, workload)
        for tokens in SIZES:
            published = [_published(device, name, tokens) for device in ("V100", "A100")]
            ours = pairs[tokens]
            measured = [_measured(ours, "stream", "cusync"), _measured(ours, "same-cut stream", "same-cut")]
            rows.append([name, f"{tokens:,}", *published, *measured, _simulated(model, "mlp", tokens)])
    heads = ("published, V100", "published, A100", "measured, each its best", "measured, same tiles")
    return _table(("model", "rows", *heads, "simulated"), rows)


def attention_table() -> str:
    """Figure 6b: the paper's five kernels, and QKV, fused attention and output product of today."""
    path = paper_attention_page.newest()
    ours = json.loads(read_text(path, 1 << 20))["cases"] if path else []
    said = json.loads(read_text(PREDICTIONS, 1 << 20))["cases"]
    rows = []
    for name, (_, model, _) in MODELS.items():
        for tokens in SIZES:
            chain = [_five_kernels(cases, name, tokens, field) for cases, field in _sides(ours, said)]
            fused = [_measured_chain(model, tokens), _simulated(model, "attention", tokens)]
            rows.append([name, f"{tokens:,}", *chain, *fused])
    heads = ("five kernels, measured", "five kernels, simulated", "fused, measured", "fused, simulated")
    return _table(("model", "rows", *heads), rows)


def end_to_end_table() -> str:
    """Figure 8: what a layer, and so a pass, gains with two all-reduces that nothing overlaps."""
    rows = []
    for name, (_, model, _) in MODELS.items():
        for work in WORKS:
            found = simulated(model, work)
            best = max(found.ways[1:], key=found.gain_points)
            reduced = best.parts_ns[ALL_REDUCE]
            rows.append(
                [
                    name,
                    str(work),
                    END_TO_END[name],
                    f"{found.gain_points(best):+.1f} ({best.word})",
                    _measured_layer(model, work.tokens, reduced) if work.phase == "prefill" else NOTHING,
                    f"{100 * reduced / found.ways[0].layer_ns:.0f}",
                ]
            )
    heads = ("published, V100s", "simulated", "measured layer, modelled all-reduce", "all-reduce's share")
    return _table(("model", "work", *heads), rows)


def _published(device: str, name: str, tokens: int) -> str:
    """The best of the policies that are published."""
    case = f"{device} {'gpt3' if name == 'GPT-3' else 'llama'} M={tokens}"
    gains = [run.improvement_points for run in published_runs("mlp") if run.case == case]
    return f"{max(gains):+.1f}" if gains else NOTHING


def _measured(cases: Pair, stream: str, ours: str) -> str:
    if stream not in cases or ours not in cases:
        return NOTHING
    return f"{100 * (1 - cases[ours].median_ns / cases[stream].median_ns):+.1f}"


def _simulated(model: str, part: str, tokens: int) -> str:
    """Of a part of a layer, every product in the tiles that suit it alone."""
    device = default_device()
    tiles = best_tiles(transformer_layer(model, tokens), device, TILES)
    pipeline = with_backends(chain_of(transformer_layer(model, tokens, tiles=tiles), part))
    costs = layer_costs(pipeline, device)
    times = {
        word: costs.simulated(pipeline, parse_plan(word), device).time_ns for word in ("stream", *SEMAPHORES)
    }
    return f"{100 * (1 - min(times[word] for word in SEMAPHORES) / times['stream']):+.1f}"


def _sides(ours: Any, said: Any) -> Iterator[tuple[Any, str]]:
    yield ours, "median_us"
    yield said, "simulated_us"


def _five_kernels(cases: Sequence[Mapping[str, Any]], name: str, tokens: int, field: str) -> str:
    """The best policy of the paper's chain on portable products, a stream per kernel, as in the paper."""
    model = "gpt3" if name == "GPT-3" else "llama"
    for case in cases:
        asked = (case["model"], case["tokens"], case["keys"], case["backend"], case["has_softmax"])
        if asked == (model, tokens, tokens, AS_PUBLISHED, True):
            indices = range(1, len(case["plans"]))
            return f"{max(paper_attention_page.gain(case, i, field) for i in indices):+.1f}"
    return NOTHING


def _measured_chain(model: str, tokens: int) -> str:
    times = _graph_times("chain", model, tokens)
    if not {"stream", "semaphores"} <= set(times):
        return NOTHING
    return f"{100 * (1 - times['semaphores'] / times['stream']):+.1f}"


def _measured_layer(model: str, tokens: int, reduced_ns: float) -> str:
    """Our fastest class over stream sync, with the all-reduces' modelled time on both sides."""
    times = _graph_times("layer", model, tokens)
    ours = {name: ns for name, ns in times.items() if name in ("pdl", "semaphores")}
    if "stream" not in times or not ours:
        return NOTHING
    best = min(ours, key=lambda name: ours[name])
    return f"{100 * (1 - (ours[best] + reduced_ns) / (times['stream'] + reduced_ns)):+.1f} ({best})"


def _graph_times(kind: str, model: str, tokens: int) -> dict[str, int]:
    runs = newest_run(FOLDER)
    cases = runs["cases"] if runs else []
    asked = (kind, model, tokens)
    found = (case for case in cases if (case["kind"], case["model"], case["tokens"]) == asked)
    return next(map(times_of, found), {})


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", "---", *["--:"] * (len(heads) - 2)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Writes the page."""
    write_text(PAGE, page())
    return 0


if __name__ == "__main__":
    sys.exit(run_program("paper_figures", main))
