"""What recording costs: the same plan built with it and without, in turns."""

from typing import Any

from wavesim.model.plan import parse_plan
from wavesim_gpu.compiler import Build
from wavesim_gpu.operands import reference
from wavesim_gpu.runner import CupyRunner
from wavesim_gpu.studies.case import describe_case, time_together
from wavesim_gpu.studies.shapes import Cut, mlp_pair
from wavesim_gpu.timing import Contender

TOKENS = 1024


def recording_cases(
    runner: CupyRunner, cut: Cut, tile_k: int, rounds: int, order: str = "grouped:4"
) -> list[dict[str, Any]]:
    """GPT-3's MLP under row semaphores, timed and recorded, as two cases."""
    operands = runner.operands(mlp_pair("gpt3-mlp", TOKENS, (cut, cut), tile_k), seed=1)
    expected, plan = reference(operands), parse_plan("row", order)
    programs = {
        name: runner.program(operands, plan, Build(is_recording=name == "recorded"))
        for name in ("timed", "recorded")
    }
    launches = {name: runner.launcher(program) for name, program in programs.items()}
    verdicts = {name: runner.verdict(programs[name], launches[name], expected) for name in programs}
    contenders = {name: Contender(launches[name], programs[name].streams[0]) for name in programs}
    found, sampler = time_together(contenders, rounds)
    for program in programs.values():
        program.sync.check()
    tags = {"workload": "recording", "tokens": TOKENS, "tile": str(cut), "kernels": runner.family.name}
    return [describe_case(name, tags, found[name], verdicts[name], sampler) for name in programs]
