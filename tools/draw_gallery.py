"""Draws the pictures of docs/gallery.md, one per question that a notebook asks: `make gallery`.

Example: the wave player stopped at its tenth event, the occupancy explorer at 96 KB, Stream-K beside
semaphores; each is what a reader of the notebook sees, written by the widget's own `save`.
"""

from collections.abc import Callable
from pathlib import Path

from smaller_pictures import write_few_colours
from wavesim.costs.cost_model import zero_cost
from wavesim.model.device import load
from wavesim.plan.order import ColumnMajor
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.predict.defaults import default_costs
from wavesim.sim.simulation import simulate
from wavesim.teaching.published_view import PublishedView
from wavesim.teaching.readiness import readiness_picture
from wavesim.teaching.rival_plans import rivals
from wavesim.teaching.wave_steps import staircase
from wavesim.tuning.search import tune
from wavesim.view.figure import save_figure
from wavesim.view.safety_figure import safety_picture
from wavesim.view.timeline_figure import timeline
from wavesim.widgets import DependencyExplorer, OccupancyExplorer, TunerView, WavePlayer
from wavesim.work.gemm import DEFAULT_GEMM_BLOCK
from wavesim.workloads.figure_one import TILE_NS, toy
from wavesim.workloads.mlps import gpt3_mlp

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "gallery"


def draw_player(path: Path) -> None:
    """The toy in column order under tile semaphores, stopped while blocks wait."""
    plan = SemaphoreSync(TileSync(), order=ColumnMajor())
    trace = simulate(toy(), plan, load("toy"), zero_cost(toy(), TILE_NS))
    WavePlayer(trace, step=18).save(path)


def draw_readiness(path: Path) -> None:
    """What the stream holds back at 1,024 tokens."""
    pipeline, device = gpt3_mlp(1024), load("h200")
    trace = simulate(pipeline, StreamSync(), device, default_costs(pipeline, device)[0])
    save_figure(readiness_picture(pipeline, trace), path)


def draw_rivals(path: Path) -> None:
    """Stream sync, dependent launch, Stream-K and row semaphores at 1,024 tokens."""
    plans = ("stream", "pdl:0.05", "stream-k", "row")
    found = [rival.trace for rival in rivals(1024, plans) if "split-K" not in rival.label]
    save_figure(timeline(found, title="One hole, three cures"), path)


def draw_tuner(path: Path) -> None:
    """The best plan of each policy at four sizes."""
    device = load("h200")
    tunings = {tokens: tune(gpt3_mlp(tokens), device) for tokens in (768, 1024, 1280, 1536)}
    TunerView.tuned(tunings, device).chart.save(path)


def draw_published(path: Path) -> None:
    """The paper's MLP on a V100, published and predicted."""
    PublishedView().chart.save(path)


PICTURES: dict[str, Callable[[Path], object]] = {
    "player": draw_player,
    "staircase": lambda path: save_figure(staircase(range(66, 661), load("h200"), DEFAULT_GEMM_BLOCK), path),
    "occupancy": lambda path: OccupancyExplorer().save(path),
    "readiness": draw_readiness,
    "safety": lambda path: save_figure(
        safety_picture(toy(), SemaphoreSync(TileSync(), wait_kernel=False), load("toy")), path
    ),
    "dependency": lambda path: DependencyExplorer(gpt3_mlp(1024), SemaphoreSync(RowSync())).save(path),
    "rivals": draw_rivals,
    "tuner": draw_tuner,
    "published": draw_published,
}


def main() -> None:
    """Writes every picture."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        shot = FOLDER / f"{name}.png"
        draw(shot)
        write_few_colours(shot.read_bytes(), shot.with_suffix(".webp"))
        shot.unlink()


if __name__ == "__main__":
    main()
