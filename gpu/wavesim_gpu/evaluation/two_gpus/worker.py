"""One rank's process: our kernels and the libraries' on one GPU, each part of the command.

Example: `rank_process(0, setting)` and `rank_process(1, setting)` meet through a file, measure one shape
after the other, and rank 0 adds a line of JSON per shape to the results.
"""

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from wavesim.errors import DeadlockError, DescriptionError
from wavesim.guard.appending import append_line
from wavesim.model.collective import Collective
from wavesim_gpu.evaluation.two_gpus.alone import parts_alone
from wavesim_gpu.evaluation.two_gpus.cases import SharedCase, expected_of, operands_of, relative_error
from wavesim_gpu.evaluation.two_gpus.graphs import (
    REPEATS,
    called,
    library_contender,
    rank_tensors,
    timed,
)
from wavesim_gpu.evaluation.two_gpus.library_ways import (
    gathering_ways,
    linear_ways,
    needs_of,
    reducing_ways,
    scattering_ways,
)
from wavesim_gpu.evaluation.two_gpus.turns import PeerContender, fastest, in_turns
from wavesim_gpu.evaluation.two_gpus.variants import DTYPE, Variant, problem_of, variants_of
from wavesim_gpu.peers.groups import ProcessPeers
from wavesim_gpu.peers.options import CallOptions
from wavesim_gpu.peers.programs import SharedGemmProgram
from wavesim_gpu.runtime.device import require_cupy, versions

# NVLink multicast can put the host's GPUs out of service: off in whatever might use it.
NO_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
LONGEST_SKEW_S, HELD_UP = 0.005, 0.01  # a rank is delayed up to this, before so many of its calls
CHECKED_EVERY, KILLED_AFTER = 100, 50


@dataclass(frozen=True)
class Setting:
    """What the command asks of each rank."""

    out: Path
    commit: str
    part: str
    sizes: tuple[tuple[int, int, int], ...]
    kind: str
    rounds: int
    calls: int
    meeting: str
    devices: tuple[int, ...] = (0, 1)  # by rank
    ways: tuple[str, ...] = ()  # of those that are timed, as the shell matches file names; all by default
    kraken: str = ""  # where its checkout is

    def takes(self, way: str) -> bool:
        """Whether a way is timed."""
        return not self.ways or any(fnmatchcase(way, one) for one in self.ways)

    @property
    def ranks(self) -> int:
        """How many processes."""
        return len(self.devices)


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
    group = ProcessPeers(rank, setting.ranks, _exchange, may_share=shares)
    PARTS[setting.part](rank, setting, group)


def _exchange(mine: Any) -> list[Any]:
    told = [None] * dist.get_world_size()
    dist.all_gather_object(told, mine)
    return told


def _agreed(number: float) -> float:
    """The largest of all ranks' numbers; NaN if any is."""
    told = _exchange(number)
    return math.nan if any(math.isnan(one) for one in told) else max(told)


def _times(rank: int, setting: Setting, group: ProcessPeers) -> None:
    library = dist.new_group(backend="nccl")
    for size in setting.sizes:
        case = _case(size, setting)
        ways: dict[str, PeerContender] = {}
        if setting.part != "alone":
            ways |= _our_ways(rank, case, group, setting) | _others(rank, case, library, setting)
        if setting.part != "times":
            is_alone = setting.part == "alone"
            ways |= parts_alone(rank, case, group, library, setting.takes, in_all_tiles=is_alone)
        require_ways(ways, setting)
        found = in_turns(ways, setting.rounds, DTYPE, _agreed)
        if rank == 0:
            medians = {name: median(one.ns) / 1000 for name, one in found.items() if one.ns}
            line = {"part": "times", "kind": setting.kind, "size": size, "dtype": DTYPE}
            line |= {"commit": setting.commit, "versions": versions() | {"torch": torch.__version__}}
            line["ways"] = {name: asdict(one) for name, one in found.items()}
            line["needs"] = {name: needs_of(name) for name in found}
            append_line(setting.out, json.dumps(line))
            print(f"{size}: {medians} us", flush=True)  # noqa: T201  # for whoever watches


def require_ways(ways: Mapping[str, Any], setting: Setting) -> None:
    """Raises `DescriptionError` where nothing has a name that was asked for."""
    if not ways:
        raise DescriptionError(
            f"--ways is {','.join(setting.ways)!r}; no way of {setting.kind} has such a name. Use "
            "sequence,fused or exchange*"
        )


