"""One rank's process: our kernels and the libraries' on one GPU, each part of the measuring."""

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from wavesim.errors import DeadlockError
from wavesim_gpu.bench.kinds.two_gpus.alone import parts_alone
from wavesim_gpu.bench.kinds.two_gpus.cases import Setting, SharedCase, expected_of, operands_of
from wavesim_gpu.bench.kinds.two_gpus.graphs import (
    REPEATS,
    called,
    hosted,
    library_contender,
    rank_tensors,
    repeats_of,
    timed,
)
from wavesim_gpu.bench.kinds.two_gpus.library_ways import (
    gathering_ways,
    linear_ways,
    needs_of,
    reducing_ways,
    scattering_ways,
)
from wavesim_gpu.bench.kinds.two_gpus.models import model_ways
from wavesim_gpu.bench.kinds.two_gpus.rank import (
    agreed,
    case_of,
    error_of,
    exchange,
    require_ways,
    told_error,
)
from wavesim_gpu.bench.kinds.two_gpus.trials import Rows, killed, right, skew
from wavesim_gpu.bench.kinds.two_gpus.turns import MeasuredWay, PeerContender, fastest, in_turns
from wavesim_gpu.bench.kinds.two_gpus.variants import DTYPE, Variant, variants_of
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.peers.groups import ProcessPeers
from wavesim_gpu.peers.programs import SharedGemmProgram
from wavesim_gpu.torch.parallel_calls import calls_of

HOSTED = ("operator", "sequence", "symmetric two-shot")  # whose part of the host is timed too
# NVLink multicast can put the host's GPUs out of service: off in whatever might use it.
NO_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


class RankWorker:
    """One rank of several, which meet through a file; asked by a process that keeps it."""

    def __init__(self, rank: int, devices: tuple[int, ...], meeting: str) -> None:
        self._rank, self._devices, self._meeting = rank, devices, meeting
        self._group: ProcessPeers | None = None
        self._library: Any = None

    def take(self, setting: Setting, size: tuple[int, int, int]) -> Rows:
        """A shape's rows. Collective: all ranks are asked for the same."""
        if self._group is None:
            self._group = self._met()
        part = {"right": right, "skew": skew, "killed": killed}.get(setting.part)
        if part is not None:
            return part(self._rank, setting, size, self._group)
        if self._library is None:
            self._library = dist.new_group(backend="nccl")
        if setting.part == "model":
            return _models(size, self._library, setting)
        case = case_of(size, setting)
        if setting.part == "operators":
            return _operators(self._rank, case, self._library, setting)
        ways = _ways(self._rank, case, self._library, setting, self._group)
        return _rows(in_turns(ways, setting.rounds, DTYPE, agreed), setting)

    def _met(self) -> ProcessPeers:
        os.environ |= NO_MULTICAST
        rank, ranks, device = self._rank, len(self._devices), self._devices[self._rank]
        torch.cuda.set_device(device)
        dist.init_process_group(
            "gloo", init_method=f"file://{self._meeting}", rank=rank, world_size=ranks,
            timeout=timedelta(seconds=120),
        )  # fmt: skip
        require_cupy().cuda.Device(device).use()
        return ProcessPeers(rank, ranks, exchange, may_share=len(set(self._devices)) < ranks)


def _rows(result: Mapping[str, MeasuredWay], setting: Setting) -> Rows:
    require_ways(result, setting)
    return [
        {
            "way": name,
            "is_right": not entry.failure,
            "error": told_error(entry.error),
            "ns": entry.ns,
            "words": entry.words,
            "needs": needs_of(name),
        }
        for name, entry in result.items()
    ]


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
        name: fastest([contender(entry) for entry in variants], DTYPE, agreed)
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
    result = {}
    for name, call in makers[case.problem.collective.kind](a, b, library).items():
        if not setting.takes(name):
            continue
        try:
            result[name] = library_contender(call, expected)
        # On all ranks alike: not in this PyTorch, or not for this shape.
        except (RuntimeError, AttributeError, ValueError, AssertionError) as error:
            print(f"{name}: {error}", flush=True)  # noqa: T201  # for whoever watches
    return result


def _operators(rank: int, case: SharedCase, library: Any, setting: Setting) -> Rows:
    """What a user's call of the operator takes beside the libraries': launched by the host, and in graphs."""
    x, b = rank_tensors(rank, case)
    expected = torch.as_tensor(expected_of(require_cupy(), case, rank), device="cuda")
    w = b.T.contiguous()
    calls = linear_ways(x, w, library, setting.kind)
    operator = calls_of(library)
    words = operator.words_of(operator.shape_of(setting.kind, x, w, None))
    taken = {name: call for name, call in calls.items() if setting.takes(name)}
    repeats = repeats_of(calls["sequence"], agreed)
    ways = {f"{name}, eager": called(call, expected, repeats) for name, call in taken.items()}
    ways |= {f"{name}, graph": library_contender(call, expected, repeats) for name, call in taken.items()}
    ways |= {f"{name}, host": hosted(call, expected) for name, call in taken.items() if name in HOSTED}
    ways = {
        name: replace(way, words=words) if name.startswith("operator") else way for name, way in ways.items()
    }
    return _rows(in_turns(ways, setting.rounds, DTYPE, agreed), setting)


def _models(size: tuple[int, int, int], library: Any, setting: Setting) -> Rows:
    """A decoder's layers by our operators and by the libraries; of what a graph cannot capture only eager."""
    calls = model_ways(setting.kind, size, library)
    expected, repeats = calls["by hand"]().float(), repeats_of(calls["by hand"], agreed)
    ways: dict[str, PeerContender] = {}
    for name, call in calls.items():
        if setting.takes(name):
            ways[f"{name}, eager"] = called(call, expected, repeats)
            ways |= _in_graph(name, call, expected, repeats)
    return _rows(in_turns(ways, setting.rounds, DTYPE, agreed), setting)


def _in_graph(name: str, call: Any, expected: Any, repeats: int) -> dict[str, PeerContender]:
    try:
        return {f"{name}, graph": library_contender(call, expected, repeats)}
    except RuntimeError as error:  # on all ranks alike
        print(f"{name}: {error}", flush=True)  # noqa: T201  # for whoever watches
        return {}
