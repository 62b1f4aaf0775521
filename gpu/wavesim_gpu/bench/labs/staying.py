"""What staying gives and costs in small, on the GPU at hand: grid-stride loops, barriers, task queues.

Example: `python -m wavesim_gpu.bench.labs.staying --out gpu/results/staying/DATE.json` adds two vectors by a
block per tile and by a grid-stride loop, counts the nanoseconds of a barrier of the grid beside those of a
launch, and does unequal tasks dealt out and from a queue.
"""

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import wavesim_gpu.persistent
from wavesim.errors import DeadlockError
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.current_gpu import require_gpu
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.functions import Function, load_function
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_extended
from wavesim_gpu.persistent.library import captured
from wavesim_gpu.persistent.wavernn import LIMIT_NS, PROGRESS
from wavesim_gpu.run.runner import WrongResultError
from wavesim_gpu.run.timing import Contender, interleaved

SOURCE = Path(wavesim_gpu.persistent.__file__).with_name("staying.cu")
ROUNDS, MOST_ROUNDS = 30, 1000
THREADS, GROUPS = 256, 1 << 24  # vectors of 256 MB, which no L2 holds
BARRIERS, LAUNCHES = 1000, 200
BLOCKS_PER_SM = 4  # of the grid-stride loop, and the most of the barriers
TASKS, SHORT_NS, LONG_NS, LONG_EVERY = 1056, 2_000, 30_000, 132
HEAD_START_NS = 2_000_000
Start = Callable[[], None]


def task_times(tasks: int = TASKS, sms: int = LONG_EVERY) -> list[int]:
    """Nanoseconds of each task; of every `sms` one is long, and a grid-stride loop gives all to one block."""
    return [LONG_NS if task % sms == 0 else SHORT_NS for task in range(tasks)]


class SmallExamples:
    """The kernels, their operands, and what starts each on one stream."""

    def __init__(self) -> None:
        self.gpu = require_gpu().device
        self.cupy = cupy = require_cupy()
        self.stream = cupy.cuda.Stream(non_blocking=True)
        random = cupy.random.default_rng(0)
        self._a, self._b = (random.standard_normal(4 * GROUPS, dtype=np.float32) for _ in range(2))
        self._out = cupy.empty_like(self._a)
        self._words = cupy.zeros(3, np.uint32)  # arrived, gave up, next task
        self.task_ns = task_times(sms=self.gpu.sm_count)
        self._task_ns = cupy.asarray(self.task_ns, dtype=np.uint32)
        self._done = cupy.zeros(len(self.task_ns), np.uint32)
        cupy.cuda.Device().synchronize()

    @property
    def additions(self) -> dict[str, Start]:
        """The two additions."""
        every, few = GROUPS // THREADS, self.gpu.sm_count * BLOCKS_PER_SM
        return {
            "a block per tile": partial(self._add, "add_by_tiles", every),
            "a grid-stride loop": partial(self._add, "add_by_stride", few),
        }

    @property
    def waits(self) -> dict[str, Start]:
        """Launches of an empty kernel in a graph, and barriers of half, one and four blocks per SM."""
        sms = self.gpu.sm_count
        empty = captured(partial(self._nothing, sms), self.stream)
        result: dict[str, Start] = {"launches": partial(empty.launch, self.stream)}
        for blocks in (sms // 2, sms, BLOCKS_PER_SM * sms):
            result[f"barriers of {blocks} blocks"] = partial(self._barriers, blocks)
        return result

    @property
    def tasks(self) -> dict[str, Start]:
        """Unequal tasks by one block per SM: dealt out, and fetched."""
        return {
            "dealt out": partial(self._tasks, "tasks_by_stride"),
            "queue": partial(self._tasks, "tasks_by_queue"),
        }

    def check(self) -> None:
        """Each addition's result, each task done once, all barriers passed. Raises `WrongResultError`."""
        expected = self._a + self._b
        for name, start in self.additions.items():
            self._out.fill(np.nan)
            self.cupy.cuda.Device().synchronize()
            self._run(start)
            if not bool((self._out == expected).all()):
                raise WrongResultError(f"vectors added by {name} are wrong")
        for name, start in self.tasks.items():
            self._done.fill(0)
            self.cupy.cuda.Device().synchronize()
            self._run(start)
            if not bool((self._done == 1).all()):
                raise WrongResultError(f"tasks by {name}: some were not done, or twice")
        for start in self.waits.values():
            self._run(start)
        self.require_patience()

    def require_patience(self) -> None:
        """Raises `DeadlockError` where a barrier was given up."""
        if int(self._words[1]):
            raise DeadlockError(
                detail=f"a barrier was waited for longer than {LIMIT_NS / 1e9:g} s; is the GPU shared?"
            )

    def rounds_ns(self, starts: dict[str, Start], rounds: int) -> dict[str, list[int]]:
        """Times of each, in turns."""
        contenders = [Contender(start, self.stream) for start in starts.values()]
        result = interleaved(contenders, rounds, head_start_ns=HEAD_START_NS)
        self.require_patience()
        return {name: entry.times_ns for name, entry in zip(starts, result, strict=True)}

    def _run(self, start: Start) -> None:
        start()
        self.stream.synchronize()

    def _function(self, name: str) -> Function:
        return load_function(SOURCE, name, Build())

    def _launch(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        self._function(name).function((blocks, 1, 1), (threads, 1, 1), arguments, 0, self.stream)

    def _add(self, name: str, blocks: int) -> None:
        pointers = (np.uint64(entry.data.ptr) for entry in (self._a, self._b, self._out))
        self._launch(name, blocks, THREADS, *pointers, np.uint32(GROUPS))

    def _nothing(self, blocks: int) -> None:
        for _ in range(LAUNCHES):
            self._launch("nothing", blocks, THREADS)

    def _barriers(self, blocks: int) -> None:
        self._words[:1].data.memset_async(0, 4, self.stream)
        record = np.zeros(1, PROGRESS)[0]
        first = self._words.data.ptr
        record["arrived"], record["gave_up"], record["limit_ns"] = first, first + 4, LIMIT_NS
        shape = KernelLaunch("barriers", THREADS, 0, blocks, is_cooperative=True)
        arguments = record, np.uint32(BARRIERS)
        launch_extended(self._function("barriers").function, shape, arguments, self.stream)

    def _tasks(self, name: str) -> None:
        self._words[2:].data.memset_async(0, 4, self.stream)
        pointers = [np.uint64(entry.data.ptr) for entry in (self._task_ns, self._done)]
        more = (np.uint64(self._words.data.ptr + 8),) if name == "tasks_by_queue" else ()
        self._launch(name, self.gpu.sm_count, 1, *pointers, np.uint32(len(self.task_ns)), *more)


def measured(rounds: int) -> dict[str, Any]:
    """All that is timed, checked before."""
    own = SmallExamples()
    own.check()
    waits = own.rounds_ns(own.waits, rounds)
    each = {name: LAUNCHES if name == "launches" else BARRIERS for name in waits}
    return {
        "device": own.gpu.name,
        "addition_bytes": 3 * 16 * GROUPS,
        "additions_ns": own.rounds_ns(own.additions, rounds),
        "each_wait_ns": {name: statistics.median(times) / each[name] for name, times in waits.items()},
        "task_ns": own.task_ns,
        "tasks_ns": own.rounds_ns(own.tasks, rounds),
    }


def document(rounds: int) -> dict[str, Any]:
    """All that is timed, checked before."""
    return measured(rounds or ROUNDS)
