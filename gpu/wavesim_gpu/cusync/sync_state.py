"""The device memory behind one plan: counters, tickets, wait schedules, records and the error buffer.

Example: `SyncState(pipeline, plan)` lays everything out once; `headers[stage]` is the generated header that a
kernel is compiled with and `params(stage)` the parameter it takes, whatever it computes; `reset()` zeroes all
that a run changes with one memset, and `check()` turns what waiters wrote into a `DeadlockError`.

A wait that runs out of its time sets `aborted` in the error buffer. From then on nobody waits: blocks that
would write NaN, in this run and in all that share the buffer, until `check()` or `clear()`. Counters, error
buffer and partial sums are written by every run, so runs over one state must come one after the other, as
`Launches` has them. Runs that may overlap get copies of `params(stage)` with `counters` and `errors` of their
own, both zeroed before the run; each then fails by itself. They must not use split K, whose partial sums stay
shared.
"""

import itertools
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.codegen.cuda import stage_header
from wavesim.codegen.options import Option, kernel_options
from wavesim.errors import DeadlockError, DescriptionError, Waiter
from wavesim.model.accesses import Accesses
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.coverage import Precedence
from wavesim.plan.plan import Plan
from wavesim.plan.resolved import resolve
from wavesim.plan.semaphores import SemaphoreArray, semaphore_name
from wavesim.safety.hang.mirror import ERRORS, MAX_STAGES, MAX_WAITERS
from wavesim.trace.header import DependencyInfo
from wavesim_gpu.cusync.layout import (
    MAX_INPUTS,
    PARTIAL_SUMS,
    stage_params,
)
from wavesim_gpu.cusync.waits import WaitSchedule, retiring_stages, wait_schedule
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.record.layout import RECORD

WORD = 4
LIMIT_S = 30.0  # other programs may hold the GPU for seconds, which is no error


