"""The kernels of each way: a library's, or ours, tile by tile.

Example: under "blocks:16" GPU 0 has a persistent GEMM of 116 blocks beside 8 that store and 8 that add.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from wavesim.model.device import Device
from wavesim.model.kernel import Grid
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Tile
from wavesim.plan.policy import Policy
from wavesim.sim.peers.arrivals import Arrivals
from wavesim.sim.peers.exchange import exchange_program
from wavesim.sim.peers.library import library_program
from wavesim.sim.peers.program import (
    COMMUNICATE,
    COMPUTE,
    PeerItem,
    PeerKernel,
    PeerProgram,
    PeerTimes,
    Send,
    Sender,
    dram_bytes_per_s,
)
from wavesim.sim.peers.way import ADDING_SMS, GATHERING_SMS, PeerWay
from wavesim.work.collective import SharedTiles, tile_bytes_of
from wavesim.work.collective.host import Host


def launches_of(
    pipeline: Pipeline, host: Host, way: PeerWay, device: Device, times: PeerTimes, unit: Policy
) -> PeerProgram:
    """What a way launches on every GPU. Raises `DescriptionError` for what it has no kernels for."""
    if way.is_library:
        return library_program(pipeline, host, way, times)
    if way.method == "exchange":
        return exchange_program(pipeline, host, way, device, times)
    return _Tiles(pipeline, host, way, device, times, unit).program()


def _until(kernel: PeerKernel, met: Mapping[int, int]) -> PeerKernel:
    """What it sends posts the receiver's semaphore; its last tile waits for its own. `met` is by rank."""
    items = [
        replace(
            item, sends=tuple(replace(send, posts=(*send.posts, met[send.target])) for send in item.sends)
        )
        for item in kernel.items
    ]
    items[-1] = replace(items[-1], until=(met[kernel.stage.device],))
    return replace(kernel, items=items)


