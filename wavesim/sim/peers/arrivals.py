"""Where tiles are read, and the semaphores that say there that they have arrived.

Example: of a GEMM's tiles on GPU 0 those of odd columns are read on GPU 1. Under row semaphores GPU 1 has one
counter per tile row for them, ready at half a row; the tile that makes it full is the last to arrive.
"""

from collections import Counter

from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Tile
from wavesim.plan.policy import Policy
from wavesim.sim.peers.program import PeerSemaphores, Send
from wavesim.work.collective import tile_bytes_of

Key = tuple[str, int, int]  # stage, device that reads, semaphore of the policy's table


class Arrivals:
    """Of a pipeline under a policy: what each tile waits for, posts and sends."""

    def __init__(self, pipeline: Pipeline, unit: Policy) -> None:
        self._pipeline = pipeline
        self._tables = {
            stage.name: unit.table(stage.grid).semaphore_of_tile
            for stage in pipeline.stages
            if pipeline.consumers_of(stage.name)
        }
        self._reads = {stage.name: self._read_by(stage) for stage in pipeline.stages}
        self._readers = self._all_readers()
        self.semaphores = PeerSemaphores()
        self._numbers = self._numbered()

    def _read_by(self, stage: Stage) -> dict[Tile, list[tuple[str, Tile]]]:
        """What each tile reads; alike for all columns where no need uses x."""
        dependency = self._pipeline.dependency_of(stage.name)
        if dependency is None:
            return {}
        has_x = any(need.uses("x") for need in dependency.needs)
        rows = {} if has_x else {y: dependency.producer_tiles(0, y) for y in range(stage.grid.y)}
        return {(x, y): rows[y] if not has_x else dependency.producer_tiles(x, y) for x, y in stage.grid}

    def _all_readers(self) -> dict[str, dict[Tile, set[int]]]:
        """The devices that need each tile: those of its readers, and those it is stored to anyway."""
        readers: dict[str, dict[Tile, set[int]]] = {}
        for stage in self._pipeline.stages:
            always = stage.work.shared_with
            readers[stage.name] = {tile: set(always) for tile in stage.grid}
        for stage in self._pipeline.stages:
            seen: set[int] = set()
            for reads in self._reads[stage.name].values():
                if id(reads) not in seen:
                    seen.add(id(reads))
                    for name, tile in reads:
                        readers[name][tile].add(stage.device)
        return readers

    def _numbered(self) -> dict[Key, int]:
        counts = Counter(
            (name, device, self._unit(name, tile))
            for name in self._tables
            for tile, devices in self._readers[name].items()
            for device in devices
        )
        return {
            (name, device, unit): self.semaphores.add(f"{name} semaphore {unit}", device, awaited)
            for (name, device, unit), awaited in counts.items()
        }

    def _unit(self, name: str, tile: Tile) -> int:
        return self._tables[name][tile[1] * self._pipeline.stage(name).grid.x + tile[0]]

    def waits(self, stage: Stage, tile: Tile) -> tuple[int, ...]:
        """Semaphores that a tile's block waits for, each once, in the order in which it reads."""
        reads = self._reads[stage.name].get(tile, [])
        return tuple(
            dict.fromkeys(self._numbers[name, stage.device, self._unit(name, made)] for name, made in reads)
        )

    def posts(self, stage: Stage, tile: Tile, device: int) -> tuple[int, ...]:
        """Semaphores that a tile posts on a device."""
        if stage.name not in self._tables or device not in self._readers[stage.name][tile]:
            return ()
        return (self._numbers[stage.name, device, self._unit(stage.name, tile)],)

    def sends(self, stage: Stage, tile: Tile) -> tuple[Send, ...]:
        """What a tile sends to other devices, the next rank first, so that not all send to one."""
        others = [device for device in self._readers[stage.name][tile] if device != stage.device]
        others.sort(key=lambda device: (device - stage.device) % 64)
        size = tile_bytes_of(stage) if others else 0
        return tuple(Send(device, size, self.posts(stage, tile, device)) for device in others)
