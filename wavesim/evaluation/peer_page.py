"""The tables of docs/two-gpus.md: measured on two H200s, simulated beside it, and 24 shapes predicted.

Example: `python -m wavesim.evaluation.peer_page` writes the blocks between the page's marks anew: from the
measured tables, from the registered predictions, and from what was measured of these, once that is there.
"""

import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from statistics import median

import wavesim.recordings
from wavesim.errors import RecordingError
from wavesim.evaluation.peer_blind import GPUS, registered, shapes
from wavesim.evaluation.peer_published import (
    PublishedCollective,
    PublishedProduct,
    published_collectives,
    published_products,
)
from wavesim.evaluation.peer_scores import PeerScore, scores, summary
from wavesim.model.collective import Collective
from wavesim.model.device import default_device
from wavesim.model.host import Host
from wavesim.model.link import load_link
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim.sim.peers.dispatch import PeerCrossover, peer_crossover, text_of
from wavesim.sim.peers.two_gpu_tables import measured_tables
from wavesim.view.export import save_figure
from wavesim.view.peer_crossover_figure import times_as_fast_over_rows

PAGE = Path(__file__).parents[2] / "docs" / "two-gpus.md"
FOLDER = Path(wavesim.recordings.__file__).parent / "two-gpus"
MEASURED = FOLDER / "measured.json"  # [{"m", "k", "n", "way", "ns"}, ...], written by the measuring command
PICTURE = PAGE.parent / "images" / "two-gpus-crossover"
MOST_BYTES = 1 << 20
NOT_YET = "not measured yet"


def scored_block(found: list[PeerScore]) -> str:
    """One after the other and in chunks, simulated over measured, by shape; and how far off in all."""
    ways = ("sequence", "chunks:2", "chunks:4", "chunks:8")
    lines = ["| M x K x N | in a row | 2 chunks | 4 chunks | 8 chunks |", "| --- | --: | --: | --: | --: |"]
    for row in measured_tables()["chunks"]:
        own = {
            one.way: one for one in found if one.table == "chunks" and (one.m, one.k) == (row["m"], row["k"])
        }
        cells = [f"{own[way].simulated_us:,.0f} / {own[way].measured_us:,.0f}" for way in ways]
        lines.append(f"| {row['m']:,} x {row['k']:,} x {row['n']:,} | {' | '.join(cells)} |")
    lines += [
        "",
        "| | rows | median, % | 90 %, % | worst, % |",
        "| --- | --: | --: | --: | --: |",
    ]
    for way in ("all-reduce", *ways, "reduce-scatter", "with stores", "and added"):
        own_rows = [one for one in found if one.way == way]
        part = summary(own_rows)
        lines.append(f"| {way} | {part['rows']} | {part['median']} | {part['p90']} | {part['worst']} |")
    return "\n".join(lines)


def collectives_block() -> str:
    """Published collectives of eight GPUs and fewer, and what they are simulated to take."""
    tables: dict[tuple[str, str, str, str], list[PublishedCollective]] = {}
    for one in published_collectives():
        tables.setdefault((one.source, one.machine, one.kind, one.by), []).append(one)
    lines = [
        "| source | machine | collective | by | sizes | the largest, µs | median error, % |",
        "| --- | --- | --- | --- | --- | --: | --: |",
    ]
    for (source, machine, kind, by), rows in tables.items():
        sizes = f"{_size(rows[0].size)} to {_size(rows[-1].size)}"
        one = rows[-1]
        middle = median(abs(row.error) for row in rows)
        cells = f"{one.simulated_us:,.0f} / {one.published_us:,.0f} | {middle:.0f}"
        lines.append(f"| {source} | {machine} | {kind} | {by} | {sizes} | {cells} |")
    return "\n".join(lines)


def _size(count: int) -> str:
    for unit, least in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= least:
            return f"{count / least:g} {unit}"
    return f"{count} bytes"


