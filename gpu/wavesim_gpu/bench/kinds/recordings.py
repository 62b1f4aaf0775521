"""What a GEMM pays for recording, and for semaphores that are always there: the same pair with and without.

Example: GPT-3's MLP at 1,024 tokens with its kernels one after the other, so that no tile has to wait: stream
sync, row semaphores and tile semaphores differ by what looking and posting cost, and by nothing else.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wavesim.bench.stored_kernels import kernels_named
from wavesim.plan.launch import StreamPerStage
from wavesim_gpu.bench.contenders import NONE, describe_case, sharing_entry, time_and_judge
from wavesim_gpu.bench.kinds.variants import TileConfig, mlp_pair
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.run.program import Program
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner, WrongResultError

TOKENS = 1024


def recording_cases(
    runner: CupyRunner, kernels: str, cut: TileConfig, tile_k: int, rounds: int, order: str = "grouped:4"
) -> list[dict[str, Any]]:
    """GPT-3's MLP under row semaphores, timed and recorded, as two cases."""
    plan = kernels_named(kernels).plan_of("row", order)
    operands = runner.operands(mlp_pair("gpt3-mlp", TOKENS, (cut, cut), tile_k), seed=1)
    programs = {
        name: runner.program(operands, plan, Build(is_recording=name == "recorded"))
        for name in ("timed", "recorded")
    }
    tags = {"workload": "recording", "tokens": TOKENS, "tile": str(cut), "kernels": kernels}
    return _cases(runner, programs, rounds, tags)


def ready_cases(
    runner: CupyRunner, kernels: str, cut: TileConfig, tile_k: int, rounds: int, order: str = "grouped:4"
) -> list[dict[str, Any]]:
    """GPT-3's MLP with one kernel after the other, without semaphores and with them, as three cases."""
    operands = runner.operands(mlp_pair("gpt3-mlp", TOKENS, (cut, cut), tile_k), seed=1)
    plans = {name: kernels_named(kernels).plan_of(name, order) for name in ("stream", "row", "tile")}
    for name in ("row", "tile"):
        plans[name] = replace(plans[name], launch=StreamPerStage(wait_kernel=False))
    programs = {name: runner.program(operands, plan) for name, plan in plans.items()}
    for program in programs.values():
        program.launches = tuple(replace(launch, stream=0) for launch in program.launches)
    tags = {"workload": "ready-pair", "tokens": TOKENS, "tile": str(cut), "kernels": kernels}
    return _cases(runner, programs, rounds, tags)


def _cases(
    runner: CupyRunner, programs: Mapping[str, Program], rounds: int, tags: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Each program checked, then those that are right in turns."""
    expected = reference(next(iter(programs.values())).operands)
    entries = {
        name: sharing_entry(runner, program, runner.contender(program), expected)
        for name, program in programs.items()
    }
    result, verdicts, sampler = time_and_judge(entries, rounds)
    if not result:
        raise WrongResultError(f"{tags['workload']}: every program gives wrong results; nothing was timed")
    return [describe_case(name, tags, result.get(name, NONE), verdicts[name], sampler) for name in programs]