class _Tiles:
    """Kernels whose tiles leave as they are made; those that communicate come first, to have SMs."""

    def __init__(
        self, pipeline: Pipeline, host: Host, way: PeerWay, device: Device, times: PeerTimes, unit: Policy
    ) -> None:
        self._described, self._host, self._way, self._device, self._times = pipeline, host, way, device, times
        self._pipeline = host.pipeline(pipeline)
        self._arrivals = Arrivals(self._pipeline, unit)
        self._communicating: list[PeerKernel] = []
        self._computing: list[PeerKernel] = []
        self._following: list[PeerKernel] = []  # behind the GEMM's blocks: issued where one has left its SM

    def program(self) -> PeerProgram:
        """All kernels, by rank and stage."""
        for stage in self._pipeline.stages:
            if stage.work.shared_inputs:
                self._share(stage)
            else:
                self._compute(stage)
        self._communicating, self._following = self._meeting(self._communicating, self._following)
        kernels = [*self._communicating, *self._computing, *self._following]
        if self._way.method == "plain-stores":
            kernels = self._one_after_another()
        return PeerProgram(self._described, self._host, self._way, kernels, self._arrivals.semaphores)

    def _one_after_another(self) -> list[PeerKernel]:
        """All on one stream of each device, in the pipeline's order, each on all SMs."""
        made = {
            kernel.stage.name: kernel for kernel in (*self._communicating, *self._computing, *self._following)
        }
        kernels = [made[stage.name] for stage in self._pipeline.stages]
        return [replace(kernel, stream=COMPUTE, blocks=len(kernel.items)) for kernel in kernels]

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
        is_gemm = stage.work.is_product
        per_sm = occupancy_of(self._device, stage.kernel.block).blocks_per_sm
        slots = (self._device.sm_count - self._sms(stage.device)) * per_sm
        own = way.method in ("stores", "plain-stores")
        senders: dict[str, Sender] = {"stores": "epilogue", "plain-stores": "block"}
        items = self._items(stage, sends=own)
        waves = ceil(len(items) / max(1, slots))
        rate = dram_bytes_per_s(stage.gemm, waves * tile_ns) if is_gemm else 0.0
        sender = senders.get(way.method, "none")
        blocks = max(1, min(len(items), slots))
        kernel = PeerKernel(stage, COMPUTE, blocks, items, tile_ns, sender, bytes_per_s=rate)
        if not own and any(self._arrivals.sends(stage, tile) for tile in stage.grid):
            kernel = replace(kernel, items=self._handed_over(stage, items))
        self._computing.append(kernel)

    def _sms(self, rank: int) -> int:
        """SMs that communicate while a device computes."""
        works = [stage.work for stage in self._pipeline.stages if stage.device == rank]
        shares = [work.shared_inputs for work in works if work.shared_inputs]
        is_gathered = 1 in shares
        if is_gathered and self._way.method == "copies" and set(shares) == {1}:
            return GATHERING_SMS
        return (self._way.sms or is_gathered * ADDING_SMS) if shares else 0

    def _share(self, stage: Stage) -> None:
        """Blocks that add what has arrived and store the sums, or that store what is there to all."""
        inputs = stage.work.shared_inputs
        items = self._items(stage, sends=True)
        if inputs > 1 and not self._pipeline.consumers_of(stage.name):
            items[-1] = replace(items[-1], retire_ns=self._times.costs.call_ns.get(self._way.method, 0))
        by_engine = self._way.method == "copies" and inputs == 1
        count = self._sms(stage.device)
        if self._way.method == "blocks" and inputs > 1:
            count //= 2
        if count and inputs > 1:
            count += self._idle_sms(stage.device)
        sender: Sender = "copy-engine" if by_engine else "block"
        blocks = min(len(items), count) if count else len(items)
        add_ns = self._times.costs.add_ns(stage.kernel.bytes_per_block) if inputs > 1 else 0
        kernel = PeerKernel(stage, COMMUNICATE + 1, blocks, items, add_ns, sender)
        (self._communicating if count else self._following).append(kernel)

    def _idle_sms(self, rank: int) -> int:
        """SMs that a product of few tiles, or parts of them, leaves to the blocks that add."""
        made = max(
            (
                stage.gemm.grid.size
                for stage in self._pipeline.stages
                if stage.device == rank and stage.work.is_product
            ),
            default=0,
        )
        return max(0, self._device.sm_count - self._sms(rank) - made)

    def _meeting(self, *lists: list[PeerKernel]) -> list[list[PeerKernel]]:
        """A rank's kernel that adds ends once it has what other ranks add for it, where no stage waits."""
        sums: dict[str, list[Stage]] = {}  # of all ranks, by what they add up
        for stage in self._pipeline.stages:
            work, is_last = stage.work, not self._pipeline.consumers_of(stage.name)
            if work.shared_inputs > 1 and work.shared_with and is_last:
                sums.setdefault(stage.name.partition("@")[0], []).append(stage)
        met: dict[str, dict[int, int]] = {}  # semaphores by kernel, then rank
        for name, stages in sums.items():
            whole = sum(stage.grid.size for stage in stages)
            numbers = {
                rank: self._arrivals.semaphores.add(f"{name} of other ranks", rank, whole - stage.grid.size)
                for rank, stage in enumerate(stages)
            }
            met |= {stage.name: numbers for stage in stages}
        return [
            [
                _until(kernel, met[kernel.stage.name]) if kernel.stage.name in met else kernel
                for kernel in kernels
            ]
            for kernels in lists
        ]

    def _handed_over(self, stage: Stage, items: list[PeerItem]) -> list[PeerItem]:
        """The tiles posted on their own device too, for the blocks or the copy engine that send them."""
        away = [item for item in items if self._arrivals.sends(stage, item.tile)]
        if self._way.method == "blocks":
            groups = [[item] for item in away]
        else:
            # Of all rows' chunks a rank adds its share itself.
            size = ceil(len(away) / max(1, min(self._way.chunks, stage.grid.y) // self._host.gpus))
            groups = [away[i : i + size] for i in range(0, len(away), size)]
        name = f"{stage.name.replace('@', '.send@')}"
        made: dict[Tile, int] = {}
        sent: list[PeerItem] = []
        for number, group in enumerate(groups):
            semaphore = self._arrivals.semaphores.add(f"{name} chunk {number}", stage.device, len(group))
            made |= {item.tile: semaphore for item in group}
            sent.append(PeerItem((number, 0), waits=(semaphore,), sends=self._sends(stage, group)))
        size = tile_bytes_of(stage)
        work = SharedTiles(name, Grid(len(sent)), size, 1)
        by_blocks = self._way.method == "blocks"
        sender: Sender = "block" if by_blocks else "copy-engine"
        begin_ns = 0 if by_blocks else self._times.costs.copy_begin_ns
        blocks = min(len(sent), max(1, self._way.sms - self._way.sms // 2))
        self._communicating.append(
            PeerKernel(Stage(name, work, device=stage.device), COMMUNICATE, blocks, sent, begin_ns, sender)
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
            Send(
                target,
                sum(send.bytes for send in sends),
                tuple(post for send in sends for post in send.posts),
            )
            for target, sends in pieces.items()
        )
