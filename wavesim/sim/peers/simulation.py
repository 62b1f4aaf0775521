"""simulate_peers(): a pipeline of every GPU, a host and a way in, one Trace of all GPUs out.

Example: GPT-3 145B's second GEMM and its all-reduce on two H200s at M = 2,048, one after the other and with
tiles that leave as they are made. Numbers are simulated; where the tables of two H200s have them, measured
ones stand beside (docs/records/two-gpus.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from math import ceil

import numpy as np

from wavesim.costs.device_costs import costs_of, law_of
from wavesim.costs.peer_costs import peer_costs_of
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.link import load_link
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.policy import Policy, TileSync
from wavesim.safe_io.annotated import require_types
from wavesim.sim.header import describe_device
from wavesim.sim.peers.engine import Latencies, PeerEngine
from wavesim.sim.peers.launches import launches_of
from wavesim.sim.peers.program import PeerProgram, PeerTimes
from wavesim.sim.peers.way import PeerWay
from wavesim.trace.header import DependencyInfo, Header, StageInfo
from wavesim.trace.trace import Trace, Transfers, Waits
from wavesim.work.collective.host import Host
from wavesim.work.gemm import ELEMENT_BYTES, Gemm
from wavesim.work.gemm.products import ProductCosts, ProductTile
from wavesim.workloads.hopper import TILES, block_of

TILES_ALONE = TileSync()
LIMIT_NS = 1_000_000_000  # of one wait: a second, a thousand times what a rank is late


def simulate_peers(
    pipeline: Pipeline,
    host: Host,
    way: PeerWay,
    device: Device,
    *,
    unit: Policy = TILES_ALONE,
    times: PeerTimes | None = None,
    never: Sequence[int] = (),
    limit_ns: int = LIMIT_NS,
) -> Trace:
    """Runs the pipeline, which every GPU has, on all of the host's; deterministic.

    `unit`: of which tiles one semaphore tells, such as `RowSync()`. `times` are those of the device unless
    given. `never`: ranks that do not begin at all. Raises `DescriptionError` for what has no kernels, times
    or room, `DeadlockError` naming rank, tile and semaphore where a wait is never over or takes `limit_ns`.
    """
    require_types("simulate_peers", pipeline=(pipeline, Pipeline), host=(host, Host), way=(way, PeerWay))
    times = times or times_of(pipeline, host, way, device)
    program = launches_of(pipeline, host, way, device, times, unit)
    require_room(program, device)
    engine = PeerEngine(program, device, latencies_of(device), never, limit_ns)
    engine.run()
    return _trace(engine, program, device)


def latencies_of(device: Device) -> Latencies:
    """Of a device, from its costs."""
    overheads = costs_of(device.name).overheads
    products = law_of(ProductCosts, device.name)
    start_ns = products.start_ns if products is not None else 0
    return Latencies(start_ns, int(overheads["boundary_ns"]), int(overheads["post_visibility_ns"]))


def times_of(
    pipeline: Pipeline, host: Host, way: PeerWay, device: Device, kernel_ns: Mapping[str, int] | None = None
) -> PeerTimes:
    """What kernels take on the device; `kernel_ns` are stages' measured times alone, where known.

    A measured GEMM makes chunks and tiles of it as much longer or shorter as it is itself. Raises
    `DescriptionError` where nothing was measured on the device.
    """
    products, costs = _products(device), peer_costs_of(device.name)
    tile_ns = {stage.name: _tile_ns(stage, products, device, costs.burst_ratio) for stage in pipeline.stages}
    ratios = {
        name: taken / library_gemm(pipeline.stage(name).gemm, device)[0]
        for name, taken in (kernel_ns or {}).items()
        if pipeline.stage(name).work.is_product
    }
    tile_ns = {name: round(taken * ratios.get(name, 1.0)) for name, taken in tile_ns.items()}
    gemms = [stage for stage in pipeline.stages if stage.work.is_product and way.is_library]
    library = {
        stage.name: library_gemm(replace(stage.gemm, m=ceil(stage.gemm.m / way.chunks)), device)
        for stage in gemms
    }
    library = {name: (round(taken * ratios.get(name, 1.0)), sms) for name, (taken, sms) in library.items()}
    factor = host.link.most("write") / load_link(device.name).most("write")
    return PeerTimes(tile_ns, library, costs, factor)


def library_gemm(gemm: Gemm, device: Device) -> tuple[int, int]:
    """(ns, SMs in use) of a library's GEMM in a short run, in the tile and splits that are fastest alone.

    One that the memory bounds is as fast on as many SMs as keep the memory busy: the others are free.
    Raises `DescriptionError` where no products were timed.
    """
    products, costs = _products(device), peer_costs_of(device.name)
    shapes = [
        ProductTile(*tile, split) for tile in TILES for split in (1, 2, 4) if split == 1 or gemm.m <= 128
    ]

    def alone(tile: ProductTile) -> float:
        waves = ceil(tile.count(gemm.m, gemm.n) / device.sm_count)
        return waves * products.tile_ns(tile, gemm.m, gemm.k) * costs.burst_ratio * products.library_ratio

    best = min(shapes, key=alone)
    floor = _floor_ns(gemm, products, device, is_library=True)
    used = min(best.count(gemm.m, gemm.n), device.sm_count)
    return round(max(alone(best), floor)), ceil(used * min(1.0, alone(best) / floor))


def _products(device: Device) -> ProductCosts:
    products = law_of(ProductCosts, device.name)
    if products is None:
        raise DescriptionError(f"no products were timed on {device.name}; give times=PeerTimes(...)")
    return products


def _floor_ns(gemm: Gemm, products: ProductCosts, device: Device, *, is_library: bool = False) -> float:
    """What reading and writing every matrix once takes; of small ones, called again and again, in the L2."""
    floor = products.floor_ns(gemm.m, gemm.n, gemm.k, is_library=is_library)
    moved = ELEMENT_BYTES * (gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n)
    costs = peer_costs_of(device.name)
    return floor if moved > costs.resident_bytes else min(floor, moved / costs.resident_bytes_per_s * 1e9)


def best_gemm(m: int, n: int, k: int, device: Device, *, name: str = "gemm") -> Gemm:
    """A GEMM in the tile in which our persistent kernel is fastest alone; no splits, as its tiles leave."""
    products = _products(device)

    def alone(tile: tuple[int, int]) -> float:
        shape = ProductTile(*tile)
        return ceil(shape.count(m, n) / device.sm_count) * products.tile_ns(shape, m, k)

    tile = min(TILES, key=alone)
    return Gemm(name, m, n, k, *tile, 64, block=block_of(tile), carveout="full")


def _tile_ns(stage: Stage, products: ProductCosts, device: Device, burst_ratio: float) -> int:
    """A tile of ours, on its SM alone: of a GEMM at a short run's clock, of another kernel what it moves."""
    if stage.work.is_product:
        work: Gemm = stage.gemm
        shape = ProductTile(work.tile_m, work.tile_n, work.split_k)
        computed = products.tile_ns(shape, work.m, work.k) * burst_ratio
        if ELEMENT_BYTES * work.k * work.n > device.l2_bytes:
            computed *= peer_costs_of(device.name).evicted_ratio
        waves = ceil(work.grid.size / device.sm_count)
        return round(max(computed, _floor_ns(work, products, device) / waves) + products.post_ns)
    per_sm = occupancy_of(device, stage.kernel.block).blocks_per_sm
    share = device.dram_bytes_per_s / (device.sm_count * per_sm)
    return max(1, round(stage.kernel.bytes_per_block / share * 1e9))


