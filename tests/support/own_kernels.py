"""Our own GPU code, as what is compiled of it: files, template instances and generated headers, by name.

Example: `OWN["portable gemm2 row"].compiled("sm_80")` is the portable GEMM that waits for rows of the first.
"""

import importlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from attention_layers import attention, decode, decode_layer, layer
from conv_cases import conv_chain, residual_block
from faults import cotenant
from row_chains import norm_chain, residual_pair, softmax_chain
from small_pipelines import pair

from wavesim.bench.foreign_pairs import ForeignPair
from wavesim.codegen.cuda import generate, stage_header
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync
from wavesim.workloads.attention_chain import paper_attention
from wavesim_gpu.bench.kinds.foreign.kernels import GEMM, ROWS, gemm_name, softmax_name
from wavesim_gpu.bench.labs import copies, primitives
from wavesim_gpu.characterise.bench import FOLDER as MICROBENCHMARKS
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.driver.kernel_sources import ROOT
from wavesim_gpu.kernels.attention.head_product import HeadProducts
from wavesim_gpu.kernels.backends import backend_of
from wavesim_gpu.kernels.decode.decode_launch import SOURCE as DECODE_STEP
from wavesim_gpu.kernels.decode.shape import DecodeShape
from wavesim_gpu.kernels.elementwise import elementwise
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import ChainedHopper
from wavesim_gpu.run import control, timing
from wavesim_gpu.run.planned_kernels import kernels_of

ALL = ("sm_80", "sm_90a", "sm_100", "sm_120")
EXAMPLES = ROOT.parent / "examples"
TILES = {"portable": (64, 64, 32), "hopper": (64, 128, 64)}
H200 = load("h200")
# A user's own kernels, which use what `wavesim gen` writes.
GENERATED_KERNELS = """
#include <generated.cuh>
extern "C" __global__ void up(unsigned* counters, float* c) {
    const space::Tile tile = space::gemm1::begin(counters);
    c[(blockIdx.x * blockDim.x + threadIdx.x)] = 1.0f;
    space::gemm1::post(counters, tile);
}
extern "C" __global__ void down(unsigned* counters, const float* c, float* d) {
    const space::Tile tile = space::gemm2::begin(counters);
    if (!space::gemm1_to_gemm2::wait(counters, 0, tile.y)) return;
    d[blockIdx.x * blockDim.x + threadIdx.x] = c[blockIdx.x * blockDim.x + threadIdx.x];
    space::gemm2::post(counters, tile);
}
"""


@dataclass(frozen=True)
class OwnCode:
    """One compilation."""

    path: Path
    names: tuple[str, ...] = ()
    header: str = ""
    archs: tuple[str, ...] = ALL

    def compiled(self, arch):
        """The Cubin, from the compiler or its cache."""
        headers = {GENERATED: self.header} if self.header else None
        return compile_cubin(self.path, self.names, arch, Build(), headers)


def _planned(backend, words, stages=("gemm1", "gemm2")):
    """The kernels of a pair under a plan, by backend, stages and plan."""
    pipeline = pair(m=100, k=128, hidden=256, n=136, tiles=(TILES[backend],) * 2)
    plan = parse_plan(words, "grouped:2")
    texts = {stage.name: stage_header(pipeline, plan, stage.name).text for stage in pipeline.stages}
    archs = ALL if backend == "portable" else ("sm_90a",)
    for kernel in kernels_of(pipeline, plan, H200, backend):
        if set(kernel.stages) & set(stages):
            name = f"{backend} {'+'.join(kernel.stages)} {words}"
            yield (
                name,
                OwnCode(kernel.backend.source, (kernel.launch.expression,), kernel.header(texts), archs),
            )


def _attention(words, head_dim):
    """Attention between two products, under a plan: it waits and posts."""
    pipeline, plan = layer(attention(head_dim=head_dim)), parse_plan(words, "row")
    kernel = next(one for one in kernels_of(pipeline, plan, H200, "hopper") if one.stages == ("attention",))
    header = stage_header(pipeline, plan, "attention").text
    return OwnCode(kernel.backend.source, (kernel.launch.expression,), header, ("sm_90a",))


def _portable_attention(pipeline):
    """The portable kernel, prefill or decode, between two products: it waits and posts."""
    plan, name = parse_plan("streams+tile", "row"), pipeline.stages[1].name
    kernel = next(one for one in kernels_of(pipeline, plan, H200) if one.stages == (name,))
    header = stage_header(pipeline, plan, name).text
    return OwnCode(kernel.backend.source, (kernel.launch.expression,), header)


def _head_product(words, stage):
    """A product of attention by five kernels: it waits for both operands, and posts."""
    pipeline, plan = paper_attention(256), parse_plan(words, "row")
    backend = HeadProducts()
    launch = backend.launch(pipeline.stage(stage).work, plan, H200)
    return OwnCode(backend.source, (launch.expression,), stage_header(pipeline, plan, stage).text)


