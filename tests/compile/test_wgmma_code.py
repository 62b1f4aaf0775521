"""In machine code nothing touches the accumulators while the tensor cores own them.

The compiler does not know that wgmma goes on writing its registers until the wait. A copy or a read of one in
between would be wrong now and then; `wgmma::fence_accumulators` keeps the compiler from making one.
"""

import re
import subprocess
from dataclasses import replace

import pytest
from small_pipelines import chain

from wavesim.codegen.cuda import stage_header
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")

K_STEPS = 64 // 16
MULTIPLY = re.compile(r"HGMMA\.64x(\d+)x16\.F32 R(\d+), \S+?, (?:R(\d+)|!?RZ)")


def code_of(tile, path, nvdisasm, **options):
    """The kernel's instructions, one a line."""
    pipeline = chain(300, (256, 512, 384, 128), (tile, tile, tile))
    pipeline = pipeline.with_works({"gemm2": replace(pipeline.stages[1].gemm, **options)})
    plan = parse_plan("persistent+streams+tile", "grouped:2")
    hopper = backend_named("hopper")
    header = stage_header(pipeline, plan, "gemm2").text
    launch = hopper.launch(pipeline.stages[1].gemm, plan, load("h200"))
    path.write_bytes(
        compile_cubin(hopper.source, [launch.expression], "sm_90a", Build(), {GENERATED: header}).data
    )
    listing = subprocess.run([nvdisasm, path], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if re.match(r"\s*/\*[0-9a-f]{4,}\*/", line)]


def registers(line):
    """The numbers of the registers that an instruction names; of 64- and 128-bit ones the first."""
    return {int(number) for number in re.findall(r"\bR(\d+)\b", line)}


@pytest.mark.parametrize("tile", [(m, n, 64) for m, n in TILE_CONFIGS], ids=str)
def test_between_the_first_multiply_and_the_wait_only_multiplies_use_the_sums(tile, tmp_path, nvdisasm):
    code = code_of(tile, tmp_path / "gemm.cubin", nvdisasm)
    multiplies = [place for place, line in enumerate(code) if "HGMMA" in line]
    shape = TILE_CONFIGS[tile[:2]]
    # One loop, unrolled once for each step of a k-block: the compiler has serialised and copied nothing.
    assert len(multiplies) == K_STEPS * shape.fragments
    sums = set()
    for place in multiplies:
        found = MULTIPLY.search(code[place])
        assert found, code[place]
        columns, into, out_of = found.groups()
        assert out_of in (None, into), f"sums move from one register to another: {code[place]}"
        sums |= set(range(int(into), int(into) + int(columns) // 2))
    assert len(sums) == shape.fragments * tile[1] // 2
    last_wait = next(
        place for place, line in enumerate(code) if place > multiplies[-1] and "DEPBAR.LE gsb0, 0x0" in line
    )
    between = code[multiplies[0] : last_wait]
    touching = [line for line in between if "HGMMA" not in line and registers(line) & sums]
    assert not touching
    # That sums may have to be replaced by NaN costs no registers: nothing is spilled.
    assert not [line for line in code if "STL" in line or "LDL" in line]


@pytest.mark.parametrize("tile", [(128, 192, 64), (256, 128, 64), (64, 64, 64)], ids=str)
def test_sums_that_begin_with_a_bias_have_a_k_blocks_multiplies_issued_at_once(tile, tmp_path, nvdisasm):
    """Without the fence behind the bias each of bf16's had an arrive and a wait of its own."""
    code = code_of(tile, tmp_path / "gemm.cubin", nvdisasm, dtype="bf16", has_bias=True)
    assert sum("HGMMA" in line for line in code) == K_STEPS * TILE_CONFIGS[tile[:2]].fragments
    assert sum("WARPGROUP.ARRIVE" in line for line in code) == 1
    assert not [line for line in code if "STL" in line or "LDL" in line]
