"""The machine code of convolutions: pixels gathered by TMA or 16 bytes at a time, nothing spilled."""

import re
import subprocess

import pytest
from conv_cases import conv_chain, residual_block

from wavesim.codegen.cuda import stage_header
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.backends import backend_of

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")

SPIN_ARGUMENT_BYTES = 32


def code_of(pipeline, name, words, family, arch, path, nvdisasm):
    plan, stage = parse_plan(words, "grouped:2"), pipeline.stage(name)
    backend = backend_of(stage, family)
    launch = backend.launch(stage.work, plan, load("h200"))
    header = stage_header(pipeline, plan, name).text
    path.write_bytes(
        compile_cubin(backend.source, [launch.expression], arch, Build(), {GENERATED: header}).data
    )
    return subprocess.run([nvdisasm, path], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("tile", "fragments"), [((128, 256), 1), ((256, 64), 2)])
def test_the_hopper_gemm_gathers_pixels_by_tma_and_spills_nothing(tile, fragments, tmp_path, nvdisasm):
    pipeline = residual_block(tile=tile, dtype="bf16")
    code = code_of(pipeline, "second", "persistent+pdl+tile", "hopper", "sm_90a", tmp_path / "c", nvdisasm)
    # One load of pixels, where it waits for them; filters by taps, wherever there is time.
    assert len(re.findall(r"UTMALDG\.4D\.IM2COL", code)) == 1
    assert re.search(r"UTMALDG\.3D ", code)
    # The loop is unrolled once for each step of a k-block, as that of a product is.
    assert len(re.findall(r"HGMMA", code)) == 4 * fragments
    assert re.search(r"HFMA2\.\S*RELU|HADD2\S*RELU|HMNMX2\S*NAN", code)  # of the sum with the residual
    assert not re.search(r"\b(STL|LDL)\b", code)


def test_the_portable_kernel_copies_16_bytes_at_a_time_and_spills_nothing(tmp_path, nvdisasm):
    pipeline = conv_chain(3, tile=(128, 128), tile_k=32, has_bias=True, activation="relu")
    code = code_of(pipeline, "conv2", "streams+tile", "portable", "sm_80", tmp_path / "c", nvdisasm)
    assert re.search(r"LDGSTS\.E\.BYPASS\.\S*128", code)
    assert re.search(r"\bSTG\.E\.128", code)
    # The stack has 32 bytes, for the arguments of the function that spins.
    offsets = {int(offset or "0", 16) for offset in re.findall(r"\bSTL\S* \[R1(?:\+0x(\w+))?\]", code)}
    assert max(offsets) < SPIN_ARGUMENT_BYTES
