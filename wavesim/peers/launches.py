"""The kernels of each way: a library's, one after the other or in chunks, or ours, tile by tile.

Example: under "chunks:4" GPU 0 has four GEMMs on one stream and four all-reduces on another, each after the
GEMM of its rows; under "blocks:16" a persistent GEMM of 116 blocks beside 8 that store and 8 that add.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from wavesim.costs.peer_costs import PeerCosts
from wavesim.errors import DescriptionError
from wavesim.model.collective import ELEMENT_BYTES, SharedTiles, tile_bytes_of
from wavesim.model.device import Device
from wavesim.model.host import Host
from wavesim.model.kernel import Block, Gemm, Grid, Kernel
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.peers.arrivals import Arrivals
from wavesim.peers.program import PeerItem, PeerKernel, PeerProgram, PeerSemaphore, Send, Sender
from wavesim.peers.way import ADDING_SMS, PeerWay
from wavesim.plan.order import Tile
from wavesim.plan.policy import Policy

# More registers than a GEMM's block leaves: a library's collective shares its SMs with nobody.
LIBRARY_BLOCK = Block(threads=640, registers=96)
COMPUTE, COMMUNICATE = 0, 1  # streams of a device


@dataclass(frozen=True)
class PeerTimes:
    """What the kernels take: `tile_ns` of our persistent kernels by stage, `library` (ns, SMs in use) of the
    library's GEMMs, of one chunk each, by stage. `link_factor`: of a what-if link, over the
    one that the collectives ran on.
    """

    tile_ns: Mapping[str, int]
    library: Mapping[str, tuple[int, int]]
    costs: PeerCosts
    link_factor: float = 1.0


def launches_of(
    one: Pipeline, host: Host, way: PeerWay, device: Device, times: PeerTimes, unit: Policy
) -> PeerProgram:
    """What a way launches on every GPU. Raises `DescriptionError` for what it has no kernels for."""
    if way.is_library:
        return _library(one, host, way, times)
    return _Tiles(one, host, way, device, times, unit).program()


# --- a library's kernels ---


def _library(one: Pipeline, host: Host, way: PeerWay, times: PeerTimes) -> PeerProgram:
    """GEMMs of equal chunks of rows and the collective of each; uncut, any chain of stages, one by one."""
    if way.chunks > 1 and (len(one.stages) != 1 or len(host.collectives) != 1):
        raise DescriptionError(
            f"way {way.word} is simulated of one GEMM with one collective; pipeline {one.name} has "
            f"{len(one.stages)} stages and {len(host.collectives)} collectives. Use sequence or stores"
        )
    kernels: list[PeerKernel] = []
    semaphores: list[PeerSemaphore] = []
    for stage in one.stages:
        collective = host.collectives.get(stage.name)
        for chunk in range(way.chunks):
            if collective is not None:
                kind, count = collective.kind, times.costs.library_sms * host.gpus
                semaphores.append(
                    PeerSemaphore(f"{stage.name} {kind} {chunk}: blocks of all ranks", 0, count)
                )
            for rank in range(host.gpus):
                own = _library_kernel(stage, rank, chunk, way, times)
                if collective is None:
                    kernels.append(own)
                    continue
                shared = _library_collective(stage, collective.kind, rank, chunk, way, host, times)
                met = (len(semaphores) - 1,)
                items = [replace(item, arrives=met, waits=met) for item in shared.items]
                shared = replace(shared, items=items)
                pair = (shared, own) if collective.kind == "all-gather" else (own, shared)
                kernels += [pair[0], replace(pair[1], after=(len(kernels),))]
    return PeerProgram(one.name, way.word, way.text, kernels, semaphores, _parameters(one, host))


def _library_collective(
    stage: Stage, kind: str, rank: int, chunk: int, way: PeerWay, host: Host, times: PeerTimes
) -> PeerKernel:
    """One rank's kernel of a collective, of a chunk's rows; its blocks meet those of all ranks first."""
    gemm, blocks = stage.gemm, times.costs.library_sms
    width = gemm.k if kind == "all-gather" else gemm.columns
    size = ELEMENT_BYTES * ceil(gemm.m / way.chunks) * width
    taken = times.costs.time_ns(kind, size, host.gpus, times.link_factor)
    name = f"{stage.name}.{kind}.{chunk}@{rank}"
    own = Stage(name, Kernel(name, Grid(blocks), LIBRARY_BLOCK), device=rank)
    # In chunks on a stream of its own, else on that of what comes before and after.
    stream = COMMUNICATE if way.chunks > 1 else COMPUTE
    return PeerKernel(own, stream, blocks, [PeerItem((i, 0)) for i in range(blocks)], taken)


def _library_kernel(stage: Stage, rank: int, chunk: int, way: PeerWay, times: PeerTimes) -> PeerKernel:
    """A GEMM whose resident blocks share the work evenly beforehand: each takes as long as all of it.

    Of another stage a block per tile.
    """
    name = f"{stage.name}.{chunk}@{rank}" if way.chunks > 1 else f"{stage.name}@{rank}"
    if not isinstance(stage.work, Gemm):
        items = [PeerItem(tile) for tile in stage.grid]
        own = replace(stage, name=name, device=rank)
        return PeerKernel(own, COMPUTE, len(items), items, times.tile_ns[stage.name])
    part = replace(stage.work, name=name, m=ceil(stage.work.m / way.chunks))
    taken, blocks = times.library[stage.name]
    own = Stage(name, Kernel(name, Grid(blocks), part.block), device=rank)
    items = [PeerItem((i, 0)) for i in range(blocks)]
    return PeerKernel(own, COMPUTE, blocks, items, taken, bytes_per_s=_bytes_per_s(part, taken))


def _bytes_per_s(gemm: Gemm, taken_ns: float) -> float:
    moved = gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.columns
    return 2 * moved / max(1.0, taken_ns) * 1e9


def _parameters(one: Pipeline, host: Host) -> dict[str, int | str]:
    return {**one.parameters, "gpus": host.gpus, "link": host.link.name}


# --- ours ---


class _Tiles:
    """Kernels whose tiles leave as they are made; those that communicate come first, to have SMs."""

    def __init__(
        self, one: Pipeline, host: Host, way: PeerWay, device: Device, times: PeerTimes, unit: Policy
    ) -> None:
        self._one, self._host, self._way, self._device, self._times = one, host, way, device, times
        self._pipeline = host.pipeline(one)
        self._arrivals = Arrivals(self._pipeline, unit)
        self._communicating: list[PeerKernel] = []
        self._computing: list[PeerKernel] = []
        self._following: list[PeerKernel] = []  # behind the GEMM's blocks: issued where one has left its SM

    def program(self) -> PeerProgram:
        """All kernels, by rank and stage."""
        for stage in self._pipeline.stages:
            if isinstance(stage.work, SharedTiles):
                self._share(stage)
            else:
                self._compute(stage)
        kernels = [*self._communicating, *self._computing, *self._following]
        if self._way.method == "plain-stores":
            kernels = self._one_after_another()
        text = self._way.text
        found = self._arrivals.semaphores
        return PeerProgram(
            self._one.name, self._way.word, text, kernels, found, _parameters(self._one, self._host)
        )

    def _one_after_another(self) -> list[PeerKernel]:
        """All on one stream of each device, in the pipeline's order, each on all SMs."""
        made = {
            kernel.stage.name: kernel for kernel in (*self._communicating, *self._computing, *self._following)
        }
        kernels = [made[stage.name] for stage in self._pipeline.stages]
        return [replace(one, stream=COMPUTE, blocks=len(one.items)) for one in kernels]

    def _items(self, stage: Stage, *, sends: bool) -> list[PeerItem]:
        arrivals = self._arrivals
        return [
            PeerItem(
                tile,
                waits=arrivals.waits(stage, tile),
                posts=arrivals.posts(stage, tile, stage.device),
                sends=arrivals.sends(stage, tile) if sends else (),
            )
            for tile in self._order(stage)
        ]

    def _order(self, stage: Stage) -> list[Tile]:
        """Row by row; before a reduce-scatter the next rank's rows first and a rank's own last."""
        tiles = list(stage.grid)
        collective = self._host.collectives.get(stage.name.partition("@")[0])
        if collective is None or collective.kind != "reduce-scatter":
            return tiles
        share = stage.grid.y // self._host.gpus
        first = share * (stage.device + 1)
        return sorted(tiles, key=lambda tile: ((tile[1] - first) % stage.grid.y, tile[0]))

    def _compute(self, stage: Stage) -> None:
        way, tile_ns = self._way, self._times.tile_ns[stage.name.partition("@")[0].partition(".")[0]]
        is_gemm = isinstance(stage.work, Gemm)
        per_sm = occupancy_of(self._device, stage.kernel.block).blocks_per_sm
        slots = (self._device.sm_count - self._sms(stage.device)) * per_sm
        own = way.method in ("stores", "plain-stores")
        senders: dict[str, Sender] = {"stores": "epilogue", "plain-stores": "block"}
        items = self._items(stage, sends=own)
        waves = ceil(len(items) / max(1, slots))
        rate = _bytes_per_s(stage.gemm, waves * tile_ns) if is_gemm else 0.0
        sender = senders.get(way.method, "none")
        blocks = max(1, min(len(items), slots))
        kernel = PeerKernel(stage, COMPUTE, blocks, items, tile_ns, sender, bytes_per_s=rate)
        if not own and any(self._arrivals.sends(stage, tile) for tile in stage.grid):
            kernel = replace(kernel, items=self._handed_over(stage, items))
        self._computing.append(kernel)

    def _sms(self, rank: int) -> int:
        """SMs that communicate while a device computes."""
        works = [stage.work for stage in self._pipeline.stages if stage.device == rank]
        shares = [work for work in works if isinstance(work, SharedTiles)]
        is_gathered = any(work.inputs == 1 for work in shares)
        return (self._way.sms or is_gathered * ADDING_SMS) if shares else 0

    def _share(self, stage: Stage) -> None:
        """Blocks that add what has arrived and store the sums, or that store what is there to all."""
        work = stage.work
        assert isinstance(work, SharedTiles)
        read = work.inputs * work.tile_bytes if work.inputs > 1 else 0
        add_ns = round(read / self._times.costs.add_bytes_per_s_per_sm * 1e9)
        items = self._items(stage, sends=True)
        by_engine = self._way.method == "copies" and work.inputs == 1
        count = self._sms(stage.device)
        if self._way.method == "blocks" and work.inputs > 1:
            count //= 2
        sender: Sender = "copy-engine" if by_engine else "block"
        kernel = PeerKernel(stage, COMMUNICATE + 1, max(1, min(len(items), count)), items, add_ns, sender)
        if count:
            self._communicating.append(kernel)
        else:
            self._following.append(replace(kernel, blocks=len(items)))

    def _handed_over(self, stage: Stage, items: list[PeerItem]) -> list[PeerItem]:
        """The tiles posted on their own device too, for the blocks or the copy engine that send them."""
        away = [item for item in items if self._arrivals.sends(stage, item.tile)]
        if self._way.method == "blocks":
            groups = [[item] for item in away]
        else:
            size = ceil(len(away) / self._way.chunks)
            groups = [away[i : i + size] for i in range(0, len(away), size)]
        name = f"{stage.name.replace('@', '.send@')}"
        made: dict[Tile, int] = {}
        sent: list[PeerItem] = []
        for number, group in enumerate(groups):
            semaphore = self._arrivals.add(f"{name} chunk {number}", stage.device, len(group))
            made |= {item.tile: semaphore for item in group}
            sent.append(PeerItem((number, 0), waits=(semaphore,), sends=self._sends(stage, group)))
        size = tile_bytes_of(stage)
        work = SharedTiles(name, Grid(len(sent)), size, 1)
        sender: Sender = "block" if self._way.method == "blocks" else "copy-engine"
        blocks = min(len(sent), max(1, self._way.sms - self._way.sms // 2))
        self._communicating.append(
            PeerKernel(Stage(name, work, device=stage.device), COMMUNICATE, blocks, sent, 0, sender)
        )
        return [
            replace(item, posts=(*item.posts, made[item.tile])) if item.tile in made else item
            for item in items
        ]

    def _sends(self, stage: Stage, group: list[PeerItem]) -> tuple[Send, ...]:
        """What a group of tiles sends, in one piece to each device."""
        pieces: dict[int, list[Send]] = {}
        for item in group:
            for send in self._arrivals.sends(stage, item.tile):
                pieces.setdefault(send.target, []).append(send)
        return tuple(
            Send(target, sum(one.bytes for one in sends), tuple(post for one in sends for post in one.posts))
            for target, sends in pieces.items()
        )
