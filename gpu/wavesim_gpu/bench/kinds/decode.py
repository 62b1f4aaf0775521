"""Decode attention beside a copy: how near it comes to the time that its keys and values take at copy rate.

    python -m wavesim_gpu.bench.kinds.decode --out gpu/results/decode/DATE.json

prints and writes a row for each case, small caches first: microseconds; bytes of K and V over time; and the
ratio to the same bytes at the rate of a device-to-device copy in the same run, read and written bytes
counted. Splits are those of `best_splits`; twice and four times as many were slower in three small caches.

Example: 16 sequences of 4,096 keys with 8 KV heads of 128 are 268 MB; at 4.2 TB/s they take 64 us. Several
stages with a cache each run in turn, so that no cache is in the L2 when its turn comes.
"""

import argparse
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.model.attention import AttentionDecode
from wavesim.model.decode_splits import best_splits
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import StreamSync
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import require_writable, write_text
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner, WrongResultError, current_commit
from wavesim_gpu.run.timing import Contender, interleaved_ns

ROUNDS = 21
REPEATS = 8  # runs in one graph, whose own start takes microseconds
COPIED_BYTES = 1 << 30
L2_TIMES = 4  # caches of all stages together, in sizes of the L2
# Sequences, heads, KV heads, head size: 1, 4, 8 and 7 query heads share a KV head.
HEADS = ((16, 32, 32, 128), (16, 32, 8, 128), (16, 64, 8, 128), (32, 14, 2, 64), (64, 14, 2, 64))
KEYS = (1024, 2048, 4096, 32768)
MOST_BYTES = 9 << 28  # of K and V


def cases(device: Device) -> list[AttentionDecode]:
    """Every number of heads and keys whose caches are not too large, in its best splits, smallest first."""
    found = []
    for sequences, heads, kv_heads, head_dim in HEADS:
        for keys in KEYS:
            work = AttentionDecode("decode", sequences, keys - 1, heads, kv_heads, head_dim, appends=True)
            if work.kv_bytes <= MOST_BYTES:
                found.append(replace(work, splits=best_splits(work, device)))
    return sorted(found, key=lambda work: work.kv_bytes)


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


def row_of(work: AttentionDecode, own_ns: float, copy_ns: float) -> dict[str, Any]:
    """What is written of a case."""
    copy_rate = 2 * COPIED_BYTES / copy_ns
    sizes = {
        name: getattr(work, name) for name in ("sequences", "keys", "heads", "kv_heads", "head_dim", "splits")
    }
    return sizes | {
        "kv_megabytes": round(work.kv_bytes / 1e6),
        "us": round(own_ns / 1000, 2),
        "read_tb_per_s": round(work.kv_bytes / own_ns / 1000, 3),
        "copy_tb_per_s": round(copy_rate / 1000, 3),
        "over_copy": round(own_ns * copy_rate / work.kv_bytes, 3),
    }


def main() -> int:
    """Measures all cases, or those that are begun in time."""
    parser = argparse.ArgumentParser(prog="decode_rates", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the file that every row is written to")
    parser.add_argument("--seconds", type=float, default=600, help="begin no case after these (%(default)s)")
    parser.add_argument("--commit", default="", help="what the kernels were built from")
    words = parser.parse_args()
    require_writable(words.out)
    runner, device, copy, began = CupyRunner(commit="study"), query(), copying(), time.monotonic()
    result: dict[str, Any] = {
        "device": device.name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": words.commit or current_commit(),
        "command": "python -m wavesim_gpu.bench.kinds.decode",
        "rows": [],
    }
    for work in cases(device):
        if time.monotonic() - began > words.seconds:
            break
        row = row_of(work, *measured(runner, work, copy, device))
        print(json.dumps(row), flush=True)  # noqa: T201  # what it is for
        result["rows"].append(row)
        write_text(words.out, json.dumps(result, indent=1, allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(run_program("python -m wavesim_gpu.bench.kinds.decode", main))
