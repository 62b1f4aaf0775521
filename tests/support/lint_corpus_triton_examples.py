"""The Triton kernels of `gpu/examples`, as they are launched there, compiled for the corpus with no GPU.

`PYTHONPATH=.:gpu python tests/support/lint_corpus_triton_examples.py FOLDER` needs Triton (3.6 made what is
packed) and PyTorch; `lint_corpus_others.py triton FOLDER` takes what it writes.
"""

import sys
from pathlib import Path

from lint_corpus_triton import compile_into

from wavesim.plan.parsing import parse_plan
from wavesim_gpu.triton import Synchronised

sys.path.insert(0, str(Path(__file__).parents[2] / "gpu" / "examples"))

import synchronised_triton
import triton_matmul
import triton_pair

TILE = {"tile_m": 128, "tile_n": 256, "tile_k": 64}
GELU = {"tile_m": 32, "tile_n": 256}
HOW = {"num_warps": triton_matmul.WARPS, "num_stages": triton_matmul.DEPTH}
# As Triton specialises them: the second stage's number is 1, which is a constant.
FIRST = {**TILE, "is_waiting": False, "is_posting": True}
SECOND = {**TILE, "is_waiting": True, "is_posting": False, "stage": 1}
LAST = {**GELU, "is_waiting": True, "stage": 1}
UNRECORDED = {"recording": None}
PLAIN = {**TILE, "tile": None, "wait": None, "post": None, "group": 8}
PDL = {**HOW, "launch_pdl": True}


def under(words):
    """Constants of both kernels of `triton_matmul` under a plan."""
    pipeline = triton_matmul.MatmulPair(1536, 8192, 4096, 6144).pipeline
    made = Synchronised(pipeline, parse_plan(words, "grouped:4")).functions
    return [
        {
            **TILE,
            "group": 1,
            **{what: getattr(made, f"{stage}_{what}", None) for what in ("tile", "wait", "post")},
        }
        for stage in triton_matmul.STAGES
    ]


ROW, PDL_ROW = under("row"), under("pdl+row")
KERNELS = {
    "pair_up": (triton_pair.matmul, {**FIRST, **UNRECORDED}, HOW),
    "pair_down": (triton_pair.matmul, {**SECOND, **UNRECORDED}, HOW),
    "pair_gelu": (triton_pair.gelu, {**LAST, **UNRECORDED}, {"num_warps": triton_pair.GELU_WARPS}),
    "pair_start": (triton_pair.wait_for_start, {}, {"num_warps": 1}),
    "recorded_up": (triton_pair.matmul, FIRST, HOW),
    "recorded_down": (triton_pair.matmul, SECOND, HOW),
    "recorded_gelu": (triton_pair.gelu, LAST, {"num_warps": triton_pair.GELU_WARPS}),
    "matmul_plain": (triton_matmul.matmul, PLAIN, HOW),
    "matmul_up": (triton_matmul.matmul, ROW[0], HOW),
    "matmul_down": (triton_matmul.matmul, ROW[1], HOW),
    "matmul_pdl_up": (triton_matmul.matmul, PDL_ROW[0], PDL),
    "matmul_pdl_down": (triton_matmul.matmul, PDL_ROW[1], PDL),
    "synchronised_up": (synchronised_triton.up, synchronised_triton.TILE, PDL),
    "synchronised_down": (synchronised_triton.down, synchronised_triton.TILE, PDL),
}


if __name__ == "__main__":
    compile_into(Path(sys.argv[1]), KERNELS)
