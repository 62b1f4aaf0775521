"""What linear layers need of the Hopper GEMM compiles: B by columns, biases, activations, gates in halves.

Nothing is spilled, operands are read as they are stored, and no activation loses NaN.
"""

import re
import subprocess
from itertools import cycle

import pytest
from cubin_facts import registers_at_launch

from wavesim.codegen.cuda import stage_header
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.gemm import ACTIVATIONS, GATED, Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS
from wavesim_gpu.run.planned_kernels import kernels_of

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")

H200, HOPPER = load("h200"), backend_named("hopper")
TILES = [(m, n, 64) for m, n in TILE_CONFIGS]
WIDE = (128, 256, 64)
# The most that an MMA thread has to hold at once: 128 sums, the bias' pairs, an error function.
FULL = {"activation": "gelu-exact", "b_order": "column", "has_bias": True}
FULL_GATED = FULL | {"activation": "geglu-exact", "gates": "halves"}
LINEAR = {"b_order": "column", "has_bias": True}


def pair(tile, first, second, m=300):
    """Two stages; the first has the form that is looked at, the second waits for it."""
    up = Stage("gemm1", Gemm("gemm1", m, 1280, 264, *tile, dtype="bf16", **first))
    down = Stage("gemm2", Gemm("gemm2", m, 400, up.gemm.columns, *tile, dtype="bf16", **second))
    return Pipeline("pair", [up, down], [gemm_rows(up, down)])


def compiled(pipeline, words):
    """The last kernel of a pipeline under a plan."""
    plan = parse_plan(words)
    kernel = kernels_of(pipeline, plan, H200, HOPPER.name)[-1]
    texts = {name: stage_header(pipeline, plan, name).text for name in kernel.stages}
    headers = {GENERATED: kernel.header(texts)}
    return compile_cubin(HOPPER.source, [kernel.launch.expression], "sm_90a", Build(), headers)


def code_of(cubin, path, nvdisasm):
    path.write_bytes(cubin.data)
    code = subprocess.run([nvdisasm, path], capture_output=True, text=True, check=True).stdout
    assert "HGMMA" in code
    return code


# Registers stored and loaded again once, since sums are fenced behind a bias; without the fence none is, but
# the compiler serialises every k-block's multiply-adds.
SPILLED = {((192, 192, 64), "gelu-exact"): 2}


def spills(code):
    return re.findall(r"\b(?:STL|LDL)\b.*", code)


@pytest.mark.parametrize("form", [FULL, FULL_GATED], ids=lambda form: form["activation"])
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_the_fullest_forms_of_every_tile_spill_nothing(tile, form, tmp_path, nvdisasm):
    cubin = compiled(pair(tile, {}, form), "persistent+streams+row")
    code = code_of(cubin, tmp_path / "gemm.cubin", nvdisasm)
    assert len(spills(code)) == 2 * SPILLED.get((tile, form["activation"]), 0)
    # All loads of the bias are in flight together: no jump, and no use of the first, before the last.
    first, *_, last = (loads := list(re.finditer(r"LDG\.E\.CONSTANT R(\d+)", code)))
    assert len(loads) == tile[1] // 8
    between = code[first.end() : last.start()]
    assert not re.search(rf"\b(?:BRA|BSYNC)\b|, R{first[1]}\b", between)
    # As stored: both operands are read along K.
    assert re.search(rf"m64n{tile[1]}k16\.f32\.bf16\.bf16 .*, p, 1, 1, 0, 0;", cubin.ptx)
    given, taken = (
        {int(n) for n in re.findall(rf"setmaxnreg\.{way}\S* \t?(\d+)", cubin.ptx)} for way in ("dec", "inc")
    )
    shape = TILE_CONFIGS[tile[:2]]
    if shape.warpgroups > 1:
        held = 128 * (sum(given) + shape.warpgroups * sum(taken))
        assert held <= shape.threads * registers_at_launch(cubin.data)


@pytest.mark.parametrize(
    ("activation", "order"), list(zip(ACTIVATIONS, cycle(("row", "column")), strict=False))
)
def test_every_activation_compiles_without_spills(activation, order, tmp_path, nvdisasm):
    gates = "halves" if activation in GATED else "interleaved"
    form = {"activation": activation, "gates": gates, "b_order": order}
    cubin = compiled(pair(WIDE, {}, form), "pdl+row")
    assert not spills(code_of(cubin, tmp_path / "gemm.cubin", nvdisasm))
    # fmaxf and max.f32 turn NaN into the other operand.
    assert ("max.NaN.f32" in cubin.ptx) == (activation == "relu")
    assert ("p, 1, 1, 0, 1;" in cubin.ptx) == (order == "row")


@pytest.mark.parametrize(
    "words", ["tile+one-stream+boundary", "stream-k+pdl+boundary", "persistent+pdl+tile"]
)
@pytest.mark.parametrize("form", [LINEAR, FULL_GATED], ids=["linear", "gated"])
def test_plans_run_the_forms(form, words):
    assert compiled(pair(WIDE, form, form), words).data


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FULL_GATED, LINEAR),
        (FULL, LINEAR),
        (FULL_GATED, {"b_order": "row"}),
        ({"activation": "swiglu", "gates": "halves"}, LINEAR),
    ],
    ids=["gated", "gelu", "orders-differ", "row-then-column"],
)
def test_one_kernel_computes_two_stages_of_different_forms(first, second):
    ptx = compiled(pair(WIDE, first, second), "fused+row").ptx
    orders = {first.get("b_order", "row"), second.get("b_order", "row")}
    assert ("p, 1, 1, 0, 0;" in ptx, "p, 1, 1, 0, 1;" in ptx) == ("column" in orders, "row" in orders)


def test_two_rows_of_tiles_share_loads_of_a_column_major_b():
    pipeline = pair((64, 192, 64), LINEAR, FULL_GATED, m=125)
    assert "multicast::cluster" in compiled(pipeline, "persistent+pdl+row").ptx


def test_halves_of_a_row_major_b_are_whole_panels():
    for tile in TILES:
        gemm = Gemm("gemm", 64, 512, 64, *tile, activation="swiglu", gates="halves")
        if tile[1] in (128, 256):
            HOPPER.check(gemm)
            continue
        with pytest.raises(DescriptionError, match=r"of 64 columns\. Use 128x256x64, .* column-major"):
            HOPPER.check(gemm)
