"""One trace of all GPUs, from what their kernels stamped by clocks of their own.

Example: GPU 1's clock was found 48,500 +- 700 ns ahead of GPU 0's (`clock_offset.py`): 48,500 are taken from
its times, and the header says that they may be 700 ns off. Ranks that share a GPU have one clock. What
crosses a link leaves no stamp: only tiles and waits are in the trace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.trace.header import Header, StageInfo
from wavesim.trace.placing import slots
from wavesim.trace.trace import Trace
from wavesim_gpu.driver.device import query, versions
from wavesim_gpu.peers.clock_offset import ClockOffset, measured_offset
from wavesim_gpu.peers.programs import SharedGemmProgram
from wavesim_gpu.record.layout import RECORD
from wavesim_gpu.record.stamps import device_fields, from_zero, tile_cycles, timer_step_ns

SAME_CLOCK = ClockOffset(0, 0)


@dataclass(frozen=True)
class RankRecords:
    """What a kernel of a rank recorded, a `RECORD` per tile; `gpu` counts the group's GPUs from 0."""

    name: str
    gpu: int
    records: NDArray[Any]


def recorded_call(program: SharedGemmProgram) -> Trace:
    """One call's trace. The program is built with `Build(is_recording=True)`, and one process drives it.

    Raises `DescriptionError` for another program, `DeadlockError` and `DeviceError` as the call does.
    """
    if not program.options.build.is_recording:
        raise DescriptionError(
            "recorded_call: the program records nothing. Use CallOptions(build=Build(is_recording=True))"
        )
    if len(program.group.ranks) < program.group.rank_count:
        raise DescriptionError(
            f"recorded_call: this process drives rank {program.group.ranks[0]} alone; clocks are aligned by "
            "one process. Use LocalPeers"
        )
    group = program.group
    gpus = list(dict.fromkeys(group.device_of(rank) for rank in group.ranks))
    first_ranks = [next(rank for rank in group.ranks if group.device_of(rank) == gpu) for gpu in gpus]
    offsets = [SAME_CLOCK, *(measured_offset(group, rank) for rank in first_ranks[1:])]
    program.enqueue()
    program.check()
    parts = [
        RankRecords(name, gpus.index(group.device_of(rank)), records)
        for rank in group.ranks
        for name, records in _recorded_by(program, rank).items()
    ]
    problem = program.problem
    about = {
        "workload": f"{problem.m} x {problem.k} x {problem.n} {problem.collective.kind}",
        "plan": program.options.way,
        "plan_label": f"{program.options.way}, {problem.ranks} ranks",
        "versions": versions(),
    }
    return joined(parts, offsets, query(), about)


def _recorded_by(program: SharedGemmProgram, rank: int) -> Mapping[str, NDArray[Any]]:
    """By the name that the simulator gives the kernel."""
    launches = program.ranks[rank]
    names = ("gemm", "next")
    found = {
        f"{name}@{rank}": product.state.records("gemm")
        for name, product in zip(names, launches.products, strict=False)
    }
    if launches.added is not None:
        found[f"gemm.sum@{rank}"] = np.asarray(launches.added.get()).view(RECORD)
    return found


def joined(
    parts: Sequence[RankRecords], offsets: Sequence[ClockOffset], device: Device, about: Mapping[str, Any]
) -> Trace:
    """One trace on the first GPU's clock. `offsets`: of each GPU, how far its clock is ahead of that."""
    gpu = np.repeat([part.gpu for part in parts], [len(part.records) for part in parts])
    stage = np.repeat(np.arange(len(parts)), [len(part.records) for part in parts])
    records = np.concatenate([part.records for part in parts])
    for name in ("start_ns", "end_ns"):
        ahead = np.array([offset.ns for offset in offsets], np.int64)[gpu]
        records[name] = (records[name].astype(np.int64) - ahead).astype(np.uint64)
    _, start, end = from_zero(records)
    sm = records["sm"].astype(np.int64) + gpu * device.sm_count
    slot = slots(sm, start, end)
    error = max(offset.error_ns for offset in offsets)
    return Trace(
        header=Header(
            source="measured",
            device=device_fields(device)
            | {"sm_count": device.sm_count * len(offsets), "count": len(offsets)},
            stages=tuple(_info(part, slot[stage == number]) for number, part in enumerate(parts)),
            timer_step_ns=timer_step_ns(records),
            parameters={"clock_error_ns": error},
            note=_note(len(offsets), error),
            **about,
        ),
        stage=stage,
        x=records["x"],
        y=records["y"],
        z=records["z"],
        sm=sm,
        slot=slot,
        issue_ns=start,
        start_ns=start,
        wait_ns=records["wait_ns"],
        end_ns=end,
        cycles=tile_cycles(records),
        wait_cycles=records["wait_cycles"],
        device=gpu,
    )


def _note(gpus: int, error_ns: int) -> str:
    if gpus == 1:
        return "all ranks on one GPU: one clock, and no link"
    return f"clocks of {gpus} GPUs aligned by ping-pongs, within {error_ns} ns"


def _info(part: RankRecords, slot: NDArray[np.int64]) -> StageInfo:
    own = part.records
    grid = (int(own["x"].max()) + 1, int(own["y"].max()) + 1, int(own["z"].max()) + 1)
    return StageInfo(part.name, grid, int(slot.max()) + 1, int(own["threads"].max()))
