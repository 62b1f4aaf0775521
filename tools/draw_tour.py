"""Draws the README's moving picture, the wave player on the paper's Figure 1: `make tour`.

Example: docs/images/tour.svg shows gemm2's tiles held back by stream order, then the same tiles let go
by semaphores one wave earlier; the widget's own code draws it (wavesim/widgets/wave_film.js).
"""

from pathlib import Path

from theme_pictures import both_themes
from wavesim.costs.cost_model import zero_cost
from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.safe_io.writing import write_text
from wavesim.sim.simulation import simulate
from wavesim.widgets.wave_player import WaveFilm
from wavesim.workloads.figure_one import TILE_NS, toy

FOLDER = Path(__file__).parents[1] / "docs" / "images"
WIDTH = 880  # about what a README's column has
PLANS = {
    "Stream order: gemm2 waits for all of gemm1, so half a wave of each kernel idles": StreamSync(),
    "Tile semaphores: gemm2's tiles start as soon as what they read is there": SemaphoreSync(TileSync()),
}


def tour() -> WaveFilm:
    """The toy on 4 SMs, simulated under both plans."""
    costs = zero_cost(toy(), TILE_NS)
    return WaveFilm({title: simulate(toy(), plan, load("toy"), costs) for title, plan in PLANS.items()})


def main() -> None:
    """Writes both themes as one file."""
    path = FOLDER / "tour.svg"
    drawn = [tour().save(path, theme=theme, width=WIDTH).read_text("utf-8") for theme in ("light", "dark")]
    write_text(path, both_themes(*drawn))


if __name__ == "__main__":
    main()
