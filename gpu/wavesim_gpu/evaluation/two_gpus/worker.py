"""One rank's process: our kernels and the libraries' on one GPU, each part of the command.

Example: `rank_process(0, setting)` and `rank_process(1, setting)` meet through a file, measure one shape
after the other, and rank 0 adds a line of JSON per shape to the results.
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from wavesim.errors import DeadlockError
from wavesim.guard.appending import append_line
from wavesim.model.collective import Collective
from wavesim_gpu.evaluation.two_gpus.cases import SharedCase, expected_of, operands_of, relative_error
from wavesim_gpu.evaluation.two_gpus.library_ways import (
    gathering_ways,
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
REPEATS, WARM_UP = 10, 5
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
        ways = _our_ways(rank, case, group) | _others(rank, case, library)
        found = in_turns(ways, setting.rounds, DTYPE, _agreed)
        if rank == 0:
            medians = {name: median(one.ns) / 1000 for name, one in found.items() if one.ns}
            line = {"part": "times", "kind": setting.kind, "size": size, "dtype": DTYPE}
            line |= {"commit": setting.commit, "versions": versions() | {"torch": torch.__version__}}
            line["ways"] = {name: asdict(one) for name, one in found.items()}
            line["needs"] = {name: needs_of(name) for name in found}
            append_line(setting.out, json.dumps(line))
            print(f"{size}: {medians} us", flush=True)  # noqa: T201  # for whoever watches


def _case(size: tuple[int, int, int], setting: Setting) -> SharedCase:
    return SharedCase(problem_of(size, Collective(setting.kind), setting.ranks), seed=size[0])  # type: ignore[arg-type]


def _our_ways(rank: int, case: SharedCase, group: ProcessPeers) -> dict[str, PeerContender]:
    """Each way in the fastest of its variants, on all ranks the same one."""
    problem, cupy = case.problem, require_cupy()
    expected, operands = expected_of(cupy, case, rank), operands_of(group, case)

    def contender(variant: Variant) -> PeerContender:
        program = SharedGemmProgram(group, variant.problem, operands, variant.options)
        return PeerContender(
            partial(_our_error, program, rank, expected),
            partial(_timed, program.launchers(REPEATS)[rank], program.streams[rank][0].ptr),
            variant.words,
        )

    size = problem.m, problem.k, problem.n
    ways = variants_of(size, problem.collective, problem.ranks)
    return {
        name: fastest([contender(one) for one in variants], DTYPE, _agreed) for name, variants in ways.items()
    }


def _our_error(program: SharedGemmProgram, rank: int, expected: Any) -> float:
    program.poison()
    program.enqueue()
    program.check()
    return relative_error(require_cupy(), program.outs[rank], expected, DTYPE)


def _others(rank: int, case: SharedCase, library: Any) -> dict[str, PeerContender]:
    cupy = require_cupy()
    expected = torch.as_tensor(expected_of(cupy, case, rank), device="cuda")
    arrays = operands_of(_OwnGpu(rank), case)[rank]  # type: ignore[arg-type]  # all that it asks of a group
    a, b = (torch.as_tensor(one, device="cuda").view(torch.bfloat16) for one in (arrays.a, arrays.b))
    makers = {"all-reduce": reducing_ways, "reduce-scatter": scattering_ways, "all-gather": gathering_ways}
    found = {}
    for name, call in makers[case.problem.collective.kind](a, b, library).items():
        try:
            graph, out, stream = _captured(call)
        # On all ranks alike: not in this PyTorch, or not for this shape.
        except (RuntimeError, AttributeError, ValueError, AssertionError) as error:
            print(f"{name}: {error}", flush=True)  # noqa: T201  # for whoever watches
            continue
        found[name] = PeerContender(
            # With `call`: its operands are what the graph reads, and nothing else keeps them.
            partial(_library_error, graph, out, expected, stream, call),
            partial(_timed, graph.replay, stream.cuda_stream),
        )
    return found


class _OwnGpu:
    """A rank's own GPU, for operands of the libraries."""

    def __init__(self, rank: int) -> None:
        self.ranks = (rank,)

    def on(self, _rank: int) -> Any:
        return nullcontext(require_cupy())


def _captured(call: Callable[[], Any]) -> tuple[Any, list[Any], Any]:
    """A graph of `REPEATS` calls and where their output is."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            call()
    torch.cuda.synchronize()
    graph, out = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(REPEATS):
            out[:] = [call()]
    return graph, out, stream


def _library_error(graph: Any, out: list[Any], expected: Any, stream: Any, _kept: Any) -> float:
    out[0].fill_(math.nan)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        graph.replay()
    torch.cuda.synchronize()
    return float((out[0].float() - expected).abs().max() / expected.abs().max())


def _timed(replay: Callable[[], None], stream_address: int) -> float:
    """Nanoseconds of one of a graph's calls, all ranks having come to this point first."""
    stream = torch.cuda.ExternalStream(stream_address)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    dist.barrier()
    with torch.cuda.stream(stream):
        begin.record(stream)
        replay()
        end.record(stream)
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e6 / REPEATS


def _skew(rank: int, setting: Setting, group: ProcessPeers) -> None:
    """Replays with a rank held up at random: the same bits on all ranks, after every hundredth."""
    case = _case(setting.sizes[0], setting)
    program = SharedGemmProgram(group, case.problem, operands_of(group, case), CallOptions(limit_s=5))
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
    case = _case(setting.sizes[0], setting)
    program = SharedGemmProgram(group, case.problem, operands_of(group, case), CallOptions(limit_s=1))
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
        line = {"part": setting.part, "size": setting.sizes[0], "commit": setting.commit, **facts}
        append_line(setting.out, json.dumps(line))
        print(line, flush=True)  # noqa: T201  # for whoever watches


PARTS: Mapping[str, Callable[[int, Setting, ProcessPeers], None]] = {
    "times": _times,
    "skew": _skew,
    "killed": _killed,
}
