"""`wavesim crossover`: from how many rows on which way of synchronising pays, and a table to dispatch by.

Example: `wavesim crossover --model gpt3-145b --tp 8 --m 1:4096 --python plans.py` prints the table and
writes a module whose `plan_for(m)` a serving engine can call. `--model llama-3-8b --gpus 2 --m 16:4096`
compares ways of communicating for a layer's two products that end in an all-reduce.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavesim.cli.printing import INTERRUPTED, print_result, progress
from wavesim.cli.shared_options import add_moved, add_rows, add_shared
from wavesim.cli.subject import chosen_executor
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.plan.order import KNOWN_ORDERS
from wavesim.safe_io.bounds import MOST_COMPARED, listed, plain_int, shown
from wavesim.safe_io.options import integer, number
from wavesim.safe_io.writing import require_writable, write_text
from wavesim.workloads.catalogue import parse_tile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavesim.predict.peer_ways import PeerCrossover
    from wavesim.tuning.crossover.crossing import Crossover
    from wavesim.tuning.crossover.family import KernelFamily
    from wavesim.tuning.crossover.gains import ComparedPlan


TILE, ROWS = "128x256", "1:4096"
ROWS_OVER_GPUS = "16:4096"
REFUSED = ("file", "tp", "tile", "tile_rows", "orders", "margin", "python", "dask")  # of one GPU's plans
SIMULATED = "predicted: simulated, not measured"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    from wavesim.predict.recommendation import ORDERS, WORDS
    from wavesim.workloads.models import all_models

    parser.add_argument("--model", help=f"its MLP: {', '.join(all_models())}")
    parser.add_argument("--tp", type=integer, help="tensor-parallel degree: GPUs that share the MLP (1)")
    parser.add_argument("--n", type=integer, help="instead of a model: columns of the first product")
    parser.add_argument("--k", type=integer, help="with --n: its depth, and the columns of the second")
    parser.add_argument("described", nargs="?", type=Path, metavar="FILE.toml", help="as --file")
    add_shared(parser, "--file")
    parser.add_argument("--tile-rows", type=integer, help="of the file's kernels, where it does not say")
    parser.add_argument("--tile", help=f"rows x columns of a tile ({TILE})")
    parser.add_argument("--gpus", type=integer, help="instead: ways to communicate over so many GPUs")
    add_rows(parser, "first and last number of rows M (1:4096; with --gpus 16:4096)")
    parser.add_argument("--device", help=", ".join(devices.names()))
    parser.add_argument(
        "--sync",
        help=f"plans to compare ({','.join(WORDS)}); with --gpus ways of communicating, as --way takes them",
    )
    add_moved(parser, "--ways", "--sync")
    parser.add_argument("--orders", help=f"tile orders to try ({','.join(ORDERS)}): {KNOWN_ORDERS}")
    parser.add_argument("--margin", type=number, help="points that a change of ways must gain (0.5)")
    add_shared(parser, "--accept", "--verbose", "--dask")
    add_shared(parser, "--html")
    parser.add_argument("--dispatch", type=Path, help="write the dispatch table as JSON")
    parser.add_argument("--python", type=Path, help="write it as a Python module with plan_for(m)")


def run(options: argparse.Namespace) -> int:
    """Simulates the family, prints the table, writes what is asked for."""
    from wavesim.tuning.crossover.crossing import crossover_of
    from wavesim.tuning.crossover.report import (
        crossover_text,
        dispatch_json,
        dispatch_python,
        notes_of,
        table_json,
        write_crossover_page,
    )
    from wavesim.tuning.crossover.table import MARGIN_POINTS

    if options.described is not None:
        if options.file is not None:
            raise DescriptionError("two files are named; give one, as FILE.toml or as --file FILE.toml")
        options.file = options.described
    if options.gpus is not None:
        return run_over_gpus(options, _rows(options.m or ROWS_OVER_GPUS))
    require_writable(options.html, options.dispatch, options.python)
    family, device = _family(options)
    with chosen_executor(options) as executor:
        crossover = crossover_of(
            family,
            device,
            _rows(options.m or ROWS),
            ways=_ways(options, family),
            accept=options.accept,
            margin_points=MARGIN_POINTS if options.margin is None else options.margin,
            executor=executor,
            progress=progress("simulating", after_s=3.0),
        )
    if options.html:
        write_crossover_page(crossover, options.html)
    if options.dispatch:
        write_text(options.dispatch, dispatch_json(crossover))
    if options.python:
        write_text(options.python, dispatch_python(crossover))
    notes = notes_of(crossover) if options.verbose else ()
    text = "\n".join([crossover_text(crossover), *notes])
    print_result(options, _document(crossover, table_json(crossover)), text)
    return 0 if crossover.is_complete else INTERRUPTED


def _ways(options: argparse.Namespace, family: "KernelFamily") -> "Sequence[ComparedPlan] | None":
    """The ways that were named, each in the orders that were; None where neither was."""
    from wavesim.predict.recommendation import ORDERS as ALL_ORDERS
    from wavesim.predict.recommendation import WORDS
    from wavesim.tuning.crossover.gains import ORDERS, read_ways

    if options.sync is None and options.orders is None:
        return None
    orders = ORDERS if family.timed is None or options.sync is not None else ALL_ORDERS
    return read_ways(options.sync or ",".join(WORDS), options.orders or ",".join(orders))


def _family(options: argparse.Namespace) -> tuple["KernelFamily", Device]:
    from wavesim.tuning.crossover.family import DescribedFamily, MlpFamily, backend_of, mlp_of
    from wavesim.work.description.reader import load_description

    _require_one_source(options)
    if options.file is not None:
        description = load_description(options.file)
        device = description.device if options.device is None else devices.load(options.device)
        return DescribedFamily(
            description.pipeline.name, description.pipeline, description.kernel_ns, options.tile_rows
        ), device
    device = devices.default_device() if options.device is None else devices.load(options.device)
    tile, backend = parse_tile(options.tile or TILE), backend_of(device)
    if options.model is not None:
        return mlp_of(options.model, 1 if options.tp is None else options.tp, tile, backend), device
    return MlpFamily(f"N {options.n}, K {options.k}", options.n, options.k, tile, backend=backend), device


def _require_one_source(options: argparse.Namespace) -> None:
    """Raises `DescriptionError` unless kernels are named in one way, and options are of that way."""
    sources = {"--model": options.model, "--n": options.n, "--file": options.file}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        raise DescriptionError(
            f"{' and '.join(given) or 'no kernels'} given; give one of --model NAME, --n N with --k K, and "
            "--file FILE"
        )
    if (options.n is None) != (options.k is None):
        raise DescriptionError("--n and --k belong together: columns and depth of the first product")
    for name, value, owner in (
        ("--tp", options.tp, "--model"),
        ("--tile-rows", options.tile_rows, "--file"),
    ):
        if value is not None and given != [owner]:
            raise DescriptionError(f"{name} is of {owner}; leave it out")
    if options.tile is not None and options.file is not None:
        raise DescriptionError("--tile is of --model and --n; the file says what its kernels' tiles are")


def _rows(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    try:
        return plain_int(first), plain_int(last if colon else first)
    except ValueError:
        raise DescriptionError(f"m is {shown(text)}; write FIRST:LAST, such as 1:4096") from None


def _document(crossover: "Crossover", table: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "family": crossover.family,
        "device": crossover.device,
        "table": table,
        "pays_from": {way.name: crossover.pays_from(way) for way in crossover.ways if not way.is_baseline},
        "sizes": len(crossover.sizes),
        "seconds": crossover.seconds,
        "is_complete": crossover.is_complete,
        "left_out": list(crossover.left_out),
        "lost_workers": list(crossover.lost_workers),
        **crossover.forecast.as_json(),
    }


def run_over_gpus(options: argparse.Namespace, rows: tuple[int, int]) -> int:
    """Prints the tables, and writes the page and the ranges as JSON where asked."""
    from wavesim.model.link import load_link
    from wavesim.predict.peer_forecast import history_text
    from wavesim.predict.peer_ways import WAYS, peer_crossover, text_of
    from wavesim.work.collective import Collective
    from wavesim.work.collective.host import Host

    _require_of_gpus(options)
    require_writable(options.html, options.dispatch)
    device = devices.default_device() if options.device is None else devices.load(options.device)
    host = Host(options.gpus, load_link(device.name), {"gemm": Collective()})
    ways = listed("sync", options.sync, MOST_COMPARED) if options.sync is not None else WAYS
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
    document = {"crossovers": [_peer_document(crossover) for crossover in crossovers], "basis": notes[1]}
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


def _peer_document(crossover: "PeerCrossover") -> dict[str, Any]:
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
    from wavesim.view.crossover_figure import times_as_fast_over_rows, title_of
    from wavesim.view.page import Section, Table, write_page

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