def _stage_of(pipeline, words, name, archs=ALL):
    """One stage between others, under a plan: for a Hopper alone, or portable."""
    family = "portable" if archs == ALL else "hopper"
    plan, backend = parse_plan(words, "row"), backend_of(pipeline.stage(name), family)
    launch = backend.launch(pipeline.stage(name).work, plan, H200)
    return OwnCode(backend.source, (launch.expression,), stage_header(pipeline, plan, name).text, archs)


def _example():
    """examples/synchronised_pair.cu with the header that its Python writes."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        described = importlib.import_module("kernel_pair").describe(256, 192)
    finally:
        sys.path.remove(str(EXAMPLES))
    text = generate(described, SemaphoreSync(RowSync()), H200, "pair", sizes="runtime")
    return OwnCode(EXAMPLES / "synchronised_pair.cu", header=text)


def _foreign():
    """Kernels of the foreign study: a product that waits in its main loop, one before it, and a softmax."""
    flat = ForeignPair(
        "before", 256, 512, 512, 512, (64, 128, 32), wait_place="before-main-loop", blocks_per_sm=2
    )
    wide = ForeignPair("persistent", 256, 512, 512, 512, (128, 128, 32), pipeline_depth=4, is_persistent=True)
    yield "foreign products", OwnCode(GEMM, (gemm_name(flat, 1), gemm_name(wide, 0)))
    yield "foreign softmax", OwnCode(ROWS, (softmax_name(),))


def generated_kernels(folder):
    """Kernels of a user's own around a generated header, written into `folder`."""
    path = folder / "generated_kernels.cu"
    path.write_text(GENERATED_KERNELS)
    header = generate(pair(), SemaphoreSync(RowSync()), H200, "space")
    return OwnCode(path, header=header)


def _copies():
    """The second of the study of the paper's copies: each block waits for one that nobody else waits for."""
    pipeline = copies.describe_pair(256, 256)
    header = stage_header(pipeline, copies.WAYS["ready"].plan, "second").text
    return OwnCode(copies.SOURCE, ("copy<256>",), header)


def _chained():
    """The Hopper product for chains, whose blocks leave as they end."""
    ordinary = dict(_planned("hopper", "pdl+tile", ("gemm2",)))["hopper gemm2 pdl+tile"]
    return replace(ordinary, path=ChainedHopper.source)


OWN = {
    **dict(_planned("portable", "streams+row")),
    **dict(_planned("portable", "streams+tile", ("gemm2",))),
    **dict(_planned("hopper", "stream-k", ("gemm1",))),
    **dict(_planned("hopper", "streams+row")),
    **dict(_planned("hopper", "pdl+tile")),
    **dict(_planned("hopper", "fused+row")),
    "chained hopper gemm2 pdl+tile": _chained(),
    "hopper attention 128 persistent+streams+tile": _attention("persistent+streams+tile", 128),
    "portable attention streams+tile": _portable_attention(layer(attention())),
    "decode attention streams+tile": _portable_attention(decode_layer(decode())),
    "hopper attention 64 pdl+row": _attention("pdl+row", 64),
    "head product scores streams+tile": _head_product("streams+tile", "scores"),
    "head product context streams+row": _head_product("streams+row", "context"),
    "norm persistent+streams+row": _stage_of(norm_chain(8), "persistent+streams+row", "norm"),
    "row softmax streams+tile": _stage_of(softmax_chain(), "streams+tile", "softmax"),
    "copy of tiles streams+tile": _stage_of(softmax_chain(), "streams+tile", "copy"),
    "hopper residual persistent+pdl+row": _stage_of(
        residual_pair(), "persistent+pdl+row", "down", ("sm_90a",)
    ),
    "hopper convolution persistent+pdl+tile": _stage_of(
        residual_block(dtype="bf16"), "persistent+pdl+tile", "first", ("sm_90a",)
    ),
    "hopper convolution with a residual streams+row": _stage_of(
        residual_block(), "streams+row", "second", ("sm_90a",)
    ),
    "portable convolution streams+tile": _stage_of(conv_chain(3, tile_k=32), "streams+tile", "conv2"),
    **dict(_foreign()),
    "decode step": OwnCode(DECODE_STEP, (), DecodeShape(2048, 8192, 32, 8, 64).tuned().header(), ("sm_90a",)),
    "synchronised example": _example(),
    "plain example": OwnCode(EXAMPLES / "plain_pair.cu"),
    "wait-kernel": OwnCode(control.SOURCE),
    "element-wise": OwnCode(elementwise.SOURCE),
    "co-tenant": OwnCode(cotenant.SOURCE),
    "copy": _copies(),
    "clock stamps": OwnCode(timing.SOURCE),
    "primitives": OwnCode(primitives.SOURCE, tuple(f"primitive<{i}>" for i in range(len(primitives.NAMES)))),
    **{f"microbenchmarks of {path.stem}": OwnCode(path) for path in sorted(MICROBENCHMARKS.glob("*.cu"))},
}
