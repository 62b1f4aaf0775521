"""The copy pairs and the primitives of the overhead study: right in every way, and a missing wait noticed."""

import pytest

pytestmark = pytest.mark.gpu


@pytest.fixture
def copies(runner):
    from wavesim_gpu.bench.labs import copies

    return copies


@pytest.mark.parametrize("threads", [128, 256, 1024])
def test_every_way_to_launch_copies_is_right_again_and_again(copies, runner, threads):
    buffers = copies.Buffers.of(copies.full_wave(runner.device, threads) * copies.BYTES_PER_BLOCK)
    for name, way in copies.ways_on(runner.device).items():
        pair = copies.copy_pair(threads, way, buffers)
        launch = pair.launcher()
        for _ in range(20):
            verdict = copies.verdict_of(pair, launch, buffers)
            assert verdict.is_good, (name, verdict)


@pytest.mark.parametrize("mutant", ["no_wait", "no_post"])
def test_a_copy_that_does_not_wait_or_post_is_noticed(copies, runner, mutant):
    from wavesim.errors import DeadlockError
    from wavesim_gpu.driver.compiler import Build

    buffers = copies.Buffers.of(64 * copies.BYTES_PER_BLOCK)
    for name, way in copies.ways_on(runner.device).items():
        if name not in ("tile", "tile on one stream"):
            continue  # in stream order nothing has to wait
        pair = copies.copy_pair(256, way, buffers, Build(mutant=mutant, delay_ns=2_000), limit_s=0.5)
        try:
            verdict = copies.verdict_of(pair, pair.launcher(), buffers)
        except DeadlockError:
            continue
        assert not verdict.is_good, name


def test_runs_that_follow_each_other_in_one_graph_are_right(runner):
    from wavesim.plan.parsing import parse_plan
    from wavesim_gpu.bench.kinds.variants import TileConfig, mlp_pair
    from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import HOPPER_CAPABILITY
    from wavesim_gpu.run.references import reference
    from wavesim_gpu.run.runner import CupyRunner

    if runner.device.compute_capability != HOPPER_CAPABILITY:
        pytest.skip("the kernels that start by dependent launch need a Hopper GPU")
    dependent = CupyRunner(limit_s=5.0, commit="test", backend="hopper")
    operands = dependent.operands(
        mlp_pair("llama-mlp", 16, (TileConfig(64, 128), TileConfig(64, 128, 2)), 64), seed=1
    )
    expected = reference(operands)
    for plan in ("persistent+pdl+boundary", "persistent+pdl+row", "persistent+pdl+tile"):
        program = dependent.program(operands, parse_plan(plan))
        contender = dependent.contender(program, repeats=50)
        assert dependent.verdict(program, contender.launch, expected).is_good, plan


def test_every_primitive_leaves_its_counters_as_so_many_uses_do(runner):
    from wavesim_gpu.bench.labs.primitives import NAMES, primitive_cases

    cases = primitive_cases(rounds=2, operations=100)
    assert {case["name"] for case in cases} == set(NAMES)
    assert all(case["verdict"]["is_good"] for case in cases)
    used = [case for case in cases if case["name"] != "empty loop"]  # which ends within a step of the timer
    assert all(time > 0 for case in used for time in case["rounds_ns"])


def test_what_is_judged_after_the_rounds_is_what_they_wrote(runner):
    from small_pipelines import pair

    from wavesim.plan.parsing import parse_plan
    from wavesim_gpu.bench.contenders import (
        library_entry,
        program_entry,
        sharing_entry,
        time_and_judge,
    )
    from wavesim_gpu.bench.libraries.cublaslt import LtChain
    from wavesim_gpu.run.references import reference

    operands = runner.operands(pair(), seed=3)
    expected = reference(operands)
    program, sharing = (runner.program(operands, parse_plan("row")) for _ in range(2))
    entries = {
        "ours": program_entry(runner, program, runner.contender(program), expected),
        "cublaslt": library_entry(LtChain(operands), operands, expected),
    }
    for name, entry in entries.items():
        assert entry.verdict.is_good, name
        entry.spoil()
        assert not entry.judge().is_right, name
    entries["sharing"] = sharing_entry(runner, sharing, runner.contender(sharing), expected)
    found, verdicts, _ = time_and_judge(entries, 2, 0.01)
    assert list(found) == list(entries)
    assert all(verdict.is_good for verdict in verdicts.values()), verdicts