class SyncState:
    """Counters and schedules of one pipeline under one plan, on the current GPU.

    `limit_ns`: how long a counter that a block waits for may stand still before the run is aborted.
    `options` are those that the headers take, by default all that hold for the plan. With `block_count`, the
    blocks of all launches, the last one zeroes the counters; with `is_put_back` each waiter puts its
    semaphore back; without either, `reset` does it before each run. `own_tickets` names the stages whose
    kernels leave their split-K tickets at zero, whoever zeroes the rest. `order` keeps what it has worked out
    of the pipeline for other plans.
    """

    def __init__(  # noqa: PLR0913  # all named: what is laid out once
        self,
        pipeline: Pipeline,
        plan: Plan,
        *,
        limit_ns: int = int(LIMIT_S * 1e9),
        is_recording: bool = False,
        options: tuple[Option, ...] | None = None,
        block_count: int = 0,
        is_put_back: bool = False,
        order: Precedence | None = None,
        own_tickets: Collection[str] = (),
    ) -> None:
        self.resolved = resolve(pipeline, plan)
        require_fit(pipeline)
        self._cupy = require_cupy()
        self.pipeline, self.plan, self.limit_ns = pipeline, plan, limit_ns
        self._precedence = order
        self.arrays, self.names = self.resolved.arrays, self.resolved.names
        chosen = kernel_options(pipeline, plan) if options is None else options
        self.headers = {name: stage_header(pipeline, plan, name, chosen) for name in self.names}
        self._first = len(self.names) + 1  # started blocks per stage and gave_up come before the semaphores
        self._semaphores = self.resolved.semaphore_count
        tickets = {stage.name: stage.grid.tiles for stage in pipeline.stages if stage.grid.z > 1}
        counted = {name: count for name, count in tickets.items() if name not in own_tickets}
        # Counters and tickets: all that a run changes, side by side, to be zeroed in one go; last the count
        # of blocks that have left. A multiple of 16 bytes. Tickets that kernels leave at zero lie behind.
        starts = self._first + self._semaphores
        count = starts + sum(counted.values()) + 1
        self._counted = -(-count // 4) * 4
        own = {name: count for name, count in tickets.items() if name in own_tickets}
        self._ticket_starts = _begins(counted, starts) | _begins(own, self._counted)
        self.words = self._cupy.zeros(self._counted + sum(own.values()), np.uint32)
        self._is_touched = self._semaphores + len(counted) > 0 or any(
            header.counts_blocks for header in self.headers.values()
        )
        self._schedules: dict[str, WaitSchedule] = {}
        self._block_count = block_count if self._is_touched else 0
        self._retiring = self.names
        fetches = any(header.counts_blocks for header in self.headers.values())
        if self._block_count and not fetches and set(self.names) <= set(own_tickets):
            self._retiring = retiring_stages(self.resolved, self._schedule)
        if self._retiring != self.names:
            self._block_count = sum(pipeline.stage(name).grid.size for name in self._retiring)
        self._is_self_resetting = is_put_back or self._block_count > 0
        self.errors = self._cupy.zeros(ERRORS.itemsize // WORD, np.uint32)
        self._tables: list[Any] = []
        self._partials: list[Any] = []
        self._records = [
            self._cupy.zeros(stage.grid.size * RECORD.itemsize, np.uint8) if is_recording else None
            for stage in pipeline.stages
        ]

    def params(self, name: str) -> Any:
        """The `cusync::StageParams` of a stage, as the launch takes it."""
        index = self.names.index(name)
        sizes = self.headers[name].sizes
        record = np.zeros(1, stage_params(len(sizes)))[0]
        record["sizes"][: len(sizes)] = sizes
        sync = record["sync"]
        sync["counters"], sync["errors"] = self.words.data.ptr, self.errors.data.ptr
        sync["limit_ns"] = self.limit_ns
        records = self._records[index]
        sync["records"] = records.data.ptr if records is not None else 0
        sync["stage"], sync["stage_count"] = index, len(self.names)
        if self._block_count and name in self._retiring:
            sync["counter_count"], sync["block_count"] = self._counted, self._block_count
        schedule = self._schedule(self.pipeline.stages[index])
        if schedule is not None:
            sync["schedule"], sync["schedule_first"] = (
                self._table(schedule.steps),
                self._table(schedule.first),
            )
        return record

    @property
    def dependencies(self) -> tuple[DependencyInfo, ...]:
        """Every producer-consumer pair under its policy, for a trace's header."""
        array_of = self.resolved.array_of
        return tuple(_info(edge, array_of[edge]) for edge in self.resolved.edges if edge in array_of)

    def tickets(self, name: str) -> int:
        """Device address of a stage's split-K tickets, one per tile; of no meaning without splits."""
        return int(self.words.data.ptr + WORD * self._ticket_starts.get(name, 0))

    @property
    def needs_reset(self) -> bool:
        """Whether `reset` has something to zero before each run: kernels do not, and touch counters."""
        return self._is_touched and not self._is_self_resetting

    def reset(self, stream: Any) -> None:
        """Zeroes semaphores, counters and tickets, in stream order, unless kernels do it or touch none."""
        if not self.needs_reset:
            return
        self._cupy.cuda.runtime.memsetAsync(self.words.data.ptr, 0, self.words.nbytes, stream.ptr)

    def values(self) -> NDArray[np.uint32]:
        """What all semaphores read now, in pool order; all counters where the kernels zero them."""
        if self._is_self_resetting:
            return np.asarray(self.words.get())
        return np.asarray(self.words[self._first : self._first + self._semaphores].get())

    @property
    def finals(self) -> NDArray[np.uint32]:
        """What all semaphores must read after a run, in pool order: 0 where the kernels zero them."""
        if self._is_self_resetting:
            return np.zeros(self.words.size, np.uint32)
        parts = [
            np.bincount(array.table.semaphore_of_tile, minlength=array.table.count) for array in self.arrays
        ]
        return np.concatenate(parts).astype(np.uint32) if parts else np.zeros(0, np.uint32)

    def records(self, name: str) -> NDArray[Any]:
        """What the last run recorded of the stage's tiles and splits, by position in the tile order."""
        raw = self._records[self.names.index(name)]
        assert raw is not None, "built without recording"
        return np.asarray(raw.get()).view(RECORD)

    def call_off(self, stream: Any) -> None:
        """Has nobody wait any longer, in the order of a stream: for a run whose launches did not all get out.

        `aborted` is then not 0; its lowest bit says whether a wait ran out of time, and stays as it is.
        """
        self._cupy.cuda.runtime.memsetAsync(self.errors.data.ptr + 1, 1, 1, stream.ptr)

    def clear(self) -> None:
        """Zeroes errors and all that a run leaves behind where it is aborted, and waits until that is done.

        Nothing of the state may be running.
        """
        for left in (self.errors, self.words, *self._partials):
            left.fill(0)
        self._cupy.cuda.get_current_stream().synchronize()

    def check(self) -> None:
        """Raises `DeadlockError` if a wait ran out of time since the last check.

        Clears what it reports and all that the aborted run left behind, so that the next run is right.
        """
        report = np.asarray(self.errors.get()).view(ERRORS)[0]
        if not report["aborted"] & 1:
            return
        self.clear()
        raise self.deadlock(report, self.limit_ns)

    def deadlock(self, report: Any, limit_ns: int) -> DeadlockError:
        """What an error buffer says, a record of `ERRORS`: of this state or of a call with its own."""
        count = min(int(report["waiter_count"]), MAX_WAITERS)
        waiters = tuple(self._waiter(row) for row in report["waiters"][:count])
        return DeadlockError(waiters, self._starved(report["issued"]), _detail(report, limit_ns))

    def clear_after_abort(self, partials: Any) -> None:
        """Also zeroes a kernel's partial sums and tickets when a run was aborted half-way."""
        self._partials.append(partials)

    def _schedule(self, stage: Stage) -> WaitSchedule | None:
        inputs = self.resolved.inputs(stage.name)
        if not inputs or not stage.work.is_tiled:
            return None
        if stage.name not in self._schedules:
            by_tile = not stage.work.reads_in_step
            self._schedules[stage.name] = wait_schedule(self._order(), stage, inputs, by_tile=by_tile)
        return self._schedules[stage.name]

    def _order(self) -> Precedence:
        if self._precedence is None:
            self._precedence = Precedence(Accesses(self.pipeline))
        return self._precedence

    def _waiter(self, row: Any) -> Waiter:
        return Waiter(
            stage=self.names[row["stage"]],
            tile=(int(row["x"]), int(row["y"]), int(row["z"])),
            sm=int(row["sm"]),
            slot=-1,  # the hardware does not tell
            semaphore=counter_name(self.arrays, self.names, int(row["counter"])),
            seen=int(row["seen"]),
            awaited=int(row["awaited"]),
        )

    def _starved(self, issued: Any) -> tuple[str, ...]:
        """Stages with blocks not yet started, of those whose blocks count themselves.

        Persistent blocks, and clusters of them, fetch other numbers: they name none.
        """
        if self.plan.schedule.fetches_tiles:
            return ()
        sizes = [stage.grid.size for stage in self.pipeline.stages]
        return tuple(
            f"{size - int(count)} of {size} blocks of {name}"
            for name, size, count in zip(self.names, sizes, issued, strict=False)
            if count < size and self.headers[name].counts_blocks
        )

    def _table(self, values: NDArray[np.int32]) -> int:
        """Copies a table to the device and keeps it alive as long as this state."""
        array = self._cupy.asarray(values)
        self._tables.append(array)
        return int(array.data.ptr)


def _begins(counts: Mapping[str, int], first: int) -> dict[str, int]:
    return dict(zip(counts, itertools.accumulate(counts.values(), initial=first), strict=False))


def _detail(report: Any, limit_ns: int) -> str:
    count = int(report["waiter_count"])
    more = f"; {count} blocks were waiting, the first {MAX_WAITERS} are listed" if count > MAX_WAITERS else ""
    return f"a wait ran out of its time limit of {limit_ns / 1e9:g} s{more}"


def _info(edge: tuple[str, str], array: SemaphoreArray) -> DependencyInfo:
    return DependencyInfo(*edge, array.policy.name, array.table.semaphore_of_tile, array.values)


def counter_name(arrays: tuple[SemaphoreArray, ...], stages: tuple[str, ...], index: int) -> str:
    """The counter of that index in words, for errors: the start of a stage, a semaphore, or partial sums."""
    if index == PARTIAL_SUMS:
        return "partial sums of the tile's other splits"
    if index < len(stages):
        return f"start of {stages[index]}"
    return semaphore_name(arrays, index - len(stages) - 1)


def require_fit(pipeline: Pipeline) -> None:
    """Raises `DescriptionError` where the device's fixed tables are too small for a pipeline."""
    if len(pipeline.stages) > MAX_STAGES:
        raise DescriptionError(
            f"pipeline {pipeline.name} has {len(pipeline.stages)} stages; the GPU runner takes at "
            f"most {MAX_STAGES}. Split it"
        )
    for dependency in pipeline.dependencies:
        if len(dependency.producers) > MAX_INPUTS:
            raise DescriptionError(
                f"{dependency}: {len(dependency.producers)} producers; the GPU runner takes at most "
                f"{MAX_INPUTS}. Put a stage between"
            )
