"""Broken builds are noticed: without its wait, post or fence, or with the post too early, no run passes."""

import pytest
from small_pipelines import SMALL, chain, pair

from wavesim.codegen.cuda import stage_header
from wavesim.errors import DeadlockError
from wavesim.plan.order import Grouped
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.gemm.sm80 import gemm

DELAY_NS = 300_000
TRIES = 5  # of a mutant, until a run of it is wrong
POLICIES = [RowSync(), TileSync()]


def verdict_of(runner, policy, build, limit_s=5.0):
    from wavesim_gpu.run.references import reference
    from wavesim_gpu.run.runner import CupyRunner

    impatient = CupyRunner(limit_s=limit_s, commit="test")
    operands = impatient.operands(pair(), seed=11)
    program = impatient.program(operands, SemaphoreSync(policy), build)
    return impatient.verdict(program, impatient.launcher(program), reference(operands))


def middle_headers(policy):
    """The header of a stage that both waits and posts, in an order that draws positions."""
    plan = SemaphoreSync(policy, order=Grouped(2))
    middle = chain(300, (256, 320, 192, 128), (SMALL, SMALL, SMALL))
    return {GENERATED: stage_header(middle, plan, "gemm2").text}


@pytest.mark.gpu
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_delays_alone_change_nothing(runner, policy):
    assert verdict_of(runner, policy, Build(delay_ns=DELAY_NS)).is_good


@pytest.mark.gpu
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("tile", sorted(gemm.TILE_CONFIGS), ids=str)
def test_every_tile_shape_waits_for_every_chunk_when_columns_come_late_one_by_one(runner, policy, tile):
    """A consumer that reads one chunk too early reads NaN: the next column is still 0.1 ms away."""
    from wavesim_gpu.run.references import reference

    for producer in [SMALL, tile]:
        pipeline = pair(m=130, k=128, hidden=1280, n=128, tiles=(producer, tile))
        operands = runner.operands(pipeline, seed=12)
        program = runner.program(operands, SemaphoreSync(policy), Build(delay_ns=100_000))
        verdict = runner.verdict(program, runner.launcher(program), reference(operands))
        assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("split_k", [2, 3])
def test_split_k_slices_wait_for_every_chunk_when_columns_come_late_one_by_one(runner, split_k):
    from wavesim_gpu.run.references import reference

    pipeline = pair(m=130, k=128, hidden=2560, n=128, split_k=(1, split_k))
    operands = runner.operands(pipeline, seed=13)
    program = runner.program(operands, SemaphoreSync(TileSync()), Build(delay_ns=50_000))
    verdict = runner.verdict(program, runner.launcher(program), reference(operands))
    assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("mutant", ["no_wait", "early_post"])
def test_a_dropped_wait_and_an_early_post_give_wrong_numbers(runner, policy, mutant):
    # A tile that is read too early is sometimes there all the same: on a busy machine one run in many.
    build = Build(mutant=mutant, delay_ns=DELAY_NS)
    assert any(not verdict_of(runner, policy, build).is_right for _ in range(TRIES))


@pytest.mark.gpu
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_dropped_post_is_a_deadlock(runner, policy):
    with pytest.raises(DeadlockError, match="gemm1"):
        verdict_of(runner, policy, Build(mutant="no_post"), limit_s=0.05)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_dropped_fence_shows_in_the_code(arch):
    """Too rare to catch in a run, so the instruction itself is looked for."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")
    expression = gemm.expression_of(pair().stages[0].gemm)
    for policy, release in (
        (RowSync(), "red.release.gpu.global.add.u32"),
        (TileSync(), "st.release.gpu.global.u32"),
    ):
        headers = middle_headers(policy)
        right = compile_cubin(gemm.Portable.source, [expression], arch, headers=headers).ptx
        broken = compile_cubin(
            gemm.Portable.source, [expression], arch, Build(mutant="no_fence"), headers
        ).ptx
        assert release in right
        assert "fence.acq_rel.gpu" in right
        assert "atom.acq_rel.gpu.global.add.u32" in right
        assert release not in broken


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_release_is_a_fence_before_the_reduction_in_machine_code(arch, tmp_path, nvdisasm):
    import subprocess

    pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")
    expression = gemm.expression_of(pair().stages[0].gemm)
    for build, is_fenced in ((Build(), True), (Build(mutant="no_fence"), False)):
        path = tmp_path / "gemm.cubin"
        path.write_bytes(
            compile_cubin(gemm.Portable.source, [expression], arch, build, middle_headers(RowSync())).data
        )
        listing = subprocess.run([nvdisasm, path], capture_output=True, text=True, check=True).stdout
        code = [line for line in listing.splitlines() if "/*" in line]
        posts = [i for i, line in enumerate(code) if "RED.E.ADD" in line or "REDG.E.ADD" in line]
        assert posts
        for post in posts:
            assert any("MEMBAR" in line for line in code[max(0, post - 24) : post]) == is_fenced
