"""From the bytes of a recording to a `Trace`, checked on the way: no GPU needed.

Example: 64 bytes of header and 288 records of 64 bytes, 96 of stage 0 and 192 of stage 1, become one row per
tile, counted from the first start. What is missing, twice there, unfinished or over the capacity is named.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import RecordingError
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan, check_plan
from wavesim.trace.header import DependencyInfo, Header, StageInfo
from wavesim.trace.placing import slots
from wavesim.trace.trace import Trace
from wavesim_gpu.record.layout import HEADER, MAGIC, MAX_CAPACITY, RECORD, VERSION
from wavesim_gpu.record.stamps import clock_mhz, device_fields, from_zero, tile_cycles, timer_step_ns

Stages = Sequence[str | StageInfo] | Pipeline
MOST_SMS = 1 << 12  # more than any GPU has; a larger number is not an SM's


def records_of(data: bytes | NDArray[Any]) -> NDArray[Any]:
    """The records of a buffer's bytes, in the order in which tiles began.

    Raises `RecordingError`: not a recording, cut short, more tiles than room, or tiles that never ended.
    """
    raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.ascontiguousarray(data).reshape(-1)
    raw = raw.view(np.uint8)
    if raw.size < HEADER.itemsize:
        raise RecordingError(f"recording: {raw.size} bytes; a header alone has {HEADER.itemsize}")
    header = raw[: HEADER.itemsize].view(HEADER)[0]
    count, capacity = int(header["count"]), int(header["capacity"])
    if header["magic"] != MAGIC or header["version"] != VERSION or not 1 <= capacity <= MAX_CAPACITY:
        raise RecordingError(
            "recording: no header of a recording, version 1, at the buffer's start. Copy recording_header("
            "capacity) there before the run; `Recording` does it when made and in reset()"
        )
    if count > capacity:
        raise RecordingError(
            f"recording: {count} tiles began, there was room for {capacity}; {count - capacity} were counted "
            f"and not written. Use capacity={count}, or reset() before every run"
        )
    end = HEADER.itemsize + count * RECORD.itemsize
    if raw.size < end:
        raise RecordingError(f"recording: cut short, {raw.size} bytes; {count} tiles need {end}")
    records = raw[HEADER.itemsize : end].view(RECORD).copy()
    _check(records)
    return records


def _check(records: NDArray[Any]) -> None:
    """Raises `RecordingError` for what no finished tile has written, by record number."""
    if not len(records):
        raise RecordingError(
            "recording: no tile began. Is the buffer passed to the kernel, and WAVESIM_RECORD not 0?"
        )
    unfinished = np.flatnonzero(records["end_ns"] == 0)
    if unfinished.size:
        raise RecordingError(
            f"recording: {unfinished.size} of {len(records)} tiles began and never ended, the first in "
            f"record {unfinished[0]}. Call end on every path, from begin's thread, and wait for the kernel"
        )
    for name, bad in {
        "end_ns": records["end_ns"] < records["start_ns"],
        "end_cycles": records["end_cycles"] < records["start_cycles"],
        "sm": records["sm"] >= MOST_SMS,
        "x": records["x"] < 0,
        "y": records["y"] < 0,
        "z": records["z"] < 0,
    }.items():
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise RecordingError(f"recording: field {name!r} of record {row} is {records[name][row]}")


def trace_of(
    records: NDArray[Any],
    stages: Stages,
    device: Device,
    *,
    plan: Plan | None = None,
    workload: str = "recorded",
    about: Mapping[str, Any] | None = None,
) -> Trace:
    """The trace of checked records. `about` goes into the header: date, commit, versions, rounds_ns, note.

    `stages` by number: names, whose grids, threads and blocks per SM are read off the records; `StageInfo`s,
    whose word is taken; or a `Pipeline`, which with `plan` brings orders and semaphore maps. Without a plan
    the trace's is called "recorded"; `calibrate` wants `StreamSync()`. Raises `RecordingError` where records
    and stages do not fit together, `DescriptionError` where plan and pipeline do not.
    """
    numbers = records["stage"]
    pipeline = stages if isinstance(stages, Pipeline) else None
    named = stages.stages if isinstance(stages, Pipeline) else stages
    wrong = np.flatnonzero((numbers < 0) | (numbers >= len(named)))
    if wrong.size:
        raise RecordingError(
            f"recording: record {wrong[0]} is of stage {numbers[wrong[0]]}; stages are 0 to {len(named) - 1}"
        )
    _, start, end = from_zero(records)
    cycles = tile_cycles(records)
    infos = _infos(records, stages, device, start, end)
    return Trace(
        header=Header(
            source="measured",
            device=device_fields(device),
            workload=pipeline.name if pipeline is not None else workload,
            stages=infos,
            timer_step_ns=timer_step_ns(records),
            clock_mhz=clock_mhz(cycles, start, end),
            parameters=dict(pipeline.parameters) if pipeline is not None else {},
            **_synchronisation(pipeline, plan),
            **(about or {}),
        ),
        stage=numbers,
        x=records["x"],
        y=records["y"],
        z=records["z"],
        sm=_sms(records, device),
        slot=slots(records["sm"], start, end),
        issue_ns=start,
        start_ns=start,
        wait_ns=records["wait_ns"],
        end_ns=end,
        cycles=cycles,
        wait_cycles=records["wait_cycles"],
    )


def _infos(
    records: NDArray[Any], stages: Stages, device: Device, start: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[StageInfo, ...]:
    given: Sequence[str | StageInfo] = _described(stages, device) if isinstance(stages, Pipeline) else stages
    infos = []
    for number, stage in enumerate(given):
        name = stage if isinstance(stage, str) else stage.name
        rows = np.flatnonzero(records["stage"] == number)
        if not rows.size:
            raise RecordingError(f"recording: stage {name} (number {number}) has no tiles")
        info = stage if isinstance(stage, StageInfo) else _seen(name, records[rows], start[rows], end[rows])
        _check_tiles(records[rows], info)
        infos.append(info)
    return tuple(infos)


def _described(pipeline: Pipeline, device: Device) -> tuple[StageInfo, ...]:
    return tuple(
        StageInfo(
            name=stage.name,
            grid=(stage.grid.x, stage.grid.y, stage.grid.z),
            blocks_per_sm=occupancy_of(device, stage.kernel.block).blocks_per_sm,
            threads=stage.kernel.block.threads,
            tile=stage.work.output_tile,
        )
        for stage in pipeline.stages
    )


def _seen(name: str, own: NDArray[Any], start: NDArray[np.int64], end: NDArray[np.int64]) -> StageInfo:
    """What the records themselves tell of a stage: blocks per SM are the most that were there at once."""
    grid = (int(own["x"].max()) + 1, int(own["y"].max()) + 1, int(own["z"].max()) + 1)
    return StageInfo(name, grid, int(slots(own["sm"], start, end).max()) + 1, int(own["threads"].max()))


def _check_tiles(own: NDArray[Any], info: StageInfo) -> None:
    columns, rows, slices = info.grid
    outside = np.flatnonzero((own["x"] >= columns) | (own["y"] >= rows) | (own["z"] >= slices))
    if outside.size:
        tile = tuple(int(own[axis][outside[0]]) for axis in ("x", "y", "z"))
        raise RecordingError(f"recording: tile {tile} of stage {info.name} is outside its grid {info.grid}")
    linear = (own["z"].astype(np.int64) * rows + own["y"]) * columns + own["x"]
    tiles, counts = np.unique(linear, return_counts=True)
    if counts.max() > 1:
        twice = int(tiles[counts.argmax()])
        place = (twice % columns, twice // columns % rows, twice // columns // rows)
        raise RecordingError(
            f"recording: tile {place} of stage {info.name} is there {counts.max()} times. reset() before "
            "every run"
        )
    if tiles.size != columns * rows * slices:
        raise RecordingError(
            f"recording: {tiles.size} of the {columns * rows * slices} tiles of stage {info.name}, grid "
            f"{info.grid}, are there. Record every tile, with x, y and z from 0"
        )


def _sms(records: NDArray[Any], device: Device) -> NDArray[Any]:
    highest = int(records["sm"].max())
    if highest >= device.sm_count:
        raise RecordingError(
            f"recording: SM {highest}; {device.name} has {device.sm_count}. Give the device of the run"
        )
    return records["sm"]


def _synchronisation(pipeline: Pipeline | None, plan: Plan | None) -> dict[str, Any]:
    """Header fields that say how the stages were synchronised."""
    if plan is None:
        return {"plan": "recorded", "plan_label": "As recorded"}
    named = {"plan": plan.name, "plan_label": plan.label}
    if pipeline is None:
        return named
    check_plan(pipeline, plan)
    return named | {
        "orders": {stage.name: plan.order_of(stage.name).name for stage in pipeline.stages},
        "dependencies": _dependencies(pipeline, plan),
    }


def _dependencies(pipeline: Pipeline, plan: Plan) -> tuple[DependencyInfo, ...]:
    """The semaphore map of every producer and consumer; none under stream sync."""
    if not plan.sync.has_semaphores:
        return ()
    edges = [(p, d.consumer.stage.name) for d in pipeline.dependencies for p in d.producers]
    dependencies = []
    for producer, consumer in edges:
        policy = plan.policy_of(producer, consumer)
        table = policy.table(pipeline.stage(producer).grid)
        awaited = dict(zip(table.semaphore_of_tile, table.value_of_tile, strict=True))
        values = tuple(awaited.get(semaphore, 0) for semaphore in range(table.count))
        dependencies.append(DependencyInfo(producer, consumer, policy.name, table.semaphore_of_tile, values))
    return tuple(dependencies)
