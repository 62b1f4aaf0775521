"""Triton kernels under a plan: the functions they call, the buffer they share, their launches, a check.

Example: the first kernel computes tile rows that the second reads.

    pair = Synchronised(pipeline, parse_plan("pdl+row", "grouped:4"))
    tiles = pair.functions       # in the kernels: tiles.gemm1_tile(sync), tiles.gemm2_tile_when_ready(sync)
    pair.run(lambda sync, **how: first[grid](a, b, c, sync, **how), lambda sync, **how: second[grid](...))
    pair.check()                 # a wait that ran out of time: DeadlockError names it

Only programs with PyTorch and Triton import this module.
"""

import hashlib
import linecache
import sys
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import Any

import torch

from wavesim.codegen.triton_text import REPORT_WORDS, function_name, generate_triton
from wavesim.errors import DeadlockError, DescriptionError, DeviceError, Waiter
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.resolved import ResolvedPlan, resolve
from wavesim.safe_io.bounds import real
from wavesim.safety.deadlock import safety_of
from wavesim_gpu.cusync.sync_state import counter_name
from wavesim_gpu.driver.device import query
from wavesim_gpu.driver.functions import ask_for_full_carveout

LOOKS_PER_S = 3_500_000  # a look was measured at 0.32 us: a limit is at least as long as it says
SHORTEST_S, LONGEST_S = 1e-3, 600.0  # in looks, both are 32-bit integers
DEPENDENT_LAUNCH_FROM = (9, 0)
Launch = Callable[..., Any]  # takes the buffer and Triton's launch options, returns the compiled kernel


