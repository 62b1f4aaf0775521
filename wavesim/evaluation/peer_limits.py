"""What bounds products across two GPUs, and how far PyTorch's fused paths could be beaten there, simulated.

Example: of the all-gather ahead of 1,024 x 14,336 x 8,192 cuBLAS's product alone takes 312 us and the rows
cross in 39. PyTorch's fused path was measured at 335: nothing that multiplies as cuBLAS does can be more than
1.08 times as fast, however well it hides the rest.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from statistics import geometric_mean
from typing import Any

from wavesim.costs.peer_costs import peer_costs_of
from wavesim.evaluation.peer_page import MOST_BYTES, PAGE, with_blocks
from wavesim.evaluation.peer_timed import LARGE, best_of_ours, medians, timed_lines
from wavesim.model.collective import ELEMENT_BYTES, Collective
from wavesim.model.device import default_device
from wavesim.model.host import Host
from wavesim.model.link import load_link
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim.sim.peers.prediction import one_gemm, product_forecast
from wavesim.sim.peers.simulation import library_gemm, times_of
from wavesim.sim.peers.tiles import tiles_tried
from wavesim.sim.peers.way import PeerWay

GPUS = 2
MUST = 1.15  # times as fast as the fused path
# By collective: the way that could gain most, and one that was measured, by whose error it is put right.
BEST = {"reduce-scatter": "exchange", "all-gather": "copies:1"}
KNOWN = {"reduce-scatter": "stores", "all-gather": "blocks:16"}
COLUMNS = (
    *("M x K x N", "cuBLAS", "ours", "link", "DRAM", "bound by", "fused, measured"),
    *("at most", "ours at most", "ours, measured", "next way", "put right"),
)


@dataclass(frozen=True)
class PeerLimit:
    """Of a product and its collective, us. Simulated: what each takes alone, and whole ways; measured: fused
    path, ours.

    `library` and `own`: the product by cuBLAS and by our kernel in its best tile; `link`: its bytes in one
    direction; `memory`: every matrix once, and what crosses once on each side; `launch`: what a call of ours
    takes besides its tiles. `best` is simulated, and `put_right` by what `KNOWN` was off at this size.
    """

    kind: str
    size: tuple[int, int, int]
    library: float
    own: float
    link: float
    memory: float
    launch: float
    fused: float
    measured: float
    best: float
    put_right: float

    @property
    def bound(self) -> str:
        """What takes longest: with one kernel that hides all else, so long at least."""
        parts = {"SMs": self.library, "link": self.link, "DRAM": self.memory}
        return max(parts, key=lambda name: parts[name])

    @property
    def most(self) -> float:
        """Times as fast as the fused path at most: nothing but the longest part, and no launch."""
        return self.fused / max(self.library, self.link, self.memory)

    @property
    def most_of_ours(self) -> float:
        """The same with our product, and what a call takes."""
        return self.fused / (max(self.own, self.link, self.memory) + self.launch)


@cache
def limits() -> tuple[PeerLimit, ...]:
    """Of every reduce-scatter and all-gather whose fused path was measured; takes half a minute."""
    return tuple(
        limit_of(line) for line in timed_lines() if line["kind"] in BEST and "fused" in medians(line)
    )


def limit_of(line: Mapping[str, Any]) -> PeerLimit:
    """Of a line that the measuring command wrote."""
    kind, (m, k, n), times = line["kind"], line["size"], medians(line)
    device = default_device()
    link, costs = load_link(device.name), peer_costs_of(device.name)
    host = Host(GPUS, link, {"gemm": Collective(kind)})
    one = one_gemm(m, n, k, device)
    library, _ = library_gemm(one.stages[0].gemm, device)
    # Half of the rows, of A or of the product, in each direction.
    crossing = ELEMENT_BYTES * m * (k if kind == "all-gather" else n) // GPUS
    moved = ELEMENT_BYTES * (m * k + k * n + m * n) + 2 * crossing
    rate = link.copy_engine_bytes_per_s if kind == "all-gather" else link.most("write")
    found = product_forecast((m, n, k), host, device, [BEST[kind], KNOWN[kind]])
    simulated = {time.word: time.time_ns / 1e3 for time in found.times}
    # In the same tiles, by the same product: what is wrong of one is mostly wrong of the other.
    ratio = times[KNOWN[kind]] / simulated[KNOWN[kind]] if KNOWN[kind] in times else 1.0
    return PeerLimit(
        kind,
        (m, k, n),
        library=library / 1e3,
        own=min(_own_ns((m, k, n), tile, host) for tile in tiles_tried(m)) / 1e3,
        link=crossing / rate * 1e6,
        memory=moved / device.dram_bytes_per_s * 1e6,
        launch=costs.call_ns["exchange"] / 1e3,
        fused=times["fused"],
        measured=best_of_ours(times)[0],
        best=simulated[BEST[kind]],
        put_right=simulated[BEST[kind]] * ratio,
    )


def _own_ns(size: tuple[int, int, int], tile: tuple[int, int], host: Host) -> int:
    """Our persistent kernel in a tile, on all SMs, with nothing to send."""
    (m, k, n), device = size, default_device()
    one = one_gemm(m, n, k, device, tile)
    waves = ceil(one.stages[0].grid.size / device.sm_count)
    tile_ns = times_of(one, host, PeerWay("stores"), device).tile_ns["gemm"]
    return waves * tile_ns


def limits_block(found: Sequence[PeerLimit] | None = None) -> str:
    """The block "limits" of the page: both collectives by shape, and what follows."""
    rows = limits() if found is None else found
    lines = [f"| | {' | '.join(COLUMNS)} |", f"| --- | --- |{' --: |' * 4} --- |{' --: |' * 6}"]
    for one in rows:
        m, k, n = one.size
        parts = " | ".join(f"{us:,.0f}" for us in (one.library, one.own, one.link, one.memory))
        gains = (one.most, one.most_of_ours, one.fused / one.measured, one.fused / one.best)
        cells = " | ".join(f"{gain:.2f}" for gain in (*gains, one.fused / one.put_right))
        lines.append(
            f"| {one.kind} | {m:,} x {k:,} x {n:,} | {parts} | {one.bound} | {one.fused:,.0f} | {cells} |"
        )
    return "\n".join([*lines, "", *(f"- {text}" for text in map(_summary, BEST, [rows] * len(BEST)))])


def _summary(kind: str, rows: Sequence[PeerLimit]) -> str:
    own = [one for one in rows if one.kind == kind and one.size[0] >= LARGE[0]]
    means = {
        name: geometric_mean(gains)
        for name, gains in {
            "most": [one.most for one in own],
            "ours": [one.most_of_ours for one in own],
            "measured": [one.fused / one.measured for one in own],
            "best": [one.fused / one.best for one in own],
            "right": [one.fused / one.put_right for one in own],
        }.items()
    }
    below = sum(one.most_of_ours < MUST for one in own)
    by_sms = sum(one.bound == "SMs" for one in own)
    enough = ["{:,} x {:,} x {:,}".format(*one.size) for one in own if one.fused >= MUST * one.put_right]
    return (
        f"{kind.capitalize()}, {LARGE[0]:,} rows or more ({len(own)} shapes): bound by the SMs at {by_sms}. "
        f"At most {means['most']:.2f} times as fast as the fused path on cuBLAS's product, "
        f"{means['ours']:.2f} on ours; at {below} shapes ours cannot reach {MUST}. Measured "
        f"{means['measured']:.2f} so far; `{BEST[kind]}` simulated {means['best']:.2f}, "
        f"{means['right']:.2f} where it is off by what `{KNOWN[kind]}` was (must {MUST}), which is {MUST} or "
        f"more at: {'; '.join(enough) if enough else 'none'}."
    )


def main() -> int:
    """Writes the block anew."""
    write_text(PAGE, with_blocks(read_text(PAGE, MOST_BYTES), {"limits": limits_block()}))
    return 0


if __name__ == "__main__":
    sys.exit(run_program("peer_limits", main))
