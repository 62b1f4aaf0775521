"""What tile-level synchronisation costs kernels with nothing to gain: the paper's copy kernels (section V-D).

Picture: two kernels copy 16 KB per block, one full wave at the highest occupancy; the second's block waits
for the first's block of the same number. Timed against the same pair without semaphores, first on one stream,
where only looking, drawing and posting are added, then on two, as tile-level synchronisation is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline, Stage
from wavesim.model.plan import Plan, SemaphoreSync, StreamSync
from wavesim.model.policy import TileSync
from wavesim_gpu.compiler import Build
from wavesim_gpu.device import query, require_cupy
from wavesim_gpu.functions import load_function
from wavesim_gpu.kernels.family import KernelLaunch
from wavesim_gpu.launches import Launch, Launches
from wavesim_gpu.program import wait_launch
from wavesim_gpu.runner import Verdict
from wavesim_gpu.studies.case import describe_case, time_together
from wavesim_gpu.sync_state import SyncState
from wavesim_gpu.timing import Contender

SOURCE = Path(__file__).parents[1] / "kernels" / "copy.cu"
BYTES_PER_BLOCK = 16 << 10  # as in copy.cu
THREADS = (128, 256, 1024)
WARM_UP_S = 0.3
HEAD_START_PER_RUN_NS = 50_000  # a run lasts some 20 us, its launch from Python longer
STAGES = ("first", "second")


@dataclass(frozen=True)
class CopyPair:
    """Both kernels under one plan, ready to launch; `is_one_stream` puts them one after the other."""

    launches: Launches
    source: Any
    out: Any

    def verdict(self, launch: Any) -> Verdict:
        """Runs once on an emptied output and compares."""
        self.out.fill(0xFF)
        require_cupy().cuda.Device().synchronize()
        launch()
        self.launches.synchronize()
        is_equal = bool((self.out == self.source).all())
        sync = self.launches.sync
        return Verdict(
            {"second": 0.0 if is_equal else 1.0}, is_equal, bool((sync.values() == sync.finals).all())
        )


def copy_pair(threads: int, plan: Plan, *, is_one_stream: bool) -> CopyPair:
    """One full wave of both kernels at the highest occupancy that `threads` per block allow."""
    cupy = require_cupy()
    device = query()
    blocks = device.sm_count * min(device.max_threads_per_sm // threads, device.max_blocks_per_sm)
    source, middle, out = (cupy.empty(blocks * BYTES_PER_BLOCK, "uint8") for _ in range(3))
    source[:] = cupy.arange(source.size, dtype="uint32").astype("uint8")
    pipeline = describe_pair(blocks, threads)
    shape = KernelLaunch(f"copy<{threads}>", threads, 0, blocks)
    sync = SyncState(pipeline, plan, block_count=len(STAGES) * blocks)
    found: list[Launch] = []
    for index, (name, ends) in enumerate(zip(STAGES, ((source, middle), (middle, out)), strict=True)):
        stream = 0 if is_one_stream else index
        if isinstance(plan, SemaphoreSync) and plan.wait_kernel and index:
            found.append(wait_launch(sync, name, stream, Build()))
        function = load_function(SOURCE, shape.expression, Build(), header=sync.headers[name].text)
        addresses = np.array([array.data.ptr for array in ends], np.uint64).view(np.dtype("V16"))[0]
        found.append(Launch(function, shape, (sync.params(name), addresses), stream))
    return CopyPair(Launches(sync, tuple(found), 1 if is_one_stream else 2), source, out)


def describe_pair(blocks: int, threads: int) -> Pipeline:
    """The two kernels and who reads what."""
    first, second = (Stage(name, Kernel(name, Grid(blocks), Block(threads))) for name in STAGES)
    return Pipeline("copy-pair", [first, second], [Dependency(second[x, y], [first[x, y]])])


def copy_cases(threads: Sequence[int] = THREADS, rounds: int = 200) -> list[dict[str, Any]]:
    """`rounds` graph replays of each, in turns, for every block size."""
    cases: list[dict[str, Any]] = []
    for count in threads:
        pairs = {
            "stream": copy_pair(count, StreamSync(), is_one_stream=True),
            "ready": copy_pair(count, SemaphoreSync(TileSync(), wait_kernel=False), is_one_stream=True),
            "tile": copy_pair(count, SemaphoreSync(TileSync()), is_one_stream=False),
        }
        launches = {name: pair.launches.launcher() for name, pair in pairs.items()}
        verdicts = {name: pair.verdict(launches[name]) for name, pair in pairs.items()}
        contenders = {
            name: Contender(launches[name], pair.launches.streams[0]) for name, pair in pairs.items()
        }
        found, sampler = time_together(
            contenders, rounds, WARM_UP_S, HEAD_START_PER_RUN_NS * rounds * len(contenders)
        )
        for pair in pairs.values():
            pair.launches.sync.check()
        tags = {"workload": "copy-pair", "threads": count}
        cases += [describe_case(name, tags, found[name], verdicts[name], sampler) for name in pairs]
    return cases
