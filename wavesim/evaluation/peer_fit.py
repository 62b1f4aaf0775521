"""Constants of several GPUs, fitted to what two H200s took: `wavesim/costs/peer_costs.toml`.

Example: `python -m wavesim.evaluation.peer_fit` prints, by way, how far simulated times are from those of the
first list, and what is left of a call of it, the median: what `call_ns` and the `begin_ns` there were fitted
by. A way is simulated in the tile in which it was measured. Shapes of the second list are not among them.
"""

import sys
from dataclasses import dataclass, replace
from functools import cache
from statistics import median

import numpy as np

from wavesim.costs.peer_costs import PeerCosts, peer_costs_of
from wavesim.evaluation.peer_page import FOLDER, MOST_BYTES
from wavesim.model.collective import Collective, Shots
from wavesim.model.device import default_device
from wavesim.model.host import Host
from wavesim.model.link import load_link
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.program import run_program
from wavesim.sim.peers.prediction import one_gemm
from wavesim.sim.peers.simulation import simulate_peers, times_of
from wavesim.sim.peers.way import parse_way

DEVELOPMENT = FOLDER / "development.json"
ONE_SHOT = " one-shot"
GPUS = 2


@dataclass(frozen=True)
class DevelopmentTime:
    """What a way took, us; `tile` of ours, rows and columns."""

    m: int
    k: int
    n: int
    way: str
    us: float
    tile: tuple[int, int] | None

    def simulated_us(self, costs: PeerCosts) -> float:
        """With these costs."""
        device = default_device()
        shots: Shots = "one-shot" if self.way.endswith(ONE_SHOT) else "two-shot"
        host = Host(GPUS, load_link(device.name), {"gemm": Collective("all-reduce", shots)})
        way = parse_way(self.way.removesuffix(ONE_SHOT))
        one = one_gemm(self.m, self.n, self.k, device, self.tile)
        times = replace(times_of(one, host, way, device), costs=costs)
        return simulate_peers(one, host, way, device, times=times).makespan_ns / 1e3


@cache
def development() -> tuple[DevelopmentTime, ...]:
    """All that was measured for it."""
    return tuple(
        DevelopmentTime(row["m"], row["k"], row["n"], row["way"], row["ns"] / 1e3, _tile(row["words"]))
        for row in read_json(DEVELOPMENT, MOST_BYTES)
    )


def _tile(words: str) -> tuple[int, int] | None:
    """Of "128x256, K in 1, 0 SMs add"."""
    rows, _, columns = words.partition(",")[0].partition("x")
    return (int(rows), int(columns)) if columns else None


def left_us() -> dict[str, list[tuple[float, float]]]:
    """By way: measured less simulated us, and percent by which the simulated time is off."""
    costs = peer_costs_of(default_device().name)
    found: dict[str, list[tuple[float, float]]] = {}
    for one in development():
        told = one.simulated_us(costs)
        found.setdefault(one.way, []).append((one.us - told, 100 * (told / one.us - 1)))
    return found


def main() -> int:
    """Prints the table; takes about a minute."""
    lines = [f"{'way':<18}{'shapes':>7}{'left, us':>10}{'median, %':>11}{'90 %, %':>9}"]
    for way, rows in left_us().items():
        off = np.abs([percent for _, percent in rows])
        left = median(us for us, _ in rows)
        lines.append(
            f"{way:<18}{len(rows):>7}{left:>10.1f}{np.median(off):>11.1f}{np.percentile(off, 90):>9.1f}"
        )
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("peer_fit", main))
