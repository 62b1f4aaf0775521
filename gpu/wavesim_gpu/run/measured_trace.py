"""Turns what the blocks of a recorded run wrote into a `Trace`.

Example: every tile left one record of 64 bytes: when it started and ended, on which SM, how long it waited.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.plan.parsing import plan_data
from wavesim.trace.header import Event, Header, StageInfo
from wavesim.trace.placing import slots
from wavesim.trace.trace import Trace
from wavesim_gpu.driver.clocks import Reading
from wavesim_gpu.driver.device import query, versions
from wavesim_gpu.driver.kernel_sources import source_hash
from wavesim_gpu.record.stamps import (
    clock_mhz,
    device_fields,
    from_zero,
    tile_cycles,
    timer_step_ns,
    within,
)
from wavesim_gpu.run.program import Program


def build_trace(
    program: Program, rounds_ns: tuple[int, ...], reading: Reading, notes: dict[str, str]
) -> Trace:
    """The trace of the program's last, recorded run; the other arguments go into its header."""
    parts = [program.sync.records(name) for name in program.sync.names]
    records = within(np.concatenate(parts), query().sm_count)
    stage = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    zero, start, end = from_zero(records)
    return Trace(
        header=_header(program, rounds_ns, reading, notes, records),
        stage=stage,
        x=records["x"],
        y=records["y"],
        z=records["z"],
        sm=records["sm"],
        slot=slots(records["sm"], start, end),
        issue_ns=start,
        start_ns=start,
        wait_ns=records["wait_ns"],
        end_ns=end,
        cycles=tile_cycles(records),
        wait_cycles=records["wait_cycles"],
        events=_events(program, zero),
    )


def _header(
    program: Program,
    rounds_ns: tuple[int, ...],
    reading: Reading,
    notes: dict[str, str],
    records: NDArray[Any],
) -> Header:
    pipeline, plan = program.pipeline, program.plan
    return Header(
        source="measured",
        device=device_fields(query()),
        workload=pipeline.name,
        plan=plan.name,
        plan_label=plan.label,
        plan_data=plan_data(plan),
        stages=tuple(_stage_info(program, stage.name) for stage in pipeline.stages),
        orders={stage.name: plan.order_of(stage.name).name for stage in pipeline.stages},
        dependencies=program.sync.dependencies,
        parameters=dict(pipeline.parameters),
        timer_step_ns=timer_step_ns(records),
        rounds_ns=rounds_ns,
        clock_mhz=clock_mhz(tile_cycles(records), records["start_ns"], records["end_ns"])
        or reading.clock_mhz,
        power_w=reading.power_w,
        date=notes["date"],
        commit=notes["commit"],
        versions={**versions(), "kernel_sources": source_hash(*program.sources), "mode": notes["mode"]},
        note=_note(program, reading),
    )


def _note(program: Program, reading: Reading) -> str:
    blocks = "; ".join(
        f"{name}: {function.registers} registers, {function.static_shared_bytes} bytes static shared"
        for name, function in program.functions.items()
    )
    clock = f"; NVML SM clock {reading.clock_mhz:.0f} MHz" if reading.clock_mhz else ""
    return f"{blocks}{clock}; clock_mhz is SM cycles over nanoseconds of the blocks"


def _stage_info(program: Program, name: str) -> StageInfo:
    stage = program.pipeline.stage(name)
    return StageInfo(
        name=name,
        grid=(stage.grid.x, stage.grid.y, stage.grid.z),
        blocks_per_sm=program.blocks_per_sm(name),
        threads=program.shapes[name].threads,
        tile=stage.work.output_tile,
        backend=program.backends[name].name,
    )


def _events(program: Program, zero: int) -> tuple[Event, ...]:
    return tuple(
        Event("wait-kernel", name, start - zero, end - zero)
        for name, (start, end) in program.wait_times().items()
    )
