"""`wavesim crossover --gpus N`: which way of communicating to take from how many rows on, over several GPUs.

Example: `wavesim crossover --model llama-3-8b --gpus 2 --m 16:4096 --html page.html` simulates a layer's two
products that end in an all-reduce, at powers of two, and says which way to take where.
"""

import argparse
import json
from typing import TYPE_CHECKING, Any

from wavesim.cli.printing import print_result, progress
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.safe_io.bounds import MOST_COMPARED, listed
from wavesim.safe_io.writing import require_writable, write_text

if TYPE_CHECKING:
    from wavesim.sim.peers.dispatch import PeerCrossover

ROWS = "16:4096"
REFUSED = ("file", "tp", "tile", "tile_rows", "orders", "margin", "python", "dask")  # of one GPU's plans
SIMULATED = "predicted: simulated, not measured"


def run_over_gpus(options: argparse.Namespace, rows: tuple[int, int]) -> int:
    """Prints the tables, and writes the page and the ranges as JSON where asked."""
    from wavesim.model.collective import Collective
    from wavesim.model.host import Host
    from wavesim.model.link import load_link
    from wavesim.sim.peers.dispatch import WAYS, peer_crossover, text_of
    from wavesim.sim.peers.prediction import history_text

    _require_of_gpus(options)
    require_writable(options.html, options.dispatch)
    device = devices.default_device() if options.device is None else devices.load(options.device)
    host = Host(options.gpus, load_link(device.name), {"gemm": Collective()})
    ways = listed("ways", options.ways, MOST_COMPARED) if options.ways is not None else WAYS
    crossovers = [
        peer_crossover(name, size, host, device, rows, ways, progress("simulating", after_s=3.0))
        for name, size in _products(options).items()
    ]
    notes = [
        "times: as fast as the library's GEMM, then NCCL's all-reduce",
        f"{SIMULATED}; {history_text()}",
    ]
    if options.html:
        _write_page(options, crossovers, notes)
    document = {"crossovers": [_document(crossover) for crossover in crossovers], "basis": notes[1]}
    if options.dispatch:
        write_text(options.dispatch, json.dumps(document, indent=1) + "\n")
    return print_result(options, document, "\n".join([*map(text_of, crossovers), *notes]))


def _require_of_gpus(options: argparse.Namespace) -> None:
    for name in REFUSED:
        if getattr(options, name, None) is not None:
            word = name.replace("_", "-")
            raise DescriptionError(
                f"--{word} is of one GPU's plans, and --gpus {options.gpus} compares ways between GPUs; "
                "leave one of them out"
            )


def _products(options: argparse.Namespace) -> dict[str, tuple[int, int]]:
    """Columns, and a GPU's own depth, of the products whose sums are added over all GPUs."""
    from wavesim.workloads.models import model_named

    if (options.model is None) == (options.n is None) or (options.n is None) != (options.k is None):
        raise DescriptionError("with --gpus give --model NAME, or --n N and --k K, a GPU's own depth")
    if options.model is None:
        return {f"M x {options.k:,} x {options.n:,}": (options.n, options.k)}
    model = model_named(options.model)
    heads = model.layer.heads if model.layer is not None else options.gpus
    for count, what in ((model.ffn, "columns of its MLP"), (heads, "heads")):
        if options.gpus < 1 or count % options.gpus:
            raise DescriptionError(
                f"gpus is {options.gpus}; {model.name} has {count:,} {what} to share evenly"
            )
    products = {f"{model.name} down": (model.hidden, model.ffn // options.gpus)}
    if model.layer is not None:
        width = heads * model.layer.head_dim
        products[f"{model.name} out"] = (model.hidden, width // options.gpus)
    return products


def _document(crossover: "PeerCrossover") -> dict[str, Any]:
    return {
        "product": crossover.name,
        "device": crossover.device,
        "gpus": crossover.gpus,
        "link": crossover.link,
        "n": crossover.n,
        "k": crossover.k,
        "pays_from": crossover.pays_from,
        "table": [
            {"m_from": row.m_from, "m_to": row.m_to, "way": row.way, "least": row.least, "most": row.most}
            for row in crossover.table
        ],
        "sizes": [
            {"m": size.m, "best": size.best, "times_ns": dict(size.times_ns)} for size in crossover.sizes
        ],
    }


def _write_page(options: argparse.Namespace, crossovers: "list[PeerCrossover]", notes: list[str]) -> None:
    from wavesim.view.page import Section, Table, write_page
    from wavesim.view.peer_crossover_figure import times_as_fast_over_rows, title_of

    cells = [
        (crossover.name, f"{row.m_from} to {row.m_to}", row.way, f"{row.least:.2f} to {row.most:.2f}")
        for crossover in crossovers
        for row in crossover.table
    ]
    write_page(
        options.html,
        title=title_of(crossovers[0]),
        lead=f"Which way of communicating to take at which number of rows. {SIMULATED.capitalize()}.",
        table=Table(("product", "rows M", "way", "times as fast"), cells, caption=notes[0]),
        notes=notes,
        figures=[
            Section(times_as_fast_over_rows(crossover, SIMULATED), crossover.name) for crossover in crossovers
        ],
    )
