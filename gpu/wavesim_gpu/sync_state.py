"""The device memory behind one plan: semaphores, tile counters, tickets, tables and the error buffer.

Picture: `SyncState(pipeline, plan)` lays everything out once; `params(stage)` is the kernel parameter that a
synchronised kernel takes, whatever it computes; `reset()` zeroes all that a run changes with one memset,
and `check()` turns what waiters wrote into a `DeadlockError`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DeadlockError, Waiter
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.plan import Plan, StreamSync, check_plan
from wavesim_gpu.device import require_cupy
from wavesim_gpu.layout import BLOCK_RECORD, ERROR_BUFFER, MAX_WAITERS, STAGE_PARAMS
from wavesim_gpu.schedule import links, semaphore_name, wait_schedule

WORD = 4


class SyncState:
    """Semaphores and tables of one pipeline under one plan, on the current GPU."""

    def __init__(
        self, pipeline: Pipeline, plan: Plan, *, limit_ns: int = 2_000_000_000, is_recording: bool = False
    ) -> None:
        check_plan(pipeline, plan)
        self._cupy = require_cupy()
        self.pipeline, self.plan, self.limit_ns = pipeline, plan, limit_ns
        self.links = links(pipeline, plan)
        self.names = tuple(stage.name for stage in pipeline.stages)
        self._semaphores = sum(link.table.count for link in self.links)
        tickets = [stage.grid.tiles if stage.grid.z > 1 else 0 for stage in pipeline.stages]
        self._ticket_starts = np.cumsum([0, *tickets[:-1]]) + self._semaphores + len(self.names)
        # Semaphores, tile counters, tickets: all that a run changes, side by side, for one memset.
        self.words = self._cupy.zeros(max(1, self._semaphores + len(self.names) + sum(tickets)), np.uint32)
        self.errors = self._cupy.zeros(ERROR_BUFFER.itemsize // WORD, np.uint32)
        self._tables: list[Any] = []
        self._records = [
            self._cupy.zeros(stage.grid.size * BLOCK_RECORD.itemsize, np.uint8) if is_recording else None
            for stage in pipeline.stages
        ]

    def params(self, name: str) -> Any:
        """The `cusync::StageParams` of a stage, as the launch takes it."""
        index = self.names.index(name)
        stage = self.pipeline.stages[index]
        record = np.zeros(1, STAGE_PARAMS)[0]
        record["semaphores"] = self.words.data.ptr
        record["issued"] = self._counter(0)
        record["tile_counter"] = 0 if isinstance(self.plan, StreamSync) else self._counter(index)
        record["order"] = self._table(self._order(index))
        record["errors"], record["limit_ns"] = self.errors.data.ptr, self.limit_ns
        record["records"] = self._records[index].data.ptr if self._records[index] is not None else 0
        record["grid"] = (stage.grid.x, stage.grid.y, stage.grid.z)
        record["stage"], record["stage_count"] = index, len(self.names)
        self._fill_links(record, name)
        return record

    def _fill_links(self, record: Any, name: str) -> None:
        outputs = [link for link in self.links if link.producer == name]
        inputs = [link for link in self.links if link.consumer == name]
        record["output_count"] = len(outputs)
        for slot, link in enumerate(outputs):
            record["outputs"][slot] = self._table(link.semaphores)
        for slot, link in enumerate(inputs):
            record["inputs"][slot] = self._table(link.facts)
            record["input_columns"][slot] = self.pipeline.stage(link.producer).grid.x
        stage, dependency = self.pipeline.stage(name), self.pipeline.dependency_of(name)
        if inputs and dependency is not None and isinstance(stage.work, Gemm):
            schedule = wait_schedule(
                stage, dependency, {(link.producer, link.consumer): link for link in inputs}
            )
            record["schedule"], record["schedule_first"] = (
                self._table(schedule.steps),
                self._table(schedule.first),
            )

    def tickets(self, name: str) -> int:
        """Device address of a stage's split-K tickets, one per tile."""
        return int(self.words.data.ptr + WORD * self._ticket_starts[self.names.index(name)])

    def reset(self, stream: Any) -> None:
        """Zeroes semaphores, counters and tickets, in stream order."""
        self._cupy.cuda.runtime.memsetAsync(self.words.data.ptr, 0, self.words.nbytes, stream.ptr)

    def values(self) -> NDArray[np.uint32]:
        """What all semaphores read now, in pool order."""
        return np.asarray(self.words[: self._semaphores].get())

    @property
    def finals(self) -> NDArray[np.uint32]:
        """What all semaphores must read after a run, in pool order."""
        parts = [link.finals for link in self.links]
        return np.concatenate(parts).astype(np.uint32) if parts else np.zeros(0, np.uint32)

    def records(self, name: str) -> NDArray[Any]:
        """What the stage's blocks recorded in the last run, in issue order."""
        raw = self._records[self.names.index(name)]
        assert raw is not None, "built without recording"
        return np.asarray(raw.get()).view(BLOCK_RECORD)

    def check(self) -> None:
        """Raises `DeadlockError` if a wait ran out of time since the last check; clears what it reports."""
        found = np.asarray(self.errors.get()).view(ERROR_BUFFER)[0]
        if not found["aborted"]:
            return
        self.errors.fill(0)
        self._cupy.cuda.Device().synchronize()
        count = min(int(found["waiter_count"]), MAX_WAITERS)
        waiters = tuple(self._waiter(row) for row in found["waiters"][:count])
        raise DeadlockError(waiters, self._starved(found["issued"]), self._detail(found))

    def _waiter(self, row: Any) -> Waiter:
        return Waiter(
            stage=self.names[row["stage"]],
            tile=(int(row["x"]), int(row["y"]), int(row["z"])),
            sm=int(row["sm"]),
            slot=-1,  # the hardware does not tell
            semaphore=semaphore_name(self.links, self.names, int(row["semaphore"])),
            seen=int(row["seen"]),
            awaited=int(row["awaited"]),
        )

    def _starved(self, issued: Any) -> tuple[str, ...]:
        sizes = [stage.grid.size for stage in self.pipeline.stages]
        return tuple(
            f"{size - int(count)} of {size} blocks of {name}"
            for name, size, count in zip(self.names, sizes, issued, strict=False)
            if count < size
        )

    def _detail(self, found: Any) -> str:
        count = int(found["waiter_count"])
        more = (
            f"; {count} blocks were waiting, the first {MAX_WAITERS} are listed"
            if count > MAX_WAITERS
            else ""
        )
        return f"a wait ran out of its time limit of {self.limit_ns / 1e9:g} s{more}"

    def _counter(self, index: int) -> int:
        return int(self.words.data.ptr + WORD * (self._semaphores + index))

    def _order(self, index: int) -> NDArray[np.int32]:
        stage = self.pipeline.stages[index]
        sequence = self.plan.order_of(stage.name).sequence(stage.grid)
        return np.asarray([y * stage.grid.x + x for x, y in sequence], np.int32)

    def _table(self, values: NDArray[np.int32]) -> int:
        """Copies a table to the device and keeps it alive as long as this state."""
        array = self._cupy.asarray(values)
        self._tables.append(array)
        return int(array.data.ptr)
