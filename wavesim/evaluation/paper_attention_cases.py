"""The sizes of the paper's Figure 6b as pipelines and plans, and what is simulated of them beforehand.

Example: `python -m wavesim.evaluation.paper_attention_cases` writes the predictions that stand beside the
measurement of `wavesim_gpu.bench.kinds.paper_attention`; commit them first.
"""

import json
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wavesim.model.device import Device, default_device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text
from wavesim.workloads.attention_chain import Model, cusync_repository_attention, paper_attention
from wavesim.workloads.hopper import block_of

FOLDER = Path(__file__).parents[2] / "gpu" / "results" / "paper_attention"
PREDICTIONS = FOLDER / "predictions.json"
PROMPTS, BATCHES, KEYS = (512, 1024, 2048), (1, 2, 4), (512, 1024, 2048)
TILE = (128, 128)
# Of the first and the last product, by name: title, tile_k, plans.
BACKENDS: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("paper_attention.toml").read_text(encoding="utf-8")
)
PLANS = {name: tuple(backend["plans"]) for name, backend in BACKENDS.items()}
AS_PUBLISHED = next(iter(BACKENDS))
GENERATION_SPLITS = (4, 1)  # of K: a few rows are 36 tiles of the first product, for 132 SMs


@dataclass(frozen=True)
class ChainCase:
    """`tokens` rows of `sequences`, each with `keys` keys. Without softmax: the repository's chain."""

    model: Model
    tokens: int
    sequences: int
    keys: int
    backend: str
    has_softmax: bool = True

    @property
    def is_prompt(self) -> bool:
        """Whether no key was there before."""
        return self.keys * self.sequences == self.tokens

    @property
    def text(self) -> str:
        """What it is, in a line."""
        chain = "" if self.has_softmax else "repository's chain, "
        rows = f"prompt of {self.tokens}" if self.is_prompt else f"{self.sequences} x 1 row, {self.keys} keys"
        return f"{chain}{self.model}, {rows}, {self.backend}"

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Under which it runs, the first stream sync."""
        return tuple(parse_plan(words, "row") for words in PLANS[self.backend])

    def pipeline(self) -> Pipeline:
        """As it is run."""
        if not self.has_softmax:
            return cusync_repository_attention(self.tokens, model=self.model)
        kernels = BACKENDS[self.backend]
        return paper_attention(
            self.tokens,
            TILE,
            model=self.model,
            sequences=self.sequences,
            cached=self.keys - self.tokens // self.sequences,
            tile_k=kernels["tile_k"],
            block=block_of(TILE) if kernels.get("has_sm_to_itself") else None,
            split_k=(1, 1) if self.is_prompt else GENERATION_SPLITS,
        )


def cases() -> tuple[ChainCase, ...]:
    """Those of the figure: prompts, and generation with products as published; the longest last."""
    models: tuple[Model, ...] = ("gpt3", "llama")
    steps = [
        ChainCase(model, batch, batch, keys, AS_PUBLISHED)
        for batch in BATCHES
        for keys in KEYS
        for model in models
    ]
    prompts = [
        ChainCase(model, tokens, 1, tokens, backend)
        for tokens in PROMPTS
        for backend in PLANS
        for model in models
    ]
    repository = [ChainCase("gpt3", tokens, 1, tokens, AS_PUBLISHED, has_softmax=False) for tokens in PROMPTS]
    return tuple(sorted([*prompts, *steps, *repository], key=lambda case: case.tokens))


def predicted(case: ChainCase, device: Device) -> dict[str, Any]:
    """The case's simulated times under its plans, in microseconds."""
    from wavesim.predict.defaults import default_costs  # noqa: PLC0415  # simpy is not on every GPU machine
    from wavesim.sim.simulation import simulate  # noqa: PLC0415

    pipeline = case.pipeline()
    costs, _ = default_costs(pipeline, device)
    found = [
        {
            "plan": words,
            "simulated_us": simulate(pipeline, parse_plan(words, "row"), device, costs).makespan_ns / 1e3,
        }
        for words in PLANS[case.backend]
    ]
    return {**asdict(case), "plans": found}


def main() -> int:
    """Simulates all cases and writes the file. Needs no GPU."""
    device = default_device()
    result = {"device": device.name, "cases": [predicted(case, device) for case in cases()]}
    write_text(PREDICTIONS, json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("paper_attention_cases", main))