def require_room(program: PeerProgram, device: Device) -> None:
    """Blocks that wait and come first may not hold every SM: what they wait for would have none."""
    for rank in range(program.host.gpus):
        own = [
            kernel
            for kernel in program.kernels
            if kernel.stage.device == rank and kernel.sender != "copy-engine"
        ]
        ahead = list(takewhile(lambda kernel: kernel.stream, own))
        held = sum(kernel.blocks for kernel in ahead)
        if len(ahead) < len(own) and held >= device.sm_count:
            names = ", ".join(f"{kernel.blocks} of {kernel.stage.name}" for kernel in ahead)
            raise DescriptionError(
                f"way {program.way.word}: blocks that wait may hold {held} SMs of rank {rank} ({names}), and "
                "it has "
                f"{device.sm_count}; the GEMM they wait for would never run. Use fewer SMs"
            )


def _trace(engine: PeerEngine, program: PeerProgram, device: Device) -> Trace:
    rows = engine.rows
    kernels = program.kernels
    sizes = [len(kernel.items) for kernel in kernels]
    tiles = np.array([item.tile for kernel in kernels for item in kernel.items], dtype=np.int64)
    stage = np.repeat(np.arange(len(kernels)), sizes)
    row, semaphore, start, end = rows.wait_columns()
    done = [transfer for transfer in engine.traffic.done if transfer.row >= 0]
    return Trace(
        header=_header(program, device),
        stage=stage,
        x=tiles[:, 0],
        y=tiles[:, 1],
        z=np.zeros_like(stage),
        **rows.columns(),
        device=np.array([kernel.stage.device for kernel in kernels], dtype=np.int64)[stage],
        waits=Waits(row, np.zeros_like(row), semaphore, start, end),  # all semaphores in one list
        transfers=Transfers(
            *np.array(
                [(t.row, t.source, t.target, t.start_ns, t.end_ns, t.bytes) for t in done], dtype=np.int64
            )
            .reshape(-1, 6)
            .T
        ),
    )


def _header(program: PeerProgram, device: Device) -> Header:
    grids: Mapping[str, tuple[int, int]] = {
        kernel.stage.name: (
            1 + max(item.tile[0] for item in kernel.items),
            1 + max(item.tile[1] for item in kernel.items),
        )
        for kernel in program.kernels
    }
    stages = tuple(
        StageInfo(
            kernel.stage.name,
            (*grids[kernel.stage.name], 1),
            occupancy_of(device, kernel.stage.kernel.block).blocks_per_sm,
            kernel.stage.kernel.block.threads,
        )
        for kernel in program.kernels
    )
    host = program.host
    values = tuple(semaphore.awaited for semaphore in program.semaphores)
    first, last = stages[0].name, stages[-1].name
    return Header(
        source="simulated",
        device=describe_device(device, program.host.gpus),
        workload=program.pipeline.name,
        plan=program.way.word,
        plan_label=program.way.text,
        stages=stages,
        dependencies=(DependencyInfo(first, last, "of all ranks", (), values),) if values else (),
        parameters={**program.pipeline.parameters, "gpus": host.gpus, "link": host.link.name},
    )
