"""Convolutions on the GPU: right for every class of shape and plan, with poisoned outputs and halos."""

from dataclasses import replace

import pytest
from conv_cases import CASES, PACKED, conv, conv_chain, residual_block

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.kernels.convolution.pack_pixels import with_packed_images

pytestmark = pytest.mark.gpu

HOPPER_TILES = [(128, 256), (128, 128), (256, 128), (256, 64), (128, 64), (64, 256), (192, 128), (64, 64)]
PORTABLE_TILES = [(128, 128), (128, 64), (64, 64)]
EPILOGUE = {"has_bias": True, "has_residual": True, "activation": "relu"}
PLANS = {
    "hopper": ["stream", "pdl", "streams+row", "persistent+streams+tile", "persistent+pdl+row"],
    "portable": ["stream", "streams+row", "streams+tile"],
}
K_BLOCK = {"hopper": 64, "portable": 32}
DELAY = Build(delay_ns=100_000)  # each tile of a producer is stored so much later


@pytest.fixture(scope="module", params=["portable", "hopper"])
def kernels(request, runner):
    from wavesim_gpu.run.runner import CupyRunner

    if request.param == "hopper" and runner.device.compute_capability != (9, 0):
        pytest.skip("not a Hopper GPU")
    return CupyRunner(limit_s=5.0, commit="test", backend=request.param)


def verdicts_of(kernels, pipeline, words, build=None, runs=2, seed=23):
    from wavesim_gpu.run.references import reference

    operands = kernels.operands(pipeline, seed=seed)
    program = kernels.program(operands, parse_plan(words), build)
    launch, expected = kernels.launcher(program), reference(operands, kernels.backend)
    return [kernels.verdict(program, launch, expected) for _ in range(runs)]


def alone(work):
    return Pipeline("alone", [Stage(work.name, work)])


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("case", CASES)
def test_every_class_of_shape_is_convolved_right(kernels, case, dtype):
    work = replace(CASES[case], dtype=dtype, tile_k=K_BLOCK[kernels.backend])
    for verdict in verdicts_of(kernels, alone(work), "stream"):
        assert verdict.is_good, verdict


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("case", PACKED)
def test_packed_rows_of_taps_are_convolved_right(kernels, case, dtype):
    if kernels.backend != "hopper":
        pytest.skip("the portable kernel loads tap by tap")
    for tile in ((64, 64), (256, 64)):
        work = replace(PACKED[case], dtype=dtype, tile_m=tile[0], tile_n=tile[1])
        for verdict in verdicts_of(kernels, alone(work), "stream"):
            assert verdict.is_good, verdict


@pytest.mark.parametrize("words", ["stream", "pdl", "pdl+row"])
@pytest.mark.parametrize("padding", [None, 2, 0])
def test_images_of_three_colours_are_packed_with_the_padding_of_their_convolution(kernels, padding, words):
    if kernels.backend != "hopper":
        pytest.skip("the portable kernel loads tap by tap")
    work = conv(3, 30, 8, 64, kernel_size=7, stride=2, padding=padding)
    for verdict in verdicts_of(kernels, with_packed_images(alone(work), 3), words):
        assert verdict.is_good, verdict


@pytest.mark.parametrize("number", range(len(HOPPER_TILES)))
def test_every_tile_convolves_with_its_epilogue(kernels, number):
    tiles = HOPPER_TILES if kernels.backend == "hopper" else PORTABLE_TILES
    if number >= len(tiles):
        pytest.skip("no such tile")
    work = conv(7, 14, 136, 264, tile=tiles[number], tile_k=K_BLOCK[kernels.backend], **EPILOGUE)
    for words in ("stream", "persistent-stream") if kernels.backend == "hopper" else ("stream",):
        for verdict in verdicts_of(kernels, alone(work), words):
            assert verdict.is_good, verdict


@pytest.mark.parametrize("split_k", [2, 5])
@pytest.mark.parametrize("kernel_size", [1, 3])
def test_splits_of_the_taps_add_up(kernels, kernel_size, split_k):
    work = conv(2, 14, 512, 64, kernel_size=kernel_size, split_k=split_k, **EPILOGUE)
    work = replace(work, tile_k=K_BLOCK[kernels.backend])
    for verdict in verdicts_of(kernels, alone(work), "stream"):
        assert verdict.is_good, verdict


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("build", [None, DELAY], ids=["", "late"])
@pytest.mark.parametrize("count", [2, 4])
def test_chains_wait_for_their_halos_under_every_plan(kernels, which, build, count):
    plans = PLANS[kernels.backend]
    if which >= len(plans):
        pytest.skip("no such plan")
    pipeline = conv_chain(count, tile_k=K_BLOCK[kernels.backend])
    for verdict in verdicts_of(kernels, pipeline, plans[which], build):
        assert verdict.is_good, verdict


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("build", [None, DELAY], ids=["", "late"])
def test_a_residual_of_another_producer_is_awaited_under_every_plan(kernels, which, build):
    plans = PLANS[kernels.backend]
    if which >= len(plans):
        pytest.skip("no such plan")
    for verdict in verdicts_of(kernels, residual_block(tile_k=K_BLOCK[kernels.backend]), plans[which], build):
        assert verdict.is_good, verdict