def products_block(found: Iterable[PublishedProduct]) -> str:
    """Published products with their collectives, simulated over measured."""
    lines = [
        "| source | M x K x N | in a row, µs | overlapped, µs | times, published | simulated | by library |",
        "| --- | --- | --: | --: | --: | --: | --: |",
    ]
    return "\n".join([*lines, *(product_line(one) for one in found)])


def product_line(one: PublishedProduct) -> str:
    """One product: simulated over published times, and what overlapping gains."""
    gains = (
        one.in_a_row / one.overlapped,
        one.simulated_in_a_row / one.simulated_overlapped,
        one.simulated_library / one.simulated_overlapped,
    )
    return (
        f"| {one.source} ({one.machine}, {one.way}) | {one.m:,} x {one.k:,} x {one.n:,} | "
        f"{one.simulated_in_a_row:,.0f} / {one.in_a_row:,.0f} | "
        f"{one.simulated_overlapped:,.0f} / {one.overlapped:,.0f} | "
        f"{' | '.join(f'{gain:.2f}' for gain in gains)} |"
    )


@cache
def crossover() -> PeerCrossover:
    """Of one product on two GPUs; the page has it as the command prints it, and as a picture."""
    device = default_device()
    host = Host(GPUS, load_link(device.name), {"gemm": Collective()})
    return peer_crossover("M x 7,168 x 4,096", (4_096, 7_168), host, device, (16, 4_096))


def crossover_block() -> str:
    """The command's table."""
    return f"```\n{text_of(crossover()).rstrip()}\n```"


def draw() -> None:
    """Writes the picture, light and dark."""
    for theme in ("light", "dark"):
        figure = times_as_fast_over_rows(crossover(), "simulated, not measured", theme)
        save_figure(figure, PICTURE.with_name(f"{PICTURE.name}-{theme}.svg"))


def predicted_block() -> str:
    """The 24 shapes: what was registered, and what was then measured."""
    times = {(one.m, one.k, one.n, one.way): one for one in registered(FOLDER)}
    measured = {}
    if MEASURED.exists():
        entries = read_json(MEASURED, MOST_BYTES)
        measured = {(one["m"], one["k"], one["n"], one["way"]): one["ns"] / 1e3 for one in entries}
    lines = [
        "| M x K x N | in a row, µs | best way | µs | times | measured: in a row, µs | best way, µs |",
        "| --- | --: | --- | --: | --: | --: | --: |",
    ]
    for one in shapes():
        shape = (one.m, one.k, one.n)
        base = times[*shape, "sequence"]
        best = next(found for key, found in times.items() if key[:3] == shape and found.is_best)
        seen = [
            f"{us:,.0f}" if (us := measured.get((*shape, way))) else NOT_YET for way in ("sequence", best.way)
        ]
        lines.append(
            f"| {one.m:,} x {one.k:,} x {one.n:,} | {base.time_ns / 1e3:,.0f} | {best.way} | "
            f"{best.time_ns / 1e3:,.0f} | {base.time_ns / best.time_ns:.2f} | {' | '.join(seen)} |"
        )
    return "\n".join(lines)


def with_blocks(text: str, blocks: dict[str, str]) -> str:
    """The page with these between their marks. Raises `RecordingError` where one is missing."""
    for name, inner in blocks.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise RecordingError(f"{PAGE}: the marks {begin} and {end} are missing; put them back")
        text = f"{before}{begin}\n{inner}\n{end}{after}"
    return text


def main() -> int:
    """Writes the page and its picture, which needs Chromium."""
    blocks = {
        "scored": scored_block(scores()),
        "predicted": predicted_block(),
        "collectives": collectives_block(),
        "products": products_block(published_products()),
        "crossover": crossover_block(),
    }
    write_text(PAGE, with_blocks(read_text(PAGE, MOST_BYTES), blocks))
    draw()
    return 0


if __name__ == "__main__":
    sys.exit(run_program("peer_page", main))
