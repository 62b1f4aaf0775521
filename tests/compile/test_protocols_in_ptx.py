"""The litmus tests of our protocols name instructions that the PTX of the kernels they stand for has."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from attention_layers import decode, decode_layer
from row_chains import norm_chain
from small_pipelines import pair

from wavesim.codegen.cuda import stage_header
from wavesim.lint.instruction import Instruction, Op
from wavesim.lint.ptx import listing_of_ptx
from wavesim.litmus.program import Statement
from wavesim.litmus.protocol import Protocol, protocols
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import plan_of_words
from wavesim.plan.plan import Plan
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.run.control import SOURCE as CONTROL
from wavesim_gpu.run.planned_kernels import kernels_of

# Every function of semaphore.cuh, in a kernel of its own.
PRIMITIVES = """
#include <cusync/semaphore.cuh>
extern "C" __global__ void primitives(unsigned* c, unsigned* out) {
    out[0] = cusync::load_relaxed(c) + cusync::load_acquire(c);
    cusync::acquire_fence();
    cusync::add_release(c, 1);
    cusync::store_release(c, 1);
    cusync::add_relaxed(c, 1);
    cusync::store_relaxed(c, 1);
    out[1] = cusync::fetch_add_relaxed(c, 1) + cusync::fetch_add_acq_rel(c, 1);
}
"""
# A plan's words, which of its kernels, and whether blocks come in clusters of two, per folder of kernels.
PLANS = {
    "sm80": (("portable", (64, 64, 32), "tile streams row", (0, 1), False),),
    "sm90": (
        ("hopper", (64, 128, 64), "tile pdl row", (0, 1), False),
        ("hopper", (64, 128, 64), "stream-k one-stream boundary", (1,), False),
        ("hopper", (64, 128, 64), "persistent one-stream boundary", (1,), True),
    ),
}
# A chain and which of its stages, for folders whose kernels are no GEMM; under this plan.
LAYERS = {"rows": (norm_chain(128), 1), "attention": (decode_layer(decode(splits=2)), 1)}
LAYER_PLAN = "tile streams row"
# An instruction of a litmus test begins so; the first that fits counts.
OPS = {
    "cp.async.bulk.global.shared": Op.BULK_STORE,
    "cp.async.bulk.shared.global": Op.BULK_LOAD,
    "cp.async.bulk.commit_group": Op.BULK_COMMIT,
    "cp.async.bulk.wait_group.read": Op.BULK_WAIT_READ,
    "cp.async.bulk.wait_group": Op.BULK_WAIT,
    "cp.async.shared.global": Op.ASYNC_COPY,
    "cp.async.commit_group": Op.ASYNC_COMMIT,
    "cp.async.wait_group": Op.ASYNC_WAIT,
    "fence.proxy": Op.PROXY_FENCE,
    "fence": Op.FENCE,
    "bar.warp.sync": Op.WARP_SYNC,
    "bar.sync": Op.BARRIER,
    "barrier.cluster.arrive": Op.CLUSTER_ARRIVE,
    "barrier.cluster.wait": Op.CLUSTER_WAIT,
    "mbarrier.arrive.expect_tx": Op.MBARRIER_EXPECT,
    "mbarrier.arrive": Op.MBARRIER_ARRIVE,
    "mbarrier.try_wait": Op.MBARRIER_TEST,
    "griddepcontrol.wait": Op.GRID_WAIT,
    "griddepcontrol.launch_dependents": Op.GRID_TRIGGER,
    "st": Op.STORE,
    "ld": Op.LOAD,
    "atom": Op.ATOMIC,
    "red": Op.REDUCTION,
}
BY_TEXT = ("st.async", "wgmma.mma_async", "wgmma.commit_group", "wgmma.wait_group", "fence.mbarrier_init")
# What another project compiles, what no kernel of ours does, and what is there as what would be right.
ELSEWHERE = ("for_cutlass", "triton", "driver/", "layers/calls")


def is_ours(protocol: Protocol) -> bool:
    of_kernels = not any(word in file for file in protocol.files for word in ELSEWHERE)
    return (
        of_kernels and protocol.plan not in ("two GPUs", "not used") and " cluster scope" not in protocol.name
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> dict[str, list[Instruction]]:
    """The instructions of every folder's kernels; of the primitives and the wait-kernel under ""."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")
    path = tmp_path_factory.mktemp("primitives") / "primitives.cu"
    path.write_text(PRIMITIVES)
    shared = [
        compile_cubin(path, ["primitives"], "sm_90a").ptx,
        compile_cubin(CONTROL, ["wait_for_start"], "sm_90a").ptx,
    ]
    found = {"": shared}
    for folder, plans in PLANS.items():
        found[folder] = [text for plan in plans for text in texts_of(*plan)]
    for folder, (pipeline, chosen) in LAYERS.items():
        plan = plan_of_words(*LAYER_PLAN.split())
        found[folder] = list(texts_of_kernels(pipeline, plan, "hopper", (chosen,), has_clusters=False))
    return {
        folder: [
            i
            for text in texts
            for kernel in listing_of_ptx(text, folder).kernels
            for i in kernel.instructions
        ]
        for folder, texts in found.items()
    }