def test_a_halo_that_is_not_awaited_is_noticed(kernels):
    def rows_alone(producer, consumer):
        return Dependency(consumer[x, y], [producer[:, y]])

    # More rows of tiles than slots: the row after the first wave's last comes when the next wave has ended.
    tile, rows = ((64, 64), 200) if kernels.backend == "hopper" else ((128, 128), 400)
    images = rows * tile[0] // 14**2
    fields = {"images": images, "size": 14, "tile": tile, "tile_k": K_BLOCK[kernels.backend]}
    mutant = conv_chain(rule=rows_alone, awaits_halo=False, **fields)
    assert all(
        verdict.is_good for verdict in verdicts_of(kernels, conv_chain(**fields), "streams+tile", DELAY)
    )
    verdicts = verdicts_of(kernels, mutant, "streams+tile", DELAY)
    assert not any(verdict.is_right for verdict in verdicts)


def test_a_hundred_replays_of_a_chain_are_right(kernels):
    pipeline = conv_chain(4, tile_k=K_BLOCK[kernels.backend])
    verdicts = verdicts_of(kernels, pipeline, PLANS[kernels.backend][2], runs=100)
    assert all(verdict.is_good for verdict in verdicts)


@pytest.mark.parametrize("split_k", [1, 3])
@pytest.mark.parametrize("build", [None, DELAY], ids=["", "late"])
@pytest.mark.parametrize("words", ["pdl+row", "pdl+tile", "persistent+pdl+row"])
def test_chains_that_put_their_counters_back_are_right_in_every_replay(kernels, words, build, split_k):
    if kernels.backend != "hopper":
        pytest.skip("of the portable kernels every block retires")
    from wavesim_gpu.run.references import reference

    # Of one tile a block only the last stage's blocks retire, and before their sums are made.
    operands = kernels.operands(conv_chain(3, images=40, split_k=split_k), seed=23)
    program = kernels.program(operands, parse_plan(words), build, is_self_resetting=True)
    launch, expected = kernels.launcher(program), reference(operands, kernels.backend)
    verdicts = [kernels.verdict(program, launch, expected) for _ in range(20)]
    assert all(verdict.is_good for verdict in verdicts)
    assert not program.sync.values().any()


@pytest.mark.parametrize("build", [None, DELAY], ids=["", "late"])
@pytest.mark.parametrize("words", ["pdl", "pdl+row", "persistent+pdl+row"])
def test_runs_that_follow_closely_leave_the_run_before_its_counters(kernels, words, build):
    """A post of the run behind that came before counters were put back would leave one that is not 0."""
    if kernels.backend != "hopper":
        pytest.skip("portable kernels do not begin runs by dependent launch")
    from wavesim_gpu.run.program import Program
    from wavesim_gpu.run.references import reference

    operands = kernels.operands(conv_chain(2, images=40), seed=23)
    plan, limit = parse_plan(words), kernels.limit_ns
    program = Program(
        operands.pipeline,
        plan,
        operands,
        build=build,
        limit_ns=limit,
        default=kernels.backend,
        is_self_resetting=True,
        follows_closely=True,
    )
    assert [launch.shape.is_dependent for launch in program.launches] == [True, True]
    launch, expected = program.launcher(20), reference(operands, kernels.backend)
    assert all(kernels.verdict(program, launch, expected).is_good for _ in range(5))
    assert not program.sync.values().any()


def test_convolutions_of_torch_agree(kernels):
    torch = pytest.importorskip("torch")
    from wavesim_gpu.driver.element_types import to_float32

    work = conv(3, 13, 72, 40, stride=2, tile_k=K_BLOCK[kernels.backend], has_bias=True, activation="relu")
    operands = kernels.operands(alone(work), seed=5)
    program = kernels.program(operands, parse_plan("stream"))
    kernels.launcher(program)()
    program.synchronize()
    given = {
        name: torch.from_dlpack(to_float32(operands.arrays["conv", name], "fp16"))
        for name in ("a", "b", "bias")
    }
    images = given["a"].reshape(3, 13, 13, 72).permute(0, 3, 1, 2)
    filters = given["b"].reshape(40, 3, 3, 72).permute(0, 3, 1, 2)
    with torch.backends.cudnn.flags(allow_tf32=False):
        made = torch.nn.functional.conv2d(images, filters, given["bias"].ravel(), stride=2, padding=1).relu()
    got = torch.from_dlpack(to_float32(operands.arrays["conv", "c"], "fp16"))
    want = made.permute(0, 2, 3, 1).reshape(got.shape)
    assert torch.linalg.norm(got - want) < 2e-3 * torch.linalg.norm(want)
