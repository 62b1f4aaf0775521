"""Two GPUs that add in the GEMM's epilogue: each makes the other's rows first and stores them there, then
adds what has come to its own.

Example: of 16 rows of tiles GPU 0 makes rows 8 to 15 and stores them on GPU 1; then rows 0 to 7, to whose
tiles it adds those that GPU 1 has stored, and stores the sums on both. Each GPU has one kernel, on all SMs.
"""

from dataclasses import replace

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import Tile
from wavesim.sim.peers.program import (
    COMPUTE,
    PeerItem,
    PeerKernel,
    PeerProgram,
    PeerSemaphores,
    PeerTimes,
    Send,
)
from wavesim.sim.peers.way import PeerWay
from wavesim.work.collective import Collective, tile_bytes_of
from wavesim.work.collective.host import Host

RANKS = 2  # of more, sums of rounded outputs would be rounded more than once


def exchange_program(
    pipeline: Pipeline, host: Host, way: PeerWay, device: Device, times: PeerTimes
) -> PeerProgram:
    """One GEMM per GPU. Raises `DescriptionError` for what it is not for."""
    kinds = list(host.collectives.values())
    if len(pipeline.stages) != 1 or len(kinds) != 1 or host.gpus != RANKS or not _is_shared_out(kinds[0]):
        raise DescriptionError(
            "way exchange is for one GEMM on 2 GPUs with a two-shot all-reduce or a reduce-scatter; "
            f"pipeline {pipeline.name} has {len(pipeline.stages)} stages, {len(kinds)} collectives and "
            f"{host.gpus} GPUs. Use stores"
        )
    grid = pipeline.stages[0].grid
    if grid.y < RANKS:
        raise DescriptionError(f"way exchange: the grid {grid} has one row of tiles, for 2 GPUs. Use stores")
    made = _Exchange(pipeline, host, way, device, times)
    kernels = [made.kernel(rank) for rank in range(RANKS)]
    return PeerProgram(pipeline, host, way, kernels, made.semaphores)


def _is_shared_out(collective: Collective) -> bool:
    return collective.kind == "reduce-scatter" or collective == Collective("all-reduce", "two-shot")


class _Exchange:
    def __init__(
        self, pipeline: Pipeline, host: Host, way: PeerWay, device: Device, times: PeerTimes
    ) -> None:
        self._ahead = way.count
        self._stage, self._device, self._times = pipeline.stages[0], device, times
        (collective,) = host.collectives.values()
        self._stores_sums = collective.kind == "all-reduce"
        self._grid, self._bytes = self._stage.grid, tile_bytes_of(self._stage)
        self._half = -(-self._grid.y // RANKS)
        self.semaphores = PeerSemaphores()
        tiles, name, add = list(self._grid), self._stage.name, self.semaphores.add
        self._came = {tile: add(f"{name} tile {tile}", self._owner(tile), 1) for tile in tiles}
        counts = [sum(self._owner(tile) == rank for tile in tiles) for rank in range(RANKS)]
        self._summed = [
            add(f"{name} sums of rank {1 - rank}", rank, counts[1 - rank]) for rank in range(RANKS)
        ]

    def _owner(self, tile: Tile) -> int:
        return tile[1] // self._half

    def kernel(self, rank: int) -> PeerKernel:
        """A rank's GEMM, on all SMs; it ends once the other's sums are there."""
        name = self._stage.name
        items = [self._item(tile, rank) for tile in self._order(rank)]
        until = (self._summed[rank],) if self._stores_sums else ()
        items[-1] = replace(items[-1], until=until, retire_ns=self._retire_ns)
        own = replace(self._stage, name=f"{name}@{rank}", device=rank)
        slots = self._device.sm_count * occupancy_of(self._device, own.kernel.block).blocks_per_sm
        tile_ns = round(self._times.tile_ns[name] * self._times.costs.exchange_ratio)
        return PeerKernel(own, COMPUTE, min(len(items), slots), items, tile_ns, "epilogue")

    @property
    def _retire_ns(self) -> int:
        """What a call takes besides its tiles; of an all-reduce also the copy of the other's sums."""
        costs, copied = self._times.costs, self._bytes * self._grid.tiles if self._stores_sums else 0
        return costs.call_ns.get("exchange", 0) + round(copied / costs.copied_bytes_per_s * 1e9)

    def _order(self, rank: int) -> list[Tile]:
        """The other's tiles first; with a number ahead only so many, then one of each in turns.

        Turns need as many of both.
        """
        theirs = [tile for tile in self._grid if self._owner(tile) != rank]
        own = [tile for tile in self._grid if self._owner(tile) == rank]
        if not self._ahead or len(own) != len(theirs):
            return theirs + own
        left = theirs[self._ahead :]
        turns = [tile for pair in zip(left, own, strict=False) for tile in pair]
        return theirs[: self._ahead] + turns + own[len(left) :]

    def _item(self, tile: Tile, rank: int) -> PeerItem:
        other = 1 - rank
        if self._owner(tile) != rank:
            return PeerItem(tile, sends=(Send(other, self._bytes, (self._came[tile],)),))
        sums = (Send(other, self._bytes, (self._summed[other],)),) if self._stores_sums else ()
        return PeerItem(tile, adds=(self._came[tile],), sends=sums)
