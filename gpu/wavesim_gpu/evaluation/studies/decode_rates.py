"""Decode attention beside a copy: how near it comes to the time that its keys and values take at copy rate.

    python -m wavesim_gpu.evaluation.studies.decode_rates

prints a line for each case: batch, heads, keys; microseconds; bytes of K and V over time; and the ratio to
the same bytes at the rate of a device-to-device copy in the same run, read and written bytes counted.

Example: 16 sequences of 4,096 keys with 8 KV heads of 128 are 268 MB; at 4.2 TB/s they take 64 us. Several
stages with a cache each run in turn, so that no cache is in the L2 when its turn comes.
"""

import sys
from collections.abc import Iterable
from dataclasses import replace
from statistics import median
from typing import Any

from wavesim.guard.program import run_program
from wavesim.model.attention import AttentionDecode
from wavesim.model.decode_splits import best_splits
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import StreamSync
from wavesim_gpu.runner import CupyRunner, WrongResultError
from wavesim_gpu.runtime.device import query, require_cupy
from wavesim_gpu.runtime.references import reference
from wavesim_gpu.runtime.timing import Contender, interleaved_ns

ROUNDS = 21
REPEATS = 8  # runs in one graph, whose own start takes microseconds
COPIED_BYTES = 1 << 30
L2_TIMES = 4  # caches of all stages together, in sizes of the L2
# Sequences, heads, KV heads, head size: 1, 4, 8 and 7 query heads share a KV head.
HEADS = ((16, 32, 32, 128), (16, 32, 8, 128), (16, 64, 8, 128), (32, 14, 2, 64), (64, 14, 2, 64))
KEYS = (1024, 2048, 4096, 32768)
MOST_BYTES = 9 << 28  # of K and V


def cases(device: Device) -> Iterable[AttentionDecode]:
    """Every number of heads and keys whose caches are not too large, in its best splits."""
    for sequences, heads, kv_heads, head_dim in HEADS:
        for keys in KEYS:
            work = AttentionDecode("decode", sequences, keys - 1, heads, kv_heads, head_dim, appends=True)
            if work.kv_bytes <= MOST_BYTES:
                yield replace(work, splits=best_splits(work, device))


def in_turn(work: AttentionDecode, l2_bytes: int) -> Pipeline:
    """So many of them, each with its own cache, that the L2 holds none until its next turn."""
    count = max(1, -(-L2_TIMES * l2_bytes // work.kv_bytes))
    return Pipeline("decode", [Stage(f"decode{i}", replace(work, name=f"decode{i}")) for i in range(count)])


def measured(
    runner: CupyRunner, work: AttentionDecode, copy: Contender, device: Device
) -> tuple[float, float]:
    """Nanoseconds of one decode attention and of the copy, medians of interleaved rounds.

    Raises `WrongResultError`.
    """
    operands = runner.operands(in_turn(work, device.l2_bytes), seed=1)
    program = runner.program(operands, StreamSync())
    check = runner.verdict(program, runner.launcher(program), reference(operands, runner.backend))
    if not check.is_good:
        raise WrongResultError(f"{work}: {check}")
    times = interleaved_ns([runner.contender(program, REPEATS), copy], ROUNDS)
    return median(times[0]) / len(operands.pipeline.stages), median(times[1])


def copying() -> Contender:
    """A device-to-device copy of `COPIED_BYTES`."""
    cupy: Any = require_cupy()
    source, target = (cupy.zeros(COPIED_BYTES, "uint8") for _ in range(2))
    stream = cupy.cuda.Stream(non_blocking=True)

    def launch() -> None:
        cupy.cuda.runtime.memcpyAsync(
            target.data.ptr, source.data.ptr, COPIED_BYTES, cupy.cuda.runtime.memcpyDeviceToDevice, stream.ptr
        )

    return Contender(launch, stream)


def main() -> int:
    """Prints a line per case."""
    runner, device, copy = CupyRunner(commit="study"), query(), copying()
    for work in cases(device):
        own_ns, copy_ns = measured(runner, work, copy, device)
        copy_rate = 2 * COPIED_BYTES / copy_ns
        megabytes, own_us = work.kv_bytes / 1e6, own_ns / 1000
        sys.stdout.write(
            f"{work.sequences:3d} x {work.keys:5d} keys, {work.heads} heads, {work.kv_heads} KV heads of "
            f"{work.head_dim}, {work.splits} splits: {megabytes:6.0f} MB in {own_us:7.1f} us, "
            f"{megabytes / own_us:.2f} TB/s; copy {copy_rate / 1000:.2f} TB/s, read and written; "
            f"{own_ns * copy_rate / work.kv_bytes:.2f} x\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(run_program("decode_rates", main))