def texts_of(
    backend: str, tile: tuple[int, int, int], words: str, chosen: tuple[int, ...], has_clusters: bool
) -> Iterator[str]:
    pipeline = pair(m=100, k=128, hidden=256, n=136, tiles=(tile, tile))
    return texts_of_kernels(
        pipeline, plan_of_words(*words.split()), backend, chosen, has_clusters=has_clusters
    )


def texts_of_kernels(
    pipeline: Pipeline, plan: Plan, backend: str, chosen: tuple[int, ...], *, has_clusters: bool
) -> Iterator[str]:
    headers = {stage.name: stage_header(pipeline, plan, stage.name).text for stage in pipeline.stages}
    kernels = list(kernels_of(pipeline, plan, load("h200"), backend))
    for kernel in (kernels[number] for number in chosen):
        name = kernel.launch.expression
        if has_clusters:
            assert ", 1>" in name
            name = name.replace(", 1>", ", 2>", 1)  # the last of the tile's shape: blocks in a cluster
        generated = {GENERATED: kernel.header(headers)}
        yield compile_cubin(kernel.source, [name], "sm_90a", Build(), generated).ptx


@pytest.mark.parametrize("protocol", list(filter(is_ours, protocols())), ids=lambda protocol: protocol.name)
def test_every_synchronising_instruction_is_in_the_code_that_the_protocol_stands_for(
    compiled, protocol: Protocol
):
    folders = {Path(file).parent.name for file in protocol.files} & (PLANS.keys() | LAYERS.keys())
    code = [i for folder in (folders or set(PLANS)) | {""} for i in compiled[folder]]
    statements = [
        s for thread in protocol.test.threads for s in thread.statements if s.what not in ("ld", "st")
    ]
    statements += [
        s for thread in protocol.test.threads for s in thread.statements if s.order not in ("", "weak")
    ]
    assert [s.text for s in statements if not any(fits(s, instruction) for instruction in code)] == []


def fits(statement: Statement, instruction: Instruction) -> bool:
    """Whether the instruction is of the statement's operation, order, scope and state space."""
    what = statement.text.removeprefix("wait ").split(" wait ")[-1]
    if statement.guard:
        what = what.partition(" ")[2] if what.startswith("@") else what
    for beginning in BY_TEXT:
        if what.startswith(beginning):
            return instruction.text.startswith(beginning)
    op = next(op for beginning, op in OPS.items() if what.startswith(beginning))
    if op is Op.PROXY_FENCE:
        return instruction.op is op and instruction.text.rstrip(";").split()[0] == what
    if "volatile" in what:
        return instruction.op is op and instruction.order == "volatile"
    expected = (op, statement.order, statement.scope) if statement.order not in ("", "weak") else (op,)
    return (instruction.op, instruction.order, instruction.scope)[: len(expected)] == expected


def test_a_statement_fits_no_weaker_instruction(compiled):
    by_text = {i.text: i for i in compiled[""]}
    relaxed = next(i for text, i in by_text.items() if text.startswith("ld.relaxed.gpu"))
    acquire = next(
        s for p in protocols() for t in p.test.threads for s in t.statements if "ld.acquire.gpu" in s.text
    )
    assert not fits(acquire, relaxed)
