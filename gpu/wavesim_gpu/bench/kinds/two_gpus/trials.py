"""What is tried across GPUs beside times: every way's results, replays with ranks held up, a rank that ends.

Example: `right(0, setting, size, group)` of an all-reduce runs each way in each of its tiles over poisoned
outputs and gives the error of each; `skew` replays one of them 10,000 times, `killed` ends rank 1 halfway.
"""

import hashlib
import os
import time
from dataclasses import replace
from random import Random
from typing import Any

from wavesim.errors import DeadlockError
from wavesim.work.collective import Collective
from wavesim_gpu.bench.kinds.two_gpus.cases import (
    Setting,
    SharedCase,
    expected_of,
    expected_of_chain,
    operands_of,
    relative_error,
)
from wavesim_gpu.bench.kinds.two_gpus.rank import (
    agreed,
    case_of,
    error_of,
    exchange,
    require_ways,
    told_error,
)
from wavesim_gpu.bench.kinds.two_gpus.turns import TOLERANCE
from wavesim_gpu.bench.kinds.two_gpus.variants import DTYPE, LIMIT_S, Variant, variants_of
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.peers.groups import ProcessPeers
from wavesim_gpu.peers.options import CallOptions
from wavesim_gpu.peers.problem import NormedGemm, SharedGemm
from wavesim_gpu.peers.programs import SharedGemmProgram

LONGEST_SKEW_S, HELD_UP = 0.005, 0.01  # a rank is delayed up to this, before so many of its calls
CHECKED_EVERY, KILLED_AFTER = 100, 50
CHAIN = "chain"


Size = tuple[int, int, int]
Rows = list[dict[str, Any]]


def right(rank: int, setting: Setting, size: Size, group: ProcessPeers) -> Rows:
    """Every way of a collective in every tile, and of all-reduces the chain: results against fp32."""
    case = case_of(size, setting)
    expected, operands = expected_of(require_cupy(), case, rank), operands_of(group, case)
    errors = {}
    for name, variants in variants_of(size, case.problem.collective, setting.ranks).items():
        for entry in variants if setting.takes(name) else ():
            program = SharedGemmProgram(group, entry.problem, operands, entry.options)
            errors[f"{name}, {entry.words}"] = agreed(error_of(program, rank, expected))
    if setting.kind == "all-reduce" and setting.takes(CHAIN):
        errors[CHAIN] = _chain_error(rank, size, group)
    require_ways(errors, setting)
    return [_row(name, error) for name, error in errors.items()]


def _row(way: str, error: float, **notes: Any) -> dict[str, Any]:
    return {"way": way, "is_right": error <= TOLERANCE[DTYPE], "error": told_error(error), "ns": ()} | notes


def _chain_error(rank: int, size: tuple[int, int, int], group: ProcessPeers) -> float:
    """Product, all-reduce, residual and RMSNorm, product; rows in whole tiles."""
    m, k, n = size
    rows, cupy = -(-m // 128) * 128, require_cupy()
    following = NormedGemm(n=1024)
    problem = SharedGemm(rows, n, k, Collective("all-reduce"), chunk_rows=1, following=following)
    case = SharedCase(problem, seed=m)
    program = SharedGemmProgram(group, problem, operands_of(group, case), CallOptions(limit_s=LIMIT_S))
    program.poison()
    program.enqueue()
    program.check()
    result = program.outs[rank], program.next_outs[rank]
    wholes = expected_of_chain(cupy, case, rank)
    errors = [relative_error(cupy, entry, whole, DTYPE) for entry, whole in zip(result, wholes, strict=True)]
    return max(agreed(error) for error in errors)


def skew(rank: int, setting: Setting, size: Size, group: ProcessPeers) -> Rows:
    """Replays with a rank held up at random: the same bits on all ranks, after every hundredth."""
    case, program = _one_program(setting, size, group, limit_s=5)
    replay, drawn = program.launchers()[rank], Random(rank)  # noqa: S311  # delays, no secret
    digests: set[Any] = set()
    for call in range(setting.calls):
        if drawn.random() < HELD_UP:
            time.sleep(drawn.random() * LONGEST_SKEW_S)
        replay()
        if call % CHECKED_EVERY == CHECKED_EVERY - 1:
            program.check()
            told = exchange(hashlib.sha256(program.outs[rank].get().tobytes()).hexdigest())
            # Of an all-reduce all ranks have the same bits, of others each its own.
            digests |= set(told) if setting.kind == "all-reduce" else {tuple(told)}
    error = agreed(error_of(program, rank, expected_of(require_cupy(), case, rank)))
    return [_row("skew", error, calls=setting.calls, different_bits=len(digests) - 1)]


def killed(rank: int, setting: Setting, size: Size, group: ProcessPeers) -> Rows:
    """Rank 1 ends in the middle; rank 0 must end with an error that names it, and its GPU still work."""
    _, program = _one_program(setting, size, group, limit_s=1)
    replay = program.launchers()[rank]
    for call in range(2 * KILLED_AFTER):
        if rank == 1 and call == KILLED_AFTER:
            os._exit(0)
        replay()
    began = time.monotonic()
    try:
        program.check()
        message = "no error"
    except DeadlockError as error:
        message = str(error)
    works = int(require_cupy().arange(4).sum()) == 0 + 1 + 2 + 3
    seconds = round(time.monotonic() - began, 2)
    return [_row("killed", 0.0, message=message, seconds=seconds, gpu_works=works)]


def _one_program(
    setting: Setting, size: Size, group: ProcessPeers, limit_s: float
) -> tuple[SharedCase, SharedGemmProgram]:
    """Of the first size and the first of the ways asked for, by default that of `CallOptions`."""
    case = case_of(size, setting)
    variant = Variant(case.problem, CallOptions())
    if setting.ways:
        known = variants_of(size, case.problem.collective, setting.ranks)
        taken = {name: result[0] for name, result in known.items() if setting.takes(name)}
        require_ways(taken, setting)
        variant = next(iter(taken.values()))
    options = replace(variant.options, limit_s=limit_s)
    return case, SharedGemmProgram(group, variant.problem, operands_of(group, case), options)
