"""What tile-level synchronisation costs kernels with nothing to gain: the paper's copy kernels (section V-D).

Example: two kernels copy 16 KB per block, one full wave at the highest occupancy; the second's block waits
for the first's block of the same number. Timed against the same pair without semaphores in stream order: with
semaphores too on that one stream, where only looking and posting are added; on two streams, as on GPUs that
know no better; and on one by dependent launch, where blocks of the second kernel start as blocks of the first
leave.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.codegen.options import PLAIN_STORE, Option, kernel_options, without_option
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim_gpu.bench.contenders import (
    NONE,
    CheckedCandidate,
    describe_case,
    judged_again,
    or_stuck,
    time_together,
)
from wavesim_gpu.cusync.sync_state import LIMIT_S, SyncState
from wavesim_gpu.driver.clocks import Sampler
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch
from wavesim_gpu.run.launches import Launches
from wavesim_gpu.run.program import wait_launch
from wavesim_gpu.run.runner import OutputCheck
from wavesim_gpu.run.timing import Contender, Rounds

SOURCE = Path(__file__).parents[2] / "kernels" / "elementwise" / "copy.cu"
BYTES_PER_BLOCK = 16 << 10  # as in copy.cu
THREADS = (128, 256, 1024)
COPY_ROUNDS = 200
WARM_UP_S = 0.05
HEAD_START_PER_RUN_NS = 50_000  # a run lasts some 20 us, its launch from Python longer
BATCH_ROUNDS = 20  # of five ways: six hundred entries in the queue, which holds a thousand
STAGES = ("first", "second")
FIRST_DEPENDENT = (9, 0)


@dataclass(frozen=True)
class CopyConfig:
    """How the pair is launched: its plan, on one stream or two, the second kernel dependent or not."""

    plan: Plan
    is_one_stream: bool = True
    is_dependent: bool = False


WAYS = {
    "stream": CopyConfig(StreamSync()),
    "ready": CopyConfig(SemaphoreSync(TileSync(), wait_kernel=False)),
    "tile": CopyConfig(SemaphoreSync(TileSync()), is_one_stream=False),
    "pdl": CopyConfig(StreamSync(), is_dependent=True),
    "tile on one stream": CopyConfig(SemaphoreSync(TileSync(), wait_kernel=False), is_dependent=True),
}


@dataclass(frozen=True)
class Buffers:
    """What is copied, to where and on to where: the same for all ways, so that each meets the same L2."""

    source: Any
    middle: Any
    out: Any

    @classmethod
    def of(cls, size: int) -> "Buffers":
        """All on the current GPU, of `size` bytes."""
        cupy = require_cupy()
        source = cupy.arange(size, dtype="uint32").astype("uint8")
        return cls(source, cupy.empty_like(source), cupy.empty_like(source))

    def spoil(self) -> None:
        """Overwrites what a run must write."""
        self.middle.fill(0xFF)
        self.out.fill(0xFF)
        require_cupy().cuda.Device().synchronize()

    def is_copied(self) -> bool:
        """Whether the output is the source."""
        return bool((self.out == self.source).all())


def verdict_of(launches: Launches, launch: Callable[[], None], buffers: Buffers) -> OutputCheck:
    """Runs once on spoilt buffers and compares. Raises `DeadlockError` for any wait since the last look."""
    launches.synchronize()
    buffers.spoil()
    launch()
    launches.synchronize()
    is_right, sync = buffers.is_copied(), launches.sync
    has_right_semaphores = bool((sync.values() == sync.finals).all())
    return OutputCheck({"second": 0.0 if is_right else 1.0}, is_right, has_right_semaphores)


def copy_pair(
    threads: int,
    way: CopyConfig,
    buffers: Buffers,
    build: Build | None = None,
    limit_s: float = LIMIT_S,
) -> Launches:
    """Both kernels, ready to launch: a block per 16 KB. `limit_s` bounds their waits."""
    build = build or Build()
    blocks = buffers.source.size // BYTES_PER_BLOCK
    pipeline = describe_pair(blocks, threads)
    # A wait-kernel needs started blocks counted; without one only semaphores change: waiters put them back.
    counts_blocks = way.plan.launch.wait_kernel
    sync = SyncState(
        pipeline,
        way.plan,
        limit_ns=int(limit_s * 1e9),
        options=options_of(pipeline, way.plan),
        block_count=len(STAGES) * blocks if counts_blocks else 0,
        is_put_back=not counts_blocks,
    )
    ends = ((buffers.source, buffers.middle), (buffers.middle, buffers.out))
    result: list[DeviceLaunch] = []
    for index, (name, arrays) in enumerate(zip(STAGES, ends, strict=True)):
        stream = 0 if way.is_one_stream else index
        if index and counts_blocks:
            result.append(wait_launch(sync, name, stream, build))
        shape = KernelLaunch(
            f"copy<{threads}>", threads, 0, blocks, is_dependent=way.is_dependent and index > 0
        )
        function = load_function(SOURCE, shape.expression, build, header=sync.headers[name].text)
        addresses = np.array([array.data.ptr for array in arrays], np.uint64).view(np.dtype("V16"))[0]
        result.append(DeviceLaunch(function, shape, (sync.params(name), addresses), stream))
    return Launches(sync, result, 1 if way.is_one_stream else len(STAGES))


def describe_pair(blocks: int, threads: int) -> Pipeline:
    """The two kernels and who reads what."""
    first, second = (Stage(name, Kernel(name, Grid(blocks), Block(threads))) for name in STAGES)
    return Pipeline("copy-pair", [first, second], [Dependency(second[x, y], [first[x, y]])])


def options_of(pipeline: Pipeline, plan: Plan) -> tuple[Option, ...]:
    """All that hold but plain stores: blocks that end with a post are done sooner if it adds (H200)."""
    return without_option(kernel_options(pipeline, plan), PLAIN_STORE)


def ways_on(device: Device) -> dict[str, CopyConfig]:
    """Those that a GPU knows: dependent launch came with sm_90."""
    is_new = device.compute_capability >= FIRST_DEPENDENT
    return {name: way for name, way in WAYS.items() if is_new or not way.is_dependent}


def full_wave(device: Device, threads: int) -> int:
    """Blocks of one full wave at the highest occupancy that `threads` per block allow."""
    return device.sm_count * min(device.max_threads_per_sm // threads, device.max_blocks_per_sm)


def time_in_batches(
    contenders: Mapping[str, Contender], rounds: int
) -> tuple[dict[str, Rounds], Sampler | None]:
    """As `time_together`, in batches that fit whole into a stream's queue.

    Once that is full the host only adds a run when one has ended, and runs this short would wait for it.
    Batches draw the same orders, but begin with another contender each, so that nobody always runs behind
    the same one.
    """
    result, sampler = {name: Rounds([], []) for name in contenders}, None
    names = list(contenders)
    for done in range(0, rounds, BATCH_ROUNDS):
        count = min(BATCH_ROUNDS, rounds - done)
        head_start_ns = HEAD_START_PER_RUN_NS * count * len(contenders)
        turned = {name: contenders[name] for name in names}
        batch, sampler = time_together(turned, count, WARM_UP_S, head_start_ns)
        names = names[1:] + names[:1]
        for name, item in batch.items():
            result[name].times_ns.extend(item.times_ns)
            result[name].clocks_ghz.extend(item.clocks_ghz)
    return result, sampler


def copy_cases(threads: Sequence[int] = THREADS, rounds: int = COPY_ROUNDS) -> list[dict[str, Any]]:
    """`rounds` graph replays of each way, in turns, for every block size."""
    device = query()
    cases: list[dict[str, Any]] = []
    for count in threads:
        buffers = Buffers.of(full_wave(device, count) * BYTES_PER_BLOCK)
        pairs = {name: copy_pair(count, way, buffers) for name, way in ways_on(device).items()}
        entries = {name: _entry(pair, buffers) for name, pair in pairs.items()}
        good = {name: entry for name, entry in entries.items() if entry.verdict.is_good}
        result, sampler = time_in_batches({name: entry.contender for name, entry in good.items()}, rounds)
        verdicts = {name: entry.verdict for name, entry in entries.items()} | judged_again(good)
        tags = {"workload": "copy-pair", "threads": count}
        cases += [
            describe_case(name, tags, result.get(name, NONE), verdicts[name], sampler) for name in pairs
        ]
    return cases


def _entry(pair: Launches, buffers: Buffers) -> CheckedCandidate:
    """The buffers are everybody's, so each judgement overwrites them and runs once more."""
    launch = pair.launcher()
    judge = partial(verdict_of, pair, launch, buffers)
    return CheckedCandidate(Contender(launch, pair.streams[0]), or_stuck(judge), buffers.spoil, judge)


def document(rounds: int) -> dict[str, Any]:
    """All cases."""
    return {"cases": copy_cases(rounds=rounds or COPY_ROUNDS)}
