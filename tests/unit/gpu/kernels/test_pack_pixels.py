"""Packed images: what the kernel before a convolution makes, and which of its tiles are awaited."""

import numpy as np
import pytest
from conv_cases import conv

from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.gemm import Gemm
from wavesim_gpu.kernels.convolution.pack_pixels import with_packed_images
from wavesim_gpu.kernels.convolution.reference import conv_reference
from wavesim_gpu.run.planned_kernels import kernels_of
from wavesim_gpu.run.runner import require_safe

COLOURS = 3
STEMS = {
    "7x7, stride 2": conv(3, 14, 8, 64, kernel_size=7, stride=2),
    "3x3": conv(3, 14, 8, 64, has_bias=True, activation="relu"),
    "7x7, narrow padding": conv(2, 14, 8, 64, kernel_size=7, stride=2, padding=2),
    "5x5, no padding": conv(2, 14, 8, 64, kernel_size=5, padding=0),
    "3x3, wide padding to the left": conv(2, 14, 8, 64, padding=0, column_padding=2),
}


def packed(work):
    return with_packed_images(Pipeline("stem", [Stage(work.name, work)]), COLOURS)


@pytest.mark.parametrize("stem", STEMS)
def test_packed_images_make_the_same_convolution(stem):
    work, random = STEMS[stem], np.random.default_rng(3)
    pack, wide = (stage.work for stage in packed(work).stages)
    images = random.standard_normal((work.images, work.height, work.width, COLOURS), np.float32)
    given = {
        name: random.standard_normal((matrix.rows, matrix.columns), np.float32)
        for name, matrix in work.operands.items()
    }
    given["a"] = np.zeros((images.size // COLOURS, work.channels), np.float32)
    given["a"][:, :COLOURS] = images.reshape(-1, COLOURS)
    made = pack.reference({"x": images.reshape(-1, work.width * COLOURS)})["out"]
    assert wide.out_shape == work.out_shape
    assert wide.k_block_count == work.kernel_size
    expected = conv_reference(work, given)
    assert np.allclose(conv_reference(wide, given | {"a": made}), expected, atol=1e-4)


@pytest.mark.parametrize("stem", STEMS)
def test_a_tile_awaits_all_image_rows_that_it_reads(stem):
    pipeline = packed(STEMS[stem])
    accesses, conv1 = Accesses(pipeline), pipeline.stages[1]
    for row in range(conv1.grid.y):
        there = set()
        for _, made in pipeline.dependency_of(conv1.name).producer_tiles(0, row):
            for top, bottom, _, _ in accesses.writes("pack", made)["packed"]:
                there.update(range(top, bottom))
        read = [one.region for one in conv1.work.reads(0, row, 0) if one.operand == "a"]
        assert all(set(range(one.top, one.bottom)) <= there for one in read)


@pytest.mark.parametrize("words", ["stream", "pdl", "pdl+row"])
def test_hopper_kernels_run_a_stem_under_a_plan(words):
    pipeline, plan = packed(STEMS["7x7, stride 2"]), parse_plan(words)
    require_safe(pipeline, plan, load("h200"), "hopper")
    pack, conv1 = kernels_of(pipeline, plan, load("h200"), "hopper")
    assert pack.source.name == "pack_pixels.cu"
    assert conv1.launch.is_dependent == (words != "stream")


@pytest.mark.parametrize(
    ("work", "colours", "said"),
    [
        (conv(1, 14, 16, 64), 3, "reads 16 channels"),
        (conv(1, 14, 8, 64), 0, "colours is 0"),
        (conv(1, 14, 8, 64), 9, "colours is 9; a pixel has 1 to 8"),
        (conv(1, 14, 8, 64, column_padding=0, packs_rows=True), 3, "packs_rows is True"),
        (Gemm("conv", 64, 64, 64, 64, 64), 3, "is a Gemm"),
    ],
    ids=["channels", "no colours", "too many", "packed already", "a product"],
)
def test_what_cannot_be_packed_is_refused(work, colours, said):
    with pytest.raises(DescriptionError, match=said):
        with_packed_images(Pipeline("stem", [Stage("conv", work)]), colours)
