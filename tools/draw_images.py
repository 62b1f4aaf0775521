"""Draws the pictures of README and docs that are made from what ships: `make images`.

The other pictures of docs/images show closed measurements; their captions name device and date.
"""

from pathlib import Path

import plotly.graph_objects as go

from smaller_pictures import write_picture
from wavesim.bench.validation import predictions
from wavesim.comparison import compare
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.view.gain_figure import Gain, gain_overview
from wavesim.workloads.mlps import gpt3_mlp

FOLDER = Path(__file__).parents[1] / "docs" / "images"
TOKENS = 1536
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


def main() -> None:
    """Writes every picture in light and dark."""
    FOLDER.mkdir(exist_ok=True)
    pictures = {
        "gain": gain_figure,
        "compare": comparison_figure,
    }
    for name, draw in pictures.items():
        for theme in ("light", "dark"):
            write_picture(draw(theme), FOLDER / f"{name}-{theme}.webp")


if __name__ == "__main__":
    main()
