"""Triton kernels under a plan: the functions they call, the buffer they share, their launches, a check.

Example: the first kernel computes tile rows that the second reads.

    pair = Synchronised(pipeline, parse_plan("pdl+row", "grouped:4"))
    tiles = pair.functions       # in the kernels: tiles.gemm1_tile(sync), tiles.gemm2_wait(sync, x, y)
    pair.run(lambda sync, **how: first[grid](a, b, c, sync, **how), lambda sync, **how: second[grid](...))
    pair.check()                 # a wait that ran out of time: DeadlockError names it

Only programs with PyTorch and Triton import this module.
"""

import hashlib
import linecache
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from wavesim.check.deadlock import safety_of
from wavesim.codegen.triton_text import REPORT_WORDS, function_name, generate_triton
from wavesim.errors import DeadlockError, DescriptionError, Waiter
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.semaphores import semaphore_arrays
from wavesim_gpu.cusync.sync_state import counter_name
from wavesim_gpu.runtime.device import query

LOOKS_PER_S = 2_000_000  # a look takes half a microsecond or more: a limit is at least as long as it says
LONGEST_S = 600.0
Launch = Callable[..., Any]  # takes the buffer and Triton's launch options, returns the compiled kernel


class Synchronised:
    """A pipeline of Triton kernels under a plan, on the current GPU.

    `functions`: the module that `generate_triton` writes. `buffer`: what the kernels take as `sync`.
    `limit_s` bounds every wait. The object serves one run at a time, on one stream. Raises
    `DescriptionError` for plans that Triton kernels do not run.
    """

    def __init__(self, pipeline: Pipeline, plan: Plan, *, limit_s: float = 20.0) -> None:
        if not 0 < limit_s <= LONGEST_S:
            raise DescriptionError(
                f"limit_s is {limit_s}; it must be more than 0 and at most {LONGEST_S:g} seconds"
            )
        self.pipeline, self.plan, self.limit_s = pipeline, plan, limit_s
        self.functions = _loaded(generate_triton(pipeline, plan))
        self._names = tuple(stage.name for stage in pipeline.stages)
        words = [int(limit_s * LOOKS_PER_S), *[0] * (self.functions.COUNTERS - 1), *self.functions.TABLES]
        self.buffer = torch.tensor(words, dtype=torch.int32, device="cuda")
        self._counters = self.buffer[REPORT_WORDS : self.functions.COUNTERS]
        self._streams = (
            [torch.cuda.Stream() for _ in pipeline.stages[1:]] if plan.launch.is_multi_stream else []
        )
        self._is_checked = False

    def run(self, *launches: Launch) -> None:
        """Enqueues one run behind all that is on torch's current stream, which goes on after it.

        A launch per stage takes (sync, **options), hands both to its kernel and returns what Triton returns:
        the compiled kernel. The first run is one kernel after the other, as what they occupy is known after
        it. Raises `DescriptionError` if the kernels could shut each other out when they overlap.
        """
        if len(launches) != len(self._names):
            raise DescriptionError(
                f"run: {len(launches)} launches for the {len(self._names)} stages "
                f"{', '.join(self._names)}; give one each"
            )
        self._counters.zero_()
        if not self._is_checked:
            self._require_safe([launch(self.buffer) for launch in launches])
            self._is_checked = True
        elif self._streams:
            self._run_on_streams(launches)
        else:
            for number, launch in enumerate(launches):
                launch(self.buffer, **self._options(number))

    def check(self) -> None:
        """Waits for the current stream. Raises `DeadlockError` if a wait ran out of time since the last one.

        The outputs of that run hold NaN; the next one is right.
        """
        report = self.buffer[:REPORT_WORDS].tolist()
        if not report[1]:
            return
        self.buffer[1:REPORT_WORDS].zero_()
        _, _, stage, x, y, word, seen, awaited = report
        arrays = semaphore_arrays(self.pipeline, self.plan)
        counter = word - REPORT_WORDS
        # Between starts and semaphores a CUDA header has one counter more.
        named = counter_name(arrays, self._names, counter + (counter >= len(self._names)))
        waiter = Waiter(
            self._names[stage], (x, y, 0), sm=-1, slot=-1, semaphore=named, seen=seen, awaited=awaited
        )
        raise DeadlockError(
            (waiter,), detail=f"a wait ran out of its time limit of at least {self.limit_s:g} s"
        )

    def _options(self, number: int) -> dict[str, Any]:
        """What Triton's launch is told: that a kernel starts ahead of its turn."""
        is_early = self.plan.turn_of(self.pipeline, number) == "start"
        return {"launch_pdl": True} if is_early else {}

    def _run_on_streams(self, launches: tuple[Launch, ...]) -> None:
        current = torch.cuda.current_stream()
        streams = [current, *self._streams]
        for stream in self._streams:
            stream.wait_stream(current)
        try:
            for stage, stream, launch in zip(self.pipeline.stages, streams, launches, strict=True):
                with torch.cuda.stream(stream):
                    start = getattr(self.functions, function_name(stage.name, "wait_for_start"), None)
                    if start is not None:
                        start[(1,)](self.buffer, num_warps=1)
                    launch(self.buffer)
        finally:  # also after a launch that failed: the next run zeroes what those before it write
            for stream in self._streams:
                current.wait_stream(stream)

    def _require_safe(self, kernels: list[Any]) -> None:
        blocks = {name: _block(name, kernel) for name, kernel in zip(self._names, kernels, strict=True)}
        verdict = safety_of(self.pipeline, self.plan, query(), blocks)
        if not verdict.is_safe:
            raise DescriptionError(f"{self.pipeline.name} under {self.plan.label}: {verdict.reason}")


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
