"""Turns what the blocks of a recorded run wrote into a `Trace`.

Picture: every block left one 48-byte line: when it started and ended, on which SM, how long it spun.
Slots are not recorded, since the hardware does not tell; blocks of an SM are laid into the lowest slot
that is free when they start.
"""

import heapq
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.model.kernel import Gemm
from wavesim.trace import Event, Header, StageInfo, Trace
from wavesim_gpu.clocks import Reading
from wavesim_gpu.compiler import source_hash
from wavesim_gpu.device import query, versions
from wavesim_gpu.kernels import gemm
from wavesim_gpu.program import Program


def build_trace(
    program: Program, rounds_ns: tuple[int, ...], reading: Reading, notes: dict[str, str]
) -> Trace:
    """The trace of the program's last, recorded run; the other arguments go into its header."""
    parts = [program.sync.records(name) for name in program.sync.names]
    records = np.concatenate(parts)
    stage = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    columns = np.repeat([s.grid.x for s in program.pipeline.stages], [len(part) for part in parts])
    zero = int(records["start_ns"].min())
    start, end = (records[name].astype(np.int64) - zero for name in ("start_ns", "end_ns"))
    return Trace(
        header=_header(program, rounds_ns, reading, notes, records),
        stage=stage,
        x=records["tile"] % columns,
        y=records["tile"] // columns,
        z=records["slice"],
        sm=records["sm"],
        slot=slots(records["sm"], start, end),
        issue_ns=start,
        start_ns=start,
        wait_ns=records["wait_ns"],
        end_ns=end,
        cycles=records["cycles"].astype(np.int64),
        wait_cycles=records["wait_cycles"],
        events=_events(program, zero),
    )


def slots(sm: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> NDArray[np.int64]:
    """For each block the lowest slot of its SM that is free when it starts."""
    result = np.zeros(len(sm), np.int64)
    busy: dict[int, list[tuple[int, int]]] = {}
    free: dict[int, list[int]] = {}
    for row in np.lexsort((end, start)):
        own_busy, own_free = busy.setdefault(int(sm[row]), []), free.setdefault(int(sm[row]), [])
        while own_busy and own_busy[0][0] <= start[row]:
            heapq.heappush(own_free, heapq.heappop(own_busy)[1])
        slot = heapq.heappop(own_free) if own_free else len(own_busy)
        heapq.heappush(own_busy, (int(end[row]), slot))
        result[row] = slot
    return result


def _header(
    program: Program,
    rounds_ns: tuple[int, ...],
    reading: Reading,
    notes: dict[str, str],
    records: NDArray[Any],
) -> Header:
    device = query()
    pipeline, plan = program.pipeline, program.plan
    elapsed = float((records["end_ns"] - records["start_ns"]).sum())
    return Header(
        source="measured",
        device={name: value for name, value in asdict(device).items() if name != "sources"},
        workload=pipeline.name,
        plan=plan.name,
        plan_label=plan.label,
        stages=tuple(_stage_info(program, stage.name) for stage in pipeline.stages),
        orders={stage.name: plan.order_of(stage.name).name for stage in pipeline.stages},
        dependencies=tuple(link.info for link in program.sync.links),
        parameters=dict(pipeline.parameters),
        timer_step_ns=timer_step_ns(records),
        rounds_ns=rounds_ns,
        clock_mhz=round(float(records["cycles"].sum()) / elapsed * 1000, 1) if elapsed else reading.clock_mhz,
        power_w=reading.power_w,
        date=notes["date"],
        commit=notes["commit"],
        versions={**versions(), "kernel_sources": source_hash(), "mode": notes["mode"]},
        note=_note(program, reading),
    )


def timer_step_ns(records: NDArray[Any]) -> int:
    """The step of the GPU's clock, as far as these stamps show it: what divides all their differences."""
    stamps = np.unique(np.concatenate([records["start_ns"], records["end_ns"]]))
    return max(1, int(np.gcd.reduce(np.diff(stamps)))) if len(stamps) > 1 else 1


def _note(program: Program, reading: Reading) -> str:
    blocks = "; ".join(
        f"{name}: {function.registers} registers, {function.static_shared_bytes} bytes static shared"
        for name, function in program.functions.items()
    )
    clock = f"; NVML SM clock {reading.clock_mhz:.0f} MHz" if reading.clock_mhz else ""
    return f"{blocks}{clock}; clock_mhz is SM cycles over nanoseconds of the blocks"


def _stage_info(program: Program, name: str) -> StageInfo:
    stage = program.pipeline.stage(name)
    work = stage.work
    assert isinstance(work, Gemm)
    return StageInfo(
        name=name,
        grid=(stage.grid.x, stage.grid.y, stage.grid.z),
        blocks_per_sm=program.blocks_per_sm(name),
        threads=gemm.variant(work).shape.threads,
        tile=(work.tile_m, work.tile_n),
    )


def _events(program: Program, zero: int) -> tuple[Event, ...]:
    return tuple(
        Event("wait-kernel", name, start - zero, end - zero)
        for name, (start, end) in program.wait_times().items()
    )