def _case(size: tuple[int, int, int], setting: Setting) -> SharedCase:
    return SharedCase(problem_of(size, Collective(setting.kind), setting.ranks), seed=size[0])  # type: ignore[arg-type]


def _our_ways(rank: int, case: SharedCase, group: ProcessPeers, setting: Setting) -> dict[str, PeerContender]:
    """Each way in the fastest of its variants, on all ranks the same one."""
    problem, cupy = case.problem, require_cupy()
    expected, operands = expected_of(cupy, case, rank), operands_of(group, case)

    def contender(variant: Variant) -> PeerContender:
        program = SharedGemmProgram(group, variant.problem, operands, variant.options)
        return PeerContender(
            partial(_our_error, program, rank, expected),
            partial(timed, program.launchers(REPEATS)[rank], program.streams[rank][0].ptr),
            variant.words,
        )

    size = problem.m, problem.k, problem.n
    ways = variants_of(size, problem.collective, problem.ranks)
    return {
        name: fastest([contender(one) for one in variants], DTYPE, _agreed)
        for name, variants in ways.items()
        if setting.takes(name)
    }


def _our_error(program: SharedGemmProgram, rank: int, expected: Any) -> float:
    program.poison()
    program.enqueue()
    program.check()
    return relative_error(require_cupy(), program.outs[rank], expected, DTYPE)


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
    for size in setting.sizes:
        case = _case(size, setting)
        x, b = rank_tensors(rank, case)
        expected = torch.as_tensor(expected_of(require_cupy(), case, rank), device="cuda")
        calls = linear_ways(x, b.T.contiguous(), library)
        ways = {name: called(call, expected) for name, call in calls.items() if setting.takes(name)}
        found = in_turns(ways, setting.rounds, DTYPE, _agreed)
        us = {name: median(one.ns) / 1000 for name, one in found.items() if one.ns}
        _say(rank, setting, {"size": size, "us": us, "errors": [one.error for one in found.values()]})


def _one_program(
    setting: Setting, group: ProcessPeers, limit_s: float
) -> tuple[SharedCase, SharedGemmProgram]:
    """Of the first size and the first of the ways asked for, by default that of `CallOptions`."""
    case = _case(setting.sizes[0], setting)
    variant = Variant(case.problem, CallOptions())
    if setting.ways:
        known = variants_of(setting.sizes[0], case.problem.collective, setting.ranks)
        taken = {name: found[0] for name, found in known.items() if setting.takes(name)}
        require_ways(taken, setting)
        variant = next(iter(taken.values()))
    options = replace(variant.options, limit_s=limit_s)
    return case, SharedGemmProgram(group, variant.problem, operands_of(group, case), options)


def _skew(rank: int, setting: Setting, group: ProcessPeers) -> None:
    """Replays with a rank held up at random: the same bits on all ranks, after every hundredth."""
    case, program = _one_program(setting, group, limit_s=5)
    replay, drawn = program.launchers()[rank], Random(rank)  # noqa: S311  # delays, no secret
    digests = set()
    for call in range(setting.calls):
        if drawn.random() < HELD_UP:
            time.sleep(drawn.random() * LONGEST_SKEW_S)
        replay()
        if call % CHECKED_EVERY == CHECKED_EVERY - 1:
            program.check()
            digests |= set(_exchange(hashlib.sha256(program.outs[rank].get().tobytes()).hexdigest()))
    error = _agreed(_our_error(program, rank, expected_of(require_cupy(), case, rank)))
    _say(rank, setting, {"calls": setting.calls, "different_bits": len(digests) - 1, "error": error})


def _killed(rank: int, setting: Setting, group: ProcessPeers) -> None:
    """Rank 1 ends in the middle; rank 0 must end with an error that names it, and its GPU still work."""
    _, program = _one_program(setting, group, limit_s=1)
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
    _say(rank, setting, {"message": message, "seconds": seconds, "gpu_works": works})


def _say(rank: int, setting: Setting, facts: Mapping[str, Any]) -> None:
    if rank == 0:
        line = {"part": setting.part, "size": setting.sizes[0], "commit": setting.commit}
        line |= {"kind": setting.kind, "ways": setting.ways, **facts}
        append_line(setting.out, json.dumps(line))
        print(line, flush=True)  # noqa: T201  # for whoever watches


PARTS: Mapping[str, Callable[[int, Setting, ProcessPeers], None]] = {
    "times": _times,
    "alone": _times,
    "both": _times,
    "skew": _skew,
    "killed": _killed,
    "operators": _operators,
}
