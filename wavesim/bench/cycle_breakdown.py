"""Where the SM cycles of a measured product go: multiplying, outside the matrix, the last wave, the rest.

Example: GPT-3's first product at 1,792 tokens has 336 tiles of 128x256 on 132 SMs. All SMs multiply for 500
thousand cycles; the third wave is filled to a half, which costs 90; launch, pipeline and epilogues cost 40.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from wavesim.bench.gpu_results import GpuResults, TimedCandidate
from wavesim.bench.speedups import PAIRS, PROMPT, products
from wavesim.bench.stored_kernels import all_kernels
from wavesim.errors import RecordingError
from wavesim.safe_io.bounds import shown
from wavesim.work.gemm import Gemm
from wavesim.workloads.mlps import gpt3_mlp, llama_mlp

MAKERS = {"gpt3-mlp": gpt3_mlp, "llama-mlp": llama_mlp}
# Dense fp16 or bf16 with fp32 sums: 2,048 multiply-adds per cycle on an SM of Hopper; an H200 has 132.
FLOPS_PER_CYCLE, SM_COUNT = 4096, 132
WAY = re.compile(
    r"(?:(\S+) )?([1-9]\d{0,4})x([1-9]\d{0,4})(?:/([1-9]\d{0,4}))? \S+$", re.ASCII
)  # kernels, tile, slices, order


@dataclass(frozen=True)
class ProductCycles:
    """Thousand SM cycles of one product: ours in parts that add up to `total`, and cuBLASLt's `library`.

    `multiply` is the least that the tensor cores need, `outside` what tiles at the edges add to it, `wave`
    what SMs without a tile wait for in the last wave, `rest` everything else: launch, filling and draining
    the pipeline, epilogues, sums of slices, waiting for memory.
    """

    way: str
    total: float
    multiply: float
    outside: float
    wave: float
    library: float

    @property
    def rest(self) -> float:
        """What the other parts leave."""
        return self.total - self.multiply - self.outside - self.wave


def product_cycles(results: GpuResults) -> dict[tuple[str, int], ProductCycles]:
    """{("workload, stage", M): where the cycles go} from 256 tokens; only for kernels that use wgmma."""
    kernels = all_kernels().get(results.kernels)
    if kernels is None or not kernels.uses_wgmma:
        return {}
    cycles = {}
    for (workload, stage), sizes in products(results).items():
        for tokens, cases in sizes.items():
            ours, library = cases.get("ours"), cases.get("cublaslt")
            if (
                workload in MAKERS
                and tokens >= PROMPT
                and ours
                and library
                and ours.cycles
                and library.cycles
            ):
                gemm = MAKERS[workload](tokens).stage(stage).gemm
                cycles[f"{PAIRS[workload]}, {stage}", tokens] = _cycles(gemm, ours, library)
    return cycles


def _cycles(gemm: Gemm, ours: TimedCandidate, library: TimedCandidate) -> ProductCycles:
    way = ours.words.get("way", "")
    match = WAY.match(way)
    if match is None:
        raise RecordingError(
            f"way is {shown(way)}; it must be a tile and an order, such as '128x256/2 grouped:8'"
        )
    kernels, tile_m, tile_n, slices = match[1] or "", int(match[2]), int(match[3]), int(match[4] or 1)
    tiles = -(-gemm.m // tile_m) * -(-gemm.n // tile_n)
    tile = 2 * tile_m * tile_n * gemm.k / FLOPS_PER_CYCLE / 1000
    multiply = gemm.flops / FLOPS_PER_CYCLE / SM_COUNT / 1000
    blocks = tiles * slices
    idle = 0 if "stream-k" in kernels else -(-blocks // SM_COUNT) - blocks / SM_COUNT
    return ProductCycles(
        way,
        median(ours.cycles) / 1000,
        multiply,
        tiles * tile / SM_COUNT - multiply,
        idle * tile / slices,
        median(library.cycles) / 1000,
    )


def shares(entry: ProductCycles) -> Mapping[str, float]:
    """The parts over the whole."""
    parts = {"multiply": entry.multiply, "outside": entry.outside, "wave": entry.wave, "rest": entry.rest}
    return {name: part / entry.total for name, part in parts.items()}
