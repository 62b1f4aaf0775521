"""A run of a plan as operations and waits: what a launch recorder notes of it, and what a mirror carries.

Example: a pair under row semaphores is three operations on two streams. The wait-kernel waits for the first
block of the producer, blocks of the consumer for the end of the producer's blocks in their row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wavesim.plan.order import RowMajor
from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.driver.kernel_launch import DeviceLaunch
from wavesim_gpu.hang.launch_facts import Fields


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """The launches of a run, in order; the addresses of its streams; the state that its kernels share."""

    launches: Sequence[DeviceLaunch]
    addresses: Sequence[int]
    sync: SyncState

    def operations(self, stream_of: Callable[[int], Fields]) -> list[Fields]:
        """An operation per launch; `stream_of` says what the driver does of a stream's address."""
        return [
            {
                "name": name_of(launch),
                "grid": [launch.shape.blocks],
                "threads": launch.shape.threads,
                "registers": max(1, launch.function.registers),
                "static_shared_bytes": launch.function.static_shared_bytes,
                "dynamic_shared_bytes": launch.shape.dynamic_shared_bytes,
                "carveout": "full",  # load_function asks for it
                "cluster": launch.shape.cluster,
                "dependent": launch.shape.is_dependent,
                # Kernels that a dependent launch may follow let it start before they wait for anything.
                "trigger": "start" if self._is_followed(index) else "end",
                **stream_of(self.addresses[launch.stream]),
            }
            for index, launch in enumerate(self.launches)
        ]

    def waits(self) -> list[Fields]:
        """What each launch's blocks wait for, by the names of `operations`."""
        kernels = [launch for launch in self.launches if not launch.awaits_start_of]
        by_stage = {name: launch for launch in kernels for name in launch.stages}
        edges = dict.fromkeys(edge for array in self.sync.arrays for edge in array.edges)
        starts: list[Fields] = [
            {"waiter": name_of(launch), "producer": name_of(by_stage[name]), "blocks": 1, "until": "start"}
            for launch in self.launches
            for name in launch.awaits_start_of
        ]
        return starts + [
            {"waiter": name_of(launch), "producer": name_of(by_stage[producer])}
            | self._blocks(producer, consumer, by_stage)
            for launch in kernels
            for producer, consumer in edges
            # A fused kernel's tiles wait for tiles that were taken before.
            if consumer in launch.stages and producer not in launch.stages
        ]

    def _is_followed(self, index: int) -> bool:
        stream = self.launches[index].stream
        later = [launch for launch in self.launches[index + 1 :] if launch.stream == stream]
        return bool(later) and later[0].shape.is_dependent

    def _blocks(self, producer: str, consumer: str, by_stage: Mapping[str, DeviceLaunch]) -> Fields:
        """Rows where block i of both computes tile i in row order and tiles are of one height; else all."""
        plan, names = self.sync.plan, (producer, consumer)
        stages = [self.sync.pipeline.stage(name) for name in names]
        is_by_row = (
            not plan.schedule.fetches_tiles
            and stages[0].grid.y == stages[1].grid.y
            and stages[0].gemm.tile_m == stages[1].gemm.tile_m
            and all(
                stage.grid.z == 1
                and isinstance(plan.order_of(stage.name), RowMajor)
                and by_stage[stage.name].shape.blocks == stage.grid.tiles
                for stage in stages
            )
        )
        return {"blocks": "row", "rows": stages[0].grid.y} if is_by_row else {"blocks": "all"}


def name_of(launch: DeviceLaunch) -> str:
    """What a launch is called: by its stages."""
    if launch.awaits_start_of:
        return f"wait-kernel of {launch.stages[0]}"
    return " and ".join(launch.stages) or launch.shape.expression
