"""Draws the pictures of README and docs that are made from what ships: `make images`.

The other pictures of docs/images show closed measurements; their captions name device and date.
"""

from pathlib import Path

import plotly.graph_objects as go

from smaller_pictures import write_picture
from wavesim.bench.gpu_results import load_results, newest_results
from wavesim.bench.speedups import PAIRS, label, pairs_of
from wavesim.bench.validation import predictions
from wavesim.comparison import compare
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.view.canvas import axis, base_layout, heading
from wavesim.view.figure import figure_of
from wavesim.view.gain_figure import Gain, gain_overview
from wavesim.view.theme import find_theme
from wavesim.workloads.mlps import gpt3_mlp

FOLDER = Path(__file__).parents[1] / "docs" / "images"
TOKENS = 1536
SPEEDS, LEAST_M, WIDTH, MARGIN = ("tuned", "torch", "stream", "persistent"), 512, 1000, 66
LABELS = {"row": "Row semaphores", "tile": "Tile semaphores"}


def gain_figure(theme: str) -> go.Figure:
    """Predicted and measured gain of the 128x256 kernel under row-major order, over tokens."""
    chosen = [
        p for p in predictions() if p.source == "own" and "128x256" in p.case and p.case.endswith(" row")
    ]
    chosen.sort(key=lambda p: (int(p.case.split("M=")[1].split()[0]), p.plan))
    gains = [
        Gain(
            p.case.split("M=")[1].split()[0],
            LABELS[p.plan],
            p.predicted,
            p.measured.median,
            p.measured.low,
            p.measured.high,
        )
        for p in chosen
    ]
    source = "GPT-3 MLP, 128x256 tiles, row-major; predicted from the stream-sync run, measured on an H200"
    return gain_overview(gains, source=source, theme=theme)


def comparison_figure(theme: str) -> go.Figure:
    """Row semaphores, predicted above measured."""
    plans = [parse_plan(name) for name in ("stream", "row")]
    return compare(gpt3_mlp(TOKENS), plans, load("h200")).figure(theme=theme)


def speed_figure(theme: str) -> go.Figure:
    """How fast plans of both MLPs are where cuBLASLt has 1, over tokens: what docs/results.md tabulates."""
    results, palette = load_results(newest_results()), find_theme(theme)
    data = []
    for panel, (workload, dash) in enumerate(zip(PAIRS, ("solid", "dot"), strict=True)):
        pairs = {tokens: cases for tokens, cases in pairs_of(results, workload).items() if tokens >= LEAST_M}
        for colour, name in zip((*palette.stages, palette.muted), SPEEDS, strict=False):
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": f"{PAIRS[workload]}, {label(name)}",
                    "x": list(pairs),
                    "y": [cases["cublaslt"].median_ns / cases[name].median_ns for cases in pairs.values()],
                    "line": {"color": colour, "dash": dash},
                    "marker": {"color": colour, "symbol": ("circle", "diamond")[panel]},
                }
            )
    said = f"cuBLASLt's chain in a CUDA graph has 1; measured on one {results.device}, {results.date[:10]}"
    head = heading("Tuned plans keep up with cuBLASLt; PyTorch is behind", said, WIDTH - 2 * MARGIN)
    layout = base_layout(palette, head, (WIDTH, 470), (MARGIN, MARGIN, 104, 130))
    axes = {
        "xaxis": axis(palette, "tokens (M)"),
        "yaxis": axis(palette, "speed, cuBLASLt = 1", tickformat=".2f"),
    }
    return figure_of(data, {**layout, **axes})


def main() -> None:
    """Writes every picture in light and dark."""
    FOLDER.mkdir(exist_ok=True)
    pictures = {
        "gain": gain_figure,
        "compare": comparison_figure,
        "results-speed": speed_figure,
    }
    for name, draw in pictures.items():
        for theme in ("light", "dark"):
            write_picture(draw(theme), FOLDER / f"{name}-{theme}.webp")


if __name__ == "__main__":
    main()