class Synchronised:
    """A pipeline of Triton kernels under a plan, on the current GPU.

    `functions`: the module that `generate_triton` writes. `buffer`: what the kernels take as `sync`, made at
    the first run, so that kernels can be compiled where there is no GPU. `limit_s` bounds every wait. The
    object serves one run at a time: a run on another stream is queued behind the one before, and replays of
    a graph are the caller's to keep apart. Raises `DescriptionError` for plans that Triton does not run.
    """

    def __init__(self, pipeline: Pipeline, plan: Plan, *, limit_s: float = 20.0) -> None:
        self.pipeline, self.plan = pipeline, plan
        self.limit_s = real("limit_s", limit_s, SHORTEST_S, LONGEST_S)
        self.functions = _loaded(generate_triton(pipeline, plan))
        self._names = tuple(stage.name for stage in pipeline.stages)
        self._seen: dict[str, Block] | None = None  # what the kernels occupied at the last check
        self._last: Any = None  # the stream of the last run
        self._streams: list[Any] = []  # of the default priority, which is the lowest: none passes the first
        self._prepared: set[Any] = set()

    @cached_property
    def _resolved(self) -> ResolvedPlan:
        return resolve(self.pipeline, self.plan)

    @cached_property
    def buffer(self) -> torch.Tensor:
        """int32 on the current GPU: the report, counters, semaphores, tables."""
        words = [int(self.limit_s * LOOKS_PER_S), *[0] * (self.functions.COUNTERS - 1)]
        return torch.tensor([*words, *self.functions.TABLES], dtype=torch.int32, device="cuda")

    @cached_property
    def _counters(self) -> torch.Tensor:
        return self.buffer[REPORT_WORDS : self.functions.COUNTERS]

    @torch.compiler.disable  # in a compiled program a run breaks the graph: nothing may move a launch
    def run(self, *launches: Launch) -> None:
        """Enqueues one run behind all that is on torch's current stream, which goes on after it.

        A launch per stage takes (sync, **options), hands both to its kernel and returns what Triton returns:
        the compiled kernel. The first run is one kernel after the other and waits for each, as what they
        occupy and how many tiles they take is known after it; all is compiled then, and the runs after it can
        be captured in a graph.
        Raises `DescriptionError` if a kernel has not one program per tile, or if the kernels could shut each
        other out when they overlap; `DeviceError` for a GPU without the plan's launch.
        """
        if len(launches) != len(self._names):
            raise DescriptionError(
                f"run: {len(launches)} launches for the {len(self._names)} stages "
                f"{', '.join(self._names)}; give one each"
            )
        if self._seen is None:
            self._first_run(launches)
            return
        self._queue_behind_last()
        self._counters.zero_()
        if self._streams:
            self._require_safe(self._run_on_streams(launches))
        else:
            for number, launch in enumerate(launches):
                launch(self.buffer, **self._options(number))

    @torch.compiler.disable
    def check(self) -> None:
        """Waits for the current stream. Raises `DeadlockError` if a wait ran out of time since the last one.

        The outputs of that run hold NaN; the next one is right.
        """
        report = self.buffer[:REPORT_WORDS].tolist()
        if not report[1]:
            return
        self.buffer[1:REPORT_WORDS].zero_()
        _, _, stage, x, y, word, seen, awaited = report
        counter = word - REPORT_WORDS
        # Between starts and semaphores a CUDA header has one counter more.
        named = counter_name(self._resolved.arrays, self._names, counter + (counter >= len(self._names)))
        waiter = Waiter(
            self._names[stage], (x, y, 0), sm=-1, slot=-1, semaphore=named, seen=seen, awaited=awaited
        )
        raise DeadlockError(
            (waiter,), detail=f"a wait ran out of its time limit of at least {self.limit_s:g} s"
        )

    def _options(self, number: int) -> dict[str, Any]:
        """What Triton's launch is told: that a kernel starts ahead of its turn."""
        is_early = self._resolved.turns[number].is_early
        return {"launch_pdl": True} if is_early else {}

    def _first_run(self, launches: tuple[Launch, ...]) -> None:
        if torch.cuda.is_current_stream_capturing():
            raise DescriptionError(
                f"{self.pipeline.name}: the first run is inside a graph's capture, and it alone runs one "
                "kernel after the other. Run once before the capture"
            )
        options = [self._options(number) for number in range(len(launches))]
        capability = torch.cuda.get_device_capability()
        if any(options) and capability < DEPENDENT_LAUNCH_FROM:
            raise DeviceError(
                f"{self.plan.label}: dependent launch needs compute capability 9.0; this GPU has "
                f"{'.'.join(map(str, capability))}. Use launch=StreamPerStage()"
            )
        self._queue_behind_last()
        self._counters.zero_()
        blocks = {}
        for name, launch, how in zip(self._names, launches, options, strict=True):
            self._launch_start(name)
            kernel = launch(self.buffer, **how)
            blocks[name] = _block(name, kernel)
            self._prepare(kernel)
            torch.cuda.current_stream().synchronize()  # each alone: a dependent launch would start early
        taken = self._counters[: len(launches)].tolist()
        for stage, count in zip(self.pipeline.stages, taken, strict=True):
            if count != stage.grid.size:
                raise DescriptionError(
                    f"stage {stage.name} has {stage.grid.size} tiles, and its launch {count} programs; "
                    "launch one per tile, once. A kernel that triton.autotune times is launched many times: "
                    "tune it before, and describe the tiles that it chose"
                )
        if self.plan.launch.is_multi_stream:
            self._streams = [torch.cuda.Stream() for _ in launches[1:]]
        self._require_safe(blocks)

    def _queue_behind_last(self) -> None:
        """A run before on another stream has ended when this one starts: they share the buffer."""
        current = torch.cuda.current_stream()
        if self._last not in (None, current) and not torch.cuda.is_current_stream_capturing():
            current.wait_stream(self._last)
        self._last = current

    def _run_on_streams(self, launches: tuple[Launch, ...]) -> dict[str, Block]:
        current = torch.cuda.current_stream()
        streams = [current, *self._streams]
        for stream in self._streams:
            stream.wait_stream(current)
        blocks = {}
        try:
            for name, stream, launch in zip(self._names, streams, launches, strict=True):
                with torch.cuda.stream(stream):
                    self._launch_start(name)
                    kernel = launch(self.buffer)
                    blocks[name] = _block(name, kernel)
                    self._prepare(kernel)
        finally:  # also after a launch that failed: the next run zeroes what those before it write
            for stream in self._streams:
                current.wait_stream(stream)
        return blocks

    def _launch_start(self, name: str) -> None:
        """The kernel that holds a stage back until its producers have started, where the plan has one."""
        start = getattr(self.functions, function_name(name, "wait_for_start"), None)
        if start is not None:
            self._prepare(start[(1,)](self.buffer, num_warps=1))

    def _prepare(self, kernel: Any) -> None:
        """Of plans with streams: the carve-out that the verdict on them takes for granted."""
        function: Any = getattr(kernel, "function", None)
        if self.plan.launch.is_multi_stream and function not in self._prepared:
            ask_for_full_carveout(function)
            self._prepared.add(function)

    def _require_safe(self, blocks: dict[str, Block]) -> None:
        """Refuses kernels that could shut each other out, by what they occupy as compiled."""
        if blocks == self._seen:
            return
        if not self.plan.launch.why_safe:  # dependent launch is safe on any GPU: no need to ask which it is
            verdict = safety_of(self.pipeline, self.plan, query(), blocks, carveout="full")
            if not verdict.is_safe:
                raise DescriptionError(
                    f"{self.pipeline.name} under {self.plan.label}: {verdict.reason}, or use "
                    "launch=DependentLaunch(), which is always safe"
                )
        self._seen = blocks


def _block(name: str, kernel: Any) -> Block:
    """What a block of a compiled kernel occupies."""
    registers, metadata = getattr(kernel, "n_regs", None), getattr(kernel, "metadata", None)
    if registers is None or metadata is None:
        raise DescriptionError(
            f"the launch of {name} returned {kernel!r}; it must return what kernel[grid](...) returns"
        )
    return Block(metadata.num_warps * 32, registers, 0, metadata.shared)


def _loaded(text: str) -> ModuleType:
    """The generated module. Triton reads its functions' source through `linecache`."""
    name = f"wavesim_triton_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if name not in sys.modules:
        file = f"<{name}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        module = ModuleType(name)
        exec(compile(text, file, "exec"), module.__dict__)  # noqa: S102  # our own text
        sys.modules[name] = module
    return sys.modules[name]
