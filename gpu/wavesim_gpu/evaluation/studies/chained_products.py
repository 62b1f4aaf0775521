"""Products whose blocks leave as they end, in chains by dependent launch, beside those that stay.

    python -m wavesim_gpu.evaluation.studies.chained_products

prints for each chain and layer the median microseconds of every plan; `*` marks plans with the chained
products, backend `hopper-chained`. All plans of a case run interleaved, and each is compared with the
float32 reference first.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import parse_plan
from wavesim.safe_io.program import run_program
from wavesim.workloads.layers import chain_of, transformer_layer
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.functions import compile_ahead
from wavesim_gpu.driver.references import reference
from wavesim_gpu.driver.timing import interleaved_ns
from wavesim_gpu.kernels.sm90.gemm_sm90 import ChainedHopper, Hopper
from wavesim_gpu.program import Program
from wavesim_gpu.runner import CupyRunner, WrongResultError

CASES = (
    ("gpt3-145b", 1024, "attention"),
    ("llama-65b", 1536, "attention"),
    ("gpt3-145b", 1024, ""),
    ("llama-65b", 1024, ""),
    ("qwen2.5-0.5b", 1024, ""),
)
CHAINED = ("pdl+row", "pdl+tile", "persistent+pdl+row")
PLANS = ("stream", "pdl", *CHAINED, "streams+row")
ROUNDS, REPEATS, SEED = 14, 5, 3


def with_products(pipeline: Pipeline, backend: str) -> Pipeline:
    """The same with every GEMM computed by a backend."""
    return pipeline.with_stages(
        {
            stage.name: replace(stage, backend=backend) if isinstance(stage.work, Gemm) else stage
            for stage in pipeline.stages
        }
    )


def programs(runner: CupyRunner, pipeline: Pipeline) -> Iterator[tuple[str, Program]]:
    """Every plan, checked. Raises `WrongResultError`."""
    for backend, words, mark in ((Hopper.name, PLANS, ""), (ChainedHopper.name, CHAINED, "*")):
        own = with_products(pipeline, backend)
        compile_ahead(own, [parse_plan(word) for word in words], (Build(),), Hopper.name)
        operands = runner.operands(own, SEED)
        expected = reference(operands, Hopper.name)
        for word in words:
            program = runner.program(operands, parse_plan(word))
            if not runner.verdict(program, runner.launcher(program), expected).is_good:
                raise WrongResultError(f"{pipeline.name} under {word}{mark}: wrong results; not timed")
            yield word + mark, program


def main() -> int:
    """The command."""
    runner = CupyRunner(backend=Hopper.name, limit_s=2.0)
    for model, tokens, chain in CASES:
        layer = transformer_layer(model, tokens)
        found = list(programs(runner, chain_of(layer, chain) if chain else layer))
        times = interleaved_ns([runner.contender(program, REPEATS) for _, program in found], ROUNDS)
        shown = [f"{word} {median(own) / 1e3:.1f}" for (word, _), own in zip(found, times, strict=True)]
        print(f"{model} {tokens} {chain or 'layer'}: {', '.join(shown)} us", flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(run_program("chained_products", main))
