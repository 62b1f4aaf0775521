"""One rank's process: our kernels and the libraries' on one GPU, each part of the command.

Example: `rank_process(0, setting)` and `rank_process(1, setting)` meet through a file, measure one shape
after the other, and rank 0 adds a line of JSON per shape to the results.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from wavesim.errors import DeadlockError
from wavesim.safe_io.writing import append_line
from wavesim_gpu.bench.kinds.two_gpus.alone import parts_alone
from wavesim_gpu.bench.kinds.two_gpus.cases import SharedCase, expected_of, operands_of
from wavesim_gpu.bench.kinds.two_gpus.graphs import (
    REPEATS,
    called,
    library_contender,
    rank_tensors,
    timed,
)
from wavesim_gpu.bench.kinds.two_gpus.library_ways import (
    gathering_ways,
    linear_ways,
    needs_of,
    reducing_ways,
    scattering_ways,
)
from wavesim_gpu.bench.kinds.two_gpus.rank import (
    Setting,
    agreed,
    case_of,
    error_of,
    exchange,
    in_time,
    require_ways,
    say,
    told_error,
)
from wavesim_gpu.bench.kinds.two_gpus.trials import killed, right, skew
from wavesim_gpu.bench.kinds.two_gpus.turns import PeerContender, fastest, in_turns
from wavesim_gpu.bench.kinds.two_gpus.variants import DTYPE, Variant, variants_of
from wavesim_gpu.driver.device import require_cupy, versions
from wavesim_gpu.peers.groups import ProcessPeers
from wavesim_gpu.peers.programs import SharedGemmProgram

# NVLink multicast can put the host's GPUs out of service: off in whatever might use it.
NO_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


def run_ranks(setting: Setting) -> None:
    """A process per rank, until all have ended."""
    processes.spawn(rank_process, (setting,), nprocs=setting.ranks)


def rank_process(rank: int, setting: Setting) -> None:
    """All of one rank's part."""
    os.environ |= NO_MULTICAST
    if setting.kraken:
        sys.path.append(setting.kraken)
    device = setting.devices[rank]
    torch.cuda.set_device(device)
    dist.init_process_group(
        "gloo", init_method=f"file://{setting.meeting}", rank=rank, world_size=setting.ranks,
        timeout=timedelta(seconds=120),
    )  # fmt: skip
    require_cupy().cuda.Device(device).use()
    shares = len(set(setting.devices)) < setting.ranks
    group = ProcessPeers(rank, setting.ranks, exchange, may_share=shares)
    PARTS[setting.part](rank, setting, group)


def _times(rank: int, setting: Setting, group: ProcessPeers) -> None:
    library = dist.new_group(backend="nccl")
    for size in in_time(setting):
        began = time.monotonic()
        ways = _ways(rank, case_of(size, setting), library, setting, group)
        require_ways(ways, setting)
        found = in_turns(ways, setting.rounds, DTYPE, agreed)
        if rank == 0:
            line = {"part": "times", "kind": setting.kind, "size": size, "dtype": DTYPE}
            line |= {"commit": setting.commit, "versions": versions() | {"torch": torch.__version__}}
            line |= {"seconds": round(time.monotonic() - began, 1)}
            line["ways"] = {
                name: asdict(one) | {"error": told_error(one.error)} for name, one in found.items()
            }
            line["needs"] = {name: needs_of(name) for name in found}
            append_line(setting.out, json.dumps(line))
            medians = {name: median(one.ns) / 1000 for name, one in found.items() if one.ns}
            print(f"{size}: {medians} us", flush=True)  # noqa: T201  # for whoever watches


def _ways(
    rank: int, case: SharedCase, library: Any, setting: Setting, group: ProcessPeers
) -> dict[str, PeerContender]:
    """Those of the setting's part."""
    ways: dict[str, PeerContender] = {}
    if setting.part != "alone":
        ways |= _our_ways(rank, case, group, setting) | _others(rank, case, library, setting)
    if setting.part != "times":
        is_alone = setting.part == "alone"
        ways |= parts_alone(rank, case, group, library, setting.takes, in_all_tiles=is_alone)
    return ways


def _our_ways(rank: int, case: SharedCase, group: ProcessPeers, setting: Setting) -> dict[str, PeerContender]:
    """Each way in the fastest of its variants, on all ranks the same one."""
    problem, cupy = case.problem, require_cupy()
    expected, operands = expected_of(cupy, case, rank), operands_of(group, case)

    def contender(variant: Variant) -> PeerContender:
        program = SharedGemmProgram(group, variant.problem, operands, variant.options)
        return PeerContender(
            partial(_error_or_nan, program, rank, expected),
            partial(timed, program.launchers(REPEATS)[rank], program.streams[rank][0].ptr),
            variant.words,
        )

    size = problem.m, problem.k, problem.n
    ways = variants_of(size, problem.collective, problem.ranks)
    return {
        name: fastest([contender(one) for one in variants], DTYPE, agreed)
        for name, variants in ways.items()
        if setting.takes(name)
    }


def _error_or_nan(program: SharedGemmProgram, rank: int, expected: Any) -> float:
    """NaN where a wait gave up, on whichever rank: that way is not timed, the others are."""
    try:
        return error_of(program, rank, expected)
    except DeadlockError as error:
        print(f"{program.options.way}: {error}", flush=True)  # noqa: T201  # for whoever watches
        return math.nan


def _others(rank: int, case: SharedCase, library: Any, setting: Setting) -> dict[str, PeerContender]:
    expected = torch.as_tensor(expected_of(require_cupy(), case, rank), device="cuda")
    a, b = rank_tensors(rank, case)
    makers = {"all-reduce": reducing_ways, "reduce-scatter": scattering_ways, "all-gather": gathering_ways}
    found = {}
    for name, call in makers[case.problem.collective.kind](a, b, library).items():
        if not setting.takes(name):
            continue
        try:
            found[name] = library_contender(call, expected)
        # On all ranks alike: not in this PyTorch, or not for this shape.
        except (RuntimeError, AttributeError, ValueError, AssertionError) as error:
            print(f"{name}: {error}", flush=True)  # noqa: T201  # for whoever watches
    return found


def _operators(rank: int, setting: Setting, _group: ProcessPeers) -> None:
    """What a user's call of the operator takes, launched by the host, beside PyTorch's own two."""
    library = dist.new_group(backend="nccl")
    for size in in_time(setting):
        case = case_of(size, setting)
        x, b = rank_tensors(rank, case)
        expected = torch.as_tensor(expected_of(require_cupy(), case, rank), device="cuda")
        calls = linear_ways(x, b.T.contiguous(), library)
        ways = {name: called(call, expected) for name, call in calls.items() if setting.takes(name)}
        found = in_turns(ways, setting.rounds, DTYPE, agreed)
        us = {name: median(one.ns) / 1000 for name, one in found.items() if one.ns}
        say(rank, setting, size, {"us": us, "errors": [told_error(one.error) for one in found.values()]})


PARTS: Mapping[str, Callable[[int, Setting, ProcessPeers], None]] = {
    "times": _times,
    "alone": _times,
    "both": _times,
    "right": right,
    "skew": skew,
    "killed": killed,
    "operators": _operators,
}
